//! What can go wrong in the store, in words of the domain: no SQL type in public names.
#![allow(clippy::disallowed_types, reason = "maps SQL errors to StoreError")]

use super::pool::PoolError;
use rusqlite::{ErrorCode, ffi};
use std::io::ErrorKind;

/// A failed transaction.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    /// Too many jobs wait already. Answered 503.
    #[error("too many jobs are waiting for the store")]
    Busy,
    /// A read was ended before it had an answer: it took too long or too much, or nobody waits for it any
    /// longer. Answered 503.
    #[error("the read was given up: {0}")]
    GivenUp(&'static str),
    /// The store is closing. Answered 503.
    #[error("the store is closing")]
    Closed,
    /// The commit that held this write failed; nothing of it is visible. Answered 503. When it was
    /// the sync that failed and the machine then crashes, the write may still turn up: its pages were
    /// written, only not known to be safe.
    #[error("the commit failed: {0}")]
    Commit(String),
    /// No space left.
    #[error("no space left for the store: {0}")]
    Full(String),
    /// The file cannot be written.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// The file is damaged.
    #[error("the database file is damaged: {0}; restore it from a backup")]
    Corrupt(String),
    /// The file cannot be opened.
    #[error("the database file cannot be opened: {0}")]
    CannotOpen(String),
    /// The file belongs to another program or to a newer version of this one.
    #[error("{0}")]
    Foreign(String),
    /// A constraint refused the write; the text names it.
    #[error("constraint: {0}")]
    Constraint(String),
    /// The `Idempotency-Key` came with another request before. Answered 422.
    #[error("the idempotency key came with another request before")]
    KeyReused,
    /// A job panicked; it was rolled back.
    #[error("a store job panicked: {0}")]
    Panic(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl StoreError {
    /// Whether the same request may succeed later without anybody repairing anything.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            StoreError::Busy
                | StoreError::GivenUp(_)
                | StoreError::Closed
                | StoreError::Commit(_)
                | StoreError::Full(_)
        )
    }
}

impl StoreError {
    /// Why a file of the store cannot be opened.
    pub(super) fn of_file(error: &std::io::Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full(text),
            ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(text),
            _ => StoreError::CannotOpen(text),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        // "disk I/O error" says nothing; this one means that the index of the log found no room.
        if error.sqlite_error().is_some_and(|e| e.extended_code == ffi::SQLITE_IOERR_SHMSIZE) {
            return StoreError::Full("the index of the log cannot be made".to_owned());
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full(text),
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(text),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(text),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                StoreError::CannotOpen(text)
            }
            Some(ErrorCode::ConstraintViolation) => StoreError::Constraint(text),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
            Some(ErrorCode::OperationInterrupted) => StoreError::GivenUp("it took too long"),
            _ => StoreError::Other(text),
        }
    }
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Full => StoreError::Busy,
            PoolError::Closed => StoreError::Closed,
            PoolError::Panicked(text) => StoreError::Panic(text),
        }
    }
}
