//! `madang load` as a library: everything but parsing the command line.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::engine::{self, Finished, Plan};
use crate::generator;
use crate::log::{Level, Log, Messages};
use crate::options::{ExecutorConfig, Layer, Options, OptionsError};
use crate::progress::{Progress, header};
use crate::report::{self, Iterations, Report};
use crate::run::{Run, Settings};
use crate::script::ScriptError;
use crate::summary::{SummaryData, TextOptions, export, text};

/// How a run ended; the numbers are k6's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Everything went well.
    Success = 0,
    /// Something of the machine failed: a file could not be written, no memory for another
    /// virtual user.
    Failure = 1,
    /// The options, or something the script uses, cannot be honoured.
    InvalidConfig = 104,
    /// A signal ended the run.
    ExternalAbort = 105,
    /// The script threw in its init code, or does not parse.
    ScriptException = 107,
}

impl ExitStatus {
    /// The number for the operating system.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// What to run and what to do with the result.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The script.
    pub script: PathBuf,
    /// Options that win over the script's: the environment's with the command line's on top.
    pub overrides: Layer,
    /// `__ENV` of the script.
    pub environment: BTreeMap<String, String>,
    /// No header and no progress.
    pub quiet: bool,
    /// No summary.
    pub no_summary: bool,
    /// No colours, even on a terminal.
    pub no_color: bool,
    /// Write the summary here, as k6's JSON.
    pub summary_export: Option<PathBuf>,
    /// Write the report here.
    pub report: Option<PathBuf>,
    /// Time before the recording begins.
    pub warm_up: Duration,
    /// Event loops; as many as processors may be used when `None`.
    pub event_loops: Option<usize>,
    /// Where messages go.
    pub messages: Messages,
}

/// How a run ended and what it measured.
#[derive(Debug)]
pub struct Outcome {
    /// For the operating system.
    pub status: ExitStatus,
    /// Absent when the run did not take place or was given up.
    pub report: Option<Report>,
}

/// Runs a script, shows what happens, writes what is asked for.
pub fn run(config: &Config) -> Outcome {
    raise_open_files_limit();
    match prepare(config) {
        Ok((run, options)) => execute(config, &run, options),
        Err(error) => {
            Log::new(config.messages.clone()).write(Level::Error, &error.to_string(), &[]);
            Outcome { status: status_of(&error), report: None }
        }
    }
}

/// Raises the soft limit on open files to the hard one: every virtual user has connections. A
/// refusal shows later, at the connection that is one too many.
fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// As [`run`], but checks the script and its options only.
///
/// # Errors
/// The message for the user, and the exit status.
pub fn check(config: &Config) -> Result<(), (String, ExitStatus)> {
    prepare(config).map(|_| ()).map_err(|error| (error.to_string(), status_of(&error)))
}

fn status_of(error: &ScriptError) -> ExitStatus {
    match error {
        ScriptError::Exception(_) | ScriptError::Read(_) => ExitStatus::ScriptException,
        ScriptError::Unsupported(_) | ScriptError::Options(_) => ExitStatus::InvalidConfig,
        ScriptError::Interrupted => ExitStatus::ExternalAbort,
        ScriptError::Start(_) => ExitStatus::Failure,
    }
}

impl From<OptionsError> for ScriptError {
    fn from(error: OptionsError) -> Self {
        match error {
            OptionsError::Unsupported(what) => Self::Unsupported(what),
            other => Self::Options(other.to_string()),
        }
    }
}

/// Runs the init code once and resolves the options.
fn prepare(config: &Config) -> Result<(Arc<Run>, Options), ScriptError> {
    let script = std::path::absolute(&config.script)
        .map_err(|error| ScriptError::Read(format!("{}: {error}", config.script.display())))?;
    let script = crate::script::normalize(&script);
    let run =
        Arc::new(Run::new(script, config.environment.clone(), Log::new(config.messages.clone())));
    let exports = engine::inspect(&run)?;
    let from_script = match &exports.options {
        Some(options) => Layer::from_script(options)?,
        None => Layer::default(),
    };
    for lifecycle in ["setup", "teardown", "handleSummary"] {
        if exports.functions.iter().any(|name| name == lifecycle) {
            return Err(ScriptError::Unsupported(format!("the exported function `{lifecycle}`")));
        }
    }
    let options = Options::resolve(from_script.apply(config.overrides.clone()))?;
    refuse_warm_up_of_iterations(config.warm_up, &options)?;
    for scenario in &options.scenarios {
        if !exports.functions.contains(&scenario.exec) {
            return Err(ScriptError::Options(format!(
                "scenario `{}`: the script exports no function `{}`",
                scenario.name, scenario.exec
            )));
        }
    }
    run.settle(Settings {
        throw: options.throw,
        discard_response_bodies: options.discard_response_bodies,
        max_redirects: options.max_redirects,
        no_vu_connection_reuse: options.no_vu_connection_reuse,
        http: options.http,
    });
    Ok((run, options))
}

/// A warm-up would use up the iterations that are to be measured. Scenarios that start later do not
/// take part in it.
fn refuse_warm_up_of_iterations(warm_up: Duration, options: &Options) -> Result<(), ScriptError> {
    let counted = options.scenarios.iter().find(|scenario| {
        let counts = matches!(
            scenario.executor,
            ExecutorConfig::PerVuIterations { .. } | ExecutorConfig::SharedIterations { .. }
        );
        counts && scenario.start_time.is_zero()
    });
    match counted.filter(|_| !warm_up.is_zero()) {
        None => Ok(()),
        Some(scenario) => Err(ScriptError::Unsupported(format!(
            "`--warm-up` with the executor `{}` (scenario `{}`)",
            scenario.executor.name(),
            scenario.name
        ))),
    }
}

fn execute(config: &Config, run: &Arc<Run>, options: Options) -> Outcome {
    if !config.quiet {
        let script = config.script.display().to_string();
        let output = config
            .report
            .as_ref()
            .map_or_else(|| "-".to_owned(), |path| path.display().to_string());
        show(&header(&script, &output, &options));
    }
    let event_loops = config.event_loops.unwrap_or_else(generator::available_cores).max(1);
    let mut progress = Progress::new(run.clone(), &options, config.warm_up, config.quiet);
    let plan = Plan { options, warm_up: config.warm_up, event_loops };
    match engine::execute(run, &plan, &mut progress) {
        Err(error) => {
            run.log.write(Level::Error, &error.to_string(), &[]);
            Outcome { status: status_of(&error), report: None }
        }
        Ok(finished) => {
            progress.finish(config.warm_up + finished.duration);
            finish(config, run, &plan, &finished)
        }
    }
}

/// Shows and writes what was measured.
fn finish(config: &Config, run: &Run, plan: &Plan, finished: &Finished) -> Outcome {
    let registry = run.registry();
    let data = SummaryData::new(
        &registry,
        &finished.measured,
        &plan.options.summary_trend_stats,
        finished.duration,
    );
    let context = report::Context {
        script: &config.script.display().to_string(),
        warm_up: config.warm_up,
        event_loops: plan.event_loops,
        iterations: Iterations {
            complete: run.live.complete.load(Ordering::Relaxed),
            interrupted: run.live.interrupted.load(Ordering::Relaxed),
            dropped: 0,
        },
    };
    let report = report::report(finished, &registry, &context);
    if !config.no_summary {
        let color = !config.no_color
            && std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none();
        let options = TextOptions { color, time_unit: plan.options.summary_time_unit.clone() };
        show(&text(&data, &options));
        show(&generator_line(&report));
    }
    if let Some(reason) = &report.generator.reason {
        let message = format!(
            "the load generator looks like the limit, not the server: {reason}; these figures say more \
             about this machine than about the server"
        );
        run.log.write(Level::Warning, &message, &[]);
    }
    let mut status = if finished.aborted { ExitStatus::ExternalAbort } else { ExitStatus::Success };
    let documents = [
        (&config.summary_export, serde_json::to_string_pretty(&export(&data))),
        (&config.report, serde_json::to_string(&report)),
    ];
    for (path, document) in documents {
        let Some(path) = path else { continue };
        if let Err(error) =
            document.map_err(std::io::Error::from).and_then(|text| write(path, &text))
        {
            run.log.write(
                Level::Error,
                &format!("could not write {}: {error}", path.display()),
                &[],
            );
            status = ExitStatus::Failure;
        }
    }
    if finished.aborted {
        run.log.write(Level::Error, "test run was aborted because a signal was received", &[]);
    }
    Outcome { status, report: Some(report) }
}

/// Writes a whole file or leaves what was there before.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    // A pipe or device cannot be replaced.
    if path.exists() && !path.is_file() {
        return std::fs::write(path, text);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    std::fs::write(&temporary, text)
        .and_then(|()| std::fs::rename(&temporary, path))
        .inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// Shorter windows have no meaningful rate per second.
const MIN_SHOWN_SECONDS: f64 = 1e-3;

/// One line about the generator, and how many requests were good.
fn generator_line(report: &Report) -> String {
    let generator = &report.generator;
    let seconds = report.duration_seconds;
    if seconds < MIN_SHOWN_SECONDS {
        return format!(
            "    generator: less than a millisecond was measured; {} good requests\n\n",
            report.requests.good
        );
    }
    let used = generator.cpu_seconds / seconds;
    let per_request = generator.cpu_seconds * 1e6 / report.requests.total.max(1) as f64;
    format!(
        "    generator: {used:.2} of {} cores ({:.0}%), {per_request:.1}µs per request, lag p99={:.2}ms max={:.2}ms, \
         {} dropped; {} good requests, {:.1}/s\n\n",
        generator.cores,
        100.0 * used / generator.cores.max(1) as f64,
        generator.lag_p99_ms,
        generator.lag_max_ms,
        report.iterations.dropped,
        report.requests.good,
        report.requests.good as f64 / seconds,
    )
}

fn show(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // Whoever closed the pipe does not want to see more.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rates_are_shown_of_a_window_without_length() {
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "export default function () {}").unwrap();
        let config = Config {
            script: script.path().to_owned(),
            quiet: true,
            no_summary: true,
            messages: Messages::Keep(Arc::default()),
            ..Config::default()
        };
        let mut report = run(&config).report.unwrap();
        report.duration_seconds = 1e-6;
        let line = generator_line(&report);
        assert!(!line.contains("/s") && line.contains("less than a millisecond"), "{line}");
        report.duration_seconds = 2.0;
        assert!(generator_line(&report).contains("/s"));
    }
}
