//! Files that only their owner may read: they hold hashes of passwords.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Mode of a data directory that this program creates.
const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;

/// Creates a data directory and its parents, if missing. An existing one belongs to the operator; a warning is logged
/// when others may put files into it.
pub(super) fn directory(dir: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(dir)?;
    let mode = std::fs::metadata(dir)?.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        tracing::warn!(
            dir = %dir.display(),
            mode = %format_args!("{mode:o}"),
            "other users can write to the data directory; run `chmod 700` on it"
        );
    }
    Ok(())
}

/// Opens a file for reading and writing, and creates it if missing.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(FILE).open(path)?;
    close_to_others(path);
    Ok(file)
}

/// Removes permissions of other users that an earlier version or an operator gave. A failure is logged: the file can be
/// served all the same.
pub(super) fn close_to_others(path: &Path) {
    let closed = std::fs::metadata(path).and_then(|found| {
        if found.permissions().mode() & 0o077 == 0 {
            return Ok(());
        }
        std::fs::set_permissions(path, Permissions::from_mode(FILE))
    });
    match closed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "other users can read this file; run `chmod 600` on it");
        }
        _ => {}
    }
}

/// Moves a file to its place: durable, and complete or absent after a crash.
pub(super) fn place(from: &Path, to: &Path) -> std::io::Result<()> {
    File::open(from)?.sync_all()?;
    std::fs::rename(from, to)?;
    let directory = to.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
