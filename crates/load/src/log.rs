//! Log messages in k6's formats, to k6's destinations.

mod destination;
mod format;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Instant;

use parking_lot::Mutex;

pub use destination::Messages;
pub use format::LogFormat;
pub(crate) use format::{rfc_3339, rfc_3339_nano};

/// Limit of messages about single requests or iterations per second; further ones are only counted. A script that
/// always fails would otherwise write millions of lines.
const MAX_PER_SECOND: u32 = 20;

/// An invalid destination or format of messages.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum LogError {
    #[error("the log output `loki` is not supported yet; `file=PATH` writes to a file")]
    Loki,
    #[error("the log output `{0}`: stderr, stdout, none or file=PATH[,level=LEVEL] is expected")]
    Output(String),
    #[error("the log output `{0}`: a file is expected (file=PATH)")]
    NoFile(String),
    #[error("the log file {path} cannot be opened: {why}")]
    Open { path: String, why: io::Error },
    #[error("the log level `{0}`: debug, info, warning or error is expected")]
    Level(String),
    #[error("the log format `{0}`: text, json or raw is expected")]
    Format(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Log {
    start: Instant,
    messages: Messages,
    format: LogFormat,
    terminal: bool,
    pub(crate) verbose: bool,
    limiter: Mutex<Limiter>,
    /// Texts to redact.
    hidden: Mutex<Vec<String>>,
    /// File for the messages of scripts.
    console: Option<Mutex<File>>,
}

#[derive(Debug, Default)]
struct Limiter {
    second: u64,
    written: u32,
    suppressed: u64,
}

impl Default for Log {
    fn default() -> Self {
        Self::new(Messages::default(), LogFormat::default())
    }
}

impl Log {
    pub(crate) fn new(messages: Messages, format: LogFormat) -> Self {
        Self {
            start: Instant::now(),
            terminal: messages.is_terminal(),
            messages,
            format,
            verbose: false,
            limiter: Mutex::default(),
            hidden: Mutex::default(),
            console: None,
        }
    }

    pub(crate) fn redirect_console(&mut self, path: &Path) -> io::Result<()> {
        let file = File::options().append(true).create(true).open(path)?;
        self.console = Some(Mutex::new(file));
        Ok(())
    }

    pub(crate) fn write_console(&self, level: Level, message: &str) {
        let Some(file) = &self.console else {
            return self.write(level, message, &[("source", "console")]);
        };
        let line = self.format.line(level, &self.redacted(message), &[]);
        let mut file = file.lock();
        if let Err(error) = file.write_all(line.as_bytes()) {
            drop(file);
            let message = format!("the messages of the script cannot be written: {error}");
            self.write_limited(Level::Error, &message, &[]);
        }
    }

    pub(crate) fn hide(&self, text: &str) {
        let mut hidden = self.hidden.lock();
        if !text.trim().is_empty() && !hidden.iter().any(|known| known == text) {
            hidden.push(text.to_owned());
            // A text may contain another.
            hidden.sort_by_key(|text| std::cmp::Reverse(text.len()));
        }
    }

    fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let hidden = self.hidden.lock();
        hidden.iter().fold(text.into(), |text, one| match text.contains(&**one) {
            true => text.replace(one, "***SECRET_REDACTED***").into(),
            false => text,
        })
    }

    pub(crate) fn write(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let message = &*self.redacted(message);
        let fields: Vec<_> =
            fields.iter().map(|(key, value)| (*key, self.redacted(value))).collect();
        let fields: Vec<_> = fields.iter().map(|(key, value)| (*key, &**value)).collect();
        let fields = &*fields;
        let line = if self.terminal && self.format == LogFormat::Text {
            let line = format::short(level, self.start.elapsed(), message, fields);
            // Replaces the progress display.
            format!("{}{line}", crate::progress::CLEAR)
        } else {
            self.format.line(level, message, fields)
        };
        self.messages.write(level, line);
    }

    /// Writes at most [`MAX_PER_SECOND`] messages per second.
    pub(crate) fn write_limited(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let second = self.start.elapsed().as_secs();
        let mut limiter = self.limiter.lock();
        if limiter.second != second {
            limiter.second = second;
            limiter.written = 0;
            let suppressed = std::mem::take(&mut limiter.suppressed);
            if suppressed > 0 {
                let message = format!("{suppressed} more messages like these were not shown");
                self.write(Level::Warning, &message, &[]);
            }
        }
        if limiter.written >= MAX_PER_SECOND {
            limiter.suppressed += 1;
            return;
        }
        limiter.written += 1;
        drop(limiter);
        self.write(level, message, fields);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_hidden_is_in_no_message() {
        let lines: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let log = Log::new(Messages::Keep(lines.clone()), LogFormat::Text);
        for text in ["abc", "abcdef", " "] {
            log.hide(text);
        }
        log.write(Level::Info, "is abcdef or abc", &[("field", "xabcx")]);
        let line = lines.lock().unwrap().join("");
        assert!(!line.contains("abc") && !line.contains("def"), "{line}");
        assert_eq!(line.matches("***SECRET_REDACTED***").count(), 3, "{line}");
    }
}
