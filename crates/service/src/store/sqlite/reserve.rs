//! Space kept for a start on a full disk.
//!
//! SQLite's write-ahead mode needs 32 KiB of index beside the database even to read, made at the start and deleted at
//! the end. On a disk that filled up meanwhile the store could not be read. So a small file of zeros keeps that space,
//! and is deleted when a start finds none. Nothing depends on it: failing to write it is no error.

use crate::store::private;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const NAME: &str = "madang.reserve";
/// The index, and as much for the lock file and the log of a small write.
const BYTES: usize = 64 << 10;

/// Takes the space again when it is dropped, after the store's own files are closed.
#[derive(Debug)]
pub(super) struct Reserve {
    file: PathBuf,
}

impl Reserve {
    pub(super) fn keep(dir: &Path) -> Reserve {
        let reserve = Reserve { file: dir.join(NAME) };
        reserve.fill();
        reserve
    }

    /// Frees the space. Returns whether there was any.
    pub(super) fn release(dir: &Path) -> bool {
        fs::remove_file(dir.join(NAME)).is_ok()
    }

    fn fill(&self) {
        let there = fs::metadata(&self.file).is_ok_and(|m| m.len() == BYTES as u64);
        private::close_to_others(&self.file);
        let filled = || private::open(&self.file)?.write_all(&[0; BYTES]);
        if !there && let Err(error) = filled() {
            // A part of the file helps as well.
            tracing::debug!(%error, "no room to keep in reserve");
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.fill();
    }
}
