//! What can go wrong with a process, with enough of its own words to act on. Causes are sources,
//! not part of the text: print the whole chain.

use std::path::Path;
use std::time::Duration;
use std::{fmt, io};

use crate::{BudgetError, Exit};

/// What most functions of this crate give.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a process could not be started, made ready or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum Error {
    /// The command does not exist, may not be executed, or has a directory that does not.
    #[error("cannot start `{program}`")]
    Start { program: String, source: io::Error },
    /// The supervisor itself could not be run, or did not speak as one: the prefix given to
    /// [`Supervisor::new`](crate::Supervisor::new) is wrong.
    #[error("cannot supervise `{program}`")]
    Supervise { program: String, source: io::Error },
    /// The process ended while somebody waited for it to become ready.
    #[error("`{program}` ended before it was ready ({exit}){}{stderr}", in_background(*exit))]
    EndedEarly { program: String, exit: Exit, stderr: Tail },
    /// The process lives, but did not become ready in time.
    #[error(
        "`{program}` was not ready within {timeout:?}: waited for {what}{}{stderr}",
        elsewhere(*listens)
    )]
    NotReady {
        program: String,
        what: String,
        /// The first TCP port at which it listens, if it does not at the one that was asked.
        listens: Option<u16>,
        timeout: Duration,
        stderr: Tail,
    },
    /// Somebody gave up waiting for the process, see [`Patience`](crate::Patience).
    #[error("gave up waiting for `{program}`")]
    GivenUp { program: String },
    /// The tree survived being killed, which only a process stuck in the kernel does.
    #[error("`{program}` did not end although it was killed {waited:?} ago")]
    Stuck { program: String, waited: Duration },
    /// A program that has to be installed is not.
    #[error("`{program}` was not found: install the Debian package `{package}`")]
    NotInstalled { program: &'static str, package: &'static str },
    /// The CPU budget cannot be enforced; nothing was started.
    #[error("budget not applied")]
    Budget(#[from] BudgetError),
    /// A file, socket or `/proc` entry failed outside a process's own doing.
    #[error("{what}")]
    Io { what: String, source: io::Error },
}

impl Error {
    /// A file or directory cannot be used as it says.
    pub(crate) fn at(what: &str, path: &Path, source: io::Error) -> Self {
        Self::Io { what: format!("{what} `{}`", path.display()), source }
    }
}

/// Servers that leave for the background end well and at once.
fn in_background(exit: Exit) -> &'static str {
    if exit.is_success() { "; it has to stay in the foreground" } else { "" }
}

/// Where a server listens instead of where it should.
fn elsewhere(port: Option<u16>) -> String {
    port.map_or_else(String::new, |port| format!("; it listens at port {port}"))
}

/// The last lines a process wrote to stderr, or to a file that is its stdout, too; prints nothing at all
/// when there are none.
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
