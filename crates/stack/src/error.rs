//! Errors of processes, with their last output. Causes are sources, not part of the text: print the whole chain.

use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

use crate::{BudgetError, Exit};

/// Result of most functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of starting, awaiting or stopping a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum Error {
    /// The command or its directory does not exist, or the command may not be executed.
    #[error("cannot start `{program}`")]
    Start { program: String, source: io::Error },
    /// The supervisor could not be run, or is none: the program or arguments given to
    /// [`Supervisor::new`](crate::Supervisor::new) are wrong.
    #[error("cannot supervise `{program}`")]
    Supervise { program: String, source: io::Error },
    /// The process ended before it was ready.
    #[error("`{program}` ended before it was ready ({exit}){}{stderr}", in_background(*exit))]
    EndedEarly { program: String, exit: Exit, stderr: Tail },
    /// The process runs, but was not ready in time.
    #[error(
        "`{program}` was not ready within {timeout:?}: waited for {what}{}{stderr}",
        elsewhere(*listens)
    )]
    NotReady {
        program: String,
        what: String,
        /// The first TCP port at which it listens, if not at the probed one.
        listens: Option<u16>,
        timeout: Duration,
        stderr: Tail,
    },
    /// The wait was cancelled, see [`Patience`](crate::Patience).
    #[error("gave up waiting for `{program}`")]
    GivenUp { program: String },
    /// The tree survived SIGKILL, as only a process stuck in the kernel does.
    #[error("`{program}` did not end although it was killed {waited:?} ago")]
    Stuck { program: String, waited: Duration },
    #[error("`{program}` was not found: install the Debian package `{package}`")]
    NotInstalled { program: &'static str, package: &'static str },
    /// The CPU budget cannot be enforced. Nothing was started.
    #[error("budget not applied")]
    Budget(#[from] BudgetError),
    /// Failure of a file, socket or `/proc` entry.
    #[error("{what}")]
    Io { what: String, source: io::Error },
}

impl Error {
    pub(crate) fn at(what: &str, path: &Path, source: io::Error) -> Self {
        Self::Io { what: format!("{what} `{}`", path.display()), source }
    }

    /// [`Error::NotInstalled`] unless all files of a package exist.
    pub(crate) fn unless_installed(
        files: &[&str],
        program: &'static str,
        package: &'static str,
    ) -> Result<()> {
        if files.iter().all(|file| Path::new(file).exists()) {
            return Ok(());
        }
        Err(Self::NotInstalled { program, package })
    }
}

/// A server that daemonises exits at once with success.
fn in_background(exit: Exit) -> &'static str {
    if exit.is_success() { "; it has to stay in the foreground" } else { "" }
}

fn elsewhere(port: Option<u16>) -> String {
    port.map_or_else(String::new, |port| format!("; it listens at port {port}"))
}

/// The last lines of a process's stderr, or of a file that has its stdout as well. Displays nothing if there are
/// none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tail(pub String);

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.trim().is_empty() {
            return Ok(());
        }
        f.write_str("\nits last lines:")?;
        for line in self.0.trim_end().lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log file may have both streams in it.
    #[test]
    fn last_lines_are_told_without_saying_of_which_stream() {
        assert_eq!(Tail("one\ntwo\n".to_owned()).to_string(), "\nits last lines:\n  one\n  two");
        assert_eq!(Tail(" \n".to_owned()).to_string(), "");
    }
}
