//! Data shared by the scripts of all virtual users: arrays and opened files.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// Size limit of `open()`: the heap of a script.
const MAX_FILE_BYTES: u64 = super::MEMORY_LIMIT_BYTES as u64;

/// All `SharedArray`s by name; elements as JSON.
#[derive(Debug, Default)]
pub(crate) struct SharedArrays {
    arrays: Mutex<HashMap<String, Arc<Vec<Box<str>>>>>,
}

impl SharedArrays {
    /// The array of that name; `make` computes it unless there is one. The lock is not held meanwhile: a script may
    /// be suspended in `make`, with another virtual user of the same thread waiting for the lock.
    pub(super) fn get_or_make<E>(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<Vec<Box<str>>, E>,
    ) -> Result<Arc<Vec<Box<str>>>, E> {
        let known = self.arrays.lock().get(name).cloned();
        if let Some(elements) = known {
            return Ok(elements);
        }
        let elements = make()?;
        let mut arrays = self.arrays.lock();
        Ok(arrays.entry(name.to_owned()).or_insert_with(|| Arc::new(elements)).clone())
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(
        "open() can't be used with files that weren't previously opened during initialization (__VU==0), path: \"{}\"",
        .0.display()
    )]
    NotOpened(PathBuf),
    #[error("open() can't be used with \"{}\": it is not a file", .0.display())]
    NoFile(PathBuf),
    #[error("the file \"{}\" is larger than {} MiB", .0.display(), MAX_FILE_BYTES >> 20)]
    TooLarge(PathBuf),
    #[error("the file \"{}\" couldn't be opened: {why}", .path.display())]
    Failed { path: PathBuf, why: std::io::Error },
}

/// Files opened by scripts, each read once: all virtual users see the same content.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: Mutex<HashMap<PathBuf, Arc<[u8]>>>,
}

impl Files {
    /// The content of a file. Files not read before are read only with `may_read`.
    pub(super) fn open(&self, path: &Path, may_read: bool) -> Result<Arc<[u8]>, OpenError> {
        let mut files = self.files.lock();
        if let Some(content) = files.get(path) {
            return Ok(content.clone());
        }
        if !may_read {
            return Err(OpenError::NotOpened(path.to_owned()));
        }
        let failed = |why| OpenError::Failed { path: path.to_owned(), why };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(OpenError::NoFile(path.to_owned()));
        }
        if metadata.len() > MAX_FILE_BYTES {
            return Err(OpenError::TooLarge(path.to_owned()));
        }
        let content: Arc<[u8]> = std::fs::read(path).map_err(failed)?.into();
        files.insert(path.to_owned(), content.clone());
        Ok(content)
    }

    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        self.files.lock().keys().cloned().collect()
    }
}
