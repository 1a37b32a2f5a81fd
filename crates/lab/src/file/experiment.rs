//! Experiments: a question, variants, a load, and the number of repetitions.

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
use parse::Origin;

pub(crate) use hooks::{Action, During, Hooks, SIGNALS};
pub(crate) use invariant::{EXACT, Invariant, Limit, NamedValue, Source};
pub use prediction::Bound;
pub(crate) use prediction::Prediction;
pub use reader::Mistake;
pub use target::Target;
pub(crate) use target::{Container, ContainerSource};

/// File name of an experiment that was given on the command line.
pub const COMMAND_LINE: &str = "(command line)";
pub(crate) const FILE_NAME: &str = "experiment.toml";

/// An experiment that was read and checked.
#[derive(Debug, Clone)]
pub struct Experiment {
    pub file: PathBuf,
    pub sources: Sources,
    /// Base of relative paths.
    pub dir: PathBuf,
    /// Letters, digits, `-`, `_` and `.`; part of the results' directory name.
    pub name: String,
    pub question: String,
    /// Name of the variant that the others are compared with.
    pub reference: String,
    pub predictions: Vec<Prediction>,
    /// Largest irrelevant difference as a share: with 0.01, an interval from 1/1.01 to 1.01 means "same".
    pub band: f64,
    /// `None` for the default.
    pub design: Option<Design>,
    /// Data to fill a store with, passed to the host unread.
    pub data: toml::Table,
    pub load: Load,
    pub rounds: Rounds,
    /// In the order of the file; at least two, except on the command line.
    pub variants: Vec<Variant>,
    pub observe: Observe,
    pub hooks: Hooks,
    /// Values taken before and after each load, for formulas of invariants.
    pub values: Vec<NamedValue>,
    /// Checked after every round.
    pub invariants: Vec<Invariant>,
}

/// The texts an experiment was read from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sources {
    pub file: String,
    /// The script and its imports, concatenated.
    pub scripts: String,
    /// Files that the script imports, and those it opens unless a hook may have written them. Empty if the load
    /// generator does not report them.
    #[serde(default)]
    pub script_files: BTreeSet<PathBuf>,
}

/// Longer scripts are not stored with the results.
const MOST_SCRIPT_BYTES: u64 = 1 << 20;

/// Text of a script; empty if it is too long or cannot be read.
fn script_text(path: &Path) -> String {
    let is_short =
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MOST_SCRIPT_BYTES);
    if is_short { fs::read_to_string(path).unwrap_or_default() } else { String::new() }
}

/// Figures that a report has beside the usual ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observe {
    /// Series of the server's metrics page; the figure is the change over the round.
    pub metrics: Vec<Selector>,
    pub load: Vec<LoadMetric>,
    /// Databases whose counters are figures, for variants without addresses of their own.
    pub databases: Addresses,
}

/// The load. `None` keeps the value of the script.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    pub script: PathBuf,
    /// `__ENV` of the script, beside `BASE_URL`.
    pub env: Vec<(String, String)>,
    pub vus: Option<u32>,
    /// Measured time, without the warm-up.
    pub duration: Option<Duration>,
    /// Program and first arguments of another load generator; empty for the built-in one.
    pub generator: Vec<String>,
    pub quick: Option<QuickLoad>,
}

/// Overrides of [`Load`] in quick mode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuickLoad {
    /// Overrides variables of the same name.
    pub env: Vec<(String, String)>,
    pub vus: Option<u32>,
    pub duration: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// Each block runs every variant once, in random order.
    pub blocks: u32,
    /// `None` for two seconds, if the script supports a warm-up.
    pub warm_up: Option<Duration>,
    /// Limit of repeats of a block after a broken round.
    pub retries: u32,
    /// Server and generator get CPUs of their own when there are at least two.
    pub pin_cpus: bool,
    /// Warnings for which a round is not refused.
    pub accept: Vec<Warning>,
    /// Limit until a server is ready.
    pub start_limit: Duration,
    /// Limit for the load of one round, warm-up included.
    pub time_limit: Duration,
    pub quick: Option<QuickRounds>,
}

/// Overrides of [`Rounds`] in quick mode.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuickRounds {
    pub blocks: Option<u32>,
    pub warm_up: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// Letters, digits, `-`, `_` and `.`.
    pub name: String,
    pub target: Target,
    /// Overrides the environment of the script.
    pub load_env: Vec<(String, String)>,
    /// Database, such as `sqlite:{dir}/app.db`; for a `serve` variant the host knows it.
    pub database: Option<String>,
    /// Address of its Prometheus page; for a `serve` variant the host knows it.
    pub metrics: Option<String>,
    /// Cgroup with all of its processes.
    pub cgroup: Option<String>,
    /// Databases that are observed instead of those of [`Observe`].
    pub databases: Addresses,
    /// CPU limit of its process tree, or of each node of its stack; `None` for all of its CPUs.
    pub cpus: Option<CpuBudget>,
    /// Price of the machine per hour, in any currency.
    pub price_per_hour: Option<f64>,
}

/// The host's own server.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Served {
    pub settings: toml::Table,
    /// Servers that it runs with, for the host to interpret; `None` if it runs alone.
    pub stack: Option<toml::Table>,
    /// CPU limit of each node of the stack in cores.
    pub node_cpus: Option<f64>,
}

impl Variant {
    pub fn has_stack(&self) -> bool {
        matches!(&self.target, Target::Serve(served) if served.stack.is_some())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read `{}`", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}", .mistakes.iter().map(|mistake| format!("{}:{mistake}", .path.display())).collect::<Vec<_>>().join("\n"))]
    Wrong {
        path: PathBuf,
        /// In the order of the lines; at least one.
        mistakes: Vec<Mistake>,
    },
}

impl Experiment {
    pub(crate) fn needs_before(&self, value: &str) -> bool {
        let is_meant = |name: &str| name.strip_prefix("before.") == Some(value);
        self.invariants.iter().any(|invariant| invariant.names(is_meant))
    }

    /// Reads an experiment from its file, or from `experiment.toml` in a directory.
    ///
    /// # Errors
    /// If it cannot be read, or with every mistake in it.
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
        Self::parse(&text, &file, &dir)
    }

    /// Parses an experiment that has no file. Relative paths start from `dir`.
    ///
    /// # Errors
    /// With every mistake in it.
    pub fn of_command_line(text: &str, dir: &Path) -> Result<Self, FileError> {
        Self::parse(text, Path::new(COMMAND_LINE), dir)
    }

    fn parse(text: &str, file: &Path, dir: &Path) -> Result<Self, FileError> {
        let origin = Origin { text, file, dir, is_stored: false, outline: None };
        let mut experiment = parse::experiment(origin)?;
        experiment.sources.scripts = script_text(&experiment.load.script);
        Ok(experiment)
    }

    /// Parses the experiment of a stored run; its script may be missing.
    ///
    /// # Errors
    /// With every mistake, for example if this version accepts less than the one that stored it.
    pub fn stored(file: &Path, dir: &Path, sources: &Sources) -> Result<Self, FileError> {
        let origin = Origin { text: &sources.file, file, dir, is_stored: true, outline: None };
        Ok(Self { sources: sources.clone(), ..parse::experiment(origin)? })
    }

    /// Checks the experiment against the outline of its script, and adds the script's other files to the sources.
    ///
    /// # Errors
    /// With every statistic, variable or time that the script does not have.
    pub fn apply_outline(&mut self, outline: &Outline) -> Result<(), FileError> {
        let Self { sources, file, dir, .. } = &*self;
        let text = &sources.file;
        parse::experiment(Origin { text, file, dir, is_stored: true, outline: Some(outline) })?;
        for import in &outline.imports {
            self.sources.scripts += &format!("\n{}", script_text(import));
        }
        self.sources.script_files.clone_from(&outline.imports);
        if !self.hooks.come_before_the_load() {
            self.sources.script_files.extend(outline.opened.iter().cloned());
        }
        Ok(())
    }

    /// Lists experiment files: `path` itself, the `experiment.toml` of a directory, or in a directory without one all
    /// `.toml` files by name.
    ///
    /// # Errors
    /// If the directory cannot be read.
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
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut files: Vec<PathBuf> = paths.collect::<io::Result<_>>().map_err(unreadable)?;
        files.retain(|file| file.extension().is_some_and(|name| name == "toml") && file.is_file());
        files.sort();
        // The missing file, so that the error message names it.
        if files.is_empty() { Ok(vec![only]) } else { Ok(files) }
    }

    /// Reason why pairs of variants cannot be loaded at the same time, if there is one.
    pub(crate) fn why_no_pairs(&self) -> Option<&'static str> {
        let is_unknown = |variant: &Variant| {
            matches!(variant.target, Target::Url(_)) && variant.cgroup.is_none()
        };
        if self.variants.iter().any(is_unknown) {
            Some("the cost of a `url` is only known with its `cgroup`")
        } else if self.variants.iter().any(|variant| variant.cpus.is_some()) {
            Some("a budget of CPU time (`cpus`) is for one server at a time")
        } else if !self.hooks.during.is_empty() {
            Some("actions `during` the load would affect only one of the two")
        } else {
            None
        }
    }

    /// Databases of a variant, with placeholders.
    pub fn databases(&self, variant: &Variant) -> Addresses {
        variant.databases.or(&self.observe.databases)
    }

    /// True if a value comes from the variant's own database.
    pub fn asks_sql(&self) -> bool {
        let values = self.values.iter().map(|value| &value.source);
        let invariants = self.invariants.iter().map(|invariant| &invariant.source);
        values.chain(invariants).any(|source| matches!(source, Source::Sql(_)))
    }

    pub fn has_quick(&self) -> bool {
        self.load.quick.is_some() || self.rounds.quick.is_some()
    }
}
