//! What an experiment file says: a question, variants, a load, and how often it is repeated.

mod hooks;
mod invariant;
mod parse;
mod prediction;
mod reader;
mod target;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use madang_stack::CpuBudget;
use serde::{Deserialize, Serialize};

use crate::file::outline::Outline;
use crate::journal::record::Warning;
use crate::load::metric::LoadMetric;
use crate::observe::database::Addresses;
use crate::observe::prometheus::Selector;
use crate::plan::Design;

pub(crate) use hooks::{Action, During, Hooks, SIGNALS};
pub(crate) use invariant::{EXACT, Invariant, Limit, NamedValue, Source};
pub use prediction::Bound;
pub(crate) use prediction::Prediction;
pub use reader::Mistake;
pub use target::Target;
pub(crate) use target::{Container, ContainerSource};

/// Stands for the file of an experiment that was given on the command line.
pub const COMMAND_LINE: &str = "(command line)";
/// The file's name in an experiment's directory.
pub(crate) const FILE_NAME: &str = "experiment.toml";

/// An experiment, read from its file and checked; nothing in it has been run.
#[derive(Debug, Clone)]
pub struct Experiment {
    pub file: PathBuf,
    /// What it was read from, for whoever reads a run of it later.
    pub sources: Sources,
    /// The directory that relative paths in it start from.
    pub dir: PathBuf,
    /// Letters, digits, `-`, `_` and `.`; part of the results' directory name.
    pub name: String,
    pub question: String,
    /// The variant that the others are compared with.
    pub reference: String,
    /// What its author expects. At least one.
    pub predictions: Vec<Prediction>,
    /// A difference that does not matter, as a share: with 0.01, an interval that includes 1 and lies between 1/1.01 and 1.01
    /// means "same".
    pub band: f64,
    /// Kind of rounds; `None` for the default.
    pub design: Option<Design>,
    /// Handed to the host as it is: what to fill a store with.
    pub data: toml::Table,
    pub load: Load,
    pub rounds: Rounds,
    /// What is compared, in the order of the file. At least two.
    pub variants: Vec<Variant>,
    /// What else is to be a row of the report.
    pub observe: Observe,
    pub hooks: Hooks,
    /// Values taken before and after each load, for the formulas of invariants.
    pub values: Vec<NamedValue>,
    /// What must hold after every round.
    pub invariants: Vec<Invariant>,
}

/// The texts an experiment was read from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sources {
    pub file: String,
    /// The script and the files it imports, one after another.
    pub scripts: String,
    /// Files that the script imports, and those it opens unless a hook may have written them. Empty if the load generator
    /// does not report them.
    #[serde(default)]
    pub script_files: BTreeSet<PathBuf>,
}

/// Longer scripts are not kept with the results.
const MOST_SCRIPT_BYTES: u64 = 1 << 20;

/// Text of a script; empty if it is too long or cannot be read.
fn script_text(path: &Path) -> String {
    let is_short =
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MOST_SCRIPT_BYTES);
    is_short.then(|| fs::read_to_string(path).ok()).flatten().unwrap_or_default()
}

/// Figures that become rows of the report beside those that every report has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observe {
    /// Series of the server's metrics page: by how much each changed over the round.
    pub metrics: Vec<Selector>,
    pub load: Vec<LoadMetric>,
    /// Databases whose own counters are figures, of every variant that names no others.
    pub databases: Addresses,
}

/// The load. What is `None` stays as the script has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The k6 script.
    pub script: PathBuf,
    /// Environment of the script (`__ENV`), beside `BASE_URL`.
    pub env: Vec<(String, String)>,
    pub vus: Option<u32>,
    /// Measured time, without the warm-up.
    pub duration: Option<Duration>,
    /// Another load generator, with its first arguments; empty for the built-in one.
    pub generator: Vec<String>,
    pub quick: Option<QuickLoad>,
}

/// Overrides of [`Load`] in quick mode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuickLoad {
    /// Added to, and winning over, the environment.
    pub env: Vec<(String, String)>,
    pub vus: Option<u32>,
    pub duration: Option<Duration>,
}

/// How rounds are repeated and bounded.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// Each block runs every variant once, in random order.
    pub blocks: u32,
    /// Load before the measurement of each round; `None` for two seconds, if the script supports a warm-up.
    pub warm_up: Option<Duration>,
    /// How often one block may be run again because a round of it broke.
    pub retries: u32,
    /// Server and generator get CPUs of their own when there are at least two.
    pub pin_cpus: bool,
    /// Disturbances for which a round is not refused.
    pub accept: Vec<Warning>,
    /// Longest time a server may take until it is ready.
    pub start_limit: Duration,
    /// Longest time the load of one round may take, warm-up included.
    pub time_limit: Duration,
    pub quick: Option<QuickRounds>,
}

/// Overrides of [`Rounds`] in quick mode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuickRounds {
    /// Blocks.
    pub blocks: Option<u32>,
    pub warm_up: Option<Duration>,
}

/// One of the things compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Letters, digits, `-`, `_` and `.`.
    pub name: String,
    pub target: Target,
    /// Added to, and winning over, the environment of the script.
    pub load_env: Vec<(String, String)>,
    /// Where its data are, such as `sqlite:{dir}/app.db`; the host knows it of a `serve` variant.
    pub database: Option<String>,
    /// Address of its Prometheus page; the host knows it of a `serve` variant.
    pub metrics: Option<String>,
    /// The cgroup that has all that it uses, such as that of a container.
    pub cgroup: Option<String>,
    /// Databases beside it that are observed, instead of those of [`Observe`].
    pub databases: Addresses,
    /// How much CPU time its process tree, or each node of its stack, may use; all of its CPUs' when
    /// `None`.
    pub cpus: Option<CpuBudget>,
    /// What an hour of the machine it would run on costs, in whatever currency.
    pub price_per_hour: Option<f64>,
}

/// The host's own server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Served {
    pub settings: toml::Table,
    /// Which servers it runs among, as the host knows them; it runs alone when `None`.
    pub stack: Option<toml::Table>,
    /// Cores that each node of the stack may use; without a limit when `None`.
    pub node_cpus: Option<f64>,
}

impl Variant {
    /// Whether it is the host's own server among others.
    pub fn has_stack(&self) -> bool {
        matches!(&self.target, Target::Serve(served) if served.stack.is_some())
    }

    /// A variant with nothing but a name and a way to run.
    pub fn new(name: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            target,
            load_env: Vec::new(),
            database: None,
            metrics: None,
            cgroup: None,
            databases: Addresses::default(),
            cpus: None,
            price_per_hour: None,
        }
    }
}

/// Why an experiment file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}", .mistakes.iter().map(|mistake| format!("{}:{mistake}", .path.display())).collect::<Vec<_>>().join("\n"))]
    Wrong {
        path: PathBuf,
        /// All mistakes, in the order of the lines. At least one.
        mistakes: Vec<Mistake>,
    },
}

impl Experiment {
    /// Whether `before.NAME` of `[values.NAME]` is in a formula.
    pub(crate) fn needs_before(&self, value: &str) -> bool {
        let is_meant = |name: &str| name.strip_prefix("before.") == Some(value);
        self.invariants.iter().any(|invariant| invariant.names(is_meant))
    }

    /// Reads an experiment from its file, or from `experiment.toml` in its directory.
    ///
    /// # Errors
    /// When it cannot be read, or with every mistake in it.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let file = if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() };
        let unreadable = |source| FileError::Read { path: file.clone(), source };
        let text = String::from_utf8(fs::read(&file).map_err(unreadable)?).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let before = error.as_bytes()[..valid].iter();
            let line = 1 + before.filter(|byte| **byte == b'\n').count();
            let message = "this is no UTF-8, which TOML has to be".to_owned();
            FileError::Wrong { path: file.clone(), mistakes: vec![Mistake { line, message }] }
        })?;
        let dir = match file.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir,
            _ => Path::new("."),
        };
        let dir = dir.canonicalize().map_err(unreadable)?;
        Self::parsed(&text, &file, &dir)
    }

    /// An experiment without a file, from the equivalent text. Relative paths in it start from `dir`.
    pub fn of_command_line(text: &str, dir: &Path) -> Result<Self, FileError> {
        Self::parsed(text, Path::new(COMMAND_LINE), dir)
    }

    fn parsed(text: &str, file: &Path, dir: &Path) -> Result<Self, FileError> {
        let mut experiment = parse::experiment(text, file, dir, false, None)
            .map_err(|mistakes| FileError::Wrong { path: file.to_owned(), mistakes })?;
        experiment.sources.scripts = script_text(&experiment.load.script);
        Ok(experiment)
    }

    /// The experiment of a stored run, whose script need not be there any more.
    ///
    /// # Errors
    /// With every mistake, as when this version accepts less than the one that stored it.
    pub fn stored(file: &Path, dir: &Path, sources: &Sources) -> Result<Self, FileError> {
        let mut experiment = parse::experiment(&sources.file, file, dir, true, None)
            .map_err(|mistakes| FileError::Wrong { path: file.to_owned(), mistakes })?;
        experiment.sources = sources.clone();
        Ok(experiment)
    }

    /// Refuses what a load of this outline cannot have: a statistic that a metric of the script does not
    /// have, a variable that it does not read, something to be done when the load is over. Keeps the script's other files
    /// among the sources.
    pub fn apply_outline(&mut self, outline: &Outline) -> Result<(), FileError> {
        parse::experiment(&self.sources.file, &self.file, &self.dir, true, Some(outline))
            .map_err(|mistakes| FileError::Wrong { path: self.file.clone(), mistakes })?;
        for import in &outline.imports {
            self.sources.scripts += &format!("\n{}", script_text(import));
        }
        self.sources.script_files.clone_from(&outline.imports);
        if !self.hooks.come_before_the_load() {
            self.sources.script_files.extend(outline.opened.iter().cloned());
        }
        Ok(())
    }

    /// The experiment files that `path` means: itself, the `experiment.toml` of a directory, or, in
    /// a directory without one, all its `.toml` files by name.
    ///
    /// # Errors
    /// When the directory cannot be read or has no such file.
    pub fn files(path: &Path) -> Result<Vec<PathBuf>, FileError> {
        let only = path.join(FILE_NAME);
        if !path.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        if only.exists() {
            return Ok(vec![only]);
        }
        let unreadable = |source| FileError::Read { path: path.to_owned(), source };
        let entries = fs::read_dir(path).map_err(unreadable)?;
        let mut files = Vec::new();
        for entry in entries {
            let file = entry.map_err(unreadable)?.path();
            if file.extension().is_some_and(|extension| extension == "toml") && file.is_file() {
                files.push(file);
            }
        }
        files.sort();
        // As if it had been asked for, so that the message names it.
        if files.is_empty() { Ok(vec![only]) } else { Ok(files) }
    }

    /// Reason why two of its variants cannot be loaded at the same moment, if there is one.
    pub(crate) fn why_no_pairs(&self) -> Option<&'static str> {
        let is_unknown = |variant: &Variant| {
            matches!(variant.target, Target::Url(_)) && variant.cgroup.is_none()
        };
        let reasons = [
            (
                self.variants.iter().any(is_unknown),
                "the cost of a `url` is only known with its `cgroup`",
            ),
            (
                self.variants.iter().any(|variant| variant.cpus.is_some()),
                "a budget of CPU time (`cpus`) is for one server at a time",
            ),
            (
                !self.hooks.during.is_empty(),
                "actions `during` the load would affect only one of the two",
            ),
        ];
        reasons.into_iter().find_map(|(is_so, why)| is_so.then_some(why))
    }

    /// Where the databases of a variant are, before placeholders are filled in.
    pub fn databases(&self, variant: &Variant) -> Addresses {
        variant.databases.or(&self.observe.databases)
    }

    /// Whether any value comes from the database of the variant.
    pub fn asks_sql(&self) -> bool {
        let values = self.values.iter().map(|value| &value.source);
        let invariants = self.invariants.iter().map(|invariant| &invariant.source);
        values.chain(invariants).any(|source| matches!(source, Source::Sql(_)))
    }

    pub fn has_quick(&self) -> bool {
        self.load.quick.is_some() || self.rounds.quick.is_some()
    }
}
