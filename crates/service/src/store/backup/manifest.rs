//! What a backup says of itself.

use super::BackupError;
use crate::store::private;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Format that this program writes and reads.
const FORMAT: u32 = 1;
/// Bytes read at a time.
const CHUNK: usize = 128 << 10;

/// Description of a backup; the first entry of its archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the archive.
    pub format: u32,
    /// Version of the program that wrote it.
    pub madang: String,
    /// Moment before which every acknowledged write is in it (RFC 3339, UTC).
    pub created: String,
    /// Schema version of the store.
    pub schema: u32,
    /// Engine that it was taken from: `sqlite` or `mariadb`.
    pub engine: String,
    /// The entries after this one, in order.
    pub files: Vec<Entry>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
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
        let entry = |name: &&str| {
            let path = dir.join(name);
            let file = private::open(&path);
            let summed = file.and_then(|mut file| digest(&mut file, &mut io::sink()));
            let (bytes, sha256) = summed.map_err(BackupError::io(path.display().to_string()))?;
            Ok(Entry { name: (*name).to_owned(), bytes, sha256 })
        };
        Ok(Self {
            format: FORMAT,
            madang: env!("CARGO_PKG_VERSION").to_owned(),
            created: created.format(&Rfc3339).unwrap_or_default(),
            schema: u32::try_from(schema).unwrap_or(u32::MAX),
            engine: engine.to_owned(),
            files: names.iter().map(entry).collect::<Result<_, BackupError>>()?,
        })
    }

    /// Reads a manifest, of a format that this program knows.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, BackupError> {
        /// What manifests of all formats have.
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let damaged = |error| BackupError::Damaged(format!("its manifest cannot be read: {error}"));
        let any: Any = serde_json::from_slice(text).map_err(damaged)?;
        if any.format != FORMAT {
            return Err(BackupError::Refused(format!(
                "the backup has format {}, and this program reads format {FORMAT}; use the program that wrote it",
                any.format
            )));
        }
        serde_json::from_slice(text).map_err(damaged)
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}

/// Copies all that can be read; answers its length and SHA-256 in hexadecimal.
pub(super) fn digest(from: &mut impl Read, to: &mut impl io::Write) -> io::Result<(u64, String)> {
    let mut sum = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut bytes = 0;
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        sum.update(&chunk[..read]);
        to.write_all(&chunk[..read])?;
        bytes += read as u64;
    }
    let hex = sum.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    Ok((bytes, hex))
}
