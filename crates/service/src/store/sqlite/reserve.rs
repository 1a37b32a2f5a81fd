//! A little room kept for starting on a full disk.
//!
//! Even to read, SQLite's write-ahead mode needs 32 KiB of index beside the database, made at the
//! start and deleted at the end. On a disk that filled up meanwhile the store could not even be
//! read. So a small file of zeros takes that room while there is some, and gives it back when a
//! start finds none. Nothing depends on it: failing to write it is no error.

use crate::store::private;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const NAME: &str = "madang.reserve";
/// The index and as much again for its neighbours: the lock file and the log of a small write.
const BYTES: usize = 64 << 10;

/// Takes the room again when it is dropped, once the store's own files are closed.
#[derive(Debug)]
pub(super) struct Reserve {
    file: PathBuf,
}

impl Reserve {
    /// Takes the room unless it is taken already.
    pub(super) fn keep(dir: &Path) -> Reserve {
        let reserve = Reserve { file: dir.join(NAME) };
        reserve.fill();
        reserve
    }

    /// Gives the room back; answers whether there was any.
    pub(super) fn release(dir: &Path) -> bool {
        fs::remove_file(dir.join(NAME)).is_ok()
    }

    fn fill(&self) {
        let there = fs::metadata(&self.file).is_ok_and(|m| m.len() == BYTES as u64);
        private::close_to_others(&self.file);
        let filled = || private::open(&self.file)?.write_all(&[0; BYTES]);
        if !there && let Err(error) = filled() {
            // What little was written helps as well.
            tracing::debug!(%error, "no room to keep in reserve");
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.fill();
    }
}
