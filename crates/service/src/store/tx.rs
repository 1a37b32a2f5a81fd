//! Write transactions.

use super::effects::Effects;
use super::sql::{Conn, Sql, params};
use super::{Result, StoreError, panic_text};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A write transaction of one job. It fails alone, also in a group commit.
pub(crate) struct Tx<'conn> {
    conn: Conn<'conn>,
    pub(super) effects: Effects,
}

impl<'conn> Tx<'conn> {
    pub(super) fn new(conn: Conn<'conn>) -> Self {
        Self { conn, effects: Effects::default() }
    }

    /// Effects to apply after the commit; none when the job fails.
    pub(crate) fn effects(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// Locks the row of this id until the end, so that it cannot change between a read and a write. Returns whether it
    /// exists. Where transactions run one after the other, no lock is needed.
    pub(crate) fn hold(&self, table: &str, id: i64) -> Result<bool> {
        self.locked(table, id, "FOR UPDATE")
    }

    /// [`hold`](Self::hold) for a row that this transaction refers to and does not change. Others may refer to it
    /// too, but not delete it.
    pub(crate) fn keep(&self, table: &str, id: i64) -> Result<bool> {
        self.locked(table, id, "LOCK IN SHARE MODE")
    }

    fn locked(&self, table: &str, id: i64, how: &str) -> Result<bool> {
        let look = format!("SELECT 1 FROM {table} WHERE id = ?");
        let lock = format!("{look} {how}");
        self.conn.exists(Sql::each(&look, &lock), params![id])
    }
}

impl<'conn> Deref for Tx<'conn> {
    type Target = Conn<'conn>;
    fn deref(&self) -> &Conn<'conn> {
        &self.conn
    }
}

crate::opaque_debug!(Tx<'_>);

/// Runs a job; a panic becomes an error.
pub(super) fn caught<T, E: From<StoreError>>(
    job: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    tx: &mut Tx<'_>,
) -> Result<T, E> {
    match catch_unwind(AssertUnwindSafe(|| job(tx))) {
        Ok(result) => result,
        Err(panic) => Err(StoreError::Panic(panic_text(&*panic)).into()),
    }
}

/// Runs an action that follows a commit. A panic in it is logged: the write stands, and its caller gets the result.
pub(crate) fn follow(what: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(what)) {
        tracing::error!("a panic after a commit: {}", panic_text(&*panic));
    }
}
