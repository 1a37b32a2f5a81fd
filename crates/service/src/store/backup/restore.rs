//! Puts a backup into a data directory.

use super::{BackupError, FILE, KEY_FILE, Manifest, Progress, archive, snapshot};
use crate::accounts::TokenKey;
use crate::store::sqlite::SCHEMA_VERSION;
use crate::store::{DirLock, Result, copy};
use rusqlite::Connection;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Directory inside the data directory in which a backup is unpacked and checked.
const WORK: &str = "restoring";

/// A store that was put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What the backup says of itself.
    pub manifest: Manifest,
    /// The key that signs tokens.
    pub key: Key,
    /// What is wrong with the store, and was when the backup was taken.
    pub warnings: Vec<String>,
}

/// What became of the key that signs tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// It is that of the backup.
    Restored,
    /// A new one was made.
    Rotated,
    /// The backup has none: it is the setting `accounts.token_key`.
    Absent,
}

/// What a directory may not hold.
const OCCUPIED: [&str; 4] = ["madang.db", "madang.db-wal", "madang.db-shm", KEY_FILE];

/// Puts the backup that `from` reads into `data`, which must hold no store. What an incremental one builds on lies in
/// `beside`. Everything is checked first; the store appears in one step at the end. With `rotate` the key that signs tokens
/// is a new one.
///
/// # Errors
/// When the backup is damaged, not whole, or newer than this program, or the directory cannot be used. It holds no
/// store then.
pub fn restore(
    from: impl Read,
    beside: Option<&Path>,
    data: &Path,
    rotate: bool,
    mut watch: impl FnMut(Progress),
) -> Result<Restored, BackupError> {
    let _lock = DirLock::take(data)?;
    if let Some(there) = OCCUPIED.iter().map(|name| data.join(name)).find(|path| path.exists()) {
        let text = format!("{} exists already; name a directory without a store", there.display());
        return Err(BackupError::Refused(text));
    }
    let work = Unpacked::begin(data.join(WORK))?;
    let manifest = archive::read(from, beside, &work.0, known, |done, all| {
        watch(Progress::Packing(done, all));
    })?;
    watch(Progress::Checking);
    let file = work.0.join(FILE);
    let schema = snapshot::check(&file, snapshot::Check::Indexes, None)?;
    if u32::try_from(schema) != Ok(manifest.schema) {
        let text = format!("its store has schema version {schema}, not {}", manifest.schema);
        return Err(BackupError::Damaged(text));
    }
    let warnings = warnings(&file, schema)?;
    let has_key = manifest.files.iter().any(|file| file.name == KEY_FILE);
    let key = match (has_key, rotate) {
        (_, true) => {
            let _ = fs::remove_file(work.0.join(KEY_FILE));
            TokenKey::of_directory(&work.0)?;
            forget_sessions(&file)?;
            Key::Rotated
        }
        (true, false) => {
            TokenKey::of_directory(&work.0)?;
            Key::Restored
        }
        (false, false) => Key::Absent,
    };
    let to_place = |name: &str| {
        let (from, to) = (work.0.join(name), data.join(name));
        let moved = File::open(&from).and_then(|file| file.sync_all());
        moved.and_then(|()| fs::rename(&from, &to)).map_err(BackupError::at(&to))
    };
    if key != Key::Absent {
        to_place(KEY_FILE)?;
    }
    // Last: without it the directory holds no store.
    to_place(FILE)?;
    let synced = File::open(data).and_then(|directory| directory.sync_all());
    synced.map_err(BackupError::at(data))?;
    Ok(Restored { manifest, key, warnings })
}

/// Their tokens are worth nothing under another key.
fn forget_sessions(file: &Path) -> Result<()> {
    let conn = Connection::open(file)?;
    let has = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'sessions')";
    if conn.query_row(has, [], |row| row.get(0))? {
        conn.execute("DELETE FROM sessions", [])?;
    }
    Ok(())
}

/// What is wrong with the rows of a store that is whole.
fn warnings(file: &Path, schema: usize) -> Result<Vec<String>> {
    let conn = Connection::open(file)?;
    let count = |query: &str| Ok(conn.query_row(query, [], |row| row.get::<_, i64>(0))?);
    // Older ones lack what the queries name.
    let mut warnings = if schema == SCHEMA_VERSION { copy::derived(count)? } else { Vec::new() };
    let broken = count("SELECT count(*) FROM pragma_foreign_key_check")?;
    if broken > 0 {
        warnings.push(format!("{broken} rows refer to rows that are missing"));
    }
    Ok(warnings)
}

/// Whether this program can serve such a store.
fn known(manifest: &Manifest) -> Result<(), BackupError> {
    if usize::try_from(manifest.schema).is_ok_and(|schema| (1..=SCHEMA_VERSION).contains(&schema)) {
        return Ok(());
    }
    Err(BackupError::Refused(format!(
        "the backup has schema version {}, written by version {} of this program, and this one knows up to \
         {SCHEMA_VERSION}; use a newer one",
        manifest.schema, manifest.madang
    )))
}

/// The directory with what is unpacked; it goes with the value.
struct Unpacked(PathBuf);

impl Unpacked {
    fn begin(dir: PathBuf) -> Result<Self, BackupError> {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).map_err(BackupError::at(&dir))?;
        Ok(Self(dir))
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
