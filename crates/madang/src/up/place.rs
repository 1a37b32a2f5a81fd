//! The directory with the data, logs and socket of a `madang up`.

use anyhow::Context as _;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// What the names of temporary directories begin with.
pub const PREFIX: &str = "madang-up-";

/// A directory; a temporary one is removed at the end.
pub struct Place {
    pub dir: PathBuf,
    is_temporary: bool,
}

impl Place {
    /// The named directory, created if it is missing, or a new temporary one. Only the user may enter
    /// what is created here.
    pub fn new(named: Option<&Path>) -> anyhow::Result<Self> {
        let is_temporary = named.is_none();
        let dir = match named {
            Some(dir) => dir.to_owned(),
            None => std::env::temp_dir().join(format!("{PREFIX}{}", random_hex(8)?)),
        };
        let mut builder = DirBuilder::new();
        // A temporary one must be new: somebody else may have made one of this name.
        builder.recursive(!is_temporary).mode(0o700);
        let cannot = || format!("cannot create the directory {}", dir.display());
        builder.create(&dir).with_context(cannot)?;
        let dir = dir.canonicalize().with_context(cannot)?;
        Ok(Self { dir, is_temporary })
    }

    /// Removes it, if it is temporary.
    pub fn remove(mut self) -> anyhow::Result<()> {
        if !std::mem::take(&mut self.is_temporary) {
            return Ok(());
        }
        let dir = &self.dir;
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
    }
}

/// After a panic, too.
impl Drop for Place {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Random bytes of the operating system as hex.
pub fn random_hex(count: usize) -> anyhow::Result<String> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).context("cannot get random bytes from the operating system")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
