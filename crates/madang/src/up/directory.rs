//! Directory with data, logs and socket of a `madang up`.

use super::stopping::Stopping;
use anyhow::Context as _;
use rustix::io::FdFlags;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Prefix of the names of temporary directories.
pub(crate) const PREFIX: &str = "madang-up-";

/// File inherited by all servers, and locked until the last of them is gone.
const SERVERS: &str = "servers.lock";
/// Time limit for the end of a killed `madang up`'s servers, which are killed at once.
const END_TIME: Duration = Duration::from_secs(30);
/// Interval between two checks whether they have ended.
const POLL: Duration = Duration::from_millis(20);

pub(crate) struct RunDirectory {
    pub path: PathBuf,
    is_temporary: bool,
}

impl RunDirectory {
    /// The named directory, created if missing, or a new temporary one. Only the user may enter a directory created
    /// here.
    pub(crate) fn new(named: Option<&Path>) -> anyhow::Result<Self> {
        let is_temporary = named.is_none();
        let dir = match named {
            Some(dir) => dir.to_owned(),
            None => std::env::temp_dir().join(format!("{PREFIX}{}", random_hex(8)?)),
        };
        let mut builder = DirBuilder::new();
        // A temporary one must be new: another user may have created one of this name.
        builder.recursive(!is_temporary).mode(0o700);
        let cannot = || format!("cannot create the directory {}", dir.display());
        builder.create(&dir).with_context(cannot)?;
        let dir = dir.canonicalize().with_context(cannot)?;
        Ok(Self { path: dir, is_temporary })
    }

    /// Waits until the servers of an earlier `madang up` in this directory are gone: when it is killed, its own lock
    /// is released before they end. Servers started while the returned lock lives hold it, too.
    pub(crate) fn lock_servers(&self, stopping: &Stopping) -> anyhow::Result<File> {
        let path = self.path.join(SERVERS);
        let lock = || {
            let file = File::options().create(true).append(true).mode(0o600).open(&path)?;
            rustix::io::fcntl_setfd(&file, FdFlags::empty())?;
            let end = Instant::now() + END_TIME;
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(file),
                    Err(TryLockError::Error(error)) => return Err(error),
                    Err(TryLockError::WouldBlock)
                        if Instant::now() > end || stopping.pause(POLL) =>
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

    /// Removes a temporary directory.
    pub(crate) fn remove(mut self) -> anyhow::Result<()> {
        if !std::mem::take(&mut self.is_temporary) {
            return Ok(());
        }
        let dir = &self.path;
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// `count` random bytes of the operating system as hex.
pub(crate) fn random_hex(count: usize) -> anyhow::Result<String> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).context("cannot get random bytes from the operating system")?;
    Ok(base16ct::lower::encode_string(&bytes))
}
