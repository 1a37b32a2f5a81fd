//! Formats of messages: short on a terminal, otherwise by `--log-format`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Level, LogError};

/// Format of messages (`--log-format`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value`; short on a terminal.
    #[default]
    Text,
    /// One object per line.
    Json,
    /// The message alone.
    Raw,
}

impl LogFormat {
    /// Parses k6's name of a format.
    ///
    /// # Errors
    /// Any other name.
    pub fn parse(name: &str) -> Result<Self, LogError> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "raw" => Ok(Self::Raw),
            _ => Err(LogError::Format(name.to_owned())),
        }
    }

    /// A line outside of terminals.
    pub(super) fn line(self, level: Level, message: &str, fields: &[(&str, &str)]) -> String {
        match self {
            Self::Text => key_value(level, SystemTime::now(), message, fields),
            Self::Json => json(level, SystemTime::now(), message, fields),
            Self::Raw => format!("{message}\n"),
        }
    }
}

pub(super) fn short(
    level: Level,
    elapsed: Duration,
    message: &str,
    fields: &[(&str, &str)],
) -> String {
    let name = match level {
        Level::Debug => "DEBU",
        Level::Info => "INFO",
        Level::Warning => "WARN",
        Level::Error => "ERRO",
    };
    let line = format!("{name}[{:04}] {message:<44}", elapsed.as_secs());
    push_fields(line, fields)
}

fn key_value(level: Level, time: SystemTime, message: &str, fields: &[(&str, &str)]) -> String {
    let mut line = format!("time=\"{}\" level={}", rfc_3339(time), level.name());
    // As in k6 an empty message is left out.
    if !message.is_empty() {
        let _ = write!(line, " msg={}", quoted(message));
    }
    push_fields(line, fields)
}

fn push_fields(mut line: String, fields: &[(&str, &str)]) -> String {
    for (key, value) in fields {
        let _ = write!(line, " {key}={}", quoted(value));
    }
    line + "\n"
}

/// As Go's encoder: sorted keys, and HTML characters escaped.
fn json(level: Level, time: SystemTime, message: &str, fields: &[(&str, &str)]) -> String {
    let time = rfc_3339(time);
    let own = [("level", level.name()), ("msg", message), ("time", &*time)];
    let members: BTreeMap<&str, &str> = fields.iter().copied().chain(own).collect();
    let mut line = serde_json::to_string(&members).unwrap_or_default();
    for c in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
        line = line.replace(c, &format!("\\u{:04x}", c as u32));
    }
    line.push('\n');
    line
}

/// Quotes all but single words.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/@^+".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { quote(text) }
}

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
            // After a letter, so that combining characters are printed.
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

/// UTC in whole seconds, `2026-11-20T18:05:32Z`.
pub(crate) fn rfc_3339(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    rfc_3339_nano(time.replace_nanosecond(0).unwrap_or(time).into())
}

/// UTC with the necessary digits, `2026-11-20T18:05:32.25Z`.
pub(crate) fn rfc_3339_nano(time: SystemTime) -> String {
    OffsetDateTime::from(time).format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

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
    fn a_message_is_one_line_whatever_it_contains() {
        let line = key_value(Level::Error, UNIX_EPOCH, "a\n\"b\"", &[("source", "console")]);
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.ends_with("level=error msg=\"a\\n\\\"b\\\"\" source=console\n"), "{line}");
    }

    #[test]
    fn a_message_as_json_has_its_keys_by_the_alphabet() {
        let line = json(Level::Warning, UNIX_EPOCH, "a\n<\"&", &[("source", "console")]);
        let expected = r#"{"level":"warning","msg":"a\n\u003c\"\u0026","source":"console","time":"1970-01-01T00:00:00Z"}"#;
        assert_eq!(line, format!("{expected}\n"));
    }

    #[test]
    fn a_time_has_the_digits_it_needs() {
        let time = UNIX_EPOCH + Duration::new(1_795_197_932, 250_000_000);
        assert_eq!(rfc_3339_nano(time), "2026-11-20T18:05:32.25Z");
        assert_eq!(rfc_3339_nano(UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }
}
