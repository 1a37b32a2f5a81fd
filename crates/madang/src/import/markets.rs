//! `madang import markets FILE…`: public data of Korea about traditional markets.
//!
//! Three kinds of files are recognised by their content: the standard data as CSV (전국전통시장표준데이터, CP949 or UTF-8),
//! the same as JSON, and facilities (소상공인시장진흥공단_전통시장현황), which are joined to existing markets.

mod cell;
mod facilities;
#[cfg(test)]
mod fuzzing;
mod json;
mod report;
mod row;
mod table;

use super::{PROGRESS, read_file};
use crate::exit::Partly;
use crate::settings::SettingsArgs;
use crate::terminal::bar;
use anyhow::Context as _;
use madang_service::app::App;
use madang_service::markets::{Markets, Prepared};
use madang_service::store::DirLock;
use report::Report;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Write as _;
use std::path::PathBuf;
use tokio::runtime::Runtime;

/// Maximum size of a file, which is read whole: thirty times the largest known.
const LARGEST_FILE: u64 = 64 << 20;
/// Markets of one transaction.
const ROWS_AT_ONCE: usize = 500;

/// Arguments of `madang import markets`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The kind of a file is detected from its content:
  - the standard data (전국전통시장표준데이터) as CSV in CP949 or UTF-8, or as JSON;
  - facilities (소상공인시장진흥공단_전통시장현황) as CSV: added to the markets already stored.
A market is identified by its name and municipality. An existing one is updated and keeps its
id: newer data replace older data, and fields that they leave empty are kept. Data of the same
day replace those of the same provider; they only fill empty fields of another provider's.
Importing a file twice changes nothing.
A row that cannot be imported is reported with its line and the reason; the exit code is then 1.

Examples:
  madang import markets markets.csv
  madang import markets --data /var/lib/madang markets.csv facilities.csv")]
pub(crate) struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Files to import, in order
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let settings = args.settings.resolve()?;
    let _lock = DirLock::to_fill(&settings)?;
    let app = App::open(&settings)?;
    let mut import = Import::start(&app.markets)?;
    for path in &args.files {
        let name = path.display().to_string();
        let read = read_file(path, LARGEST_FILE).and_then(|bytes| import.file(&name, &bytes));
        if let Err(error) = read {
            import.report.refuse_file(&name, &error);
        }
    }
    let outcome = import.report.finish();
    // The import is complete even if nobody reads this.
    let _ = writeln!(std::io::stdout(), "{outcome}");
    if outcome.refused > 0 { Err(Partly.into()) } else { Ok(()) }
}

/// Stores the bundled markets if there are none.
pub(crate) fn fill_demo(app: &App) -> anyhow::Result<()> {
    let mut import = Import::start(&app.markets)?;
    if import.runtime.block_on(app.markets.store().count())? > 0 {
        return Ok(());
    }
    let (name, bytes) = crate::samples::MARKETS;
    import.file(name, bytes)?;
    let outcome = import.report.finish();
    tracing::info!(markets = outcome.created, "stored the bundled markets");
    if outcome.refused > 0 { Err(Partly.into()) } else { Ok(()) }
}

struct Import<'a> {
    markets: &'a Markets,
    runtime: Runtime,
    report: Report,
}

impl<'a> Import<'a> {
    fn start(markets: &'a Markets) -> anyhow::Result<Self> {
        // With timers, because a write on MariaDB waits for other nodes.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { markets, runtime, report: Report::new(bar(0, PROGRESS)) })
    }

    /// Imports one file.
    ///
    /// # Errors
    /// When the file cannot be read, or the store fails. Rows that cannot be imported are only reported.
    fn file(&mut self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        anyhow::ensure!(
            bytes.len() as u64 <= LARGEST_FILE,
            "is larger than {} MiB",
            LARGEST_FILE >> 20
        );
        self.report.begin(name);
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut rows = Rows::new(self.markets);
        match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => anyhow::bail!("is empty"),
            Some(b'{') => json::read(bytes, |line, cells| rows.add(line, cells, &mut self.report))?,
            Some(_) => {
                let table = table::Table::read(bytes)?;
                if table.is_of_facilities() {
                    let joined = facilities::join(&table, self.markets, &mut self.report)?;
                    return self.store_facilities(&joined);
                }
                table.require(&row::NECESSARY, |name| row::COLUMNS.contains(&name))?;
                table.each(|line, cells| rows.add(line, cells, &mut self.report));
            }
        }
        self.store(rows)
    }

    fn store(&mut self, rows: Rows<'_>) -> anyhow::Result<()> {
        self.report.bar.inc_length(rows.rows.len() as u64);
        self.report.outcome.merged += rows.merged;
        let mut rows = rows.rows.into_iter().peekable();
        while rows.peek().is_some() {
            let chunk: Vec<Prepared> = rows.by_ref().take(ROWS_AT_ONCE).collect();
            let size = chunk.len() as u64;
            let done = self.runtime.block_on(self.markets.store().import(chunk));
            let done = done.context("cannot store the markets")?;
            self.report.bar.inc(size);
            let outcome = &mut self.report.outcome;
            outcome.created += done.created;
            outcome.updated += done.updated;
            outcome.unchanged += done.unchanged;
        }
        Ok(())
    }

    fn store_facilities(&mut self, joined: &[(i64, u32)]) -> anyhow::Result<()> {
        self.report.bar.inc_length(joined.len() as u64);
        for chunk in joined.chunks(ROWS_AT_ONCE) {
            let written = self.markets.store().set_facilities(chunk.to_vec());
            let updated = self.runtime.block_on(written).context("cannot store the markets")?;
            self.report.bar.inc(chunk.len() as u64);
            self.report.outcome.updated += updated;
            self.report.outcome.unchanged += chunk.len() - updated;
        }
        Ok(())
    }
}

/// Markets of one file, with duplicates merged.
struct Rows<'a> {
    markets: &'a Markets,
    rows: Vec<Prepared>,
    by_key: HashMap<String, usize>,
    merged: usize,
}

impl<'a> Rows<'a> {
    fn new(markets: &'a Markets) -> Self {
        Self { markets, rows: Vec::new(), by_key: HashMap::new(), merged: 0 }
    }

    fn add(&mut self, line: u64, cells: anyhow::Result<&dyn row::Cells>, report: &mut Report) {
        let market = match cells
            .and_then(|cells| row::market(cells, &mut |warning| report.warn(line, &warning)))
        {
            Ok(market) => market,
            Err(reason) => return report.refuse(line, &reason),
        };
        let row = self.markets.prepare(market);
        match self.by_key.entry(row.key.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(self.rows.len());
                self.rows.push(row);
            }
            Entry::Occupied(entry) => {
                let earlier = &mut self.rows[*entry.get()];
                let first = std::mem::take(&mut earlier.market);
                let market = first.and(row.market);
                *earlier = Prepared { key: row.key, ..self.markets.prepare(market) };
                self.merged += 1;
            }
        }
    }
}
