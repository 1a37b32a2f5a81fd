//! What is left of something that was deleted, and how its rows go.
//!
//! The statement that deletes is short whatever hangs on its row: a trigger notes the id, and nobody sees the
//! rest any longer, for nothing shows rows of what is not there and ids are never used again (but a user's likes,
//! which are counted until they have gone). A cascade instead would hold the only writer, for as long as the row has children.
#![allow(
    clippy::disallowed_types,
    reason = "runs the statements that systems have for what is left"
)]

use crate::store::{Store, StoreError, Tx, params};
use madang_cache::Stamp;

/// One kind of things that are deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leftovers {
    /// The table that triggers write their ids into.
    pub(crate) noted: &'static str,
    /// What is done for each, in this order.
    pub(crate) steps: &'static [&'static [Step]],
}

/// How one kind of rows that hang on an id goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Finds up to `?2` of the rows that hang on the id `?1`: their keys, and what their cached bodies are named by. It
    /// does not find again what was changed.
    pub(crate) find: &'static str,
    /// Changes the row of the key `?2` that hangs on the id `?1`.
    pub(crate) change: &'static str,
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
        store.read(move |conn| conn.rows(&sql, &[], |r| r.get(0))).await
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
                let found = tx.rows(step.find, params![id, left], |row| {
                    Ok((row.get::<i64>(0)?, row.get::<i64>(1)?))
                })?;
                for (key, body) in &found {
                    tx.run(step.change, params![id, key])?;
                    ended.extend((step.ends)(*body));
                }
                left -= found.len().min(left);
            }
            if left > 0 {
                tx.run(&format!("DELETE FROM {} WHERE id = ?", self.noted), params![id])?;
            }
            tx.effects().end(ended);
            Ok::<_, StoreError>(left == 0)
        };
        store.write(job).await
    }
}
