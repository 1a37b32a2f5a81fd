//! Files for their owner alone: hashes of passwords are in them.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Mode of the data directory, as far as this program makes it.
const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;

/// Makes a data directory with those above it, if it is missing. One that is there is its operator's: a
/// warning says when others may put files into it.
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

/// Opens a file for reading and writing, made with the mode if it is missing.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(FILE).open(path)?;
    close_to_others(path);
    Ok(file)
}

/// Takes rights from others that an earlier version or an operator gave them. Where the system refuses that,
/// a warning names the file: it can be served all the same.
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
