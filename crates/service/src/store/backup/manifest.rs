//! The manifest of a backup.

use super::chain::fill;
use super::pace::Pace;
use super::{BackupError, FILE, KEY_FILE};
use crate::hex;
use crate::store::private;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::Path;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const FULL: u32 = 1;
/// Format of an incremental backup, unknown to older programs.
const INCREMENTAL: u32 = 2;
/// Entry of an incremental backup instead of the store: blocks, each after its number.
pub(super) const CHANGES: &str = "madang.db.changes";
/// Bytes read at a time.
const CHUNK: usize = 128 << 10;

/// Description of a backup; the first entry of its archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the archive.
    pub format: u32,
    /// Version of the program that wrote it.
    pub madang: String,
    /// Time before which every acknowledged write is included (RFC 3339, UTC).
    pub created: String,
    /// Schema version of the store.
    pub schema: u32,
    /// Engine that it was taken from: `sqlite` or `mariadb`.
    pub engine: String,
    /// The earlier backup that it builds on; absent from a full backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// The entries after this one, in order.
    pub files: Vec<Entry>,
}

/// The backup that an incremental one builds on, and the store that both make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    /// File name of the earlier backup.
    pub backup: String,
    /// SHA-256 of the store in the earlier backup, in hexadecimal. Any backup with it can be used.
    pub sha256: String,
    /// The store of this backup.
    pub store: Entry,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name within the directory of the backup.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

impl Manifest {
    pub(super) fn of(
        dir: &Path,
        names: &[&str],
        created: OffsetDateTime,
        schema: usize,
        engine: &str,
    ) -> Result<Self, BackupError> {
        Ok(Self {
            format: FULL,
            madang: env!("CARGO_PKG_VERSION").to_owned(),
            created: created.format(&Rfc3339).unwrap_or_default(),
            schema: u32::try_from(schema).unwrap_or(u32::MAX),
            engine: engine.to_owned(),
            since: None,
            files: names.iter().map(|name| Entry::of(dir, name)).collect::<Result<_, _>>()?,
        })
    }

    /// Turns it into the manifest of an incremental backup, whose changes are in `dir`.
    pub(super) fn incremental(
        mut self,
        dir: &Path,
        backup: String,
        earlier: &Self,
    ) -> Result<Self, BackupError> {
        let store = std::mem::replace(&mut self.files[0], Entry::of(dir, CHANGES)?);
        self.format = INCREMENTAL;
        self.since = Some(Since { backup, sha256: earlier.store().sha256.clone(), store });
        Ok(self)
    }

    /// Reads a manifest, of a format that this program knows.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, BackupError> {
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let damaged = |error| BackupError::Damaged(format!("its manifest cannot be read: {error}"));
        let any: Any = serde_json::from_slice(text).map_err(damaged)?;
        if any.format != FULL && any.format != INCREMENTAL {
            return Err(BackupError::Refused(format!(
                "the backup has format {}, and this program reads formats {FULL} and {INCREMENTAL}; use the program \
                 that wrote it",
                any.format
            )));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(damaged)?;
        let first = match &manifest.since {
            None if any.format == FULL => FILE,
            // The earlier backup must lie in the same directory.
            Some(Since { backup, store, .. })
                if any.format == INCREMENTAL
                    && store.name == FILE
                    && Path::new(backup).file_name() == Some(OsStr::new(backup)) =>
            {
                CHANGES
            }
            _ => {
                let text = "its manifest contradicts itself about what it builds on";
                return Err(BackupError::Damaged(text.to_owned()));
            }
        };
        let names: Vec<&str> = manifest.files.iter().map(|file| &*file.name).collect();
        if names != [first] && names != [first, KEY_FILE] {
            return Err(BackupError::Damaged("its manifest names other files".to_owned()));
        }
        Ok(manifest)
    }

    /// The store in the archive, or that an incremental backup makes of the earlier one.
    #[must_use]
    pub fn store(&self) -> &Entry {
        self.since.as_ref().map_or(&self.files[0], |since| &since.store)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}

impl Entry {
    fn of(dir: &Path, name: &str) -> Result<Self, BackupError> {
        let path = dir.join(name);
        let summed = private::open(&path).and_then(|mut file| digest(&mut file));
        let (bytes, sha256) = summed.map_err(BackupError::at(&path))?;
        Ok(Self { name: name.to_owned(), bytes, sha256 })
    }
}

/// Reads to the end. Returns the length and the SHA-256 in hexadecimal.
fn digest(from: &mut impl Read) -> io::Result<(u64, String)> {
    let mut sum = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    let mut pace = Pace::new();
    loop {
        let read = fill(from, &mut chunk)?;
        if read == 0 {
            break;
        }
        sum.update(&chunk[..read]);
        bytes += read as u64;
        pace.step();
    }
    Ok((bytes, hex(&sum.finalize())))
}
