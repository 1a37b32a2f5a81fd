//! What is done for the index beside the requests: texts that have changed are added to it.
//!
//! Not one by one: a hundred pairs of a text are a hundred rows. Those of some hundred texts are in the same rows, and
//! these lie together, because a segment's come one after the other. Each transaction adds so many rows, with a
//! pause as long as it took. What was changed goes from the list of changes in the last one, so whatever
//! happens in between, an item is in the list or in the index, or in both.

use super::index::{Additions, append};
use super::{KINDS, text};
use crate::store::{Conn, Result, Store, StoreError, Tx, params};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Changes that are worth while. Fewer wait: each search looks at them.
pub(super) const FEWEST: usize = 256;
/// Changes, and bytes of their texts, that are indexed at a time.
const MOST: usize = 4096;
const MOST_BYTES: usize = 2 << 20;
/// Rows of the index in one transaction: a few milliseconds of the writer.
const ROWS: usize = 1000;
/// Time between two looks that nothing has asked for: the node that was told may have stopped.
const EVERY: Duration = Duration::from_secs(60);

/// Adds what changes to the index, where it is this node's to do.
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

/// Adds some of what has changed; answers whether there was as much as the `fewest`.
pub(super) async fn index_some(store: &Store, fewest: usize) -> Result<bool> {
    let (numbers, rows) = store.read(move |conn| changed(conn, fewest)).await?;
    for some in rows.0.chunks(ROWS) {
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

/// Changes by number, and what they add to the index.
fn changed(conn: &Conn<'_>, fewest: usize) -> Result<(Vec<i64>, Additions)> {
    let mut changes: Vec<(i64, i64, i64)> = conn.rows(
        "SELECT number, kind, item_id FROM search_changes ORDER BY number LIMIT ?",
        params![MOST],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    if changes.len() < fewest.max(1) {
        return Ok((Vec::new(), Additions(Vec::new())));
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
    Ok((numbers, Additions::of(texts.into_iter())))
}
