//! A write transaction as its job sees it.

use super::effects::Effects;
use super::sql::{Conn, Sql, params};
use super::{Result, StoreError, panic_text};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One write transaction; it stands or falls by itself, also within a group's.
pub(crate) struct Tx<'conn> {
    conn: Conn<'conn>,
    pub(super) effects: Effects,
}

impl<'conn> Tx<'conn> {
    pub(super) fn new(conn: Conn<'conn>) -> Self {
        Self { conn, effects: Effects::default() }
    }

    /// What is to follow from this job once it is committed; nothing does when it fails.
    pub(crate) fn effects(&mut self) -> &mut Effects {
        &mut self.effects
    }

    /// Locks the row of this id until the end, so that what is read of it now is still so when it is written. Answers
    /// whether there is one. Where transactions run one after the other, a look is enough.
    pub(crate) fn hold(&self, table: &str, id: i64) -> Result<bool> {
        self.locked(table, id, "FOR UPDATE")
    }

    /// The same for a row that this transaction refers to and does not change: others may refer to it, too, but
    /// nobody can take it away.
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

/// Runs a job; a panic in it is an error.
pub(super) fn caught<T, E: From<StoreError>>(
    job: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    tx: &mut Tx<'_>,
) -> Result<T, E> {
    match catch_unwind(AssertUnwindSafe(|| job(tx))) {
        Ok(result) => result,
        Err(panic) => Err(StoreError::Panic(panic_text(&*panic)).into()),
    }
}

/// Runs what follows a commit. A panic in it is a bug, but the write stands: the rest still runs, and the caller gets
/// its answer.
pub(crate) fn follow(what: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(what)) {
        tracing::error!("a panic after a commit: {}", panic_text(&*panic));
    }
}
