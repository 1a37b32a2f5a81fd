//! Errors of the store, without SQL types.

use super::pool::PoolError;
use rusqlite::{ErrorCode, ffi};
use std::io::ErrorKind;

/// A failed transaction.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    /// Too many jobs wait already. Answered 503.
    #[error("too many jobs are waiting for the store")]
    Busy,
    /// A read was interrupted: it took too long, or its caller is gone. Answered 503.
    #[error("the read was interrupted: {0}")]
    GivenUp(&'static str),
    /// The database server cannot be reached. Answered 503.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The store is closing. Answered 503.
    #[error("the store is closing")]
    Closed,
    /// The commit of this write failed, and nothing of it will ever be visible. Answered 503.
    #[error("the commit failed: {0}")]
    Commit(String),
    /// The commit of this write failed after all of it may have been written to the log. Nothing of it is visible,
    /// but it may appear after a crash. Answered 504.
    #[error("the commit failed and its outcome is unknown: {0}")]
    Unknown(String),
    /// No space left.
    #[error("no space left for the store: {0}")]
    Full(String),
    /// The file cannot be written.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// The file is damaged.
    #[error("the database file is damaged: {0}; restore it from a backup")]
    Corrupt(String),
    /// The file or the server's database cannot be opened.
    #[error("the database cannot be opened: {0}")]
    CannotOpen(String),
    /// The store belongs to another program or to a newer version of this one, or is a copy that is not complete.
    #[error("{0}")]
    Foreign(String),
    /// A constraint refused the write; the text names it.
    #[error("constraint: {0}")]
    Constraint(String),
    /// The `Idempotency-Key` came with another request before. Answered 422.
    #[error("the idempotency key was used with another request")]
    KeyReused,
    /// A job panicked; it was rolled back.
    #[error("a store job panicked: {0}")]
    Panic(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// The outcome of a transaction, or of another kind of work that can also fail in the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Error of changing something that a user owns.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The owner does not exist, or no longer.
    #[error("there is no such user")]
    UnknownUser,
    /// The owner has reached a quota.
    #[error("the quota of the user is used up")]
    OverQuota,
}

/// The error of a job, into which errors of the store convert.
pub(crate) trait JobError: From<StoreError> + Send + 'static {}

impl<E: From<StoreError> + Send + 'static> JobError for E {}

impl StoreError {
    /// Whether the same request may succeed later without a repair.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            StoreError::Busy
                | StoreError::GivenUp(_)
                | StoreError::Unreachable(_)
                | StoreError::Closed
                | StoreError::Commit(_)
                | StoreError::Unknown(_)
                | StoreError::Full(_)
        )
    }

    /// Whether the write may have been committed.
    pub fn is_unknown(&self) -> bool {
        matches!(self, StoreError::Unknown(_))
    }

    /// The error of a failed `COMMIT`: certain, or unknown.
    ///
    /// A commit appends its pages to the log, the last one with the mark that makes them count, syncs the log, and
    /// enters them into the index in shared memory (`sqlite3WalFrames`). Whatever fails, SQLite rolls back: the index
    /// still ends before these pages, so they are invisible, and the next commit overwrites them. But a crash loses
    /// the index, and opening rebuilds it from the log, up to the last mark with correct checksums, synced or not. So
    /// the outcome depends on whether the mark was written. It was not when a write failed or found no space (the
    /// mark is in the last one), nor when a constraint or a lock refused the commit before any write. It was when the
    /// sync or the index failed.
    pub(super) fn of_commit(error: rusqlite::Error) -> StoreError {
        let code = error.sqlite_error().map_or(0, |e| e.extended_code);
        let before_the_mark = code == ffi::SQLITE_IOERR_WRITE
            || matches!(
                code & 0xff,
                ffi::SQLITE_FULL | ffi::SQLITE_CONSTRAINT | ffi::SQLITE_BUSY | ffi::SQLITE_READONLY
            );
        match StoreError::from(error) {
            full @ StoreError::Full(_) if before_the_mark => full,
            other if before_the_mark => StoreError::Commit(other.to_string()),
            other => StoreError::Unknown(other.to_string()),
        }
    }

    /// The error of a file of the store that cannot be opened or synced.
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
        // The message would be "disk I/O error": the index of the log found no space.
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
            Some(ErrorCode::OperationInterrupted) => {
                StoreError::GivenUp("the time limit has passed")
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_undone_for_certain_only_when_it_failed_before_its_mark_was_written() {
        let of = |code| {
            StoreError::of_commit(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
        };
        assert!(matches!(of(ffi::SQLITE_FULL), StoreError::Full(_)));
        for before in [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_CONSTRAINT_FOREIGNKEY] {
            assert!(matches!(of(before), StoreError::Commit(_)), "{before}");
        }
        for after in [
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_IOERR_SHMSIZE,
            ffi::SQLITE_IOERR_SHMMAP,
            ffi::SQLITE_IOERR,
            ffi::SQLITE_NOMEM,
        ] {
            assert!(of(after).is_unknown() && of(after).is_temporary(), "{after}");
        }
    }
}
