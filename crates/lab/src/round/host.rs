//! Interface between the lab and the program that embeds it.
//!
//! The lab knows processes, HTTP and statistics, but no server by name. The host turns the settings of a `serve`
//! variant into a command, fills a store with `[data]`, and names the command that generates load.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use madang_stack::http::Url;
use madang_stack::{Spec, Supervisor};

pub use crate::observe::database::{Address, Addresses};

pub use crate::file::experiment::Served;
use crate::run::cancel::Cancel;

/// Services of the program that embeds the lab.
pub trait Host: Sync {
    fn supervisor(&self) -> Supervisor;

    /// Program and first arguments of the load generator. The lab appends `SCRIPT --report FILE
    /// --include-system-env-vars=false --quiet --warm-up TIME --env NAME=VALUE… [--vus N] [--duration TIME]`. With `--check`
    /// instead of `--report FILE` it only checks: exit code 104 for options that it cannot honour, another one for a
    /// script that fails in its init code.
    fn generator(&self) -> Vec<OsString>;

    /// Program and first arguments of the adapter for k6; the lab appends `--program K6` and the rest.
    fn k6(&self) -> Vec<OsString>;

    /// Prefixes of environment variables that configure server or generator. They are removed, so that the lab's shell
    /// does not change a round.
    fn own_variables(&self) -> &[&str];

    /// Checks a variant's settings.
    fn check_serve(&self, served: &Served) -> Result<(), HostError>;

    /// Checks the `[data]` table. `dir` is the experiment's directory.
    fn check_data(&self, data: &toml::Table, dir: &Path) -> Result<(), HostError>;

    /// Fills the empty directory `template` with the data of every round, if there is a `[data]` table. The directory
    /// must be unused on return. Checks `cancel` at least every 100 ms, and then returns any error.
    fn prepare(
        &self,
        data: &toml::Table,
        dir: &Path,
        template: &Path,
        cancel: &Cancel,
    ) -> Result<(), HostError>;

    /// Fills a directory below `stacks` with a stack whose servers already hold the data of `template`, or returns one
    /// that was filled for another variant. `None` if rounds start with `template`. Otherwise as
    /// [`prepare`](Self::prepare).
    fn prepare_stack(
        &self,
        served: &Served,
        template: &Path,
        stacks: &Path,
        cancel: &Cancel,
    ) -> Result<Option<PathBuf>, HostError>;

    /// Files that `[data]` is made from, existing or not. `dir` is the experiment's directory.
    fn data_files(&self, data: &toml::Table, dir: &Path) -> Vec<PathBuf>;

    /// Command of one round: the host's server with these settings, alone or in a stack, on a fresh copy of the
    /// template in `data_dir`. It listens on a free port, or on `address` (`HOST:PORT`) after a restart during a round.
    fn serve(
        &self,
        served: &Served,
        data_dir: &Path,
        address: Option<&str>,
    ) -> Result<Launch, HostError>;

    /// Database for invariants: `sqlite:PATH`. `None` if it cannot be queried, and for stacks, which report it later.
    fn database(&self, served: &Served, data_dir: &Path) -> Option<String>;

    /// Names and versions of the program and its engines, for the report.
    fn versions(&self) -> Vec<(String, String)>;
}

/// A server to be started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The lab sets outputs and CPUs.
    pub spec: Spec,
    pub ready: Ready,
    /// Its Prometheus page, if it has one.
    pub metrics: Option<Page>,
}

/// Location of a Prometheus page.
#[derive(Debug, Clone)]
pub enum Page {
    /// The address is the rest of a line on stdout that starts with `prefix`, followed by `path`.
    Line {
        prefix: String,
        /// Such as `/metrics`.
        path: String,
    },
    Http(Url),
}

/// Readiness check.
#[derive(Debug, Clone)]
pub enum Ready {
    /// A line on stdout with this prefix; the rest is the base URL.
    Line(String),
    /// A line on stdout that the host parses.
    Said(fn(&str) -> Result<Said, HostError>),
    /// A response with status 200 to 399, or with `any` status.
    Http { url: Url, base_url: String, any: bool },
}

/// A stack that is ready.
#[derive(Debug, Clone, Default)]
pub struct Said {
    pub base_url: String,
    /// Prometheus pages of its nodes.
    pub metrics: Vec<String>,
    pub databases: Addresses,
    /// Names (`nginx`, `node-1`, `primary`, `replica-1`, `galera-1`, `cache`, `counts`) and ids of its processes.
    pub processes: Vec<(String, u32)>,
}

/// A message for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HostError(pub String);
