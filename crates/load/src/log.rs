//! Messages to the person who watches, in the two formats k6 has: short on a terminal, one line
//! of `key=value` pairs elsewhere.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Messages about single requests or iterations per second; further ones are only counted. A
/// script that fails at once would otherwise write millions of lines.
const MAX_PER_SECOND: u32 = 20;

/// How important a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

/// Where messages go.
#[derive(Debug, Clone, Default)]
pub enum Messages {
    /// To standard error.
    #[default]
    Stderr,
    /// Kept, line by line.
    Keep(Arc<Mutex<Vec<String>>>),
}

/// Writes messages.
#[derive(Debug)]
pub(crate) struct Log {
    start: Instant,
    messages: Messages,
    terminal: bool,
    limiter: Mutex<Limiter>,
    /// Texts that no message may show.
    hidden: Mutex<Vec<String>>,
    /// Where messages of scripts go instead.
    console: Option<Mutex<File>>,
}

#[derive(Debug)]
struct Limiter {
    second: u64,
    written: u32,
    suppressed: u64,
}

impl Log {
    pub(crate) fn new(messages: Messages) -> Self {
        Self {
            start: Instant::now(),
            terminal: matches!(messages, Messages::Stderr) && std::io::stderr().is_terminal(),
            messages,
            limiter: Mutex::new(Limiter { second: 0, written: 0, suppressed: 0 }),
            hidden: Mutex::default(),
            console: None,
        }
    }

    /// What scripts write is appended to this file.
    pub(crate) fn redirect_console(&mut self, path: &Path) -> std::io::Result<()> {
        let file = File::options().append(true).create(true).open(path)?;
        self.console = Some(Mutex::new(file));
        Ok(())
    }

    /// What `console` of a script writes.
    pub(crate) fn write_console(&self, level: Level, message: &str) {
        let Some(file) = &self.console else {
            return self.write(level, message, &[("source", "console")]);
        };
        let line = key_value(level, SystemTime::now(), &self.without_hidden(message), &[]);
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            drop(file);
            let message = format!("the messages of the script cannot be written: {error}");
            self.write_limited(Level::Error, &message, &[]);
        }
    }

    /// From here on messages show something else in place of this text.
    pub(crate) fn hide(&self, text: &str) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        if !text.trim().is_empty() && !hidden.iter().any(|known| known == text) {
            hidden.push(text.to_owned());
            // One may be a part of another.
            hidden.sort_by_key(|text| std::cmp::Reverse(text.len()));
        }
    }

    fn without_hidden<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        hidden.iter().fold(text.into(), |text, one| match text.contains(&**one) {
            true => text.replace(one, "***SECRET_REDACTED***").into(),
            false => text,
        })
    }

    /// Writes a message with further fields.
    pub(crate) fn write(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let message = &*self.without_hidden(message);
        let fields: Vec<_> =
            fields.iter().map(|(key, value)| (*key, self.without_hidden(value))).collect();
        let fields: Vec<_> = fields.iter().map(|(key, value)| (*key, &**value)).collect();
        let fields = &*fields;
        let line = if self.terminal {
            // Where the progress may be.
            let line = short(level, self.start.elapsed(), message, fields);
            format!("{}{line}", crate::progress::CLEAR)
        } else {
            key_value(level, SystemTime::now(), message, fields)
        };
        match &self.messages {
            // Nothing can be done about a closed standard error.
            Messages::Stderr => drop(std::io::stderr().lock().write_all(line.as_bytes())),
            Messages::Keep(lines) => {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        }
    }

    /// As [`Self::write`], but only [`MAX_PER_SECOND`] times per second over the whole run.
    pub(crate) fn write_limited(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let second = self.start.elapsed().as_secs();
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
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

fn short(level: Level, elapsed: Duration, message: &str, fields: &[(&str, &str)]) -> String {
    let name = match level {
        Level::Debug => "DEBU",
        Level::Info => "INFO",
        Level::Warning => "WARN",
        Level::Error => "ERRO",
    };
    let mut line = format!("{name}[{:04}] {message:<44}", elapsed.as_secs());
    for (key, value) in fields {
        let _ = write!(line, " {key}={}", quoted(value));
    }
    line.push('\n');
    line
}

fn key_value(level: Level, time: SystemTime, message: &str, fields: &[(&str, &str)]) -> String {
    let name = match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warning => "warning",
        Level::Error => "error",
    };
    let mut line = format!("time=\"{}\" level={name} msg={}", rfc_3339(time), quoted(message));
    for (key, value) in fields {
        let _ = write!(line, " {key}={}", quoted(value));
    }
    line.push('\n');
    line
}

/// Quotes what is more than a word.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/@^+".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { quote(text) }
}

/// As Go's `strconv.Quote`.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\0'..=' ' if c != ' ' => _ = write!(quoted, "\\x{:02x}", c as u32),
            '\x7f' => quoted.push_str("\\x7f"),
            // Behind a letter, so that what only goes with one, such as an accent, is printed.
            _ if !format!("a{c}").escape_debug().skip(1).eq([c]) && c != '\'' => match c as u32 {
                code @ ..0x10000 => _ = write!(quoted, "\\u{code:04x}"),
                code => _ = write!(quoted, "\\U{code:08x}"),
            },
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A time in UTC with whole seconds, `2026-11-20T18:05:32Z`.
pub(crate) fn rfc_3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Year, month and day of a number of days since 1970-01-01 (H. Hinnant, "chrono-compatible
/// low-level date algorithms", `civil_from_days`, for dates after the epoch).
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_197_932, "2026-11-20T18:05:32Z"),
        ] {
            assert_eq!(rfc_3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn what_is_hidden_is_in_no_message() {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Log::new(Messages::Keep(lines.clone()));
        for text in ["abc", "abcdef", " "] {
            log.hide(text);
        }
        log.write(Level::Info, "is abcdef or abc", &[("field", "xabcx")]);
        let line = lines.lock().unwrap().join("");
        assert!(!line.contains("abc") && !line.contains("def"), "{line}");
        assert_eq!(line.matches("***SECRET_REDACTED***").count(), 3, "{line}");
    }

    #[test]
    fn a_message_is_one_line_whatever_it_contains() {
        let line = key_value(Level::Error, UNIX_EPOCH, "a\n\"b\"", &[("source", "console")]);
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.ends_with("level=error msg=\"a\\n\\\"b\\\"\" source=console\n"), "{line}");
    }
}
