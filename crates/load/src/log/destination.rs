//! Destinations of messages (`--log-output`).

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Level, LogError};

/// Destination of messages.
#[derive(Debug, Clone, Default)]
pub enum Messages {
    /// Standard error.
    #[default]
    Stderr,
    /// Standard output.
    Stdout,
    /// No destination.
    None,
    /// A file, to which messages are appended.
    File(LogFile),
    /// Lines in memory.
    Keep(Arc<Mutex<Vec<String>>>),
}

/// A file of messages.
#[derive(Debug, Clone)]
pub struct LogFile {
    file: Arc<Mutex<File>>,
    /// Lowest level.
    level: Level,
}

impl Messages {
    /// Parses `stderr`, `stdout`, `none` or `file=PATH[,level=LEVEL]`, and opens the file.
    ///
    /// # Errors
    /// Any other destination, or a file that cannot be opened.
    pub fn parse(text: &str) -> Result<Self, LogError> {
        match text {
            "stderr" => return Ok(Self::Stderr),
            "stdout" => return Ok(Self::Stdout),
            "none" => return Ok(Self::None),
            _ => {}
        }
        if text == "loki" || text.starts_with("loki=") {
            return Err(LogError::Loki);
        }
        let (mut path, mut level) = (None, Level::Debug);
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("file", name)) if !name.is_empty() => path = Some(name),
                Some(("level", name)) => level = lowest_level(name)?,
                _ => return Err(LogError::Output(text.to_owned())),
            }
        }
        let path = path.ok_or_else(|| LogError::NoFile(text.to_owned()))?;
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(|why| LogError::Open { path: path.to_owned(), why })?;
        Ok(Self::File(LogFile { file: Arc::new(Mutex::new(file)), level }))
    }

    pub(super) fn is_terminal(&self) -> bool {
        match self {
            Self::Stderr => std::io::stderr().is_terminal(),
            Self::Stdout => std::io::stdout().is_terminal(),
            Self::None | Self::File(_) | Self::Keep(_) => false,
        }
    }

    pub(super) fn write(&self, level: Level, line: String) {
        match self {
            // A closed stream is ignored.
            Self::Stderr => drop(std::io::stderr().lock().write_all(line.as_bytes())),
            Self::Stdout => drop(std::io::stdout().lock().write_all(line.as_bytes())),
            Self::None => {}
            Self::File(file) if level < file.level => {}
            Self::File(LogFile { file, .. }) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(error) = file.write_all(line.as_bytes()) {
                    // The message must not be lost.
                    let lines = format!("the log file cannot be written: {error}\n{line}");
                    drop(std::io::stderr().lock().write_all(lines.as_bytes()));
                }
            }
            Self::Keep(lines) => {
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        }
    }
}

fn lowest_level(name: &str) -> Result<Level, LogError> {
    match name.to_ascii_lowercase().as_str() {
        "trace" | "debug" => Ok(Level::Debug),
        "info" => Ok(Level::Info),
        "warn" | "warning" => Ok(Level::Warning),
        "error" | "fatal" | "panic" => Ok(Level::Error),
        _ => Err(LogError::Level(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_messages_of_its_level_and_those_above() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        std::fs::write(&path, "before\n").expect("a file");
        let messages = Messages::parse(&format!("file={},level=WARN", path.display()));
        let messages = messages.expect("a file");
        for (level, line) in [(Level::Error, "e\n"), (Level::Info, "i\n"), (Level::Warning, "w\n")]
        {
            messages.write(level, line.to_owned());
        }
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "before\ne\nw\n");
    }

    #[test]
    fn what_is_no_destination_is_named() {
        for (text, part) in [
            ("loki", "`loki` is not supported yet"),
            ("loki=http://127.0.0.1:3100", "`loki` is not supported yet"),
            ("syslog", "`syslog`"),
            ("file", "file=PATH"),
            ("file=", "file=PATH"),
            ("level=info", "a file is expected"),
            ("file=/tmp/x,level=loud", "`loud`"),
            ("file=/tmp/x,size=1", "size=1"),
            ("file=/no/such/directory/log", "/no/such/directory/log cannot be opened"),
        ] {
            let error = Messages::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
