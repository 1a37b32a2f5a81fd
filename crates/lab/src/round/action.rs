//! Runs the commands of hooks and invariants.

use std::path::Path;
use std::time::Duration;

use madang_stack::http::Url;
use madang_stack::{Exit, Patience, Process, Spec, Tail};

use crate::observe::database::{Addresses, Engine};
use crate::round::host::Host;
use crate::round::launch::without_shell;
use crate::run::cancel::Cancel;
use crate::words;

/// Variables of a command. Their names begin with `LAB_`, so that no server or load generator reads them.
#[derive(Debug, Default)]
pub(crate) struct CommandEnv<'s> {
    /// `LAB_VARIANT`.
    pub variant: Option<&'s str>,
    /// `LAB_BLOCK`.
    pub block: Option<u32>,
    /// `LAB_BASE_URL`.
    pub base_url: Option<&'s str>,
    /// `LAB_METRICS_URL`: the pages of all nodes.
    pub metrics: &'s [Url],
    /// `LAB_DATABASE`.
    pub database: Option<&'s str>,
    /// `LAB_MYSQL` and `LAB_REDIS`.
    pub databases: Option<&'s Addresses>,
    /// `LAB_DATA_DIR`.
    pub data: Option<&'s Path>,
    /// `LAB_PID`: process of the server.
    pub pid: Option<u32>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("there is no command")]
    Empty,
    #[error("`{program}` cannot be started: {}", words::chain(&**.why))]
    Start { program: String, why: Box<madang_stack::Error> },
    #[error(
        "`{command}` did not end within {limit:?}; `time_limit` in [hooks] raises that{stderr}"
    )]
    Late { command: String, limit: Duration, stderr: Tail },
    #[error("`{command}`: {}", words::chain(&**.why))]
    Wait { command: String, why: Box<madang_stack::Error> },
    #[error("`{command}` failed ({exit}){stderr}")]
    Failed { command: String, exit: Exit, stderr: Tail },
}

/// Runs commands in an experiment's directory.
pub(crate) struct Runner<'r> {
    pub host: &'r dyn Host,
    pub dir: &'r Path,
    pub time_limit: Duration,
    pub cancel: &'r Cancel,
}

impl Runner<'_> {
    pub(crate) fn start(
        &self,
        argv: &[String],
        env: &CommandEnv<'_>,
    ) -> Result<Process, CommandError> {
        let (program, arguments) = argv.split_first().ok_or(CommandError::Empty)?;
        let spec = without_shell(Spec::new(program).args(arguments).dir(self.dir), self.host);
        let address = |engine| {
            let address = env.databases.and_then(|databases| databases.get(engine));
            address.map(|address| address.secret().to_owned())
        };
        let pages: Vec<_> = env.metrics.iter().map(ToString::to_string).collect();
        let texts = [
            ("LAB_VARIANT", env.variant.map(str::to_owned)),
            ("LAB_BLOCK", env.block.map(|block| block.to_string())),
            ("LAB_BASE_URL", env.base_url.map(str::to_owned)),
            ("LAB_METRICS_URL", (!env.metrics.is_empty()).then(|| pages.join(" "))),
            ("LAB_DATABASE", env.database.map(str::to_owned)),
            ("LAB_MYSQL", address(Engine::Mysql)),
            ("LAB_REDIS", address(Engine::Redis)),
            ("LAB_PID", env.pid.map(|pid| pid.to_string())),
        ];
        let set = texts.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let mut spec = set.fold(spec, |spec, (name, value)| spec.env(name, value));
        if let Some(data) = env.data {
            spec = spec.env("LAB_DATA_DIR", data);
        }
        let started = self.host.supervisor().spawn(&spec);
        started.map_err(|why| CommandError::Start { program: program.clone(), why: why.into() })
    }

    /// Waits for the end of a command, and returns its first lines on stdout.
    pub(crate) fn finish(
        &self,
        argv: &[String],
        process: &Process,
    ) -> Result<Vec<String>, CommandError> {
        let (command, limit) = (argv.join(" "), self.time_limit);
        let give_up = || self.cancel.is_cancelled();
        match process.wait_patiently(Patience::new(limit, &give_up)) {
            Ok(exit) if exit.is_success() => Ok(process.stdout_lines()),
            Ok(exit) => Err(CommandError::Failed { command, exit, stderr: process.stderr_tail() }),
            Err(madang_stack::Error::NotReady { .. }) => {
                Err(CommandError::Late { command, limit, stderr: process.stderr_tail() })
            }
            Err(why) => Err(CommandError::Wait { command, why: why.into() }),
        }
    }

    /// Runs a command, and returns its first lines on stdout.
    pub(crate) fn run(
        &self,
        argv: &[String],
        env: &CommandEnv<'_>,
    ) -> Result<Vec<String>, CommandError> {
        let process = self.start(argv, env)?;
        self.finish(argv, &process)
    }
}
