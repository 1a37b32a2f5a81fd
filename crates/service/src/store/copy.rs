//! Moves an embedded store to a server: every row of every table with its id, resumable and checked.
//!
//! Rows go in the order of their keys, in batches. A batch and the mark that says how far its table is are one
//! transaction of the server, so a copy that was killed at any point goes on where it stopped and no row is there
//! twice. At the end each row of the server is compared with that of the file. Until then no node can be started on
//! the database (`refuse_unfinished`).
//!
//! The tables are not listed here: they are asked of both sides (`tables`), so that a new migration cannot be forgotten.
#![allow(clippy::disallowed_types, reason = "this is the store: SQL types live here")]

mod back;
mod check;
pub(crate) mod key;
mod source;
mod tables;
mod target;

pub use back::back;
pub(super) use back::before_migration;
pub(super) use check::derived;
pub(super) use target::refuse_unfinished;

use super::StoreError;
#[cfg(test)]
use super::maria::Session;
use super::maria::UrlError;
use crate::accounts::KeyError;
use crate::config::Settings;
use source::{Source, SourceRow};
#[cfg(test)]
use std::path::Path;
use std::time::{Duration, Instant};
use tables::Table;
use target::Target;

/// Table with the progress of a copy.
const MARKS: &str = "madang_copy";
/// Rows and bytes after which a batch is committed.
const BATCH_ROWS: usize = 4096;
const BATCH_BYTES: usize = 1 << 20;

/// Why a store was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The address of the target is none.
    #[error("the address of the target: {0}")]
    Url(UrlError),
    /// The source, the server or a statement failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key that signs tokens cannot be read or made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The target holds something else, or is in use.
    #[error("{0}")]
    Refused(String),
    /// The rows of both sides are not the same.
    #[error("{0}")]
    Differs(String),
}

impl From<rusqlite::Error> for CopyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// What happens, for who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Copying a table with so many rows begins; so many are there already.
    Copy(&'a str, u64, u64),
    /// Comparing a table with so many rows begins.
    Compare(&'a str, u64),
    /// So many rows more.
    Rows(u64),
}

/// A table that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its name.
    pub table: String,
    /// Number of its rows.
    pub rows: u64,
    /// Those of them that an earlier run had copied.
    pub before: u64,
    /// Time of this run to write them.
    pub copying: Duration,
    /// Time to compare them.
    pub comparing: Duration,
}

/// A finished copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// All tables in the order in which they were copied.
    pub tables: Vec<Copied>,
    /// What is wrong with the source and was copied as it is.
    pub warnings: Vec<String>,
}

/// A copy that has begun.
pub struct Copying {
    source: Source,
    target: Target,
    tables: Vec<Table>,
}

crate::opaque_debug!(Copying);

/// Opens the store in the data directory as a start does, and the database at `url`, which must be empty or hold an
/// earlier part of this copy. The caller holds the lock of the directory. Nothing when this very store was copied before.
///
/// # Errors
/// When either cannot be opened, or the target holds anything else or is in use.
pub fn begin(settings: &Settings, url: &str) -> Result<Option<Copying>, CopyError> {
    let target = Target::connect(url)?;
    let source = Source::open(settings)?;
    let shapes = source.schema()?;
    let tables = target.begin(&shapes, &source)?;
    Ok(tables.map(|tables| Copying { source, target, tables }))
}

/// The rows of the file in a directory into a database with the same tables, for tests.
#[cfg(test)]
pub(super) fn fill(session: Session, directory: &Path) -> Result<Session, CopyError> {
    let (source, target) = (Source::reading(directory)?, Target { session });
    let session = &target.session;
    session.batch("SET SESSION foreign_key_checks = 0")?;
    for table in tables::matched(&source.schema()?, &tables::of_server(session)?)? {
        session.batch(&format!("DELETE FROM {}", table.name))?;
        let mut rows = Vec::new();
        source.each(&table, None, |row| {
            rows.push(row);
            Ok(())
        })?;
        target.insert(&table, &mut rows)?;
    }
    session.batch("SET SESSION foreign_key_checks = 1")?;
    Ok(target.session)
}

impl Copying {
    /// Copies what is missing, compares everything, and lets nodes use the target.
    ///
    /// # Errors
    /// When a side fails, or they are not the same in the end. What was copied until then stays, and is not copied
    /// again.
    pub fn run(self, mut watch: impl FnMut(Progress<'_>)) -> Result<Report, CopyError> {
        let mut copied = Vec::with_capacity(self.tables.len());
        for table in &self.tables {
            copied.push(self.copy(table, &mut watch)?);
        }
        for table in &self.tables {
            if let Some(last) = self.source.last_id(&table.name)? {
                self.target.continue_ids(&table.name, last)?;
            }
        }
        for (table, copied) in self.tables.iter().zip(&mut copied) {
            let began = Instant::now();
            watch(Progress::Compare(&table.name, copied.rows));
            let compared = check::compare(&self.source, &self.target, table, &mut watch);
            compared.map_err(|error| match error {
                CopyError::Differs(what) => CopyError::Differs(format!(
                    "{what}. If a server has run on the data directory since the copy began, empty the \
                     database and copy again"
                )),
                other => other,
            })?;
            copied.comparing = began.elapsed();
        }
        let warnings = check::warnings(&self.target)?;
        self.target.finish()?;
        Ok(Report { tables: copied, warnings })
    }

    fn copy(
        &self,
        table: &Table,
        watch: &mut impl FnMut(Progress<'_>),
    ) -> Result<Copied, CopyError> {
        let began = Instant::now();
        let rows = self.source.count(&table.name)?;
        let mut mark = self.target.mark(table)?;
        let before = mark.copied;
        watch(Progress::Copy(&table.name, rows, before));
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let above = mark.last_key.take();
        self.source.each(table, above.as_deref(), |row: SourceRow| {
            bytes += row.bytes();
            batch.push(row);
            if batch.len() == BATCH_ROWS || bytes >= BATCH_BYTES {
                mark.copied += self.target.write(table, &mut batch, mark.copied)?;
                watch(Progress::Rows(batch.len() as u64));
                batch.clear();
                bytes = 0;
            }
            Ok(())
        })?;
        if !batch.is_empty() {
            mark.copied += self.target.write(table, &mut batch, mark.copied)?;
            watch(Progress::Rows(batch.len() as u64));
        }
        if mark.copied != rows {
            return Err(CopyError::Differs(format!(
                "{} rows of {} were copied, and the file has {rows}",
                mark.copied, table.name
            )));
        }
        let (copying, comparing) = (began.elapsed(), Duration::ZERO);
        Ok(Copied { table: table.name.clone(), rows, before, copying, comparing })
    }
}
