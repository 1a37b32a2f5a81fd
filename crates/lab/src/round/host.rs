//! The seam between the lab and the program it is part of.
//!
//! The lab knows processes, HTTP and statistics, but no server by name. A variant that says
//! `serve = {…}` means the host's own server, and only the host can turn those settings into a
//! command; likewise it knows how to fill a store with `[data]`, and which command generates load.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use madang_stack::http::Url;
use madang_stack::{Spec, Supervisor};

pub use crate::observe::database::{Address, Addresses};

pub use crate::file::experiment::Served;
use crate::run::cancel::Cancel;

/// What the lab asks of the program it is part of.
pub trait Host: Sync {
    fn supervisor(&self) -> Supervisor;

    /// The load generator: a program and the arguments before the script. The lab appends
    /// `SCRIPT --report FILE --include-system-env-vars=false --quiet --warm-up TIME
    /// --env NAME=VALUE… [--vus N] [--duration TIME]`; with `--check` instead of `--report FILE` it only
    /// says whether it could run that: exit code 104 for options that it cannot honour, another one for
    /// a script that fails in its init code.
    fn generator(&self) -> Vec<OsString>;

    /// The adapter that runs real k6 as such a generator; the lab appends `--program K6` and the rest.
    fn k6(&self) -> Vec<OsString>;

    /// How the names of environment variables begin that change what the server or the generator
    /// does. Those of the shell the lab was started in reach neither, so that a round's settings
    /// are those of the experiment.
    fn own_variables(&self) -> &[&str];

    /// Checks a variant's settings without starting anything.
    fn check_serve(&self, served: &Served) -> Result<(), HostError>;

    /// Checks the `[data]` table without making anything. `dir` is the experiment's directory.
    fn check_data(&self, data: &toml::Table, dir: &Path) -> Result<(), HostError>;

    /// Fills the empty directory `template` with the data that every round of every variant
    /// starts with. Called once per run, and only when there is a `[data]` table. Nothing may use
    /// the directory any more when this returns. It looks at `cancel` at least every 100 ms, and
    /// then returns any error.
    fn prepare(
        &self,
        data: &toml::Table,
        dir: &Path,
        template: &Path,
        cancel: &Cancel,
    ) -> Result<(), HostError>;

    /// What rounds of a variant start with in place of `template`: a directory below `stacks` in which the servers of
    /// its stack hold the data of `template` already, so that no round has to fill them. Gives one that it has filled
    /// for another variant where that fits; `None` when rounds start with `template` itself. As [`prepare`](Self::prepare)
    /// otherwise.
    fn prepare_stack(
        &self,
        served: &Served,
        template: &Path,
        stacks: &Path,
        cancel: &Cancel,
    ) -> Result<Option<PathBuf>, HostError>;

    /// The files that `[data]` is made from, whether or not they are there: a run whose files have
    /// changed does not go on. `dir` is the experiment's directory.
    fn data_files(&self, data: &toml::Table, dir: &Path) -> Vec<PathBuf>;

    /// The command of one round: the host's server with these settings, alone or as a stack with the servers that it
    /// needs, its data in `data_dir`, which holds a fresh copy of the template. It listens on a free port, or on
    /// `address` (`HOST:PORT`) when it is started again after it was killed in the middle of a round.
    fn serve(
        &self,
        served: &Served,
        data_dir: &Path,
        address: Option<&str>,
    ) -> Result<Launch, HostError>;

    /// Where it keeps its data, for the queries of invariants: `sqlite:PATH`. `None` when that cannot be asked, and of a
    /// stack, which says it when it is ready.
    fn database(&self, served: &Served, data_dir: &Path) -> Option<String>;

    /// Names and versions for the report: of the program, of its engines.
    fn versions(&self) -> Vec<(String, String)>;
}

/// A server to be started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The command. Outputs and CPUs are set by the lab.
    pub spec: Spec,
    pub ready: Ready,
    /// Where its Prometheus page is, if it has one.
    pub metrics: Option<Page>,
}

/// How to find a server's Prometheus page.
#[derive(Debug, Clone)]
pub enum Page {
    /// It prints a line that starts with `prefix` on stdout; the rest of the line and `path`
    /// together are the page's address.
    Line {
        prefix: String,
        /// What follows the printed address, such as `/metrics`.
        path: String,
    },
    Http(Url),
}

/// How to tell that a server is ready.
#[derive(Debug, Clone)]
pub enum Ready {
    /// It prints a line that starts with this on stdout; the rest of the line is the base URL.
    Line(String),
    /// It prints a line on stdout that the host can read.
    Said(fn(&str) -> Result<Said, HostError>),
    /// This address answers with a status from 200 to 399, or with any status.
    Http { url: Url, base_url: String, any: bool },
}

/// What a stack says when it is ready.
#[derive(Debug, Clone, Default)]
pub struct Said {
    pub base_url: String,
    /// The Prometheus pages of its nodes.
    pub metrics: Vec<String>,
    pub databases: Addresses,
    /// Its processes: the name of each (`nginx`, `node-1`, `primary`, `replica-1`, `galera-1`, `cache`, `counts`), and its
    /// id.
    pub processes: Vec<(String, u32)>,
}

/// What the host could not do, in words for the person who runs the experiment.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HostError(pub String);
