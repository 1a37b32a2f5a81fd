//! The lock of a data directory: one process owns it.
//!
//! It is an advisory lock on `madang.lock`, which the kernel releases however the process ends. The file also holds the
//! owner's pid, for error messages.

use super::private;
use crate::config::Settings;
use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// The lock, held for the lifetime of the value.
#[derive(Debug)]
pub struct DirLock {
    _file: File,
}

/// Error of locking a data directory.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process owns it.
    #[error("the data directory {} is in use by process {pid}; stop it first, or choose another directory", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The owner's pid, as read from the file.
        pid: String,
    },
    /// It cannot be created or written.
    #[error("the data directory {} cannot be used: {reason}", dir.display())]
    Unusable {
        /// The directory.
        dir: PathBuf,
        /// Message of the system.
        reason: String,
    },
}

impl DirLock {
    /// Takes the lock that a command needs to fill the store of these settings; `None` where the store is a server,
    /// which nodes may serve meanwhile.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn to_fill(settings: &Settings) -> Result<Option<DirLock>, LockError> {
        if settings.database.url.is_none() {
            return DirLock::take(&settings.data_dir).map(Some);
        }
        // It may get a key.
        private::directory(&settings.data_dir).map_err(unusable(&settings.data_dir))?;
        Ok(None)
    }

    /// Creates the directory if it is missing and takes its lock.
    ///
    /// # Errors
    /// Another process holds it, or the directory cannot be written.
    pub fn take(dir: &Path) -> Result<DirLock, LockError> {
        private::directory(dir).map_err(unusable(dir))?;
        let mut file = private::open(&dir.join("madang.lock")).map_err(unusable(dir))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // The owner may be between taking the lock and writing its pid.
                let _ = (&mut file).take(20).read_to_string(&mut pid);
                let pid = if pid.trim().is_empty() { "(unknown)" } else { pid.trim() };
                return Err(LockError::InUse { dir: dir.to_owned(), pid: pid.to_owned() });
            }
            Err(TryLockError::Error(e)) => return Err(unusable(dir)(e)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        // The lock holds without the pid: a full disk must not prevent reading.
        drop(written);
        Ok(DirLock { _file: file })
    }
}

fn unusable(dir: &Path) -> impl Fn(std::io::Error) -> LockError {
    move |e| LockError::Unusable { dir: dir.to_owned(), reason: e.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_is_refused_with_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::take(dir.path()).unwrap();
        let error = DirLock::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        DirLock::take(dir.path()).unwrap();
    }
}
