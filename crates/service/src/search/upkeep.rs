//! Background indexing of changed texts. Some hundred texts share the same rows, so changes are indexed in batches:
//! each transaction adds some rows, with a pause as long as it took. The last one removes the changes from their
//! list, so at any time an item is in the list, in the index, or in both.

use super::index::{Addition, additions, append};
use super::{KINDS, text};
use crate::store::{Conn, Result, Store, StoreError, Tx, params};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Minimum number of changes to index. Fewer wait, as each search can read them.
pub(super) const FEWEST: usize = 256;
/// Maximum number of changes per batch, and of bytes of their texts.
const MOST: usize = 4096;
const MOST_BYTES: usize = 2 << 20;
/// Rows of the index per transaction: a few milliseconds of the writer.
const ROWS: usize = 1000;
/// Time after which changes are indexed without a notification, which may have gone to a node that has stopped.
const EVERY: Duration = Duration::from_secs(60);

/// Indexes changes while `is_ours`.
pub(crate) async fn index_changes(store: &Store, is_ours: &impl Fn() -> bool) {
    let enough = store.texts();
    loop {
        if is_ours() {
            let mut done = Ok(true);
            while done == Ok(true) {
                done = index_some(store, FEWEST).await;
            }
            if let Err(error) = done {
                tracing::debug!(%error, "texts are not indexed yet");
            }
        }
        tokio::select! {
            () = enough.notified() => {}
            () = sleep(EVERY) => {}
        }
    }
}

/// Indexes one batch, unless there are fewer changes than `fewest`; whether it did.
pub(super) async fn index_some(store: &Store, fewest: usize) -> Result<bool> {
    let (numbers, rows) = store.read(move |conn| changed(conn, fewest)).await?;
    for some in rows.chunks(ROWS) {
        let started = Instant::now();
        let some = some.to_vec();
        store.write(move |tx: &mut Tx<'_>| append(tx, &some)).await?;
        sleep(started.elapsed()).await;
    }
    let done = !numbers.is_empty();
    for some in numbers.chunks(ROWS) {
        let places = vec!["?"; some.len()].join(", ");
        let delete = format!("DELETE FROM search_changes WHERE number IN ({places})");
        let some = some.to_vec();
        let job = move |tx: &mut Tx<'_>| {
            let values: Vec<_> = some.iter().map(crate::store::Parameter::value).collect();
            tx.run(&delete, &values).map(drop)
        };
        store.write::<_, StoreError>(job).await?;
    }
    Ok(done)
}

/// Numbers of changes, and the rows for their texts.
fn changed(conn: &Conn<'_>, fewest: usize) -> Result<(Vec<i64>, Vec<Addition>)> {
    let mut changes: Vec<(i64, i64, i64)> = conn.rows(
        "SELECT number, kind, item_id FROM search_changes ORDER BY number LIMIT ?",
        params![MOST],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    if changes.len() < fewest.max(1) {
        return Ok((Vec::new(), Vec::new()));
    }
    let (mut texts, mut bytes, mut read) = (Vec::new(), 0, 0);
    for some in changes.chunks(FEWEST) {
        for kind in KINDS {
            let ours = some.iter().filter(|(_, number, _)| *number == kind.number);
            let mut ids: Vec<i64> = ours.map(|(_, _, id)| *id).collect();
            ids.sort_unstable();
            ids.dedup();
            let found = conn.rows_found(kind.texts, &ids, |row| {
                let parts: [String; 3] = [row.get(1)?, row.get(2)?, row.get(3)?];
                Ok((row.get(0)?, text(&parts.each_ref().map(String::as_str))))
            })?;
            for (id, text) in found {
                bytes += text.len();
                texts.push((kind, id, text));
            }
        }
        read += some.len();
        if bytes >= MOST_BYTES {
            break;
        }
    }
    changes.truncate(read);
    let numbers = changes.into_iter().map(|(number, ..)| number).collect();
    Ok((numbers, additions(texts.into_iter())))
}
