//! Restores a backup into a data directory.

use super::{BackupError, FILE, KEY_FILE, Manifest, Progress, archive, snapshot};
use crate::accounts::TokenKey;
use crate::store::sqlite::SCHEMA_VERSION;
use crate::store::{DirLock, Result, copy, private};
use rusqlite::Connection;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

const WORK: &str = "restoring";

/// A restored store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Manifest of the backup.
    pub manifest: Manifest,
    /// Outcome for the key that signs tokens.
    pub key: Key,
    /// Faults of the store that the backup already had.
    pub warnings: Vec<String>,
}

/// Outcome for the key that signs tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The key of the backup was restored.
    Restored,
    /// A new one was made.
    Rotated,
    /// The backup has none: the key is in the setting `accounts.token_key`.
    Absent,
}

/// Files that the directory may not hold.
const OCCUPIED: [&str; 4] = ["madang.db", "madang.db-wal", "madang.db-shm", KEY_FILE];

/// Restores the backup that `from` reads into `data`, which must hold no store. The backups that an incremental one
/// builds on lie in `beside`. Everything is checked first; the store appears in one step at the end. With `rotate`, a
/// new key signs tokens.
///
/// # Errors
/// The backup is damaged, incomplete, or newer than this program, or the directory cannot be used. It then holds no
/// store.
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
    let schema = snapshot::check(&file, "integrity_check", None)?;
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
        let to = data.join(name);
        private::place(&work.0.join(name), &to).map_err(BackupError::at(&to))
    };
    if key != Key::Absent {
        to_place(KEY_FILE)?;
    }
    // Last: without it the directory holds no store.
    to_place(FILE)?;
    Ok(Restored { manifest, key, warnings })
}

/// Deletes all sessions, whose tokens are invalid under another key.
fn forget_sessions(file: &Path) -> Result<()> {
    let conn = Connection::open(file)?;
    let has = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'sessions')";
    if conn.query_row(has, [], |row| row.get(0))? {
        conn.execute("DELETE FROM sessions", [])?;
    }
    Ok(())
}

/// Faults in the rows of an undamaged store.
fn warnings(file: &Path, schema: usize) -> Result<Vec<String>> {
    let conn = Connection::open(file)?;
    let count = |query: &str| Ok(conn.query_row(query, [], |row| row.get::<_, i64>(0))?);
    // Older schemas lack tables of the queries.
    let mut warnings = if schema == SCHEMA_VERSION { copy::derived(count)? } else { Vec::new() };
    let broken = count("SELECT count(*) FROM pragma_foreign_key_check")?;
    if broken > 0 {
        warnings.push(format!("{broken} rows refer to rows that are missing"));
    }
    Ok(warnings)
}

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

/// The work directory; deleted on drop.
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
