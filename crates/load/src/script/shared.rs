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

/// Files opened by scripts, each read once: all virtual users see the same content.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: Mutex<HashMap<PathBuf, Arc<[u8]>>>,
}

impl Files {
    /// The content of a file. Files not read before are read only with `may_read`.
    pub(super) fn open(&self, path: &Path, may_read: bool) -> Result<Arc<[u8]>, String> {
        let mut files = self.files.lock();
        if let Some(content) = files.get(path) {
            return Ok(content.clone());
        }
        let name = path.display();
        if !may_read {
            return Err(format!(
                "open() can't be used with files that weren't previously opened during initialization (__VU==0), path: \"{name}\""
            ));
        }
        let failed =
            |error: std::io::Error| format!("the file \"{name}\" couldn't be opened: {error}");
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(format!("open() can't be used with \"{name}\": it is not a file"));
        }
        if metadata.len() > MAX_FILE_BYTES {
            let mebibytes = MAX_FILE_BYTES >> 20;
            return Err(format!("the file \"{name}\" is larger than {mebibytes} MiB"));
        }
        let content: Arc<[u8]> = std::fs::read(path).map_err(failed)?.into();
        files.insert(path.to_owned(), content.clone());
        Ok(content)
    }

    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        self.files.lock().keys().cloned().collect()
    }
}
