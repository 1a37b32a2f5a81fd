//! Progress and messages of an import.

use crate::import::print_above;
use indicatif::ProgressBar;

/// Maximum number of rows of a file that are reported one by one; the rest is counted.
const NAMED: usize = 50;

/// Counts of all rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ImportedMarkets {
    pub(super) created: usize,
    pub(super) updated: usize,
    pub(super) unchanged: usize,
    pub(super) refused: usize,
    /// Rows about the same market as another row of the file.
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

pub(super) struct Report {
    pub(super) bar: ProgressBar,
    pub(super) outcome: ImportedMarkets,
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
        print_above(&self.bar, format_args!("refused {file}: {error:#}"));
        self.outcome.refused += 1;
    }

    /// Reports a row that is not imported.
    pub(super) fn refuse(&mut self, line: u64, reason: &anyhow::Error) {
        self.refused += 1;
        self.outcome.refused += 1;
        if self.refused <= NAMED {
            print_above(&self.bar, format_args!("refused {}:{line}: {reason:#}", self.file));
        }
    }

    /// Reports a row that is imported in part.
    pub(super) fn warn(&mut self, line: u64, what: &str) {
        self.warned += 1;
        if self.warned <= NAMED {
            print_above(&self.bar, format_args!("warning {}:{line}: {what}", self.file));
        }
    }

    pub(super) fn finish(&mut self) -> ImportedMarkets {
        self.end_file();
        self.bar.finish_and_clear();
        self.outcome
    }

    fn end_file(&mut self) {
        for (what, all) in [("refused", &mut self.refused), ("warnings", &mut self.warned)] {
            if let Some(more) = all.checked_sub(NAMED + 1) {
                print_above(&self.bar, format_args!("{}: {} more {what}", self.file, more + 1));
            }
            *all = 0;
        }
    }
}
