//! The files of one round.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::{Bench, RoundPosition};
use crate::file::experiment::Variant;
use crate::journal::record::{Failure, FailureKind};
use crate::round::copy::{self, CopyError};

/// Lines of each end of a log that are shown: an error may come first, with the stacks of a thousand threads after it.
const LINES: usize = 12;
/// Bytes of each end that are read.
const END_BYTES: u64 = 16 << 10;

pub(crate) struct Files {
    scratch: PathBuf,
    pub data: PathBuf,
    pub report: PathBuf,
    /// Start of the measured window.
    pub started: PathBuf,
    pub server_log: PathBuf,
    pub load_log: PathBuf,
}

impl Files {
    pub(crate) fn new(
        bench: &Bench<'_>,
        place: RoundPosition,
        variant: &Variant,
        beside: Option<&str>,
    ) -> Result<Self, Failure> {
        let RoundPosition { block, attempt, position } = place;
        let scratch = bench.work.join(format!("round-{position}"));
        let data = scratch.join("data");
        let broken = |what: &str, error: io::Error| {
            Failure::new(FailureKind::Machine, format!("cannot {what}: {error}"))
        };
        remove(&scratch)
            .and_then(|()| fs::create_dir_all(&data))
            .map_err(|error| broken(&format!("empty `{}`", scratch.display()), error))?;
        if let Some(template) = bench.templates.for_variant(variant) {
            copy::tree(template, &data, bench.cancel).map_err(|error| match error {
                CopyError::Cancelled => {
                    Failure::new(FailureKind::Interrupted, "the run was interrupted")
                }
                CopyError::Io { path, source } => {
                    broken(&format!("copy the data: `{}`", path.display()), source)
                }
            })?;
        }
        let beside = beside.map_or_else(String::new, |other| format!("-beside-{other}"));
        let name = format!("{block}-{attempt}-{}{beside}", variant.name);
        let log = |who| bench.logs.join(format!("{name}.{who}.log"));
        Ok(Self {
            report: scratch.join("load.json"),
            started: scratch.join("started"),
            scratch,
            data,
            server_log: log("server"),
            load_log: log("load"),
        })
    }

    /// Removes all files after a good round.
    pub(crate) fn discard(&self) -> io::Result<()> {
        remove(&self.scratch)?;
        remove(&self.server_log)?;
        remove(&self.load_log)
    }
}

/// Both ends of a log and its path; empty for an empty log.
pub(crate) fn excerpt(log: &Path) -> String {
    let (head, tail) = ends(log).unwrap_or_default();
    let shown = match (head.as_slice(), tail.as_slice()) {
        ([], []) => return String::new(),
        (all, []) => paragraph("its output", all),
        (head, tail) => paragraph("its first lines", head) + &paragraph("its last lines", tail),
    };
    format!("{shown}\nall of it: {}", log.display())
}

fn paragraph(title: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    format!("\n{title}:{lines}")
}

/// First and last lines; few lines are all in the first list.
fn ends(log: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let mut file = fs::File::open(log)?;
    let length = file.metadata()?.len();
    let mut read = |from: u64, bytes: u64| {
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        (&mut file).take(bytes).read_to_end(&mut text)?;
        io::Result::Ok(String::from_utf8_lossy(&text).into_owned())
    };
    let own = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let head = read(0, 2 * END_BYTES)?;
    let lines: Vec<&str> = head.trim_end().lines().collect();
    if length <= 2 * END_BYTES && lines.len() <= 2 * LINES {
        return Ok((own(&lines), Vec::new()));
    }
    let tail = read(length.saturating_sub(END_BYTES), END_BYTES)?;
    let mut last: Vec<&str> = tail.trim_end().lines().rev().take(LINES).collect();
    last.reverse();
    Ok((own(&lines[..lines.len().min(LINES)]), own(&last)))
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt_of(text: &str) -> (String, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        (excerpt(file.path()), format!("\nall of it: {}", file.path().display()))
    }

    #[test]
    fn both_ends_of_a_long_log_are_shown_and_where_it_is() {
        let text: String = (0..10_000).map(|n| format!("goroutine {n}\n")).collect();
        let (said, place) = excerpt_of(&format!("fatal error: out of memory\n{text}"));
        assert!(said.starts_with("\nits first lines:\n  fatal error: out of memory\n"), "{said}");
        assert!(said.contains("\nits last lines:\n  goroutine 9988\n"), "{said}");
        assert!(said.ends_with(&format!("\n  goroutine 9999{place}")), "{said}");
        assert!(said.lines().count() < 30, "{said}");
    }

    #[test]
    fn a_short_log_is_shown_once_and_an_empty_one_not_at_all() {
        let (said, place) = excerpt_of("one\ntwo\n");
        assert_eq!(said, format!("\nits output:\n  one\n  two{place}"));
        assert_eq!(excerpt_of("").0, "");
        assert_eq!(excerpt(Path::new("/nowhere/at/all")), "");
    }
}
