//! Specification of a command.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::{CpuBudget, CpuList, Output};

/// A command to run. Standard input is always empty.
#[derive(Debug, Clone)]
pub struct Spec {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    /// `None` removes a variable.
    pub(crate) env: Vec<(OsString, Option<OsString>)>,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    pub(crate) cpus: Option<CpuList>,
    pub(crate) budget: Option<CpuBudget>,
    pub(crate) afterwards: Vec<OsString>,
}

impl Spec {
    /// Runs `program`, looked up in `PATH` if it contains no slash. By default both outputs are
    /// captured, and directory, environment and CPUs are those of the caller.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            stdout: Output::Capture,
            stderr: Output::Capture,
            cpus: None,
            budget: None,
            afterwards: Vec::new(),
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets one environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Removes one environment variable of the caller.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Removes all of the caller's variables whose names start with `prefix`. Those set with
    /// [`env`](Self::env), before or after, remain.
    #[must_use]
    pub fn env_remove_prefix(mut self, prefix: &str) -> Self {
        let begins = |name: &OsString| name.as_encoded_bytes().starts_with(prefix.as_bytes());
        let inherited = std::env::vars_os().map(|(name, _)| name).filter(begins);
        self.env.splice(0..0, inherited.map(|name| (name, None)).collect::<Vec<_>>());
        self
    }

    /// Runs in `dir`. A relative program with a slash is looked up from there.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Sets the destination of standard output.
    #[must_use]
    pub fn stdout(mut self, output: Output) -> Self {
        self.stdout = output;
        self
    }

    /// Sets the destination of standard error.
    #[must_use]
    pub fn stderr(mut self, output: Output) -> Self {
        self.stderr = output;
        self
    }

    /// Pins the process and its descendants (unless they change it) to these CPUs.
    #[must_use]
    pub fn cpus(mut self, cpus: CpuList) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Limits the CPU time of the process and its descendants.
    #[must_use]
    pub fn budget(mut self, budget: CpuBudget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Runs a command for at most 15 seconds once the process and its descendants are gone, however they or the owner
    /// ended. It removes what a daemon holds for them, such as a container.
    #[must_use]
    pub fn afterwards(mut self, argv: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.afterwards = argv.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    /// The command line for messages, not quoted for a shell.
    pub fn command_line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn program_name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}
