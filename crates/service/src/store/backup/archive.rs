//! The archive: entries in a fixed order, written and read as a stream.

use super::manifest::{Entry, Manifest, digest};
use super::{BackupError, FILE, KEY_FILE};
use crate::store::private;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path};
use tar::{Archive, Builder, EntryType, Header};

/// Name of the first entry.
const MANIFEST: &str = "manifest.json";
/// Longest manifest that is read: some hundred times the usual.
const LONGEST_MANIFEST: u64 = 64 << 10;
/// zstd's own default. A store of posts became a fifth of its size (docs/PERFORMANCE.md).
const LEVEL: i32 = 3;

/// Writes the manifest and its files; answers the bytes written.
pub(super) fn write(
    dir: &Path,
    manifest: &Manifest,
    out: impl Write,
    watch: impl FnMut(u64, u64),
) -> io::Result<u64> {
    let mut packed = zstd::Encoder::new(Counted { inner: out, bytes: 0 }, LEVEL)?;
    packed.include_checksum(true)?;
    let mut tar = Builder::new(packed);
    let text = serde_json::to_vec_pretty(manifest)?;
    tar.append_data(&mut header(text.len() as u64), MANIFEST, &*text)?;
    let mut watched = Watched { done: 0, all: manifest.bytes(), watch };
    for Entry { name, bytes, .. } in &manifest.files {
        let file = watched.over(File::open(dir.join(name))?);
        tar.append_data(&mut header(*bytes), name, file)?;
    }
    let mut out = tar.into_inner()?.finish()?;
    out.flush()?;
    Ok(out.bytes)
}

/// For the owner alone, as the files it was made of.
fn header(bytes: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes);
    header
}

/// Unpacks the archive into an empty directory and compares every file with the manifest. `accept` is asked before
/// anything is written.
pub(crate) fn read(
    from: impl Read,
    dir: &Path,
    accept: impl FnOnce(&Manifest) -> Result<(), BackupError>,
    watch: impl FnMut(u64, u64),
) -> Result<Manifest, BackupError> {
    let damaged = |error: io::Error| BackupError::Damaged(error.to_string());
    let mut archive = Archive::new(zstd::Decoder::new(from).map_err(damaged)?);
    let mut entries = archive.entries().map_err(damaged)?;
    let mut next = |wanted: &str| {
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
    };
    let mut text = Vec::new();
    let manifest = next(MANIFEST)?;
    manifest.take(LONGEST_MANIFEST).read_to_end(&mut text).map_err(damaged)?;
    let manifest = Manifest::parse(&text)?;
    let names: Vec<&str> = manifest.files.iter().map(|file| &*file.name).collect();
    if names != [FILE] && names != [FILE, KEY_FILE] {
        return Err(BackupError::Damaged("its manifest names other files".to_owned()));
    }
    accept(&manifest)?;
    let mut watched = Watched { done: 0, all: manifest.bytes(), watch };
    for Entry { name, bytes, sha256 } in &manifest.files {
        let entry = next(name)?;
        let path = dir.join(name);
        let cannot_write = |error| BackupError::io(path.display().to_string())(error);
        let mut file = private::open(&path).map_err(cannot_write)?;
        // One byte more than there should be shows that there are more.
        let mut entry = watched.over(entry.take(bytes.saturating_add(1)));
        let mut writing = Ok(());
        let summed = digest(&mut entry, &mut Kept { file: &mut file, failed: &mut writing });
        writing.map_err(cannot_write)?;
        let (found, sum) = summed.map_err(damaged)?;
        if (found, &sum) != (*bytes, sha256) {
            return Err(BackupError::Damaged(format!("{name} is not what the manifest says")));
        }
        file.sync_all().map_err(cannot_write)?;
    }
    if entries.next().is_some() {
        return Err(BackupError::Damaged("something follows its last file".to_owned()));
    }
    // To the end: only there are the checksum of zstd and a missing tail seen.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(damaged)?;
    Ok(manifest)
}

/// Writes to a file and tells its errors from those of what is read.
struct Kept<'f> {
    file: &'f mut File,
    failed: &'f mut io::Result<()>,
}

impl Write for Kept<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::Interrupted {
                *self.failed = Err(error);
            }
            kind.into()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Counts what is written.
struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Progress over all files.
struct Watched<F> {
    done: u64,
    all: u64,
    watch: F,
}

impl<F: FnMut(u64, u64)> Watched<F> {
    fn over<R: Read>(&mut self, inner: R) -> impl Read {
        WatchedRead { inner, over: self }
    }
}

struct WatchedRead<'w, R, F> {
    inner: R,
    over: &'w mut Watched<F>,
}

impl<R: Read, F: FnMut(u64, u64)> Read for WatchedRead<'_, R, F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.over.done += read as u64;
        (self.over.watch)(self.over.done, self.over.all);
        Ok(read)
    }
}
