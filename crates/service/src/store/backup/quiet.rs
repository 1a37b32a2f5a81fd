//! Writing and removing files without long waits for the disk.
//!
//! A commit of the server waits for earlier writes to the disk. With 640 MB, a commit waited 1.1 s when they were
//! synced at once, 0.8 s when the system wrote them half a minute later, and 0.15 s while the blocks of the removed
//! file were discarded (mount option `discard`). In steps of 256 KiB one in a hundred waited longer than 1.8 ms
//! (docs/PERFORMANCE.md).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes written or freed at a time: about a millisecond of a disk.
pub(super) const STEP: usize = 256 << 10;
/// Pause in multiples of the time of a step.
const REST: u32 = 2;
const LONGEST_REST: Duration = Duration::from_millis(100);

/// Writes a file and syncs it step by step, except for the last bytes.
#[derive(Debug)]
pub struct Synced<'f> {
    file: &'f File,
    unsynced: usize,
}

impl<'f> Synced<'f> {
    /// The file has no unsynced bytes.
    #[must_use]
    pub fn new(file: &'f File) -> Self {
        Self { file, unsynced: 0 }
    }
}

impl Write for Synced<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(STEP)])?;
        self.unsynced += written;
        if self.unsynced >= STEP {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Removes an unused file, and frees its blocks step by step.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path);
    // The name first, so that a killed process leaves no partial file.
    fs::remove_file(path)?;
    if let Ok(file) = file {
        free(&file);
    }
    Ok(())
}

fn free(file: &File) {
    // A file with another name stays.
    let mut left = match file.metadata() {
        Ok(found) if found.nlink() == 0 => found.len(),
        _ => return,
    };
    while left > 0 {
        left = left.saturating_sub(STEP as u64);
        let began = Instant::now();
        if file.set_len(left).is_err() {
            // Closing it frees the rest.
            return;
        }
        std::thread::sleep((began.elapsed() * REST).min(LONGEST_REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_file_is_gone_and_one_with_another_name_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other, absent] = ["one", "other", "absent"].map(|name| dir.path().join(name));
        let bytes = vec![7; 2 * STEP + 1];
        fs::write(&one, &bytes).unwrap();
        let open = File::open(&one).unwrap();
        fs::hard_link(&one, &other).unwrap();
        remove(&one).unwrap();
        assert!(!one.exists());
        assert!(fs::read(&other).unwrap() == bytes);
        remove(&other).unwrap();
        assert!(!other.exists());
        assert_eq!(open.metadata().unwrap().len(), 0, "its blocks are freed");
        assert_eq!(remove(&absent).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_is_synced_in_steps_is_all_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create(&path).unwrap();
        let bytes: Vec<u8> = (0..3 * STEP + 5).map(|n| n as u8).collect();
        let mut out = Synced::new(&file);
        out.write_all(&bytes).unwrap();
        out.flush().unwrap();
        assert_eq!(out.unsynced, 5);
        assert!(fs::read(&path).unwrap() == bytes);
    }
}
