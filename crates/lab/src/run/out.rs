//! The results' directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::RunError;
use crate::journal::record::RoundRecord;
use crate::journal::stored::{DESCRIPTION, JOURNAL};
use crate::report::Report;

/// One line of JSON per round, written when the round ends: what is left when the lab is killed.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Why it is not complete. Nothing follows a line that may have been torn.
    pub trouble: Option<String>,
}

impl Journal {
    /// Locked, so that nobody resumes a run that is still going.
    fn new(path: PathBuf, file: File) -> Result<Self, RunError> {
        match file.try_lock() {
            Ok(()) => Ok(Self { path, file, trouble: None }),
            Err(TryLockError::WouldBlock) => Err(RunError::InUse(path)),
            Err(TryLockError::Error(source)) => Err(RunError::Write { path, source }),
        }
    }

    pub(crate) fn append(&mut self, record: &RoundRecord) {
        if self.trouble.is_some() {
            return;
        }
        if let Err(error) = line(record).and_then(|line| self.file.write_all(line.as_bytes())) {
            let place = self.path.display();
            self.trouble = Some(format!("`{place}` is not complete: {error}"));
        }
    }
}

impl Drop for Journal {
    /// Closing alone would leave the lock to a child that another thread is about to start: until it executes its
    /// program it has every file of ours open.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Whether a round counts is not known yet when its line is written.
fn line(record: &RoundRecord) -> io::Result<String> {
    let mut value = serde_json::to_value(record)?;
    if let Some(keys) = value.as_object_mut() {
        keys.remove("counted");
    }
    Ok(format!("{value}\n"))
}

pub(crate) struct Out {
    dir: PathBuf,
    /// It was not there before.
    is_new: bool,
    pub work: PathBuf,
    pub logs: PathBuf,
}

impl Out {
    /// A new or empty directory.
    pub(crate) fn create(dir: &Path) -> Result<Self, RunError> {
        let is_new = !dir.exists();
        create_dir(dir)?;
        let out = Self::at(dir, is_new)?;
        let write = |source| RunError::Write { path: dir.to_owned(), source };
        if fs::read_dir(&out.dir).map_err(write)?.next().is_some() {
            return Err(RunError::NotEmpty(out.dir));
        }
        out.make_places()?;
        Ok(out)
    }

    /// That of a run that goes on. Its journal is opened first, which locks it: what is removed
    /// here may be in use.
    pub(crate) fn reopen(dir: &Path, journal_bytes: u64) -> Result<(Self, Journal), RunError> {
        let out = Self::at(dir, false)?;
        let path = out.dir.join(JOURNAL);
        let write = |source| RunError::Write { path: path.clone(), source };
        let file = OpenOptions::new().append(true).open(&path).map_err(write)?;
        let journal = Journal::new(path.clone(), file)?;
        // What was read before the lock may not be all: the run may have ended only just now.
        let text = fs::read(&path).map_err(write)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole as u64 != journal_bytes {
            return Err(RunError::InUse(out.dir));
        }
        // A line that was torn when the run was killed.
        journal.file.set_len(journal_bytes).map_err(write)?;
        out.remove_work()?;
        out.make_places()?;
        Ok((out, journal))
    }

    fn at(dir: &Path, is_new: bool) -> Result<Self, RunError> {
        let write = |source| RunError::Write { path: dir.to_owned(), source };
        // Absolute, because generator and servers run in other directories.
        let dir = dir.canonicalize().map_err(write)?;
        let (work, logs) = (dir.join("work"), dir.join("logs"));
        Ok(Self { dir, is_new, work, logs })
    }

    fn make_places(&self) -> Result<(), RunError> {
        create_dir(&self.work)?;
        create_dir(&self.logs)
    }

    pub(crate) fn journal(&self) -> Result<Journal, RunError> {
        let path = self.dir.join(JOURNAL);
        let file = File::create(&path);
        let file = file.map_err(|source| RunError::Write { path: path.clone(), source })?;
        Journal::new(path, file)
    }

    pub(crate) fn describe(&self, text: serde_json::Result<String>) -> Result<(), RunError> {
        let path = self.dir.join(DESCRIPTION);
        let text = text.map_err(io::Error::from);
        let text = text.map_err(|source| RunError::Write { path, source })?;
        write(&self.dir, DESCRIPTION, &text)
    }

    /// Removes the scratch space, and the logs if every round was good.
    pub(crate) fn clean(&self) -> Result<(), RunError> {
        let work = self.remove_work();
        removed(&self.logs, fs::remove_dir(&self.logs)).and(work)
    }

    fn remove_work(&self) -> Result<(), RunError> {
        removed(&self.work, fs::remove_dir_all(&self.work))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), RunError> {
        write(&self.dir, name, text)
    }

    pub(crate) fn write_report(&self, report: &Report) -> Result<(), RunError> {
        write_report(&self.dir, report)
    }

    /// Leaves nothing behind of a run that did not begin. The caller has an error to report that
    /// says more than one about this could.
    pub(crate) fn abandon(&self) {
        let _ = fs::remove_dir_all(&self.work);
        let _ = fs::remove_dir_all(&self.logs);
        let _ = fs::remove_file(self.dir.join(JOURNAL));
        let _ = fs::remove_file(self.dir.join(DESCRIPTION));
        if self.is_new {
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

/// Refuses the directory of a run that is still going: it has no end yet, and will write its report itself.
pub(crate) fn check_unused(dir: &Path) -> Result<(), RunError> {
    match File::open(dir.join(JOURNAL)).map(|journal| journal.try_lock_shared()) {
        Ok(Err(TryLockError::WouldBlock)) => Err(RunError::InUse(dir.to_owned())),
        // One that cannot be read or locked is not written to, either.
        _ => Ok(()),
    }
}

/// Writes a report's files, all of them even if one fails.
pub(crate) fn write_report(dir: &Path, report: &Report) -> Result<(), RunError> {
    let written = [
        write(dir, "report.json", &report.to_json()),
        write(dir, "report.md", &report.to_markdown()),
        write(dir, "junit.xml", &report.to_junit()),
        write(dir, "report.html", &report.to_html()),
    ];
    written.into_iter().collect()
}

/// Writes beside and renames: whoever reads the name finds a whole file, the old or the new one.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> Result<(), RunError> {
    let (path, beside) = (dir.join(name), dir.join(format!(".{name}.part")));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path));
    written.map_err(|source| {
        let _ = fs::remove_file(&beside);
        RunError::Write { path, source }
    })
}

fn removed(path: &Path, result: io::Result<()>) -> Result<(), RunError> {
    match result {
        Err(source)
            if !matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(RunError::Remove { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

pub(crate) fn create_dir(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(|source| RunError::Write { path: path.to_owned(), source })
}
