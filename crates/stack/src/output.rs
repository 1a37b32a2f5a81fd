//! Destinations of a process's output, and the bounded capture of it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Lines kept from the start of a stream, where servers print their address.
const HEAD_LINES: usize = 100;
/// Lines kept from the end, where servers report fatal errors.
const TAIL_LINES: usize = 40;
/// Longer lines are truncated, so that a stream without line ends cannot fill the memory.
const LINE_BYTES: usize = 4096;
/// Bytes of a log file that are read for an error message.
const FILE_TAIL_BYTES: u64 = 4096;

/// Destination of standard output or standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Discarded.
    Null,
    /// Read by the owner, which keeps the first 100 and the last 40 lines of at most 4,096 bytes each.
    /// The process never waits for a reader.
    Capture,
    /// Appended to a file, without limit.
    File(PathBuf),
}

/// The first and the last lines of a captured stream.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    head: Vec<String>,
    tail: VecDeque<String>,
    partial: Vec<u8>,
    /// The end of the stream was reached.
    pub ended: bool,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                self.finish_line();
            } else if self.partial.len() < LINE_BYTES {
                self.partial.push(*byte);
            }
        }
    }

    pub(crate) fn end(&mut self) {
        if !self.partial.is_empty() {
            self.finish_line();
        }
        self.ended = true;
    }

    pub(crate) fn head(&self) -> &[String] {
        &self.head
    }

    pub(crate) fn tail(&self) -> String {
        self.tail.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    fn finish_line(&mut self) {
        let line = String::from_utf8_lossy(&self.partial).trim_end_matches('\r').to_owned();
        self.partial.clear();
        if self.head.len() < HEAD_LINES {
            self.head.push(line.clone());
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }
}

/// The last whole lines of a log file.
pub(crate) fn file_tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(FILE_TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(FILE_TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let whole = match text.split_once('\n') {
        Some((_, rest)) if start > 0 => rest,
        _ => &text,
    };
    Ok(whole.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_cut_anywhere_are_joined() {
        let mut lines = Lines::default();
        for piece in ["lis", "tening\r", "\nsecond", "\n", "last"] {
            lines.push(piece.as_bytes());
        }
        assert_eq!(lines.head(), ["listening", "second"]);
        lines.end();
        assert_eq!(lines.tail(), "listening\nsecond\nlast\n");
    }

    #[test]
    fn an_endless_stream_takes_bounded_memory() {
        let mut lines = Lines::default();
        let noise = vec![b'x'; 1 << 16];
        for _ in 0..100 {
            lines.push(&noise);
        }
        for _ in 0..10_000 {
            lines.push(b"\n");
        }
        lines.end();
        assert_eq!(lines.head().len(), HEAD_LINES);
        assert_eq!(lines.head()[0].len(), LINE_BYTES);
        assert_eq!(lines.tail().lines().count(), TAIL_LINES);
    }

    #[test]
    fn the_tail_of_a_long_file_starts_at_a_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        std::fs::write(file.path(), text).unwrap();
        let tail = file_tail(file.path()).unwrap();
        assert!(tail.ends_with("line 9999\n") && tail.starts_with("line "), "{tail}");
        assert!(tail.len() <= 4096);
    }
}
