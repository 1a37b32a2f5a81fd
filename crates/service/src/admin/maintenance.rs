//! Maintenance mode: requests that may write are answered 503, reads go on.
//!
//! The method decides: all but GET, HEAD and OPTIONS are refused, log-in and sign-up among them. So a route that is added
//! later is refused, too. What was begun before is not broken off, and the node's own work goes on: likes that are
//! acknowledged reach the tables, rows of what was deleted go, views of markets are counted.
//!
//! A file in the data directory says that it is on: a server that is started again in the middle of the work must not
//! take writes by itself.

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

/// The file, with the message in it.
const FILE: &str = "maintenance";
/// Characters of a message.
const MESSAGE: RangeInclusive<usize> = 1..=LONGEST_MESSAGE;
/// Most characters of a message.
pub const LONGEST_MESSAGE: usize = 200;

/// What is said when the operator says nothing.
const DEFAULT: &str = "the service is being maintained and takes no changes; try again later";

/// When asking again makes sense, in seconds.
const RETRY_AFTER_SECONDS: u32 = 60;

/// Whether the mode is on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Maintenance {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    /// All that a request looks at as long as the mode is off.
    is_on: AtomicBool,
    message: Mutex<Option<Arc<str>>>,
}

impl Maintenance {
    /// As the data directory says.
    pub(crate) fn of(dir: &Path) -> Self {
        let file = dir.join(FILE);
        let found = File::open(&file).map(|file| {
            let mut text = String::new();
            // A file that an operator has made need not hold a message.
            let _ = file.take(4096).read_to_string(&mut text);
            message(text.trim()).unwrap_or_else(|| DEFAULT.to_owned())
        });
        // One that cannot be read is there.
        let found = match found {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => Some(found.unwrap_or_else(|_| DEFAULT.to_owned())),
        };
        let is_on = AtomicBool::new(found.is_some());
        Self { inner: Arc::new(Inner { file, is_on, message: Mutex::new(found.map(Into::into)) }) }
    }

    /// What clients are told, while it is on.
    pub(crate) fn message(&self) -> Option<Arc<str>> {
        if !self.inner.is_on.load(Ordering::Acquire) {
            return None;
        }
        self.inner.message.lock().clone()
    }

    /// The refusal of a request that may write, while it is on.
    pub(crate) fn refuses(&self, method: &Method) -> Option<Problem> {
        let message = self.message().filter(|_| !method.is_safe())?;
        Some(Problem::maintenance(message.to_string(), RETRY_AFTER_SECONDS))
    }

    /// Switches it on, or changes the message. Blocks the thread.
    ///
    /// # Errors
    /// When that cannot be kept; nothing has changed then.
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

    /// Switches it off; answers whether it was on. Blocks the thread.
    ///
    /// # Errors
    /// When the file stays: it is still on then.
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

/// A message that clients can be told, of what the operator wrote.
pub(super) fn message(text: &str) -> Option<String> {
    one_line(text, MESSAGE)
}
