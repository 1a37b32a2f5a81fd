//! What is said of an import: every row that was refused, as far as somebody would read it.

use crate::import::say;
use indicatif::ProgressBar;

/// Rows of a file that are named; of the others it is said how many there are.
const NAMED: usize = 50;

/// What became of all rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ImportedMarkets {
    pub(super) created: usize,
    pub(super) updated: usize,
    pub(super) unchanged: usize,
    pub(super) refused: usize,
    /// Rows about a market that another row of the file is about.
    pub(super) merged: usize,
}

impl std::fmt::Display for ImportedMarkets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ImportedMarkets { created, updated, unchanged, refused, merged } = self;
        write!(
            f,
            "imported {created}, updated {updated}, unchanged {unchanged}, refused {refused}"
        )?;
        if *merged > 0 {
            write!(f, " (rows merged into another of the same market: {merged})")?;
        }
        Ok(())
    }
}

/// Says it, and counts.
pub(super) struct Report {
    bar: ProgressBar,
    outcome: ImportedMarkets,
    file: String,
    refused: usize,
    warned: usize,
}

impl Report {
    pub(super) fn new(bar: ProgressBar) -> Self {
        Self {
            bar,
            outcome: ImportedMarkets::default(),
            file: String::new(),
            refused: 0,
            warned: 0,
        }
    }

    pub(super) fn begin(&mut self, file: &str) {
        self.end_file();
        file.clone_into(&mut self.file);
        self.bar.set_message(self.file.clone());
    }

    pub(super) fn refuse_file(&mut self, file: &str, error: &anyhow::Error) {
        self.end_file();
        say(&self.bar, format_args!("refused {file}: {error:#}"));
        self.outcome.refused += 1;
    }

    /// A row is not imported.
    pub(super) fn refuse(&mut self, line: u64, reason: &anyhow::Error) {
        self.refused += 1;
        self.outcome.refused += 1;
        if self.refused <= NAMED {
            say(&self.bar, format_args!("refused {}:{line}: {reason:#}", self.file));
        }
    }

    /// A row is imported without something.
    pub(super) fn warn(&mut self, line: u64, what: &str) {
        self.warned += 1;
        if self.warned <= NAMED {
            say(&self.bar, format_args!("warning {}:{line}: {what}", self.file));
        }
    }

    pub(super) fn will_store(&self, rows: usize) {
        self.bar.inc_length(rows as u64);
    }

    pub(super) fn stored(&self, rows: usize) {
        self.bar.inc(rows as u64);
    }

    pub(super) fn count(&mut self, change: impl FnOnce(&mut ImportedMarkets)) {
        change(&mut self.outcome);
    }

    pub(super) fn finish(&mut self) -> ImportedMarkets {
        self.end_file();
        self.bar.finish_and_clear();
        self.outcome
    }

    fn end_file(&mut self) {
        for (what, all) in [("refused", &mut self.refused), ("warnings", &mut self.warned)] {
            if let Some(more) = all.checked_sub(NAMED + 1) {
                say(&self.bar, format_args!("{}: {} more {what}", self.file, more + 1));
            }
            *all = 0;
        }
    }
}
