//! Copies an embedded store to a server: every row of every table with its id, resumable and checked.
//!
//! Rows are copied in the order of their keys, in batches. A batch and the mark of its table's progress are one
//! transaction of the server, so a copy that was killed resumes where it stopped and has no row twice. At the end each
//! row of the server is compared with that of the file. Until then no node can start on the database
//! (`refuse_unfinished`).
//!
//! The tables are read from both sides (`tables`), so that no migration can be forgotten here.

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

/// Error of a copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The URL of the target is invalid.
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
    /// The rows of both sides differ.
    #[error("{0}")]
    Differs(String),
}

impl From<rusqlite::Error> for CopyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Copying a table begins: its rows, and those already copied.
    Copy(&'a str, u64, u64),
    /// Comparing a table begins: its rows.
    Compare(&'a str, u64),
    /// More rows were copied or compared.
    Rows(u64),
}

/// A table that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Name of the table.
    pub table: String,
    /// Number of its rows.
    pub rows: u64,
    /// Rows that an earlier run had copied.
    pub before: u64,
    /// Time of this run to copy them.
    pub copying: Duration,
    /// Time to compare them.
    pub comparing: Duration,
}

/// A finished copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// All tables in the order in which they were copied.
    pub tables: Vec<Copied>,
    /// Faults of the source, which were copied.
    pub warnings: Vec<String>,
}

/// A copy that is ready to run.
pub struct Copying {
    source: Source,
    target: Target,
    tables: Vec<Table>,
}

crate::opaque_debug!(Copying);

/// Opens the store in the data directory as a start does, and the database at `url`, which must be empty or hold an
/// earlier part of this copy. The caller holds the lock of the directory. Returns `None` when this store was copied
/// before.
///
/// # Errors
/// Either cannot be opened, or the target holds anything else or is in use.
pub fn begin(settings: &Settings, url: &str) -> Result<Option<Copying>, CopyError> {
    let target = Target::connect(url)?;
    let source = Source::open(settings)?;
    let shapes = source.schema()?;
    let tables = target.begin(&shapes, &source)?;
    Ok(tables.map(|tables| Copying { source, target, tables }))
}

/// Copies the rows of the file in a directory into a database with the same tables.
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
    /// Copies missing rows, compares all, and lets nodes use the target.
    ///
    /// # Errors
    /// A side fails, or both differ in the end. Rows copied until then stay, and are not copied again.
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
        check::compare(&self.source, &self.target, &self.tables, &mut copied, &mut watch).map_err(
            |error| match error {
                CopyError::Differs(what) => CopyError::Differs(format!(
                    "{what}. If a server has run on the data directory since the copy began, empty the \
                     database and copy again"
                )),
                other => other,
            },
        )?;
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
        let mut write = |batch: &mut Vec<SourceRow>| -> Result<(), CopyError> {
            let written = self.target.write(table, batch, mark.copied)?;
            mark.copied += written;
            watch(Progress::Rows(written));
            batch.clear();
            Ok(())
        };
        self.source.each(table, above.as_deref(), |row: SourceRow| {
            bytes += row.bytes();
            batch.push(row);
            if batch.len() == BATCH_ROWS || bytes >= BATCH_BYTES {
                bytes = 0;
                write(&mut batch)?;
            }
            Ok(())
        })?;
        if !batch.is_empty() {
            write(&mut batch)?;
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
