//! Maintenance mode: requests that may write are answered 503, reads go on.
//!
//! The method decides: all but GET, HEAD and OPTIONS are refused, including log-in and sign-up, and routes added
//! later. Running requests finish, and background work goes on: acknowledged likes reach the tables, dependent rows
//! are deleted, views of markets are counted.
//!
//! The mode is a file in the data directory, so that a server restarted during the work does not take writes.

use crate::http::Problem;
use crate::http::json::one_line;
use http::Method;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FILE: &str = "maintenance";
const MESSAGE: RangeInclusive<usize> = 1..=LONGEST_MESSAGE;
/// Longest message in characters.
pub const LONGEST_MESSAGE: usize = 200;

const DEFAULT: &str = "the service is being maintained and takes no changes; try again later";

const RETRY_AFTER_SECONDS: u32 = 60;

/// The state of the mode. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Maintenance {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    /// The only field that requests read while the mode is off.
    is_on: AtomicBool,
    message: Mutex<Option<Arc<str>>>,
}

impl Maintenance {
    /// Reads the state from the data directory.
    pub(crate) fn of(dir: &Path) -> Self {
        let file = dir.join(FILE);
        let found = File::open(&file).map(|file| {
            let mut text = String::new();
            // A file made by an operator need not hold a message.
            let _ = file.take(4096).read_to_string(&mut text);
            message(text.trim()).unwrap_or_else(|| DEFAULT.to_owned())
        });
        // An unreadable file exists.
        let found = match found {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => Some(found.unwrap_or_else(|_| DEFAULT.to_owned())),
        };
        let is_on = AtomicBool::new(found.is_some());
        Self { inner: Arc::new(Inner { file, is_on, message: Mutex::new(found.map(Into::into)) }) }
    }

    /// The message for clients, while the mode is on.
    pub(crate) fn message(&self) -> Option<Arc<str>> {
        if !self.inner.is_on.load(Ordering::Acquire) {
            return None;
        }
        self.inner.message.lock().clone()
    }

    /// The refusal of a request that may write, while the mode is on.
    pub(crate) fn refuses(&self, method: &Method) -> Option<Problem> {
        let message = self.message().filter(|_| !method.is_safe())?;
        Some(Problem::maintenance(message.to_string(), RETRY_AFTER_SECONDS))
    }

    /// Switches it on, or changes the message. Blocks the thread.
    ///
    /// # Errors
    /// The file cannot be written; nothing has changed.
    pub(super) fn switch_on(&self, text: Option<String>) -> io::Result<()> {
        let text = text.unwrap_or_else(|| DEFAULT.to_owned());
        let part = self.inner.file.with_extension("part");
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&part, &self.inner.file)?;
        self.sync_directory()?;
        self.set(Some(text));
        Ok(())
    }

    /// Switches it off. Returns whether it was on. Blocks the thread.
    ///
    /// # Errors
    /// The file cannot be deleted; the mode is still on.
    pub(super) fn switch_off(&self) -> io::Result<bool> {
        match std::fs::remove_file(&self.inner.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => {
                removed?;
                self.sync_directory()?;
            }
        }
        let was_on = self.message().is_some();
        self.set(None);
        Ok(was_on)
    }

    fn set(&self, text: Option<String>) {
        let is_on = text.is_some();
        *self.inner.message.lock() = text.map(Into::into);
        self.inner.is_on.store(is_on, Ordering::Release);
    }

    fn sync_directory(&self) -> io::Result<()> {
        let dir = self.inner.file.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
    }
}

pub(super) fn message(text: &str) -> Option<String> {
    one_line(text, MESSAGE)
}
