//! What is left of something that was deleted, and how its rows go.
//!
//! The statement that deletes is short whatever hangs on its row: a trigger notes the id, and nobody sees the
//! rest any longer, for nothing shows rows of what is not there and ids are never used again (but a user's likes,
//! which are counted until they have gone). A cascade instead would hold the only writer, for as long as the row has children.
#![allow(
    clippy::disallowed_types,
    reason = "runs the statements that systems have for what is left"
)]

use crate::store::{Store, StoreError, Tx};
use madang_cache::Stamp;

/// One kind of things that are deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leftovers {
    /// The table that triggers write their ids into.
    pub(crate) noted: &'static str,
    /// What is done for each, in this order.
    pub(crate) steps: &'static [&'static [Step]],
}

/// A statement that changes up to `?2` of the rows that hang on the id `?1`, and says of each by its `RETURNING`
/// which cached body ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The statement. It does not find again what it has changed.
    pub(crate) sql: &'static str,
    /// Which body ends with a row.
    pub(crate) ends: fn(i64) -> Option<Stamp>,
}

/// No body ends.
pub(crate) const NONE: fn(i64) -> Option<Stamp> = |_| None;

/// Ids that are looked at together.
const AT_ONCE: usize = 1000;

impl Leftovers {
    /// Ids of which something may be left, the oldest first.
    pub(crate) async fn noted(self, store: &Store) -> Result<Vec<i64>, StoreError> {
        let sql = format!("SELECT id FROM {} ORDER BY id LIMIT {AT_ONCE}", self.noted);
        store
            .read(move |conn| conn.prepare_cached(&sql)?.query_map([], |r| r.get(0))?.collect())
            .await
    }

    /// Takes away up to `rows` rows of what is left of `id` in one transaction; answers whether there may be
    /// more.
    pub(crate) async fn sweep(
        self,
        store: &Store,
        id: i64,
        rows: usize,
    ) -> Result<bool, StoreError> {
        let job = move |tx: &mut Tx<'_>| {
            let (mut left, mut ended) = (rows, Vec::new());
            for step in self.steps.iter().copied().flatten() {
                let changed: Vec<i64> = tx
                    .prepare_cached(step.sql)?
                    .query_map(rusqlite::params![id, left], |row| row.get(0))?
                    .collect::<Result<_, _>>()?;
                ended.extend(changed.iter().copied().filter_map(step.ends));
                left -= changed.len().min(left);
            }
            if left > 0 {
                tx.execute(&format!("DELETE FROM {} WHERE id = ?", self.noted), [id])?;
            }
            tx.effects().end(ended);
            Ok::<_, StoreError>(left == 0)
        };
        store.write(job).await
    }
}
