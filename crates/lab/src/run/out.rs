//! Results directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::RunError;
use crate::journal::record::RoundRecord;
use crate::journal::stored::{DESCRIPTION, JOURNAL};
use crate::report::Report;

/// One line of JSON per round, written when the round ends, so that it survives a killed lab.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Error after which nothing more is written: the last line may be incomplete.
    pub trouble: Option<String>,
}

impl Journal {
    /// Locks the file, so that a run in use cannot be resumed.
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
    /// Closing alone would leave the lock to a child that another thread is starting: until it executes its program, it
    /// has all of our files open.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Without `counted`, which is not known yet.
fn line(record: &RoundRecord) -> io::Result<String> {
    let mut value = serde_json::to_value(record)?;
    if let Some(keys) = value.as_object_mut() {
        keys.remove("counted");
    }
    Ok(format!("{value}\n"))
}

pub(crate) struct Out {
    pub dir: PathBuf,
    /// The run created it.
    is_new: bool,
    pub work: PathBuf,
    pub logs: PathBuf,
}

impl Out {
    /// Creates a directory, or uses an empty one.
    pub(crate) fn create(dir: &Path) -> Result<Self, RunError> {
        let is_new = !dir.exists();
        create_dir(dir)?;
        let out = Self::at(dir, is_new)?;
        if fs::read_dir(&out.dir).map_err(failed(dir))?.next().is_some() {
            return Err(RunError::NotEmpty(out.dir));
        }
        out.make_places()?;
        Ok(out)
    }

    /// Reopens the directory of a resumed run. Locks the journal before it removes files that may be in use.
    pub(crate) fn reopen(dir: &Path, journal_bytes: u64) -> Result<(Self, Journal), RunError> {
        let out = Self::at(dir, false)?;
        let path = out.dir.join(JOURNAL);
        let file = OpenOptions::new().append(true).open(&path).map_err(failed(&path))?;
        let journal = Journal::new(path.clone(), file)?;
        // The run may have ended after its journal was read.
        let text = fs::read(&path).map_err(failed(&path))?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole as u64 != journal_bytes {
            return Err(RunError::InUse(out.dir));
        }
        // Removes an incomplete line of a killed run.
        journal.file.set_len(journal_bytes).map_err(failed(&path))?;
        out.remove_work()?;
        out.make_places()?;
        Ok((out, journal))
    }

    fn at(dir: &Path, is_new: bool) -> Result<Self, RunError> {
        // Absolute, because processes run in other directories.
        let dir = dir.canonicalize().map_err(failed(dir))?;
        let (work, logs) = (dir.join("work"), dir.join("logs"));
        Ok(Self { dir, is_new, work, logs })
    }

    fn make_places(&self) -> Result<(), RunError> {
        create_dir(&self.work)?;
        create_dir(&self.logs)
    }

    pub(crate) fn journal(&self) -> Result<Journal, RunError> {
        let path = self.dir.join(JOURNAL);
        let file = File::create(&path).map_err(failed(&path))?;
        Journal::new(path, file)
    }

    pub(crate) fn describe(&self, text: serde_json::Result<String>) -> Result<(), RunError> {
        let path = self.dir.join(DESCRIPTION);
        let text = text.map_err(io::Error::from).map_err(failed(&path))?;
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

    /// Removes the files of a run that did not start. Errors are ignored in favour of the caller's.
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

/// Rejects the directory of a run in use, which will write its own report.
pub(crate) fn check_unused(dir: &Path) -> Result<(), RunError> {
    match File::open(dir.join(JOURNAL)).map(|journal| journal.try_lock_shared()) {
        Ok(Err(TryLockError::WouldBlock)) => Err(RunError::InUse(dir.to_owned())),
        // Missing, or on a file system without locks: no run can be writing to it.
        _ => Ok(()),
    }
}

/// Writes all report files, even if one fails.
pub(crate) fn write_report(dir: &Path, report: &Report) -> Result<(), RunError> {
    let written = [
        write(dir, "report.json", &report.to_json()),
        write(dir, "report.md", &report.to_markdown()),
        write(dir, "junit.xml", &report.to_junit()),
        write(dir, "report.html", &report.to_html()),
    ];
    written.into_iter().collect()
}

/// Writes a temporary file and renames it, so that readers see a complete file.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> Result<(), RunError> {
    let (path, beside) = (dir.join(name), dir.join(format!(".{name}.part")));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path));
    written.map_err(failed(&path)).inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn removed(path: &Path, result: io::Result<()>) -> Result<(), RunError> {
    use io::ErrorKind::{DirectoryNotEmpty, NotFound};
    match result {
        Err(source) if !matches!(source.kind(), NotFound | DirectoryNotEmpty) => {
            Err(RunError::Remove { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

pub(crate) fn create_dir(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(failed(path))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> RunError {
    |source| RunError::Write { path: path.to_owned(), source }
}
