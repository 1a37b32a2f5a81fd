//! `madang k6`, hidden: real k6 as a load generator of the lab.

mod run;
mod samples;

use crate::exit::ExitReason;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `madang k6`, set only by the lab.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// k6's program
    #[arg(long)]
    program: PathBuf,
    script: PathBuf,
    #[arg(long)]
    report: Option<PathBuf>,
    #[arg(long)]
    started: Option<PathBuf>,
    #[arg(long)]
    check: bool,
    /// Left empty: k6 does not know its metrics beforehand
    #[arg(long)]
    outline: Option<PathBuf>,
    #[arg(short, long)]
    env: Vec<String>,
    #[arg(long)]
    vus: Option<u32>,
    #[arg(long, value_parser = madang_load::parse_duration)]
    duration: Option<Duration>,
    #[arg(long, value_parser = madang_load::parse_duration, default_value = "0s")]
    warm_up: Duration,
    /// Always `false`
    #[arg(long)]
    include_system_env_vars: Option<bool>,
    /// Always so
    #[arg(long)]
    quiet: bool,
}

/// Runs or checks the script; the exit code is that of k6.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitReason> {
    let ended = if args.check { args.check() } else { args.load() };
    let code = ended.unwrap_or_else(|error| {
        crate::terminal::message(format_args!("madang: {error:#}"));
        if error.is::<run::WarmUpError>() { run::INVALID_OPTIONS } else { run::FAILED }
    });
    Ok(ExitReason::Other(u8::try_from(code).unwrap_or(1)))
}
