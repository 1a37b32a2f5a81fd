//! What is done around a round and in the middle of one.

use std::time::Duration;

use rustix::process::Signal;
use serde::Serialize;

/// Commands and signals. Commands run in the experiment's directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Hooks {
    /// Once, before the first round, when the data have been made.
    pub prepare: Option<Vec<String>>,
    /// In each round, when the server is ready and before values are taken and the load begins.
    pub reset: Option<Vec<String>>,
    /// In each round, when the load has ended and before values are taken.
    pub drain: Option<Vec<String>>,
    /// In each round, while the server is loaded; in order of time.
    pub during: Vec<During>,
    /// Longest time one command may take.
    #[serde(skip)]
    pub time_limit: Duration,
}

/// Something done while the server is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct During {
    /// When, after the start of the measured window.
    #[serde(rename = "at_seconds", serialize_with = "as_seconds")]
    pub at: Duration,
    #[serde(flatten)]
    pub action: Action,
}

impl Hooks {
    /// Whether commands run before the script is read, which may make files that it opens.
    pub(crate) fn come_before_the_load(&self) -> bool {
        self.prepare.is_some() || self.reset.is_some()
    }
}

fn as_seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// What can be done to a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A command is run; nobody waits for it before the load has ended.
    Command(Vec<String>),
    #[serde(untagged)]
    Signal {
        signal: &'static str,
        /// It is expected to end, and started again on the same data and address.
        restart: bool,
    },
}

/// Signals that say something to a server, by their names without `SIG`.
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
