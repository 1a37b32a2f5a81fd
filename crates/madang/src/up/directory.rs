//! The directory with the data, logs and socket of a `madang up`.

use super::stopping::Stopping;
use anyhow::Context as _;
use rustix::io::FdFlags;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the names of temporary directories begin with.
pub const PREFIX: &str = "madang-up-";

/// A file that all servers inherit and that stays locked until the last of them is gone.
const SERVERS: &str = "servers.lock";
/// Time that the servers of a killed `madang up` get to end; they are killed at once.
const END_TIME: Duration = Duration::from_secs(30);
/// Time between two looks whether they have ended.
const LOOK: Duration = Duration::from_millis(20);

/// A directory; a temporary one is removed at the end.
pub struct RunDirectory {
    pub dir: PathBuf,
    is_temporary: bool,
}

impl RunDirectory {
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

    /// Waits until the servers of an earlier `madang up` in this directory are gone: one that was killed
    /// has lost its own lock a moment before they end. Servers that are started while the answer lives
    /// hold this lock, too.
    pub fn without_servers(&self, stopping: &Stopping) -> anyhow::Result<File> {
        let path = self.dir.join(SERVERS);
        let lock = || {
            let file = File::options().create(true).append(true).mode(0o600).open(&path)?;
            rustix::io::fcntl_setfd(&file, FdFlags::empty())?;
            let end = Instant::now() + END_TIME;
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(file),
                    Err(TryLockError::Error(error)) => return Err(error),
                    Err(TryLockError::WouldBlock)
                        if Instant::now() > end || stopping.pause(LOOK) =>
                    {
                        return Err(io::Error::other(
                            "servers of an earlier `madang up` still run",
                        ));
                    }
                    Err(TryLockError::WouldBlock) => {}
                }
            }
        };
        lock().with_context(|| format!("cannot lock {}", path.display()))
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
impl Drop for RunDirectory {
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
    Ok(base16ct::lower::encode_string(&bytes))
}
