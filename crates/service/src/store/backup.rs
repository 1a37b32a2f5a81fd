//! Backups: the whole store as of one moment in one file, taken while it is served, and restored elsewhere.
//!
//! A backup is a tar archive compressed with zstd, so that `tar --zstd -x` opens it without this program:
//!
//! | entry | content |
//! |---|---|
//! | `manifest.json` | [`Manifest`]: format, schema version, sizes and SHA-256 of what follows |
//! | `madang.db` | the store as one SQLite file, whatever the engine it was taken from |
//! | `token.key` | the key that signs tokens, if it lies in the data directory |
//!
//! **Incremental backups** have `madang.db.changes` instead of the store: the blocks that differ from those of an
//! earlier backup, which the manifest names and a restore reads too (`chain.rs`).
//!
//! **One format for both engines.** A store on MariaDB is copied into a file as by `madang copy`, and compared row by
//! row. So a backup needs no client programs of the server, can be restored into either engine, and is checked the same
//! way.
//!
//! **Beside a running server.** [`take`] copies the store's files to a work directory, and keeps one read transaction
//! open while it copies what has changed meanwhile (`live.rs`). Writes go on; only the write-ahead log grows. The
//! copy is then checked and compressed. All of that leaves most of a busy machine to others (`pace.rs`).

pub(crate) mod archive;
mod chain;
mod changes;
mod live;
pub(crate) mod manifest;
mod pace;
mod quiet;
mod restore;
mod snapshot;
mod upgrade;

pub use chain::builds_on;
pub use manifest::{Entry, Manifest, Since};
pub use quiet::Synced;
pub use restore::{Key, Restored, restore};
pub(super) use upgrade::{
    backup_of_schema, before_migration, before_migration_of_server, copy_of_schema,
};

use super::copy::CopyError;
use super::{DirLock, FILE, LockError, StoreError, copy, private};
use crate::accounts::{KEY_FILE, KeyError};
use crate::config::Settings;
use chain::{Archives, Chain};
use manifest::CHANGES;
use pace::Pace;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use time::OffsetDateTime;

/// Work directory beside the backup, into which the store is copied first.
const WORK: &str = ".madang-backup";
/// Empty file in the data directory whose age is that of the last successful backup.
const LAST: &str = "last-backup";

/// Error of a backup or a restore.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store cannot be read or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store on a server cannot be copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// Another process uses the directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// No new token key could be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Reading or writing failed.
    #[error("{what}: {reason}")]
    Io {
        /// The file or the operation.
        what: String,
        /// The system's reason.
        reason: io::Error,
    },
    /// An argument cannot be used.
    #[error("{0}")]
    Refused(String),
    /// The archive is not a complete backup.
    #[error("this is not a whole backup: {0}")]
    Damaged(String),
}

impl BackupError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |reason| Self::Io { what, reason }
    }

    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        Self::io(path.display().to_string())
    }

    /// Adds the place of a backup, if there are several.
    fn about(self, place: Option<&str>) -> Self {
        match (self, place) {
            (Self::Damaged(text), Some(place)) => Self::Damaged(format!("{place}: {text}")),
            (Self::Refused(text), Some(place)) => Self::Refused(format!("{place}: {text}")),
            (error, _) => error,
        }
    }
}

/// Progress of a backup or a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Copying the store: bytes done and total. From a server: rows done, and 0.
    Copying(u64, u64),
    /// Checking the copy, or the unpacked files.
    Checking,
    /// Compressing or unpacking: bytes done and total.
    Packing(u64, u64),
}

/// A copy of the store that can be packed. Drop deletes its files.
#[derive(Debug)]
pub struct Taken {
    work: Work,
    /// The manifest of the backup.
    pub manifest: Manifest,
}

/// The work directory, locked so that two backups never share it.
#[derive(Debug)]
struct Work {
    dir: PathBuf,
    _lock: DirLock,
}

impl Work {
    fn begin(parent: &Path) -> Result<Self, BackupError> {
        let dir = parent.join(WORK);
        let lock = DirLock::take(&dir)?;
        let work = Self { dir, _lock: lock };
        work.clear();
        Ok(work)
    }

    /// Removes files of a killed backup.
    fn clear(&self) {
        for end in ["", "-wal", "-shm", "-journal"] {
            let _ = quiet::remove(&self.dir.join(format!("{FILE}{end}")));
        }
        for name in [KEY_FILE, CHANGES] {
            let _ = quiet::remove(&self.dir.join(name));
        }
    }

    /// Copies the key that signs tokens. Returns whether there is one.
    fn keep_key(&self, key: &Path) -> Result<bool, BackupError> {
        if !key.is_file() {
            return Ok(false);
        }
        let text = std::fs::read(key).map_err(BackupError::at(key))?;
        let copy = self.dir.join(KEY_FILE);
        private::open(&copy)
            .and_then(|mut file| file.write_all(&text))
            .map_err(BackupError::at(&copy))?;
        Ok(true)
    }

    fn taken(
        self,
        created: OffsetDateTime,
        has_key: bool,
        engine: &str,
    ) -> Result<Taken, BackupError> {
        let file = self.dir.join(FILE);
        let schema = snapshot::check(&file, "quick_check", Some(Pace::new()))?;
        let names: &[&str] = if has_key { &[FILE, KEY_FILE] } else { &[FILE] };
        let manifest = Manifest::of(&self.dir, names, created, schema, engine)?;
        Ok(Taken { work: self, manifest })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.clear();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Notes in the data directory, if it exists, that its store was backed up now, for the server's metrics.
///
/// # Errors
/// The directory cannot be written.
pub fn note_success(data: &Path) -> Result<(), BackupError> {
    let file = data.join(LAST);
    // Replaced, because a file of another user cannot be changed. Never through a link, because this may run as root
    // in a directory of another user.
    let removed = std::fs::remove_file(&file);
    let made = match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ if !data.is_dir() => Ok(()),
        _ => OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file).map(drop),
    };
    match made {
        // Another backup ended at the same moment.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(BackupError::at(&file)),
    }
}

/// Time of the last successful backup of the store in this directory.
pub(super) fn last_success(data: &Path) -> Option<SystemTime> {
    std::fs::metadata(data.join(LAST)).and_then(|file| file.modified()).ok()
}

/// Copies the store of these settings into a directory inside `parent` and checks the copy. The store may be served
/// meanwhile. With `since`, an earlier backup, the copy keeps only what changed since then.
///
/// # Errors
/// There is no store, it cannot be read or is damaged, `parent` has no space for it, or `since` is incomplete.
pub fn take(
    settings: &Settings,
    parent: &Path,
    since: Option<&Path>,
    mut watch: impl FnMut(Progress),
) -> Result<Taken, BackupError> {
    let mut archives = Archives::default();
    let Some(since) = since else { return copied(settings, parent, &mut watch) };
    if settings.database.url.is_some() {
        return Err(BackupError::Refused(
            "--since: a store on MariaDB is copied row by row, so nearly every block of the copy would differ; take full \
             backups, and keep the server's binary log for what is written between them (docs/OPERATIONS.md)"
                .to_owned(),
        ));
    }
    // Before the copy, which takes long.
    let (name, earlier) = Chain::earlier(&mut archives, since)?;
    let taken = copied(settings, parent, &mut watch)?.incremental(name, earlier)?;
    archives.finish()?;
    Ok(taken)
}

fn copied(
    settings: &Settings,
    parent: &Path,
    watch: &mut impl FnMut(Progress),
) -> Result<Taken, BackupError> {
    let data = &settings.data_dir;
    let url = settings.database.url.as_deref();
    if url.is_none() && !data.join(FILE).is_file() {
        return Err(BackupError::Refused(format!("{} holds no {FILE}", data.display())));
    }
    let work = Work::begin(parent)?;
    let created = OffsetDateTime::now_utc();
    // The key first: a key that replaces it meanwhile has signed nothing in this copy.
    let has_key = settings.accounts.token_key.is_none() && work.keep_key(&data.join(KEY_FILE))?;
    match url {
        None => {
            live::copy(&data.join(FILE), &work.dir.join(FILE), &mut Pace::new(), |done, all| {
                watch(Progress::Copying(done, all));
            })?;
        }
        Some(url) => {
            let mut into = settings.clone();
            into.data_dir.clone_from(&work.dir);
            let mut rows = 0;
            copy::back(&into, url, |progress| {
                if let copy::Progress::Rows(more) = progress {
                    rows += more;
                    watch(Progress::Copying(rows, 0));
                }
            })?;
        }
    }
    watch(Progress::Checking);
    work.taken(created, has_key, if url.is_some() { "mariadb" } else { "sqlite" })
}

impl Taken {
    /// Reduces the copy to what differs from an earlier backup of this name.
    fn incremental(self, name: String, earlier: Chain<'_, '_>) -> Result<Self, BackupError> {
        let Self { work, manifest } = self;
        let before = earlier.manifest().clone();
        changes::write(earlier, &work.dir)?;
        let store = work.dir.join(FILE);
        quiet::remove(&store).map_err(BackupError::at(&store))?;
        let manifest = manifest.incremental(&work.dir, name, &before)?;
        Ok(Self { work, manifest })
    }

    /// Writes the archive. Returns its size in bytes.
    ///
    /// # Errors
    /// The copy cannot be read or `out` cannot be written.
    pub fn pack(
        &self,
        out: impl Write,
        mut watch: impl FnMut(Progress),
    ) -> Result<u64, BackupError> {
        archive::write(&self.work.dir, &self.manifest, out, |done, all| {
            watch(Progress::Packing(done, all));
        })
        .map_err(BackupError::io("the backup cannot be written"))
    }
}
