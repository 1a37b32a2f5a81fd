//! `madang copy`: copies an embedded store to MariaDB, or back.

use crate::settings::{SettingsArgs, usage};
use crate::terminal::bar;
use anyhow::Context as _;
use indicatif::{HumanCount, ProgressBar};
use madang_service::config::{Key, Origin, Settings};
use madang_service::store::copy::{self, Progress, Report};
use madang_service::store::{DirLock, FILE};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Arguments of `madang copy`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
One of --from and --to is a data directory, the other a MariaDB database:
mysql://USER:PASSWORD@HOST:PORT/DATABASE. Copies every row with its id, then compares all rows
of both sides. What is copied from is not changed.

To MariaDB: the directory must not be served meanwhile. The database must be empty; a missing
schema is created. A copy that was interrupted continues where it stopped: run the same command
again. Until it is complete, no node starts on the database. A complete copy is not repeated.

From MariaDB: the directory must hold no store. The copy is of one moment; nodes may be running,
and what they write afterwards is not in it. With likes.write = stream stop them in order first:
likes that are not in the tables yet are not copied. A copy that was interrupted begins again.

Other users of the machine can see the arguments of a command: set MADANG_COPY_FROM or
MADANG_COPY_TO instead if the URL holds a password.

Examples:
  mariadb -e \"CREATE DATABASE madang\"
  madang copy --from madang-data --to mysql://root@127.0.0.1/madang
  MADANG_COPY_TO=mysql://madang:secret@db.example/madang madang copy --from /var/lib/madang
  madang copy --from mysql://root@127.0.0.1/madang --to madang-data")]
pub(crate) struct Args {
    /// Data directory or database to copy
    #[arg(long, value_name = "DIR|URL", env = "MADANG_COPY_FROM", hide_env_values = true)]
    from: String,
    /// Database or data directory to fill
    #[arg(long, value_name = "URL|DIR", env = "MADANG_COPY_TO", hide_env_values = true)]
    to: String,
    /// Configuration file of the server that runs on the directory [default: madang.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "MADANG_CONFIG")]
    config: Option<PathBuf>,
}

fn is_url(text: &str) -> bool {
    text.starts_with("mysql://")
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match (is_url(&args.from), is_url(&args.to)) {
        (false, true) => to_server(args),
        (true, false) => from_server(args),
        (false, false) => Err(usage("--to: expected mysql://USER:PASSWORD@HOST:PORT/DATABASE")),
        (true, true) => Err(usage(
            "--to: a database is copied into a data directory; databases are copied with mariadb-dump",
        )),
    }
}

fn to_server(args: &Args) -> anyhow::Result<()> {
    let from = Path::new(&args.from);
    // Checked first, because the lock would create the directory.
    if !from.join(FILE).is_file() {
        return Err(usage(format!("--from {}: the directory holds no {FILE}", from.display())));
    }
    let settings = settings(args.config.clone(), from)?;
    let _lock = DirLock::take(&settings.data_dir)?;
    let started = Instant::now();
    let summary = match copy::begin(&settings, &args.to)? {
        None => "the copy is complete already; nothing was changed\n".to_owned(),
        Some(copying) => {
            let watch = Watch(bar(0, "{human_pos}/{human_len}"));
            let report = copying.run(|progress| watch.show(progress)).context(
                "the copy is not complete, and no node can use the database; what was copied is kept",
            )?;
            watch.finish(&report);
            table(&report, started.elapsed())
        }
    };
    // The copy is complete even if nobody reads this.
    let _ = write!(std::io::stdout(), "{summary}{}", next(&settings, from));
    Ok(())
}

fn from_server(args: &Args) -> anyhow::Result<()> {
    let to = Path::new(&args.to);
    let settings = settings(args.config.clone(), to)?;
    let _lock = DirLock::take(&settings.data_dir)?;
    let started = Instant::now();
    let watch = Watch(bar(0, "{human_pos}/{human_len}"));
    let report = copy::back(&settings, &args.from, |progress| watch.show(progress))?;
    watch.finish(&report);
    let next = format!(
        "serve it with the accounts.token_key of the nodes, or everybody has to log in again:\n  \
         MADANG_ACCOUNTS_TOKEN_KEY=… madang serve --data {}\n",
        to.display()
    );
    let _ = write!(std::io::stdout(), "{}{next}", table(&report, started.elapsed()));
    Ok(())
}

/// Settings of the server that ran on the directory, with its file as the store.
pub(crate) fn settings(config: Option<PathBuf>, directory: &Path) -> anyhow::Result<Settings> {
    let from = SettingsArgs { data: Some(directory.to_owned()), config, set: Vec::new() };
    let mut sources = from.sources()?;
    // The environment may set the database.
    for key in ["database.url", "database.replicas", "cache.mode", "likes.write"] {
        let value = Key::find(key).map_or("", |key| key.default);
        sources.set(key, value, Origin::Flag("copy".to_owned()))?;
    }
    Ok(sources.resolve()?)
}

struct Watch(ProgressBar);

impl Watch {
    fn finish(&self, report: &Report) {
        self.0.finish_and_clear();
        for warning in &report.warnings {
            crate::terminal::message(format_args!("warning: {warning}"));
        }
    }

    fn show(&self, progress: Progress<'_>) {
        let begin = |what: String, rows, at| {
            self.0.set_length(rows);
            self.0.set_position(at);
            self.0.set_message(what);
        };
        match progress {
            Progress::Copy(table, rows, before) => begin(format!("copying {table}"), rows, before),
            Progress::Compare(table, rows) => begin(format!("comparing {table}"), rows, 0),
            Progress::Rows(rows) => self.0.inc(rows),
        }
    }
}

fn table(report: &Report, took: Duration) -> String {
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

/// Next steps: settings of the nodes, without secrets.
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
