//! `madang load` without the parsing of its command line.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::engine::{self, Guarded, Plan};
use crate::limiter::Limiter;
use crate::log::{Level, Log, LogFormat, Messages};
use crate::options::{ExecutorConfig, Layer, MetricThresholds, Options, OptionsError};
use crate::outline::Outline;
use crate::progress::{Progress, header};
use crate::report::Report;
use crate::run::Run;
use crate::samples::{OutputSpec, Writer};
use crate::script::ScriptError;
use crate::secrets::Secrets;
use crate::stop_signals::SignalListener;
use crate::summary::SummaryMode;
use crate::{generator, output};

/// Result of a run by k6's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Success.
    Success = 0,
    /// A failure of the machine, such as a file that cannot be written.
    Failure = 1,
    /// A threshold failed.
    ThresholdsFailed = 99,
    /// `setup()` timed out.
    SetupTimeout = 100,
    /// `teardown()` timed out.
    TeardownTimeout = 101,
    /// Invalid or unsupported options or features of the script.
    InvalidConfig = 104,
    /// A signal ended the run.
    ExternalAbort = 105,
    /// The script threw in its init code, `setup()` or `teardown()`, or does not parse.
    ScriptException = 107,
    /// The script called `exec.test.abort()`.
    ScriptAborted = 108,
    /// The engine panicked.
    Panic = 109,
    /// The script called `exec.test.fail()`.
    MarkedAsFailed = 110,
}

impl ExitStatus {
    /// k6's exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Settings of a run.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The script; `-` is standard input.
    pub script: PathBuf,
    /// Options below the script's: those of a file.
    pub defaults: Layer,
    /// Options above the script's: those of the environment, then of the command line.
    pub overrides: Layer,
    /// `__ENV` of the script.
    pub environment: BTreeMap<String, String>,
    /// Secrets of `k6/secrets`.
    pub secrets: Secrets,
    /// Hide header and progress.
    pub quiet: bool,
    /// Skip the summary and `handleSummary()`.
    pub no_summary: bool,
    /// Contents of the summary.
    pub summary_mode: SummaryMode,
    /// Ignore thresholds.
    pub no_thresholds: bool,
    /// Disable colours.
    pub no_color: bool,
    /// File for k6's JSON summary.
    pub summary_export: Option<PathBuf>,
    /// File for the report.
    pub report: Option<PathBuf>,
    /// File for the start of recording in seconds since 1970, written as soon as it is known.
    pub started: Option<PathBuf>,
    /// File to which messages of `console` are appended.
    pub console_output: Option<PathBuf>,
    /// Outputs of single values.
    pub outputs: Vec<OutputSpec>,
    /// Load before the recording.
    pub warm_up: Duration,
    /// Number of event loops; `None` is the number of available processors.
    pub event_loops: Option<usize>,
    /// Destination of messages.
    pub messages: Messages,
    /// Format of messages.
    pub log_format: LogFormat,
    /// Show messages of level debug.
    pub verbose: bool,
    /// Called at a second signal, to end the process at once; it is aborted if this returns or is `None`.
    pub on_second_signal: Option<fn()>,
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status.
    pub status: ExitStatus,
    /// `None` when the run did not start or failed.
    pub report: Option<Report>,
}

/// Runs a script, shows its progress and writes the outputs.
pub fn run(config: &Config) -> Outcome {
    raise_open_files_limit();
    let run = || {
        let listener = listen_for_signals(config)?;
        let (run, plan) = prepare(config, &listener)?;
        Ok(execute(&run, &plan, &listener))
    };
    // A panic outside of the watched threads.
    let result = catch_unwind(AssertUnwindSafe(run));
    let result = result.unwrap_or_else(|_| Err(ScriptError::Panic("the main thread".to_owned())));
    result.unwrap_or_else(|error| Outcome { status: refuse(config, &error), report: None })
}

fn listen_for_signals(config: &Config) -> Result<SignalListener, ScriptError> {
    SignalListener::start(config.on_second_signal)
        .map_err(|error| ScriptError::Start(error.to_string()))
}

/// Raises the soft limit of open files to the hard one, because every virtual user has connections. Without effect a
/// later connection fails.
fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Runs only the init code, and checks the options.
///
/// # Errors
/// The exit status of an error, which is logged.
pub fn check(config: &Config) -> Result<Outline, ExitStatus> {
    let prepared = listen_for_signals(config).and_then(|listener| prepare(config, &listener));
    match prepared {
        Ok((run, _)) => Ok(Outline::from_run(&run)),
        Err(error) => Err(refuse(config, &error)),
    }
}

fn log(config: &Config) -> Log {
    let mut log = Log::new(config.messages.clone(), config.log_format);
    log.verbose = config.verbose;
    log
}

fn refuse(config: &Config, error: &ScriptError) -> ExitStatus {
    report_errors(&log(config), error);
    status_of(error)
}

fn report_errors(log: &Log, error: &ScriptError) {
    match error {
        ScriptError::Several(problems) => problems.iter().for_each(|one| report_errors(log, one)),
        one => log.write(Level::Error, &one.to_string(), &[]),
    }
}

pub(crate) fn status_of(error: &ScriptError) -> ExitStatus {
    match error {
        ScriptError::Aborted(_) => ExitStatus::ScriptAborted,
        ScriptError::Timeout { function: "teardown", .. } => ExitStatus::TeardownTimeout,
        ScriptError::Timeout { .. } => ExitStatus::SetupTimeout,
        ScriptError::Exception(_) | ScriptError::Read(_) | ScriptError::Overdue(_) => {
            ExitStatus::ScriptException
        }
        ScriptError::Unsupported(_) | ScriptError::Replaced { .. } | ScriptError::Options(_) => {
            ExitStatus::InvalidConfig
        }
        ScriptError::Several(problems) => {
            problems.first().map_or(ExitStatus::InvalidConfig, status_of)
        }
        ScriptError::Interrupted => ExitStatus::ExternalAbort,
        ScriptError::Panic(_) => ExitStatus::Panic,
        ScriptError::Start(_) => ExitStatus::Failure,
    }
}

impl From<OptionsError> for ScriptError {
    fn from(error: OptionsError) -> Self {
        match error {
            OptionsError::Unsupported(what) => Self::Unsupported(what),
            OptionsError::Replaced { what, instead } => Self::Replaced { what, instead },
            OptionsError::Several(problems) => {
                Self::Several(problems.into_iter().map(Self::from).collect())
            }
            other => Self::Options(other.to_string()),
        }
    }
}

fn prepare<'c>(
    config: &'c Config,
    listener: &SignalListener,
) -> Result<(Arc<Run>, Plan<'c>), ScriptError> {
    if config.script.extension().is_some_and(|extension| extension == "tar") {
        let what = format!("the archive `{}`", config.script.display());
        return Err(ScriptError::Replaced { what, instead: "run the script that is in it" });
    }
    let script = std::path::absolute(&config.script)
        .map_err(|error| ScriptError::Read(format!("{}: {error}", config.script.display())))?;
    let script = crate::script::normalize(&script);
    let mut log = log(config);
    if let Some(path) = &config.console_output {
        log.redirect_console(path).map_err(|error| {
            ScriptError::Options(format!("{} cannot be opened: {error}", path.display()))
        })?;
    }
    let mut run = Run::new(script, log);
    run.environment = config.environment.clone();
    run.signals = listener.signals.clone();
    run.secrets = config.secrets.clone();
    run.has_breakdown = config.summary_mode == SummaryMode::Full;
    if config.script.as_os_str() == "-" {
        let text = std::io::read_to_string(std::io::stdin()).map_err(|error| {
            ScriptError::Read(format!("the script cannot be read from standard input: {error}"))
        })?;
        run.sources.add(&run.script, &text)?;
    }
    let run = Arc::new(run);
    let exports = engine::inspect(&run)?;
    let from_script = match &exports.options {
        Some(options) => Layer::from_script(options)?,
        None => Layer::default(),
    };
    if from_script.scenarios.is_some() && config.overrides.says_how_long() {
        let message = "the command line or the environment says how long to run: the script's scenarios \
                       are not used";
        run.log.write(Level::Warning, message, &[]);
    }
    let layer = config.defaults.clone().apply(from_script).apply(config.overrides.clone());
    for name in &layer.unknown {
        let message = format!("unknown option `{name}`: it has no effect");
        run.log.write(Level::Warning, &message, &[]);
    }
    if layer.stages.as_ref().is_some_and(Vec::is_empty) {
        run.log.write(Level::Warning, "`stages` is empty and has no effect", &[]);
    }
    if layer.scenarios.as_ref().is_some_and(Vec::is_empty) {
        run.log.write(Level::Warning, "`scenarios` is empty and has no effect", &[]);
    }
    let options = Options::resolve(layer)?;
    let options = run.options.get_or_init(|| options);
    refuse_warm_up_of_iterations(config.warm_up, options)?;
    let without = options.scenarios.iter().filter(|one| !exports.functions.contains(&one.exec));
    let mut problems: Vec<_> = without
        .map(|one| {
            let (name, function) = (&one.name, &one.exec);
            let problem = format!("scenario `{name}`: the script exports no function `{function}`");
            ScriptError::Options(problem)
        })
        .collect();
    if options.rps > 0 {
        let _ = run.limiter.set(Limiter::new(options.rps));
    }
    if options.system_tags.has("expected_response") {
        run.registry().define_expected();
    }
    let rules = if config.no_thresholds { &[][..] } else { &options.thresholds };
    let guarded = guarded(&run, rules, &mut problems);
    if let Some(error) = ScriptError::of(problems) {
        return Err(error);
    }
    let event_loops = config.event_loops.unwrap_or_else(generator::available_cores).max(1);
    Ok((run, Plan { config, event_loops, functions: exports.functions, guarded }))
}

/// Resolves the metrics of the thresholds; defines sub-metrics.
fn guarded(
    run: &Run,
    thresholds: &[MetricThresholds],
    problems: &mut Vec<ScriptError>,
) -> Vec<Guarded> {
    let mut registry = run.registry();
    let mut guarded = Vec::new();
    for rules in thresholds {
        let wrong =
            |problem: String| ScriptError::Options(format!("option `thresholds`: {problem}"));
        let metric = match registry.resolve(&rules.metric) {
            Ok(metric) => metric,
            Err(error) => {
                problems.push(wrong(error.to_string()));
                continue;
            }
        };
        let kind = registry.get(metric).kind;
        for rule in &rules.thresholds {
            if !kind.has(rule.aggregation) {
                problems.push(wrong(format!(
                    "`{}` on `{}`: a {} has no `{}`",
                    rule.source,
                    rules.metric,
                    kind.name(),
                    rule.aggregation.name()
                )));
            }
        }
        guarded.push(Guarded { metric, rules: rules.clone() });
    }
    guarded
}

/// Rejects a warm-up that would use up the iterations to be measured. Scenarios with a `startTime` have none.
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

fn execute(run: &Arc<Run>, plan: &Plan<'_>, listener: &SignalListener) -> Outcome {
    let config = plan.config;
    let writer = match open_outputs(config, run) {
        Ok(writer) => writer,
        Err(error) => return Outcome { status: refuse(config, &error), report: None },
    };
    if !config.quiet {
        let script = config.script.display().to_string();
        output::show(&header(&script, &output_names(config), run.settings()));
    }
    let mut progress = Progress::new(run, config.warm_up, config.quiet);
    listener.leave_to_engine(true);
    let result = engine::execute(run, plan, &mut progress);
    // `handleSummary()` and outputs to a server may take long.
    listener.leave_to_engine(false);
    let written = writer.is_none_or(|writer| writer.finish(run));
    match result {
        Err(error) => {
            let error = run.panicked().unwrap_or(error);
            run.log.write(Level::Error, &error.to_string(), &[]);
            Outcome { status: status_of(&error), report: None }
        }
        Ok(finished) => {
            progress.finish(config.warm_up + finished.duration);
            let mut outcome = output::finish(run, plan, &finished);
            if !written && outcome.status == ExitStatus::Success {
                outcome.status = ExitStatus::Failure;
            }
            outcome
        }
    }
}

fn open_outputs(config: &Config, run: &Arc<Run>) -> Result<Option<Writer>, ScriptError> {
    if config.outputs.is_empty() {
        return Ok(None);
    }
    let writer = Writer::start(&config.outputs, run)?;
    let _ = run.samples.set(writer.samples.clone());
    Ok(Some(writer))
}

fn output_names(config: &Config) -> String {
    let report = config.report.iter().map(|path| path.display().to_string());
    let names: Vec<String> =
        config.outputs.iter().map(OutputSpec::describe).chain(report).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::Instant;

    use super::*;
    use crate::run::RunClock;

    /// Runs a script in which `exec.scenario.startTime` of a scenario that starts late panics.
    fn run_with_a_bug(text: &str) -> (Outcome, Vec<String>) {
        let script = tempfile::NamedTempFile::with_suffix(".js").unwrap();
        std::fs::write(script.path(), text).unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let config = Config {
            script: script.path().to_owned(),
            quiet: true,
            no_summary: true,
            messages: Messages::Keep(lines.clone()),
            ..Config::default()
        };
        let listener = listen_for_signals(&config).unwrap();
        let (run, plan) = prepare(&config, &listener).unwrap();
        // The sum of this warm-up and a `startTime` overflows a `Duration`.
        let clock = RunClock {
            start: Instant::now(),
            start_time: std::time::SystemTime::now(),
            warm_up: Duration::MAX,
        };
        run.clock.set(clock).unwrap();
        let outcome = execute(&run, &plan, &listener);
        let lines = lines.lock().unwrap().clone();
        (outcome, lines)
    }

    #[test]
    fn a_panic_in_a_virtual_user_ends_the_run_with_code_109_and_the_scenario() {
        // Without an end at the panic a run would last two seconds and succeed.
        for (executor, body) in [
            "executor: 'constant-vus', vus: 2, duration: '2s'",
            "executor: 'ramping-vus', stages: [
                { duration: '1ms', target: 2 }, { duration: '2s', target: 1 }]",
            "executor: 'constant-arrival-rate', rate: 1, duration: '2s', preAllocatedVUs: 2",
        ]
        .into_iter()
        .flat_map(|executor| {
            // A script cannot hide it.
            let bug = "exec.scenario.startTime";
            let caught = format!("try {{ {bug} }} catch (error) {{ sleep(0.1) }}");
            [bug.to_owned(), caught].map(|body| (executor, body))
        }) {
            let (outcome, lines) = run_with_a_bug(&format!(
                "import exec from 'k6/execution'; import {{ sleep }} from 'k6';
                 export const options = {{ scenarios: {{
                    broken: {{ {executor}, startTime: '1ms' }},
                    other: {{ executor: 'constant-vus', vus: 1, duration: '2s', gracefulStop: '0s',
                              exec: 'wait' }},
                 }} }};
                 export default function () {{ {body} }}
                 export function wait() {{ sleep(600); }}
                 export function teardown() {{ console.log('tidied up'); }}"
            ));
            assert_eq!((outcome.status, outcome.status.code()), (ExitStatus::Panic, 109));
            let reported = "the engine panicked in the scenario `broken`; this is a bug";
            assert_eq!(lines.iter().filter(|line| line.contains(reported)).count(), 1, "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("tidied up")), "{lines:?}");
            assert!(outcome.report.is_some_and(|report| report.aborted));
        }
    }
}
