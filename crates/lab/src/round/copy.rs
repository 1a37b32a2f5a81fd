//! Copies the data of a round.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::run::cancel::Cancel;

#[derive(Debug)]
pub(crate) enum CopyError {
    Cancelled,
    Io { path: PathBuf, source: io::Error },
}

/// Copies files, directories and symbolic links, and syncs them: no write-back may fall into the measurement.
pub(crate) fn tree(from: &Path, to: &Path, cancel: &Cancel) -> Result<(), CopyError> {
    let broken = |source| CopyError::Io { path: from.to_owned(), source };
    fs::create_dir_all(to).map_err(broken)?;
    for entry in fs::read_dir(from).map_err(broken)? {
        if cancel.is_cancelled() {
            return Err(CopyError::Cancelled);
        }
        let entry = entry.map_err(broken)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(broken)?.is_dir() {
            tree(&source, &target, cancel)?;
        } else {
            one(&source, &target).map_err(|error| CopyError::Io { path: source, source: error })?;
        }
    }
    Ok(())
}

fn one(source: &Path, target: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(source)?.file_type();
    if kind.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(source)?, target)?;
    } else if kind.is_file() {
        fs::copy(source, target)?;
        File::open(target)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_and_to() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("deep/er")).unwrap();
        fs::write(from.join("deep/er/file"), "one").unwrap();
        std::os::unix::fs::symlink("deep/er/file", from.join("link")).unwrap();
        (dir, from, to)
    }

    #[test]
    fn a_copied_tree_is_the_same_and_separate() {
        let (_dir, from, to) = from_and_to();
        tree(&from, &to, &Cancel::default()).unwrap();
        fs::write(from.join("deep/er/file"), "two").unwrap();
        assert_eq!(fs::read_to_string(to.join("link")).unwrap(), "one");
    }

    #[test]
    fn a_copy_ends_when_it_is_cancelled_and_names_what_fails() {
        let (_dir, from, to) = from_and_to();
        let cancel = Cancel::default();
        cancel.cancel();
        assert!(matches!(tree(&from, &to, &cancel), Err(CopyError::Cancelled)));
        assert!(!to.join("deep").exists());
        let missing = from.join("missing");
        let error = tree(&missing, &to, &Cancel::default()).unwrap_err();
        assert!(matches!(error, CopyError::Io { path, .. } if path == missing));
    }
}
