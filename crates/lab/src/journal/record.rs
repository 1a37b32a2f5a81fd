//! What is kept about one round.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::judge::part::StackPart;
use crate::load::report::LoadReport;
use crate::observe::{MachineUse, ServerUse};

/// More steal than this is a disturbed round.
pub(crate) const STEAL_LIMIT: f64 = 0.05;
/// More foreign CPU than this, in cores, is a disturbed round.
pub(crate) const FOREIGN_LIMIT: f64 = 0.2;
/// Below this share of good requests, response times tell more about refusals than about service.
pub(crate) const GOOD_LIMIT: f64 = 0.99;

/// Everything kept about one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// Which block, from 1.
    pub block: u32,
    /// Which run of that block, from 1; more than 1 after a broken round.
    pub attempt: u32,
    /// Which place within the block, from 1.
    pub position: u32,
    pub variant: String,
    /// The variant that was loaded beside it at the same moment; absent of a round alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// How long it took, preparation and stop included.
    pub took_seconds: f64,
    /// Whether its block was complete, so that it counts. Known when the block has ended, hence in
    /// `report.json` only.
    #[serde(default)]
    pub counted: bool,
    /// Why it was measured and then refused, to be repeated; empty when it was not. A refused
    /// round never counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Warning>,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured(Box<Measured>),
    Failed(Failure),
}

/// The figures of a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub load: LoadReport,
    /// What the server used in the same window; `None` for a `url`.
    pub server: Option<ServerUse>,
    /// What else happened on the machine in the same window.
    pub machine: Option<MachineUse>,
    /// Which CPUs server and generator had for themselves; `None` when they shared all.
    pub cpus: Option<Pinned>,
    pub warnings: Vec<Warning>,
    /// What was asked of its data and counters, in the order of the file.
    #[serde(default)]
    pub invariants: Vec<Checked>,
    /// How chosen series of the server's metrics page changed over the round.
    #[serde(default)]
    pub observed: Vec<Observed>,
    /// Figures of the databases beside the server, by the names of [`Figure`](crate::observe::database::Figure).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub databases: BTreeMap<String, f64>,
    /// CPU time of the server's processes by their names, in seconds, from the start of
    /// the generator until the load was over: warm-up included.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processes: BTreeMap<String, f64>,
    /// The most memory that they had in the window, in bytes, as that of the whole server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub process_memory: BTreeMap<String, u64>,
    /// What was done to the server while it was loaded.
    #[serde(default)]
    pub events: Vec<Event>,
}

/// What came of an invariant in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    pub name: String,
    pub holds: bool,
    /// The value: after the load, or by how much it changed.
    pub value: f64,
    /// The value before the load; `None` for a formula, which is only taken afterwards.
    pub before: Option<f64>,
    pub limits: Vec<CheckedLimit>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedLimit {
    pub bound: LimitKind,
    /// With what, as in the file.
    pub formula: String,
    pub limit: f64,
}

/// How a value is compared with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    Equals,
    AtMost,
    AtLeast,
}

/// A series of the server's metrics page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    pub series: String,
    /// By how much it changed between the start of the load and its end; `None` when the page
    /// does not have it.
    pub change: Option<f64>,
    /// Its value at the end of each step of the load's series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<f64>,
}

/// Something done to the server while it was loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it was done, in seconds after the start of the measured window; before its start, below zero.
    pub at_seconds: f64,
    pub what: String,
    /// How long it took; of a restart, until the server was ready again.
    pub took_seconds: f64,
}

/// CPU numbers as lists, such as `0,1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pinned {
    /// Those of the server; `None` for a `url`, which the lab cannot pin.
    pub server: Option<String>,
    pub generator: String,
}

impl Measured {
    /// The part of the server's CPU time in the window that processes had which used so many seconds of
    /// [`processes`](Self::processes): in the same proportion.
    pub(crate) fn in_window(&self, seconds: f64) -> Option<f64> {
        let parts = StackPart::ALL.iter().filter_map(|part| self.processes.get(part.name()));
        let all: f64 = parts.sum();
        let used = self.server.as_ref()?.cpu_with_drain()?;
        (all > 0.0).then(|| used * seconds / all)
    }

    /// Whether so many requests were not good that response times tell about refusals.
    pub fn has_bad_requests(&self) -> bool {
        self.load.good_share().is_some_and(|share| share < GOOD_LIMIT)
    }

    /// How long the fixed work took on the server's cores, in microseconds of CPU time.
    pub fn pace(&self) -> Option<f64> {
        Some(self.machine.as_ref()?.pace?.work_us)
    }

    /// Whether somebody else used much of the machine.
    pub fn was_disturbed(&self) -> bool {
        let noise = |warning: &Warning| matches!(warning, Warning::Steal | Warning::ForeignCpu);
        self.warnings.iter().any(noise)
    }
}

/// Something that makes a round doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// The generator says that it, not the server, was the limit.
    GeneratorLimited,
    /// The hypervisor took more than 5 % of the CPU time.
    Steal,
    /// Other processes used more than 20 % of a core.
    ForeignCpu,
    /// Fewer than 99 % of the requests were good.
    BadRequests,
    Thresholds,
    /// The script marked its run as failed (`exec.test.fail()`).
    MarkedAsFailed,
    /// The server did not end well when it was asked to, after the measurement.
    UncleanStop,
    /// Server and generator ran on hardware threads of one core: there was no other.
    SharedCore,
    /// Server and generator had no CPUs of their own.
    SharedCpus,
    /// Files of the round could not be removed after it.
    LeftFiles,
    /// The variant's CPU budget could not be applied, and the experiment accepts that.
    NoBudget,
    /// More than 1 % of the iterations of a scenario could not start by the clock, because no virtual user was free.
    Dropped,
    /// More than 1 % of the iterations ended with an exception although all their requests were
    /// good, so the load was not what the script says.
    Exceptions,
    /// Processes of the server ended whose CPU time nobody got.
    CpuUnknown,
    /// The server went on working when the load had ended, and no `drain` hook waits for that.
    BusyAfterLoad,
    /// More than 1 % of a check failed.
    FailedChecks,
    /// The two loads of a pair were not measured at the same time.
    Apart,
}

impl Warning {
    /// What an experiment may accept, with the words of the file: for all but the last a round is refused otherwise, and
    /// the last is something broken.
    pub const ACCEPTABLE: [(&'static str, Self); 4] = [
        ("steal", Self::Steal),
        ("foreign_cpu", Self::ForeignCpu),
        ("no_budget", Self::NoBudget),
        ("failed_checks", Self::FailedChecks),
    ];

    /// In words, to be followed by the rounds it concerns.
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

/// How a round broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// In words, with the last lines of whoever failed.
    pub message: String,
}

/// The ways in which a round breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The server did not get ready.
    Start,
    ServerDied,
    Load,
    /// The server was not ready within `start_limit`.
    StartLimit,
    /// The generator took longer than `time_limit`.
    TimeLimit,
    /// Server or generator printed more than the lab keeps.
    Output,
    /// A value that an invariant needs could not be taken.
    Value,
    /// A database that is observed could not be asked.
    Database,
    Hook,
    Machine,
    Interrupted,
}

impl FailureKind {
    /// Whether the system under test broke, not the load generator, a hook or this machine.
    pub fn is_of_the_system(self) -> bool {
        matches!(self, Self::Start | Self::StartLimit | Self::ServerDied | Self::Database)
    }
}

impl Failure {
    /// A failure of that kind with an error and all its causes.
    pub(crate) fn because(kind: FailureKind, error: &dyn std::error::Error) -> Self {
        Self::new(kind, crate::words::chain(error))
    }

    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}
