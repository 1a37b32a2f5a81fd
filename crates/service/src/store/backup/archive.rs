//! The archive: entries in a fixed order, written and read as a stream.

use super::chain::{Archives, Chain};
use super::manifest::{Entry, Manifest};
use super::pace::Pace;
use super::{BackupError, FILE};
use crate::store::private;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IntoInnerError, Read, Write};
use std::path::Path;
use tar::{Builder, EntryType, Header};

pub(super) const MANIFEST: &str = "manifest.json";
/// Bytes written at a time, after which progress is reported.
const BUFFER: usize = 1 << 20;
/// Bytes packed between two reports: about a millisecond of work.
const PACKED: usize = 128 << 10;
/// zstd's own default. A store of posts became a fifth of its size (docs/PERFORMANCE.md).
const LEVEL: i32 = 3;

/// Writes the manifest and its files. Returns the bytes written.
pub(super) fn write(
    dir: &Path,
    manifest: &Manifest,
    out: impl Write,
    mut watch: impl FnMut(u64, u64),
) -> io::Result<u64> {
    let mut packed = zstd::Encoder::new(Counted { inner: out, bytes: 0 }, LEVEL)?;
    packed.include_checksum(true)?;
    let mut tar = Builder::new(packed);
    let text = serde_json::to_vec_pretty(manifest)?;
    tar.append_data(&mut header(text.len() as u64), MANIFEST, &*text)?;
    let (mut done, all, mut pace) = (0, manifest.bytes(), Pace::new());
    let mut watch = |more: usize| {
        done += more as u64;
        watch(done, all);
        pace.step();
    };
    for Entry { name, bytes, .. } in &manifest.files {
        let inner = BufReader::with_capacity(PACKED, File::open(dir.join(name))?);
        tar.append_data(&mut header(*bytes), name, Watched { inner, watch: &mut watch })?;
    }
    let mut out = tar.into_inner()?.finish()?;
    out.flush()?;
    Ok(out.bytes)
}

fn header(bytes: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes);
    header
}

/// Unpacks a backup, with those it builds on, which lie in `beside`, into an empty directory and compares everything
/// with the manifests. `accept` may refuse before anything is written.
pub(crate) fn read(
    from: impl Read,
    beside: Option<&Path>,
    dir: &Path,
    accept: impl FnOnce(&Manifest) -> Result<(), BackupError>,
    mut watch: impl FnMut(u64, u64),
) -> Result<Manifest, BackupError> {
    let mut archives = Archives::default();
    let mut chain = Chain::open(&mut archives, None, from, beside)?;
    accept(chain.manifest())?;
    let all = chain.manifest().store().bytes;
    let path = dir.join(FILE);
    let mut file =
        BufWriter::with_capacity(BUFFER, private::open(&path).map_err(BackupError::at(&path))?);
    let (mut done, mut seen) = (0, 0);
    while let Some(block) = chain.next()? {
        file.write_all(block).map_err(BackupError::at(&path))?;
        done += block.len() as u64;
        if done - seen >= BUFFER as u64 {
            seen = done;
            watch(done, all);
        }
    }
    let written = file.into_inner().map_err(IntoInnerError::into_error);
    written.and_then(|file| file.sync_all()).map_err(BackupError::at(&path))?;
    let manifest = chain.finish(Some(dir))?;
    archives.finish()?;
    Ok(manifest)
}

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

/// A file that reports every chunk read from it.
struct Watched<F> {
    inner: BufReader<File>,
    watch: F,
}

impl<F: FnMut(usize)> Read for Watched<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.inner.buffer().is_empty() {
            (self.watch)(self.inner.fill_buf()?.len());
        }
        self.inner.read(into)
    }
}
