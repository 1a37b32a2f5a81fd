//! `madang copy`: moves an embedded store to MariaDB.

use crate::settings::{SettingsArgs, Usage};
use anyhow::Context as _;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use madang_service::config::{Origin, Settings};
use madang_service::store::copy::{self, Begun, Report, Step};
use madang_service::store::{DirLock, FILE};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `madang copy`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Copies every row with its id, then compares all rows of both sides. The data directory is not changed and
must not be served meanwhile. The database must be empty; a missing schema is created.

A copy that was interrupted continues where it stopped: run the same command again. Until it is complete,
no node starts on the database. A complete copy is not repeated.

Other users of the machine can see the arguments of a command: set MADANG_COPY_TO instead of --to if the
URL holds a password.

Examples:
  mariadb -e \"CREATE DATABASE madang\"
  madang copy --from madang-data --to mysql://root@127.0.0.1/madang
  MADANG_COPY_TO=mysql://madang:secret@db.example/madang madang copy --from /var/lib/madang")]
pub struct Args {
    /// Data directory to copy
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// MariaDB database to fill: mysql://USER:PASSWORD@HOST:PORT/DATABASE
    #[arg(long, value_name = "URL", env = "MADANG_COPY_TO", hide_env_values = true)]
    to: String,
    /// Configuration file of the server that ran on DIR [default: madang.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "MADANG_CONFIG")]
    config: Option<PathBuf>,
}

/// Copies, compares, and says how to serve the copy.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.to.starts_with("mysql://") {
        let text = "--to: expected mysql://USER:PASSWORD@HOST:PORT/DATABASE";
        return Err(Usage(text.to_owned()).into());
    }
    // Looked for first: the lock would make the directory.
    if !args.from.join(FILE).is_file() {
        let text = format!("--from {}: the directory holds no {FILE}", args.from.display());
        return Err(Usage(text).into());
    }
    let settings = settings(args)?;
    let _lock = DirLock::take(&settings.data_dir)?;
    let started = Instant::now();
    let said = match copy::begin(&settings, &args.to)? {
        Begun::Done => "the copy is complete already; nothing was changed\n".to_owned(),
        Begun::Copying(copying) => {
            let watch = Watch::default();
            let report = copying.run(|step| watch.step(step)).context(
                "the copy is not complete, and no node can use the database; what was copied is kept",
            )?;
            watch.bar.finish_and_clear();
            for warning in &report.warnings {
                let _ = writeln!(std::io::stderr(), "warning: {warning}");
            }
            told(&report, started.elapsed())
        }
    };
    // The work is done whether or not somebody reads of it.
    let _ = write!(std::io::stdout(), "{said}{}", next(&settings, &args.from));
    Ok(())
}

/// Those of the server that ran on the directory, with its file as the store.
fn settings(args: &Args) -> anyhow::Result<Settings> {
    let from = SettingsArgs {
        data: Some(args.from.clone()),
        config: args.config.clone(),
        set: Vec::new(),
    };
    let mut sources = from.sources()?;
    // The environment may name the new database already.
    sources.set("database.url", "", Origin::Flag("--from".to_owned()))?;
    Ok(sources.resolve()?)
}

/// The bar, drawn on stderr and only on a terminal.
struct Watch {
    bar: ProgressBar,
}

impl Default for Watch {
    fn default() -> Self {
        let bar = ProgressBar::new(0);
        bar.set_style(
            ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }
}

impl Watch {
    fn step(&self, step: Step<'_>) {
        let begin = |what: String, rows, at| {
            self.bar.set_length(rows);
            self.bar.set_position(at);
            self.bar.set_message(what);
        };
        match step {
            Step::Copy(table, rows, before) => begin(format!("copying {table}"), rows, before),
            Step::Compare(table, rows) => begin(format!("comparing {table}"), rows, 0),
            Step::Rows(rows) => self.bar.inc(rows),
        }
    }
}

fn told(report: &Report, took: Duration) -> String {
    let mut text = format!("{:<20} {:>12} {:>9} {:>9}\n", "table", "rows", "copied", "compared");
    let (mut rows, mut before) = (0, 0);
    for copied in &report.tables {
        rows += copied.rows;
        before += copied.before;
        let _ = writeln!(
            text,
            "{:<20} {:>12} {:>7.1} s {:>7.1} s",
            copied.table,
            HumanCount(copied.rows).to_string(),
            copied.copying.as_secs_f64(),
            copied.comparing.as_secs_f64()
        );
    }
    let _ = write!(
        text,
        "copied {} rows in {:.1} s; each was compared with the original",
        HumanCount(rows - before),
        took.as_secs_f64()
    );
    if before > 0 {
        let _ = write!(text, "; {} were there from an earlier run", HumanCount(before));
    }
    text + "\n"
}

/// What the nodes need, without any secret.
fn next(settings: &Settings, from: &Path) -> String {
    let key = if settings.accounts.token_key.is_some() {
        "the value that is configured now".to_owned()
    } else {
        format!("the text of {} (keep it secret)", from.join("token.key").display())
    };
    format!(
        "set on every node:\n  database.url        the URL given as --to\n  accounts.token_key  {key}\n"
    )
}
