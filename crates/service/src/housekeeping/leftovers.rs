//! What is left of something that was deleted, and how its rows go.
//!
//! The statement that deletes is short whatever hangs on its row: a trigger notes the id, and nobody sees the
//! rest any longer, for nothing shows rows of what is not there and ids are never used again (but a user's likes,
//! which are counted until they have gone). A cascade instead would hold the only writer, for as long as the row has children.
#![allow(
    clippy::disallowed_types,
    reason = "runs the statements that systems have for what is left"
)]

use crate::store::{Result, Store, StoreError, Tx, columns, params};
use madang_cache::Stamp;

/// One kind of things that are deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leftovers {
    /// The table that triggers write their ids into.
    pub(crate) noted: &'static str,
    /// What is done for each, in this order.
    pub(crate) dependents: &'static [&'static [DependentRows]],
}

/// How one kind of rows goes that hang on an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DependentRows {
    table: &'static str,
    /// The column of the id.
    of: &'static str,
    /// The column that tells its rows apart.
    key: &'static str,
    /// The column that names the cached body that ends with a row.
    body: &'static str,
    ends: Option<fn(i64) -> Stamp>,
    /// Else only the id goes from the row.
    deletes: bool,
}

impl DependentRows {
    /// The rows go whose column `of` holds the id; `key` tells them apart.
    pub(crate) const fn delete(table: &'static str, of: &'static str, key: &'static str) -> Self {
        Self { table, of, key, body: key, ends: None, deletes: true }
    }

    /// The same rows stay, without the id.
    pub(crate) const fn clear(table: &'static str, of: &'static str, key: &'static str) -> Self {
        Self { deletes: false, ..Self::delete(table, of, key) }
    }

    /// A cached body ends with each row: that of the value in this column.
    pub(crate) const fn ending(self, body: &'static str, ends: fn(i64) -> Stamp) -> Self {
        Self { body, ends: Some(ends), ..self }
    }

    /// Finds up to `?2` of the rows that hang on the id `?1`, and does not find again what was changed.
    pub(super) fn find(&self) -> String {
        let Self { table, of, key, body, .. } = self;
        format!("SELECT {key}, {body} FROM {table} WHERE {of} = ?1 LIMIT ?2")
    }

    /// Changes the row of the key `?2` that hangs on the id `?1`.
    pub(super) fn change(&self) -> String {
        let Self { table, of, key, .. } = self;
        let change = match self.deletes {
            true => format!("DELETE FROM {table}"),
            false => format!("UPDATE {table} SET {of} = NULL"),
        };
        format!("{change} WHERE {of} = ?1 AND {key} = ?2")
    }
}

/// Ids that are looked at together.
const AT_ONCE: usize = 1000;

impl Leftovers {
    /// Ids of which something may be left, the oldest first.
    pub(crate) async fn noted(self, store: &Store) -> Result<Vec<i64>> {
        let sql = format!("SELECT id FROM {} ORDER BY id LIMIT {AT_ONCE}", self.noted);
        store.read(move |conn| conn.rows(&sql, &[], |r| r.get(0))).await
    }

    /// Takes away up to `rows` rows of what is left of `id` in one transaction; answers whether there may be
    /// more.
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
