//! `madang restore`: creates a data directory from a backup.

use crate::backup::Watch;
use anyhow::Context as _;
use indicatif::HumanBytes;
use madang_service::store::backup::{self, Key};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Arguments of `madang restore`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The directory must hold no store; it is made if it is missing. All of the backup is read,
compared with the sums in its manifest and checked before the store appears in the directory.
One that is damaged, cut off, or newer than this program is refused. An older one is brought up
to date when it is served.

An incremental backup (`madang backup --since`) is given like a full one: --from names the
newest file that is wanted, and those that it builds on must be in the same directory, under
their names.

Tokens that were revoked after the backup was taken (by logging out, or by deleting an account)
are valid again in the restored store until they expire. --rotate-key ends all tokens: everybody
has to log in again.

To put a backup into MariaDB, restore it and use `madang copy`.

Examples:
  madang restore --from /var/backups/madang/madang-20261127T184500Z.tar.zst --data madang-data
  ssh elsewhere 'cat madang.tar.zst' | madang restore --from - --data madang-data --rotate-key")]
pub(crate) struct Args {
    /// Backup, or - for standard input
    #[arg(long, value_name = "FILE|-")]
    from: PathBuf,
    /// Data directory to fill
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Make a new key for tokens: everybody has to log in again
    #[arg(long)]
    rotate_key: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (from, beside): (Box<dyn Read>, _) = if args.from == Path::new("-") {
        (Box::new(std::io::stdin().lock()), None)
    } else {
        let shown = || format!("--from {}", args.from.display());
        // Earlier backups are beside the file itself, not beside a link to it.
        let file = args.from.canonicalize().with_context(shown)?;
        (Box::new(File::open(&file).with_context(shown)?), file.parent().map(Path::to_owned))
    };
    let began = Instant::now();
    let watch = Watch::default();
    let restored =
        backup::restore(from, beside.as_deref(), &args.data, args.rotate_key, |progress| {
            watch.show(progress);
        })?;
    watch.finish();
    let (manifest, data) = (&restored.manifest, args.data.display());
    let mut summary = format!(
        "{data}: {} of data as of {}, in {:.1} s; every sum is that of the manifest\n",
        HumanBytes(manifest.store().bytes),
        manifest.created,
        began.elapsed().as_secs_f64()
    );
    summary += match restored.key {
        Key::Restored => {
            "tokens revoked since then are valid again until they expire; with --rotate-key none would be\n"
        }
        Key::Rotated => "the key of tokens is new: everybody has to log in again\n",
        Key::Absent => {
            "the backup has no key of tokens: set accounts.token_key as it was, or everybody has to log in again\n"
        }
    };
    let _ = writeln!(summary, "serve it:\n  madang serve --data {data}");
    for warning in &restored.warnings {
        crate::terminal::message(format_args!("warning: {warning}"));
    }
    // The restore is complete even if nobody reads this.
    let _ = std::io::stdout().write_all(summary.as_bytes());
    Ok(())
}
