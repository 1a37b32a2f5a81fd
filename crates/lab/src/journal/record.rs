//! Records of rounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::judge::part::StackPart;
use crate::load::report::LoadReport;
use crate::observe::{MachineUse, ServerUse};

/// Largest share of stolen CPU time in an undisturbed round.
pub(crate) const STEAL_LIMIT: f64 = 0.05;
/// Most cores that other processes use in an undisturbed round.
pub(crate) const FOREIGN_LIMIT: f64 = 0.2;
/// Below this share of good requests, response times reflect refusals.
pub(crate) const GOOD_LIMIT: f64 = 0.99;

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// From 1.
    pub block: u32,
    /// Attempt at the block, from 1; more than 1 after a broken round.
    pub attempt: u32,
    /// Position within the block, from 1.
    pub position: u32,
    pub variant: String,
    /// The other variant of a pair; absent for a round alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// RFC 3339 in UTC.
    pub started: String,
    /// Includes preparation and stop.
    pub took_seconds: f64,
    /// Its block is complete. Known when the block has ended, hence only in `report.json`.
    #[serde(default)]
    pub counted: bool,
    /// Reasons to refuse and repeat the round. A refused round never counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Warning>,
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured(Box<Measured>),
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub load: LoadReport,
    /// `None` for a `url`.
    pub server: Option<ServerUse>,
    pub machine: Option<MachineUse>,
    /// `None` when server and generator shared all CPUs.
    pub cpus: Option<Pinned>,
    pub warnings: Vec<Warning>,
    /// In the order of the file.
    #[serde(default)]
    pub invariants: Vec<Checked>,
    /// Chosen series of the server's metrics page.
    #[serde(default)]
    pub observed: Vec<Observed>,
    /// Figures of databases by the names of `observe::database::Figure`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub databases: BTreeMap<String, f64>,
    /// CPU time of the server's processes by name, in seconds, from the start of the generator until the end of the
    /// load: warm-up included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<String, f64>,
    /// Peak memory of each process in the window, in bytes, measured like that of the whole server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub process_memory: BTreeMap<String, u64>,
    /// Actions during the load.
    #[serde(default)]
    pub events: Vec<Event>,
}

/// Result of an invariant in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    pub name: String,
    pub holds: bool,
    /// After the load, or the change over the round.
    pub value: f64,
    /// Before the load; `None` for a formula, which is evaluated afterwards.
    pub before: Option<f64>,
    pub limits: Vec<CheckedLimit>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedLimit {
    pub bound: LimitKind,
    /// As in the file.
    pub formula: String,
    pub limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    Equals,
    AtMost,
    AtLeast,
}

/// A series of a metrics page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    pub series: String,
    /// Change over the load; `None` if the page does not have it.
    pub change: Option<f64>,
    /// Value at the end of each step of the load's series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<f64>,
}

/// An action during the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds after the start of the measured window; negative before it.
    pub at_seconds: f64,
    pub what: String,
    /// For a restart, until the server was ready again.
    pub took_seconds: f64,
}

/// CPU numbers as lists, such as `0,1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pinned {
    /// `None` for a `url`, which the lab cannot pin.
    pub server: Option<String>,
    pub generator: String,
}

impl RoundRecord {
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed(_) => None,
        }
    }

    pub fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Outcome::Failed(failure) => Some(failure),
            Outcome::Measured(_) => None,
        }
    }
}

impl Measured {
    /// CPU time in the window of processes that used so many seconds of [`processes`](Self::processes).
    pub(crate) fn in_window(&self, seconds: f64) -> Option<f64> {
        let parts = StackPart::ALL.iter().filter_map(|part| self.processes.get(part.name()));
        let all: f64 = parts.sum();
        let used = self.server.as_ref()?.cpu_with_drain()?;
        (all > 0.0).then(|| used * seconds / all)
    }

    /// True if response times reflect refusals.
    pub fn has_bad_requests(&self) -> bool {
        self.load.good_share().is_some_and(|share| share < GOOD_LIMIT)
    }

    /// CPU time of the fixed work on the server's cores, in microseconds.
    pub fn pace(&self) -> Option<f64> {
        Some(self.machine.as_ref()?.pace?.work_us)
    }

    /// True if other processes or guests used much of the machine.
    pub fn was_disturbed(&self) -> bool {
        let noise = |warning: &Warning| matches!(warning, Warning::Steal | Warning::ForeignCpu);
        self.warnings.iter().any(noise)
    }
}

/// A condition that makes a round doubtful; [`Warning::text`] describes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    GeneratorLimited,
    Steal,
    ForeignCpu,
    BadRequests,
    Thresholds,
    MarkedAsFailed,
    UncleanStop,
    SharedCore,
    SharedCpus,
    /// Files of the round could not be removed after it.
    LeftFiles,
    NoBudget,
    Dropped,
    Exceptions,
    CpuUnknown,
    BusyAfterLoad,
    FailedChecks,
    Apart,
}

impl Warning {
    /// Warnings that an experiment may accept, by their words in files. Otherwise the last one means a broken system,
    /// and the others refuse a round.
    pub const ACCEPTABLE: [(&'static str, Self); 4] = [
        ("steal", Self::Steal),
        ("foreign_cpu", Self::ForeignCpu),
        ("no_budget", Self::NoBudget),
        ("failed_checks", Self::FailedChecks),
    ];

    pub fn text(self) -> &'static str {
        match self {
            Self::GeneratorLimited => "the load generator, not the server, may have been the limit",
            Self::Steal => "the hypervisor took more than 5 % of this machine's CPU time",
            Self::ForeignCpu => "other processes used more than 20 % of a core",
            Self::BadRequests => {
                "fewer than 99 % of the requests were good; response times include the others"
            }
            Self::UncleanStop => {
                "the server crashed, failed or had to be killed when it was asked to stop"
            }
            Self::SharedCore => {
                "server and generator ran on hardware threads of the same core and slowed each \
                 other down"
            }
            Self::SharedCpus => {
                "server and generator shared all CPUs, so each took time from the other"
            }
            Self::NoBudget => "budget not applied: the server had all of its CPUs",
            Self::LeftFiles => "files of the round could not be removed",
            Self::Dropped => {
                "more than 1 % of the iterations were dropped, because no virtual user was free: measured \
                 response times are lower bounds (raise `maxVUs`, or lower the rate)"
            }
            Self::Exceptions => {
                "the script threw in more than 1 % of its iterations although all their requests were \
                 good, so what it would have asked then was not asked"
            }
            Self::CpuUnknown => {
                "processes of the server ended and were not waited for (their parent ignores SIGCHLD, or \
                 it was somebody outside), and the kernel forgets what such processes used: the server's \
                 CPU time is not known"
            }
            Self::BusyAfterLoad => {
                "the server went on working when the load had ended: what it put off is not in its CPU time \
                 per request (a `drain` hook that waits for it would count it)"
            }
            Self::Apart => "the loads of a pair did not overlap, so their costs are not comparable",
            Self::FailedChecks => "more than 1 % of a check failed",
            Self::Thresholds => "a threshold of the script was crossed",
            Self::MarkedAsFailed => "the script marked its run as failed (`exec.test.fail()`)",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// Ends with the last output of what failed.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The server did not become ready.
    Start,
    ServerDied,
    Load,
    /// The server was not ready within `start_limit`.
    StartLimit,
    /// The generator took longer than `time_limit`.
    TimeLimit,
    /// Server or generator printed too much.
    Output,
    /// A value of an invariant could not be read.
    Value,
    /// An observed database failed.
    Database,
    Hook,
    Machine,
    Interrupted,
}

impl FailureKind {
    /// True if the system under test failed, not the load generator, a hook or this machine.
    pub fn is_of_the_system(self) -> bool {
        matches!(self, Self::Start | Self::StartLimit | Self::ServerDied | Self::Database)
    }
}

impl Failure {
    /// A failure with an error and its causes.
    pub(crate) fn because(kind: FailureKind, error: &dyn std::error::Error) -> Self {
        Self::new(kind, crate::words::chain(error))
    }

    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}
