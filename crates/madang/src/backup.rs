//! `madang backup`: writes the whole store into one file, while it is served.

use crate::settings::{SettingsArgs, usage};
use crate::terminal::bar;
use anyhow::Context as _;
use indicatif::{HumanBytes, ProgressBar};
use madang_service::store::backup::{self, BackupError, Progress, Synced, Taken};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use time::OffsetDateTime;

/// Name of a backup in a directory: `madang-20261127T184500Z.tar.zst`.
const PREFIX: &str = "madang-";
const SUFFIX: &str = "Z.tar.zst";
/// Lowest priority, for checking and packing. Copying has another, because the write-ahead log grows meanwhile.
const NICE: i32 = 19;

/// Arguments of `madang backup`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The server may be running: the backup is of one moment and holds every write acknowledged before
the command began. Its store is checked before it is packed. A backup is a tar archive,
compressed with zstd, with the store as one SQLite file, the key that signs tokens (if it lies
in the data directory), and a manifest with SHA-256 sums. Keep it secret: it holds hashes of
passwords, and the key.

--to DIR    a new file in an existing directory, named by the time (UTC)
--to FILE   a new file
--to -      standard output

--since EARLIER writes only the blocks that changed since EARLIER, a full or incremental backup.
`madang restore` then needs EARLIER, and what it builds on, in the same directory. --keep never
removes what a kept backup builds on. Up to 31 incremental backups can follow a full one. Not
with database.url, where the server's binary log does this.

The store is copied into a hidden directory beside the backup first (for standard output: in the
data directory), so there must be room for both (with --since, for the copy and what changed).

With database.url set, the database is copied from MariaDB and compared row by row. With
likes.write = stream, likes that are not in the tables yet are not in the backup.
accounts.token_key is not in it either: keep that setting yourself.

Examples:
  madang backup --to /var/backups/madang --keep 14
  madang backup --to backups --since backups/madang-20261127T184500Z.tar.zst
  madang backup --data /var/lib/madang --to - | ssh elsewhere 'cat > madang.tar.zst'
  madang restore --from /var/backups/madang/madang-20261127T184500Z.tar.zst --data new-data")]
pub(crate) struct Args {
    /// Existing directory, new file, or - for standard output
    #[arg(long, value_name = "DIR|FILE|-")]
    to: PathBuf,
    /// Write only what changed since this earlier backup
    #[arg(long, value_name = "EARLIER")]
    since: Option<PathBuf>,
    /// Keep this many backups in the directory, and what they build on; remove older ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Destination of the archive.
enum Target<'a> {
    Output,
    File(PathBuf),
    Directory(&'a Path),
}

impl Target<'_> {
    fn parse(to: &Path) -> anyhow::Result<Target<'_>> {
        if to == Path::new("-") {
            if std::io::stdout().is_terminal() {
                return Err(usage(
                    "--to -: standard output is a terminal; redirect it into a file or a program",
                ));
            }
            return Ok(Target::Output);
        }
        if to.is_dir() {
            return Ok(Target::Directory(to));
        }
        let (file, dir) = (to.display(), parent(to));
        if to.exists() {
            let text = format!("--to {file}: exists already; name a new file or a directory");
            return Err(usage(text));
        }
        if !dir.is_dir() {
            return Err(usage(format!("--to {file}: there is no directory {}", dir.display())));
        }
        Ok(Target::File(to.to_owned()))
    }
}

pub(crate) fn parent(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let settings = args.settings.resolve()?;
    let target = Target::parse(&args.to)?;
    if args.keep.is_some() && !matches!(target, Target::Directory(_)) {
        return Err(usage("--keep: --to must be a directory"));
    }
    let beside = match &target {
        Target::Output => &settings.data_dir,
        Target::File(file) => parent(file),
        Target::Directory(dir) => dir,
    };
    let began = Instant::now();
    let watch = Watch::default();
    let taken = backup::take(&settings, beside, args.since.as_deref(), |progress| {
        if progress == Progress::Checking {
            // Without permission the backup only competes with the server.
            let _ = rustix::process::nice(NICE);
        }
        watch.show(progress);
    })?;
    let file = match target {
        Target::Output => None,
        Target::File(file) => Some(file),
        Target::Directory(dir) => Some(free(dir)),
    };
    let (place, bytes) = match &file {
        Some(file) => (file.display().to_string(), pack(&taken, file, &watch)?),
        None => {
            let mut out = std::io::stdout().lock();
            let bytes = taken.pack(BufWriter::with_capacity(1 << 20, &mut out), |progress| {
                watch.show(progress);
            })?;
            // As text: a reader that closed the pipe has no whole backup, so it must not count as success.
            out.flush().map_err(|error| anyhow::anyhow!("standard output: {error}"))?;
            ("standard output".to_owned(), bytes)
        }
    };
    watch.finish();
    let manifest = &taken.manifest;
    let content = match &manifest.since {
        Some(since) => format!("changed of {}", HumanBytes(since.store.bytes)),
        None => "of data".to_owned(),
    };
    let mut summary = format!(
        "{place}: {} {content} in {}, as of {}, in {:.1} s\n",
        HumanBytes(manifest.bytes()),
        HumanBytes(bytes),
        manifest.created,
        began.elapsed().as_secs_f64()
    );
    if let Some(since) = &manifest.since {
        summary += &format!("it builds on {}: keep both in one directory\n", since.backup);
    }
    if settings.accounts.token_key.is_some() {
        summary += "the setting accounts.token_key is not in it: keep it as well\n";
    }
    drop(taken);
    // The backup is complete even if this note fails.
    if let Err(error) = backup::note_success(&settings.data_dir) {
        summary += &format!("warning: the server's metrics will not know of it: {error}\n");
    }
    if let Some(keep) = args.keep {
        for old in surplus(&args.to, keep as usize)? {
            std::fs::remove_file(&old).with_context(|| old.display().to_string())?;
            summary += &format!("removed {}\n", old.display());
        }
    }
    // The backup is complete even if nobody reads this.
    let _ = match file {
        Some(_) => std::io::stdout().write_all(summary.as_bytes()),
        None => std::io::stderr().write_all(summary.as_bytes()),
    };
    Ok(())
}

/// Name of a new file. There is one for each second; another backup may have taken it.
fn free(dir: &Path) -> PathBuf {
    let mut at = OffsetDateTime::now_utc();
    loop {
        let file = dir.join(name(at));
        if !file.exists() {
            return file;
        }
        at += Duration::from_secs(1);
    }
}

fn name(at: OffsetDateTime) -> String {
    let (date, [hour, minute, second]) = (at.date(), [at.hour(), at.minute(), at.second()]);
    let date = format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day());
    format!("{PREFIX}{date}T{hour:02}{minute:02}{second:02}{SUFFIX}")
}

/// Writes a new file, which receives its name once it is complete and synced.
fn pack(taken: &Taken, file: &Path, watch: &Watch) -> anyhow::Result<u64> {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(".part");
    let part = file.with_file_name(name);
    let written = (|| {
        let shown = || part.display().to_string();
        let mut options = OpenOptions::new();
        let made = options.write(true).create(true).truncate(true).mode(0o600).open(&part);
        let made = made.with_context(shown)?;
        // A single sync at the end would delay the server's commits.
        let out = BufWriter::with_capacity(1 << 20, Synced::new(&made));
        let bytes = taken.pack(out, |progress| watch.show(progress))?;
        made.sync_all().with_context(shown)?;
        // Unlike a rename, a link replaces nothing.
        std::fs::hard_link(&part, file)
            .or_else(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => Err(error),
                // A file system without hard links.
                _ => std::fs::rename(&part, file),
            })
            .with_context(|| file.display().to_string())?;
        let _ = std::fs::remove_file(&part);
        File::open(parent(file)).and_then(|dir| dir.sync_all()).with_context(shown)?;
        Ok(bytes)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// Backups in a directory except the newest `keep` and those that they build on, oldest first.
fn surplus(dir: &Path, keep: usize) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_backup) {
            found.push(entry.path());
        }
    }
    found.sort();
    let mut kept = found.split_off(found.len().saturating_sub(keep));
    while let Some(file) = kept.pop() {
        let earlier = match backup::builds_on(&file) {
            Ok(earlier) => earlier,
            // It cannot be restored, so it needs no other.
            Err(BackupError::Damaged(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let earlier = earlier.map(|name| dir.join(name));
        if let Some(at) = found.iter().position(|file| Some(file) == earlier.as_ref()) {
            kept.push(found.remove(at));
        }
    }
    Ok(found)
}

fn is_backup(name: &str) -> bool {
    let time = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    time.is_some_and(|time| {
        time.len() == 15
            && time.bytes().enumerate().all(|(at, byte)| match at {
                8 => byte == b'T',
                _ => byte.is_ascii_digit(),
            })
    })
}

/// Progress of a backup or restore.
pub(crate) struct Watch(ProgressBar);

impl Default for Watch {
    fn default() -> Self {
        Self(bar(0, "{bytes}/{total_bytes}"))
    }
}

impl Watch {
    pub(crate) fn show(&self, progress: Progress) {
        let (what, done, all) = match progress {
            Progress::Copying(done, 0) => {
                return self.0.set_message(format!("copying: {done} rows"));
            }
            Progress::Copying(done, all) => ("copying the store", done, all),
            Progress::Checking => return self.0.set_message("checking it"),
            Progress::Packing(done, all) => ("packing", done, all),
        };
        self.0.set_length(all);
        self.0.set_position(done);
        self.0.set_message(what);
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_command_named_is_removed_and_the_newest_stay() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "madang-20261127T184500Z.tar.zst",
            "madang-20261126T184500Z.tar.zst",
            "madang-20251231T235959Z.tar.zst",
            "madang-2026112XT184500Z.tar.zst",
            "madang-before-the-move.tar.zst",
            "madang.db",
        ];
        for name in names {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let old = |keep| surplus(dir.path(), keep).unwrap();
        assert_eq!(old(1), [dir.path().join(names[2]), dir.path().join(names[1])]);
        assert_eq!(old(3), [] as [PathBuf; 0]);
        assert!(is_backup(&name(OffsetDateTime::now_utc())));
        let next = free(dir.path());
        std::fs::write(&next, "").unwrap();
        assert!(free(dir.path()) > next);
    }
}
