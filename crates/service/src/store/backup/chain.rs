//! A backup and those it builds on, read side by side as one store.
//!
//! Every archive has its blocks in ascending order. So one pass over all of them assembles the store: each block is
//! that of the newest archive that has it. Nothing is unpacked to disk, and memory depends on the number of archives,
//! not on the size of the store. Each archive is compared with its own manifest on the way, so errors name the
//! damaged one.

use super::archive::MANIFEST;
use super::manifest::{Entry, Manifest};
use super::{BackupError, KEY_FILE};
use crate::hex;
use crate::store::private;
use sha2::{Digest as _, Sha256};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write as _};
use std::path::{Component, Path};
use tar::{Archive, Entries, EntryType};

/// Bytes of a block: a page of the store, because changed pages are seldom neighbours.
pub(super) const BLOCK: usize = 4096;
/// Most archives of a chain: a full backup and an incremental one for each further day of a month. Each takes about
/// 2.5 MB of memory while it is read.
pub(super) const LONGEST_CHAIN: usize = 32;
/// Longest manifest or key: about a hundred times the usual.
const LONGEST_TEXT: u64 = 64 << 10;
/// Bytes read at a time.
pub(super) const CHUNK: usize = 128 << 10;

type Unpacked<'r> = zstd::Decoder<'static, BufReader<Box<dyn Read + 'r>>>;

/// The archives of a chain, which [`Chain`] borrows.
#[derive(Default)]
pub(super) struct Archives<'r>([Slot<'r>; LONGEST_CHAIN]);

#[derive(Default)]
struct Slot<'r> {
    place: Option<String>,
    archive: Option<Archive<Unpacked<'r>>>,
}

impl Archives<'_> {
    /// Reads all to their ends, where zstd checks its checksum and detects truncation.
    pub(super) fn finish(self) -> Result<(), BackupError> {
        for Slot { place, archive } in self.0 {
            let Some(archive) = archive else { break };
            let rest = io::copy(&mut archive.into_inner(), &mut io::sink());
            rest.map_err(damaged).map_err(|error| error.about(place.as_deref()))?;
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives it by value")]
fn damaged(error: io::Error) -> BackupError {
    BackupError::Damaged(error.to_string())
}

fn unlike_manifest(entry: &Entry) -> BackupError {
    BackupError::Damaged(format!("{} is not what the manifest says", entry.name))
}

pub(super) struct Chain<'a, 'r> {
    /// The newest first.
    layers: Vec<Layer<'a, 'r>>,
    /// Number of the next block.
    at: u64,
    block: Vec<u8>,
    /// Hash of the store, if no archive has all of it.
    sum: Option<Sha256>,
}

impl<'a, 'r> Chain<'a, 'r> {
    /// Opens the backup that `from` reads, and those it builds on, which lie in `beside`. `place` names it in messages.
    pub(super) fn open(
        archives: &'a mut Archives<'r>,
        mut place: Option<String>,
        from: impl Read + 'r,
        beside: Option<&Path>,
    ) -> Result<Self, BackupError> {
        let mut layers: Vec<Layer<'a, 'r>> = Vec::new();
        let mut from: Box<dyn Read + 'r> = Box::new(from);
        for Slot { place: kept, archive } in &mut archives.0 {
            *kept = place;
            let here = kept.as_deref();
            let opened = Layer::open(archive, here, from);
            let layer = opened.map_err(|error| error.about(here))?;
            if let Some(since) = layers.last().and_then(|above| above.manifest.since.as_ref())
                && since.sha256 != layer.manifest.store().sha256
            {
                return Err(BackupError::Refused(format!(
                    "{} is another backup than the one that is needed, which has a store with the SHA-256 {}",
                    layer.place.unwrap_or_default(),
                    since.sha256
                )));
            }
            layers.push(layer);
            let above = layers.last().and_then(|layer| layer.manifest.since.as_ref());
            let Some(since) = above else {
                let sum = (layers.len() > 1).then(Sha256::new);
                return Ok(Self { layers, at: 0, block: vec![0; BLOCK], sum });
            };
            let name = &since.backup;
            let Some(beside) = beside else {
                return Err(BackupError::Refused(format!(
                    "the backup holds what changed since {name}: give it as a file, with {name} in the same directory"
                )));
            };
            let earlier = beside.join(name);
            place = Some(earlier.display().to_string());
            from = match File::open(&earlier) {
                Ok(file) => Box::new(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(BackupError::Refused(format!(
                        "{} is missing: the backup holds what changed since then",
                        earlier.display()
                    )));
                }
                Err(error) => return Err(BackupError::at(&earlier)(error)),
            };
        }
        Err(BackupError::Damaged(format!("more than {LONGEST_CHAIN} backups build on one another")))
    }

    /// Opens a backup that the next one builds on. Also returns its name.
    pub(super) fn earlier(
        archives: &'a mut Archives<'r>,
        file: &Path,
    ) -> Result<(String, Self), BackupError> {
        let shown = || file.display().to_string();
        // A link to the newest backup will point to another.
        let file = fs::canonicalize(file).map_err(BackupError::at(file))?;
        let name = file.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            BackupError::Refused(format!("{}: its name is not valid UTF-8", shown()))
        })?;
        let opened = File::open(&file).map_err(BackupError::io(shown()))?;
        let chain = Self::open(archives, Some(shown()), opened, file.parent())?;
        if chain.layers.len() == LONGEST_CHAIN {
            return Err(BackupError::Refused(format!(
                "{} builds on {} others, which is the most; take a full backup",
                shown(),
                LONGEST_CHAIN - 1
            )));
        }
        Ok((name.to_owned(), chain))
    }

    /// The manifest of the newest backup.
    pub(super) fn manifest(&self) -> &Manifest {
        &self.layers[0].manifest
    }

    /// The next block, which is shorter than [`BLOCK`] only at the end of the store.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, BackupError> {
        let store = self.layers[0].manifest.store();
        let length = length(store.bytes, self.at);
        if length == 0 {
            return Ok(None);
        }
        let mut found = 0;
        // The oldest first: newer ones overwrite its block.
        for layer in self.layers.iter_mut().rev() {
            let place = layer.place;
            let read = layer.block(self.at, &mut self.block);
            found = read.map_err(|error| error.about(place))?.unwrap_or(found);
        }
        if found != length {
            return Err(unlike_manifest(self.manifest().store()));
        }
        self.at += 1;
        let block = &self.block[..length];
        if let Some(sum) = &mut self.sum {
            sum.update(block);
        }
        Ok(Some(block))
    }

    /// Compares everything with the manifests, after the last block. Writes the newest token key into `keep`.
    pub(super) fn finish(self, keep: Option<&Path>) -> Result<Manifest, BackupError> {
        let manifest = self.manifest().clone();
        for (number, layer) in self.layers.into_iter().enumerate().rev() {
            let (place, keep) = (layer.place, keep.filter(|_| number == 0));
            layer.finish(keep).map_err(|error| error.about(place))?;
        }
        let store = manifest.store();
        if self.sum.is_some_and(|sum| hex(&sum.finalize()) != store.sha256) {
            return Err(unlike_manifest(store));
        }
        Ok(manifest)
    }
}

/// Bytes of block `at` of a store with this length; 0 after its last.
fn length(bytes: u64, at: u64) -> usize {
    let left = at.checked_mul(BLOCK as u64).and_then(|start| bytes.checked_sub(start));
    usize::try_from(left.unwrap_or(0)).map_or(BLOCK, |left| left.min(BLOCK))
}

struct Layer<'a, 'r> {
    place: Option<&'a str>,
    manifest: Manifest,
    entries: Entries<'a, Unpacked<'r>>,
    blocks: Summed<tar::Entry<'a, Unpacked<'r>>>,
    /// Number of its next block; [`u64::MAX`] means none.
    next: u64,
}

impl<'a, 'r> Layer<'a, 'r> {
    fn open(
        archive: &'a mut Option<Archive<Unpacked<'r>>>,
        place: Option<&'a str>,
        from: Box<dyn Read + 'r>,
    ) -> Result<Self, BackupError> {
        let archive = archive.insert(Archive::new(zstd::Decoder::new(from).map_err(damaged)?));
        let mut entries = archive.entries().map_err(damaged)?;
        let mut text = Vec::new();
        let manifest = next(&mut entries, MANIFEST)?;
        manifest.take(LONGEST_TEXT).read_to_end(&mut text).map_err(damaged)?;
        let manifest = Manifest::parse(&text)?;
        let Entry { name, bytes, .. } = &manifest.files[0];
        let blocks = Summed::new(next(&mut entries, name)?, *bytes);
        let mut layer = Self { place, manifest, entries, blocks, next: 0 };
        if layer.manifest.since.is_some() {
            layer.next = layer.number()?;
        }
        Ok(layer)
    }

    /// The number of the next block in an incremental backup.
    fn number(&mut self) -> Result<u64, BackupError> {
        let mut number = [0; 8];
        match self.blocks.fill(&mut number)? {
            0 => Ok(u64::MAX),
            8 if length(self.manifest.store().bytes, u64::from_le_bytes(number)) > 0 => {
                Ok(u64::from_le_bytes(number))
            }
            _ => Err(unlike_manifest(&self.manifest.files[0])),
        }
    }

    /// Reads a block if this archive has it. Returns its length.
    fn block(&mut self, at: u64, into: &mut [u8]) -> Result<Option<usize>, BackupError> {
        let length = length(self.manifest.store().bytes, at);
        if self.next != at || length == 0 {
            return Ok(None);
        }
        if self.blocks.fill(&mut into[..length])? != length {
            return Err(unlike_manifest(&self.manifest.files[0]));
        }
        self.next = if self.manifest.since.is_some() { self.number()? } else { at + 1 };
        if self.next <= at {
            return Err(unlike_manifest(&self.manifest.files[0]));
        }
        Ok(Some(length))
    }

    /// Compares all of it with its manifest.
    fn finish(mut self, keep: Option<&Path>) -> Result<(), BackupError> {
        let [first, rest @ ..] = &*self.manifest.files else { return Ok(()) };
        if self.blocks.finish()? != (first.bytes, first.sha256.clone()) {
            return Err(unlike_manifest(first));
        }
        for entry in rest {
            let mut text = Vec::new();
            let found = next(&mut self.entries, &entry.name)?;
            found.take(LONGEST_TEXT).read_to_end(&mut text).map_err(damaged)?;
            let found = (text.len() as u64, hex(&Sha256::digest(&text)));
            if found != (entry.bytes, entry.sha256.clone()) {
                return Err(unlike_manifest(entry));
            }
            if let Some(dir) = keep {
                let path = dir.join(KEY_FILE);
                let written = private::open(&path).and_then(|mut file| file.write_all(&text));
                written.map_err(BackupError::at(&path))?;
            }
        }
        if self.entries.next().is_some() {
            return Err(BackupError::Damaged("something follows its last file".to_owned()));
        }
        Ok(())
    }
}

/// The next entry, which must have this name.
fn next<'a, R: Read>(
    entries: &mut Entries<'a, R>,
    wanted: &str,
) -> Result<tar::Entry<'a, R>, BackupError> {
    let entry = entries
        .next()
        .transpose()
        .map_err(|error| BackupError::Damaged(format!("{wanted} cannot be read: {error}")))?;
    let found = entry.filter(|entry| {
        let is_named = entry
            .path()
            .is_ok_and(|path| path.components().eq([Component::Normal(wanted.as_ref())]));
        is_named && entry.header().entry_type() == EntryType::Regular
    });
    found.ok_or_else(|| BackupError::Damaged(format!("{wanted} is missing")))
}

/// Content of an entry, with the hash of the bytes read.
struct Summed<R> {
    from: BufReader<io::Take<R>>,
    sum: Sha256,
    bytes: u64,
}

impl<R: Read> Summed<R> {
    fn new(from: R, bytes: u64) -> Self {
        // One byte more detects an entry that is too long.
        let from = BufReader::with_capacity(CHUNK, from.take(bytes.saturating_add(1)));
        Self { from, sum: Sha256::new(), bytes: 0 }
    }

    /// Reads until `into` is full, or to the end. Returns the bytes read.
    fn fill(&mut self, into: &mut [u8]) -> Result<usize, BackupError> {
        let read = fill(&mut self.from, into).map_err(damaged)?;
        self.sum.update(&into[..read]);
        self.bytes += read as u64;
        Ok(read)
    }

    /// Reads the rest. Returns the length and the hash of all.
    fn finish(mut self) -> Result<(u64, String), BackupError> {
        let mut chunk = vec![0; CHUNK];
        while self.fill(&mut chunk)? > 0 {}
        Ok((self.bytes, hex(&self.sum.finalize())))
    }
}

/// Reads until `into` is full, or to the end. Returns the bytes read.
pub(super) fn fill(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match from.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The name of the backup that this one builds on, if it is incremental.
///
/// # Errors
/// The file is not a backup, or has an unknown format.
pub fn builds_on(file: &Path) -> Result<Option<String>, BackupError> {
    let from = Box::new(File::open(file).map_err(BackupError::at(file))?);
    let (place, mut archive) = (file.display().to_string(), None);
    let layer = Layer::open(&mut archive, None, from).map_err(|error| error.about(Some(&place)))?;
    Ok(layer.manifest.since.map(|since| since.backup))
}
