//! What an experiment file says: a question, variants, a load, and how often it is repeated.

mod parse;
mod reader;

use std::{fmt, fs, io, path::Path, path::PathBuf, time::Duration};

use serde::Serialize;

use crate::metric::Metric;

pub use reader::Mistake;

/// The file's name in an experiment's directory.
pub const FILE_NAME: &str = "experiment.toml";

/// An experiment, read from its file and checked; nothing in it has been run.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The file it was read from.
    pub file: PathBuf,
    /// The directory that relative paths in it start from.
    pub dir: PathBuf,
    /// Letters, digits, `-`, `_` and `.`; part of the results' directory name.
    pub name: String,
    /// What it is to answer, in one sentence.
    pub question: String,
    /// The variant that the others are compared with.
    pub reference: String,
    /// What its author expects.
    pub prediction: Prediction,
    /// Figures of others to print beside ours, as they were written.
    pub documented: Vec<Documented>,
    /// Handed to the host as it is: what to fill a store with.
    pub data: toml::Table,
    /// The load every variant gets.
    pub load: Load,
    /// How often, and how each round goes.
    pub rounds: Rounds,
    /// What is compared, in the order of the file. At least two.
    pub variants: Vec<Variant>,
}

/// A claim about one metric's ratio between a variant and the reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The metric it is about.
    pub metric: Metric,
    /// The variant it is about; never the reference.
    pub variant: String,
    /// The claim.
    #[serde(flatten)]
    pub bound: Bound,
}

/// On which side of a number a ratio is claimed to lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Less than this times the reference, or exactly so much.
    RatioAtMost(f64),
    /// More than this times the reference, or exactly so much.
    RatioAtLeast(f64),
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, ratio) = match self.bound {
            Bound::RatioAtMost(ratio) => ("at most", ratio),
            Bound::RatioAtLeast(ratio) => ("at least", ratio),
        };
        let metric = self.metric.label();
        write!(f, "{metric} of {} is {words} ×{ratio} that of the reference", self.variant)
    }
}

/// One variant's figures as somebody else published them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Documented {
    /// The variant of this experiment they belong beside.
    pub variant: String,
    /// Name and value with its unit, such as `("http_req_duration.avg", "0.8 s")`. A name that is
    /// one of our metrics is printed beside it, others below.
    pub figures: Vec<(String, String)>,
}

/// The load. What is `None` stays as the script has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The k6 script.
    pub script: PathBuf,
    /// Environment of the script (`__ENV`), beside `BASE_URL`.
    pub env: Vec<(String, String)>,
    /// Virtual users.
    pub vus: Option<u32>,
    /// Measured time, without the warm-up.
    pub duration: Option<Duration>,
    /// What `--quick` changes.
    pub quick: Option<QuickLoad>,
}

/// Overrides of [`Load`] in quick mode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuickLoad {
    /// Added to, and winning over, the environment.
    pub env: Vec<(String, String)>,
    /// Virtual users.
    pub vus: Option<u32>,
    /// Measured time.
    pub duration: Option<Duration>,
}

/// How rounds are repeated and bounded.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// Each block runs every variant once, in random order.
    pub blocks: u32,
    /// Load before the measurement of each round.
    pub warm_up: Duration,
    /// How often one block may be run again because a round of it broke.
    pub retries: u32,
    /// Server and generator get CPUs of their own when there are at least two.
    pub pin_cpus: bool,
    /// Longest time a server may take until it is ready.
    pub start_limit: Duration,
    /// Longest time the load of one round may take, warm-up included.
    pub time_limit: Duration,
    /// What `--quick` changes.
    pub quick: Option<QuickRounds>,
}

/// Overrides of [`Rounds`] in quick mode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuickRounds {
    /// Blocks.
    pub blocks: Option<u32>,
    /// Warm-up.
    pub warm_up: Option<Duration>,
}

/// One of the things compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// How it comes to run.
    pub target: Target,
}

/// How a variant comes to run.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The host's own server with these settings.
    Serve(toml::Table),
    /// Any program. `{port}` and `{dir}` in it, its environment and `ready` are replaced in each
    /// round by a free port and a fresh directory.
    Command {
        /// Program and arguments; started in the experiment's directory.
        argv: Vec<String>,
        /// Added to the environment.
        env: Vec<(String, String)>,
        /// The address that answers 200 to 399 when it is ready; its origin is the base URL.
        ready: String,
    },
    /// A server that runs already, somewhere. Not started, stopped, reset or observed.
    Url(String),
}

impl Target {
    /// The key that makes it, for reports.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Serve(_) => "serve",
            Self::Command { .. } => "command",
            Self::Url(_) => "url",
        }
    }
}

/// Why an experiment file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It can be read, and is wrong.
    #[error("{}", .mistakes.iter().map(|mistake| format!("{}:{mistake}", .path.display())).collect::<Vec<_>>().join("\n"))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// All mistakes, in the order of the lines. At least one.
        mistakes: Vec<Mistake>,
    },
}

impl Experiment {
    /// Reads an experiment from its file, or from `experiment.toml` in its directory.
    ///
    /// # Errors
    /// When it cannot be read, or with every mistake in it.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let file = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        let unreadable = |source| FileError::Read { path: file.clone(), source };
        let text = fs::read_to_string(&file).map_err(unreadable)?;
        let dir = match file.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let dir = dir.canonicalize().map_err(unreadable)?;
        parse::experiment(&text, &file, &dir)
            .map_err(|mistakes| FileError::Wrong { path: file, mistakes })
    }

    /// The variant of that name.
    #[must_use]
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// Whether the file says what `--quick` changes.
    #[must_use]
    pub fn has_quick(&self) -> bool {
        self.load.quick.is_some() || self.rounds.quick.is_some()
    }
}
