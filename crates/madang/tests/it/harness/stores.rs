//! Data directories that are filled once and copied for each test that needs one.

use super::{Madang, data, database};
use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;

/// A fresh data directory with the bundled tracks.
pub fn bundled() -> tempfile::TempDir {
    static FILLED: [OnceLock<tempfile::TempDir>; 2] = [OnceLock::new(), OnceLock::new()];
    let filled = FILLED[usize::from(database::on_server())].get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        Madang::import(dir.path(), data::bundled_rows().iter().map(|row| &row.path)).succeeds();
        dir
    });
    copy(filled.path())
}

/// A fresh data directory with the bundled tracks and markets.
pub fn demo() -> tempfile::TempDir {
    static FILLED: [OnceLock<tempfile::TempDir>; 2] = [OnceLock::new(), OnceLock::new()];
    let filled = FILLED[usize::from(database::on_server())].get_or_init(|| {
        let dir = bundled();
        let mut import = vec!["import".into(), "markets".into(), "--data".into()];
        import.push(dir.path().as_os_str().to_owned());
        import.extend(data::bundled_markets().into_iter().map(OsString::from));
        Madang::new(import).succeeds();
        dir
    });
    copy(filled.path())
}

/// How many tracks [`small`] holds.
pub const SMALL: u32 = 230;

/// A fresh data directory with many short tracks of one length.
pub fn small() -> tempfile::TempDir {
    static FILLED: [OnceLock<tempfile::TempDir>; 2] = [OnceLock::new(), OnceLock::new()];
    let filled = FILLED[usize::from(database::on_server())].get_or_init(|| {
        let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Madang::import(dir.path(), data::small_files(files.path(), SMALL)).succeeds();
        dir
    });
    copy(filled.path())
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    database::copy(from, to.path());
    to
}
