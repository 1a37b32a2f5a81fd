//! `madang compare`: measures variants of a service in pairs or rounds, and reports which is better.

pub(crate) mod bare;
mod data;
pub(crate) mod host;
pub(crate) mod stored;

use crate::exit::ExitReason;
use crate::terminal;
use anyhow::Context as _;
use host::Madang;
use madang_lab::progress::Console;
use madang_lab::report::Language;
use madang_lab::{Cancel, Experiment, Options, Plan, Stored};
use std::path::{Path, PathBuf};
use stored::{FailOn, Show};
use tokio::signal::unix::SignalKind;

/// Seeds are below 2^53, so that every JSON reader represents them exactly (RFC 8259, section 6).
pub(crate) const SEEDS: std::ops::Range<u64> = 0..1 << 53;

/// Arguments of `madang compare`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Reports whether each variant is better than the reference, worse, the same, or undecided, with
95 % intervals. CPU and memory are measured in pairs: both servers are loaded at the same
moment. Response times and throughput are measured in rounds: one server at a time, in random
order. Each round uses a fresh process and the same data. The first line is the answer; crashes,
failed checks and broken invariants come before it. --full adds the columns of other tools'
reports: total, good and peak requests per second, average, minimum, maximum, standard
deviation, p50 to p99, KB/s, errors, CPU per request, memory. The results directory contains
report.html, report.md, junit.xml, report.json (described by experiments/report.schema.json) and
every round. Tutorial: experiments/README.md; reference: experiments/REFERENCE.md.

Examples:
  madang compare --script load.js --base './old --port {port}' --head './new --port {port}'
                                                 two commands and a script, without a file
  madang compare --script load.js --base-image shop:1 --head-image shop:2
                                                 two images of docker or podman
  madang compare --script load.js --base ./old --head ./new
                                                 two directories with a Dockerfile or compose
                                                 file
  madang compare experiments/long-track          as many blocks as the file says
  madang compare experiments/long-track --quick  its quick settings, for a first look
  madang compare experiments/long-track --a-a    the reference with itself: how far apart do two
                                                 equal things appear on this machine?
  madang compare experiments/long-track --check  are the file and its script right? Loads
                                                 nothing
  madang compare my.toml --out out --json | jq .answer
                                                 for a script: better, worse, same or
                                                 cannot-tell
  madang compare --resume results/NAME-TIME      go on with a run that was interrupted or killed
  madang compare --report results/NAME-TIME      write the report of a stored run again
  madang compare --report results/NAME-TIME --lang ko
                                                 in Korean, the terminal's table too
  madang compare my.toml --fail-on worse:5%,undecided
                                                 exit code 7 if worse by more than 5 %, or
                                                 undecided (CI)

Of several experiments, the first that does not end with exit code 0 ends the command.")]
pub(crate) struct Args {
    /// Experiment file, or a directory: its experiment.toml, else all its .toml files in turn
    #[arg(value_name = "DIR|FILE", required_unless_present_any = ["report", "resume", "script"])]
    path: Option<PathBuf>,
    #[command(flatten)]
    bare: bare::Bare,
    /// Go on with the run in this directory of results: complete blocks stay
    #[arg(long, value_name = "DIR", conflicts_with_all = ["path", "script", "report", "out", "quick", "blocks", "check", "a_a", "seed"])]
    resume: Option<PathBuf>,
    /// Write the report of the run in this directory of results again; runs nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["path", "script", "out", "quick", "blocks", "check", "a_a", "seed"])]
    report: Option<PathBuf>,
    /// Language of table, verdict and reports: en or ko [default: en, or that of the stored run]
    #[arg(long, value_name = "LANG", value_parser = language, conflicts_with = "resume")]
    lang: Option<Language>,
    /// Conditions for exit code 7: `worse`, `worse:2%` (worse by more than 2 %), `undecided` (a
    /// prediction, or whether it is worse), `refuted`, or `never`
    #[arg(long, value_name = "WHAT", value_parser = FailOn::parse, value_delimiter = ',',
          default_value = "refuted", conflicts_with = "check")]
    fail_on: Vec<FailOn>,
    /// Use the file's quick settings
    #[arg(long)]
    quick: bool,
    /// Complete this many blocks instead of the file's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    blocks: Option<u32>,
    /// Directory for the results, new or empty [default: results/NAME-TIME]; of several experiments,
    /// each has one of its own in it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print report.json instead of the table
    #[arg(long)]
    json: bool,
    /// Below the table, print every column that other tools' reports have
    #[arg(long, conflicts_with_all = ["json", "check"])]
    full: bool,
    /// Only check the file and its script
    #[arg(long)]
    check: bool,
    /// Compare the reference with itself
    #[arg(long)]
    a_a: bool,
    /// Seed of the order of rounds, to repeat one [default: a new one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(SEEDS))]
    seed: Option<u64>,
}

/// Problems that the host found in a well-formed file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", .file.display(), .problems.join("; "))]
pub(crate) struct CheckError {
    pub file: PathBuf,
    pub problems: Vec<String>,
}

pub(crate) fn language(text: &str) -> anyhow::Result<Language> {
    match text {
        "en" => Ok(Language::En),
        "ko" => Ok(Language::Ko),
        _ => anyhow::bail!("accepted are `en` and `ko`"),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitReason> {
    let show = Show { json: args.json, full: args.full, fail_on: &args.fail_on };
    if let Some(dir) = &args.report {
        return stored::report_again(dir, args.lang, &show);
    }
    let cancel = Cancel::default();
    if let Some(dir) = &args.resume {
        let run = Stored::read(dir)?;
        watch_signals(cancel.clone())?;
        let finished = madang_lab::resume(run, &Madang, &cancel, &mut Console::default())?;
        return show.finished(finished, dir);
    }
    experiments(args, &show, &cancel)
}

/// Checks all files before the first runs, and stops at the first without success.
fn experiments(args: &Args, show: &Show<'_>, cancel: &Cancel) -> anyhow::Result<ExitReason> {
    watch_signals(cancel.clone())?;
    let read: Vec<anyhow::Result<Experiment>> = match args.bare.experiment().transpose() {
        Some(experiment) => vec![experiment],
        None => {
            let files = Experiment::files(args.path.as_deref().unwrap_or(Path::new(".")))?;
            files.iter().map(|file| Ok(Experiment::read(file)?)).collect()
        }
    };
    let (mut planned, mut errors) = (Vec::new(), Vec::new());
    for experiment in read {
        match experiment.and_then(|experiment| check(experiment, args, cancel)) {
            Ok(one) => planned.push(one),
            Err(error) => errors.push(error),
        }
    }
    if let Some(last) = errors.pop() {
        errors.iter().for_each(|error| terminal::message(format_args!("madang: {error:#}")));
        return Err(last);
    }
    if args.check {
        for (experiment, plan) in &planned {
            let time = plan.estimate().map(|time| time.as_secs_f64().ceil());
            let time = time.map_or_else(String::new, |time| format!(", about {time} s"));
            let (file, rounds) = (experiment.file.display(), plan.rounds());
            terminal::print(&format!("{file}: right; {rounds} rounds{time}\n"))?;
        }
        return Ok(ExitReason::Done);
    }
    for (experiment, plan) in &planned {
        let out = match &args.out {
            Some(out) if planned.len() == 1 => out.clone(),
            Some(out) => out.join(&experiment.name),
            None => madang_lab::default_out(experiment),
        };
        let progress = &mut Console::default();
        let finished = madang_lab::run(experiment, plan, &Madang, &out, cancel, progress)?;
        let ended = show.finished(finished, &out)?;
        if ended != ExitReason::Done {
            return Ok(ended);
        }
    }
    Ok(ExitReason::Done)
}

/// Checks an experiment and plans it.
fn check(
    mut experiment: Experiment,
    args: &Args,
    cancel: &Cancel,
) -> anyhow::Result<(Experiment, Plan)> {
    let mut options = Options {
        quick: args.quick,
        blocks: args.blocks,
        warm_up: None,
        calibration: args.a_a,
        seed: args.seed,
        language: args.lang.unwrap_or_default(),
    };
    let plan = |options: &Options| {
        Plan::new(&experiment, options).with_context(|| experiment.file.display().to_string())
    };
    let check_script = |plan: &Plan| madang_lab::check_script(&experiment, plan, &Madang, cancel);
    let mut checked = plan(&options)?;
    let mut problems = madang_lab::check(&experiment, &Madang);
    let mut script = check_script(&checked);
    // Some executors support no warm-up, and the file does not request one.
    if !script.wrong.is_empty() && experiment.rounds.warm_up.is_none() {
        options.warm_up = Some(std::time::Duration::ZERO);
        checked = plan(&options)?;
        script = check_script(&checked);
    }
    let mut plan = checked;
    problems.extend(script.wrong);
    if !problems.is_empty() {
        return Err(CheckError { file: experiment.file, problems }.into());
    }
    if let Some(outline) = script.outline {
        experiment.apply_outline(&outline)?;
        plan.script_time = Some(outline.length());
    }
    if args.check && plan.settings.blocks < 2 {
        let why = "one block gives no interval, so there would be no verdict; use two or more (10 tell small differences)";
        return Err(CheckError { file: experiment.file, problems: vec![why.to_owned()] }.into());
    }
    Ok((experiment, plan))
}

/// The first Ctrl-C or SIGTERM ends the run in order, a later one at once. Either way the
/// supervisors leave no process behind.
pub(crate) fn watch_signals(cancel: Cancel) -> anyhow::Result<()> {
    crate::serve::on_signals(&[SignalKind::interrupt(), SignalKind::terminate()], move || {
        if cancel.is_cancelled() {
            ExitReason::Interrupted.at_once()
        }
        cancel.cancel();
        terminal::message("stopping; complete blocks are kept (again to stop at once)");
    })
}
