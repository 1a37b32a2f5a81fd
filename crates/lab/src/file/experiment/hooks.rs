//! What is done around a round and in the middle of one.

use std::time::Duration;

use rustix::process::Signal as Number;
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
        /// Name of the signal.
        signal: Signal,
        /// It is expected to end, and started again on the same data and address.
        restart: bool,
    },
}

/// Signals that say something to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    Hup,
    Int,
    Quit,
    Kill,
    Usr1,
    Usr2,
    Term,
    Cont,
    Stop,
}

impl Signal {
    /// All of them and their names.
    pub const ALL: [(&'static str, Self); 9] = [
        ("HUP", Self::Hup),
        ("INT", Self::Int),
        ("QUIT", Self::Quit),
        ("KILL", Self::Kill),
        ("USR1", Self::Usr1),
        ("USR2", Self::Usr2),
        ("TERM", Self::Term),
        ("CONT", Self::Cont),
        ("STOP", Self::Stop),
    ];

    /// Its name without `SIG`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, signal)| *signal == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn number(self) -> Number {
        match self {
            Self::Hup => Number::HUP,
            Self::Int => Number::INT,
            Self::Quit => Number::QUIT,
            Self::Kill => Number::KILL,
            Self::Usr1 => Number::USR1,
            Self::Usr2 => Number::USR2,
            Self::Term => Number::TERM,
            Self::Cont => Number::CONT,
            Self::Stop => Number::STOP,
        }
    }
}
