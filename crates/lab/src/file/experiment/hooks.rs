//! Commands and signals around and during a round.

use std::time::Duration;

use rustix::process::Signal;
use serde::Serialize;

/// Commands run in the experiment's directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Hooks {
    /// Before the first round, after the data were made.
    pub prepare: Option<Vec<String>>,
    /// In each round, when the server is ready, before values are taken.
    pub reset: Option<Vec<String>>,
    /// In each round, after the load, before values are taken.
    pub drain: Option<Vec<String>>,
    /// In each round under load, ordered by time.
    pub during: Vec<During>,
    /// Limit of each command.
    #[serde(skip)]
    pub time_limit: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct During {
    /// After the start of the measured window.
    #[serde(rename = "at_seconds", serialize_with = "crate::time::as_seconds")]
    pub at: Duration,
    #[serde(flatten)]
    pub action: Action,
}

impl Hooks {
    /// True if commands run before the script is read: they may write files that it opens.
    pub(crate) fn come_before_the_load(&self) -> bool {
        self.prepare.is_some() || self.reset.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Runs until the end of the load at the latest.
    Command(Vec<String>),
    #[serde(untagged)]
    Signal {
        signal: &'static str,
        /// The server ends and is started again on the same data and address.
        restart: bool,
    },
}

/// Signals by their names without `SIG`.
pub(crate) const SIGNALS: [(&str, Signal); 9] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("TERM", Signal::TERM),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
];
