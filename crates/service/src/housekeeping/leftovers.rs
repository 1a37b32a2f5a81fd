//! Dependent rows of something deleted, and their deletion.
//!
//! The statement that deletes is short however many rows depend on its row: a trigger notes the id. The dependent
//! rows are no longer visible, because nothing shows rows of a missing parent and ids are never reused (except for a
//! user's likes, which count until they are deleted). A cascade would block the only writer for as long as there are
//! rows.

use crate::store::{Result, Store, StoreError, Tx, columns, params};
use madang_cache::Stamp;

/// A kind of deleted things.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leftovers {
    /// Table into which triggers write their ids.
    pub(crate) noted: &'static str,
    /// Dependent rows of each system, in order.
    pub(crate) dependents: &'static [&'static [DependentRows]],
}

/// A kind of rows that depend on an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DependentRows {
    table: &'static str,
    /// Column of the id.
    of: &'static str,
    /// Column that identifies a row among those of an id.
    key: &'static str,
    /// Column from which `ends` makes the stamp.
    body: &'static str,
    ends: Option<fn(i64) -> Stamp>,
    /// Whether the row is deleted; otherwise only its id is cleared.
    deletes: bool,
}

impl DependentRows {
    /// Deletes the rows whose column `of` holds the id; `key` identifies each of them.
    pub(crate) const fn delete(table: &'static str, of: &'static str, key: &'static str) -> Self {
        Self { table, of, key, body: key, ends: None, deletes: true }
    }

    /// Clears the id in the rows instead.
    pub(crate) const fn clear(table: &'static str, of: &'static str, key: &'static str) -> Self {
        Self { deletes: false, ..Self::delete(table, of, key) }
    }

    /// Ends a stamp for each row, made from the value in the column `body`.
    pub(crate) const fn ending(self, body: &'static str, ends: fn(i64) -> Stamp) -> Self {
        Self { body, ends: Some(ends), ..self }
    }

    /// Finds up to `?2` of the unchanged rows that depend on the id `?1`.
    pub(super) fn find(&self) -> String {
        let Self { table, of, key, body, .. } = self;
        format!("SELECT {key}, {body} FROM {table} WHERE {of} = ?1 LIMIT ?2")
    }

    /// Changes the row with the key `?2` that depends on the id `?1`.
    pub(super) fn change(&self) -> String {
        let Self { table, of, key, .. } = self;
        let change = match self.deletes {
            true => format!("DELETE FROM {table}"),
            false => format!("UPDATE {table} SET {of} = NULL"),
        };
        format!("{change} WHERE {of} = ?1 AND {key} = ?2")
    }
}

/// Ids of one query.
const AT_ONCE: usize = 1000;

impl Leftovers {
    /// Ids that may have dependent rows, the oldest first.
    pub(crate) async fn noted(self, store: &Store) -> Result<Vec<i64>> {
        let sql = format!("SELECT id FROM {} ORDER BY id LIMIT {AT_ONCE}", self.noted);
        store.read(move |conn| conn.rows(&sql, &[], |r| r.get(0))).await
    }

    /// Deletes up to `rows` dependent rows of `id` in one transaction. Returns whether there may be more.
    pub(crate) async fn sweep(self, store: &Store, id: i64, rows: usize) -> Result<bool> {
        let job = move |tx: &mut Tx<'_>| {
            let (mut left, mut ended) = (rows, Vec::new());
            for one in self.dependents.iter().copied().flatten() {
                let found: Vec<(i64, i64)> = tx.rows(&one.find(), params![id, left], columns)?;
                let change = one.change();
                for (key, body) in &found {
                    tx.run(&change, params![id, key])?;
                    ended.extend(one.ends.map(|ends| ends(*body)));
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
