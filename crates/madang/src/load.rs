//! `madang load`: runs a k6 script.

mod flags;
mod k6_forms;
mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use k6_forms::{explain, normalize_args};

use crate::exit::ExitReason;
use anyhow::Context as _;
use clap::ArgAction;
use madang_load::{
    Config, ExecutorConfig, ExitStatus, Layer, OptionsError, Scenario, Stage, VuPool,
    parse_duration, parse_stage,
};

/// Arguments of `madang load`, with the names of k6, so that its command lines work.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The script is one for k6: `import http from 'k6/http'`, `export const options`, a default
function. What k6 has and this engine does not is refused by name. Flags win over the
environment (K6_VUS, K6_DURATION, …), which wins over the script, which wins over the file of
--config.

Examples:
  madang load script.js                          as the script's options say
  madang load script.js -u 50 -d 10s             50 virtual users for 10 s
  madang load script.js -s 10s:100 -s 30s:100    up to 100 virtual users in 10 s, then 30 s of
                                                 them
  madang load script.js --rate 200 -d 10s -u 50  200 iterations/s by the clock, by up to 50 of
                                                 them
  madang load script.js -e BASE_URL=http://127.0.0.1:8080
  madang load script.js --check                  validate the script and its options; send no
                                                 requests
  madang load script.js --warm-up 5s --report run.json
                                                 5 s unrecorded; everything measured as JSON
  madang load script.js --html run.html          everything measured as one page for a browser
  madang load script.js --out json=values.json   every single value as a line of JSON, as it is
                                                 measured
  madang load run script.js                      the same as `madang load script.js`: a command
                                                 line of k6
  madang load vendor script.js                   fetch once what the script imports by URL; runs
                                                 use that
")]
pub(crate) struct Args {
    /// The script; `-` reads it from standard input
    #[arg(value_name = "SCRIPT")]
    script: PathBuf,
    /// Virtual users
    #[arg(short = 'u', long, value_name = "N")]
    vus: Option<u32>,
    /// Iterations, shared by all virtual users
    #[arg(short = 'i', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Time during which iterations are started: 30s, 1m30s
    #[arg(short = 'd', long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// A stage of a ramp; may be repeated
    #[arg(short = 's', long = "stage", value_name = "TIME:VUS", value_delimiter = ',', value_parser = stage)]
    stages: Vec<Stage>,
    /// Iterations started per second, by the clock and however long they take, as long as one of
    /// --vus virtual users is free; instead of the script's scenarios. Needs --duration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          requires = "duration", conflicts_with_all = ["iterations", "stages"])]
    rate: Option<u32>,
    /// With --rate: how long iterations may go on after --duration before they are cut short [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "rate")]
    graceful_stop: Option<Duration>,
    /// A variable of the script's `__ENV`; may be repeated
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    environment: Vec<(String, String)>,
    /// Whether `__ENV` has the variables of this process too [default: true]
    /// [environment: K6_INCLUDE_SYSTEM_ENV_VARS]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", action = ArgAction::Set)]
    include_system_env_vars: Option<bool>,
    /// A tag of every value; may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    tags: Vec<(String, String)>,
    /// The User-Agent header
    #[arg(long, value_name = "TEXT")]
    user_agent: Option<String>,
    /// Redirects followed per request [default: 10]
    #[arg(long, value_name = "N")]
    max_redirects: Option<u32>,
    /// Close the connection after every request
    #[arg(long)]
    no_connection_reuse: bool,
    /// Close the connections after every iteration
    #[arg(long)]
    no_vu_connection_reuse: bool,
    /// Read response bodies, but do not keep them
    #[arg(long)]
    discard_response_bodies: bool,
    /// Failed requests throw
    #[arg(short = 'w', long)]
    throw: bool,
    /// Columns of trends in the summary [default: avg,min,med,max,p(90),p(95)]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    summary_trend_stats: Vec<String>,
    /// One unit for all durations in the summary: s, ms or us
    #[arg(long, value_name = "UNIT", value_parser = ["s", "ms", "us"])]
    summary_time_unit: Option<String>,
    /// Do not call setup()
    #[arg(long)]
    no_setup: bool,
    /// Do not call teardown()
    #[arg(long)]
    no_teardown: bool,
    /// Do not look at thresholds
    #[arg(long)]
    no_thresholds: bool,
    /// An iteration that is over sooner is followed by a pause
    #[arg(long, value_name = "TIME", value_parser = duration)]
    min_iteration_duration: Option<Duration>,
    /// Write the summary to this file, as k6's JSON
    #[arg(long, value_name = "FILE")]
    summary_export: Option<PathBuf>,
    /// No summary, and no call of handleSummary(); also --summary-mode disabled
    #[arg(long)]
    no_summary: bool,
    #[command(flatten)]
    more: flags::Flags,
    /// No header and no progress
    #[arg(short = 'q', long)]
    quiet: bool,
    /// No colours
    #[arg(long)]
    no_color: bool,
    /// Write everything measured to this file, as one JSON document
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write what was measured to this file as one page: load over time, response times, thresholds, checks, errors
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write to this file when recording begins, in seconds since 1970, as soon as that is known: after
    /// init code and setup()
    #[arg(long, value_name = "FILE")]
    started: Option<PathBuf>,
    /// Validate the script and its options: run its init code once, and resolve options and thresholds.
    /// Send no requests; print nothing when all is well
    #[arg(long, conflicts_with_all = ["report", "html", "summary_export"])]
    check: bool,
    /// Fetch what the script imports by URL into the directory madang-vendor beside it, with a lock file; runs use
    /// that and ask nobody. Also `madang load vendor SCRIPT`
    #[arg(long, conflicts_with = "check")]
    vendor: bool,
    /// When all is well, write to this file what would be measured, as JSON: for how many seconds at most, whether
    /// the load is steady or shaped, the kind of each metric, the variables of __ENV that are read, and the modules
    /// and files that are imported and opened
    #[arg(long, value_name = "FILE", requires = "check")]
    outline: Option<PathBuf>,
    /// Run this long before recording begins; not with a fixed number of iterations
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    warm_up: Duration,
    /// Event loops, one thread each [default: as many as processors may be used]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: Option<u16>,
}

fn duration(text: &str) -> anyhow::Result<Duration> {
    Ok(parse_duration(text)?)
}

fn stage(text: &str) -> anyhow::Result<Stage> {
    Ok(parse_stage("--stage", text)?)
}

/// `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> anyhow::Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => anyhow::bail!("NAME=VALUE is expected"),
    }
}

impl Args {
    fn arrivals(&self) -> Option<Scenario> {
        let vus = self.vus.unwrap_or(1);
        let executor = ExecutorConfig::ConstantArrivalRate {
            rate: self.rate?,
            time_unit: Duration::from_secs(1),
            duration: self.duration?,
            pool: VuPool { pre_allocated_vus: vus, max_vus: vus },
        };
        let mut scenario = Scenario::new("default", executor);
        scenario.graceful_stop = self.graceful_stop.unwrap_or(scenario.graceful_stop);
        Some(scenario)
    }

    fn layer(&self) -> Layer {
        let arrivals = self.arrivals();
        let given = |flag: bool| flag.then_some(true);
        let list = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
        Layer {
            vus: self.vus,
            // Only one option may determine the length.
            duration: self.duration.filter(|_| arrivals.is_none()),
            scenarios: arrivals.map(|scenario| vec![scenario]),
            iterations: self.iterations,
            stages: (!self.stages.is_empty()).then(|| self.stages.clone()),
            tags: self.tags.clone(),
            summary_trend_stats: list(&self.summary_trend_stats),
            summary_time_unit: self.summary_time_unit.clone(),
            user_agent: self.user_agent.clone(),
            no_connection_reuse: given(self.no_connection_reuse),
            no_vu_connection_reuse: given(self.no_vu_connection_reuse),
            discard_response_bodies: given(self.discard_response_bodies),
            throw: given(self.throw),
            max_redirects: self.max_redirects,
            no_setup: given(self.no_setup),
            no_teardown: given(self.no_teardown),
            min_iteration_duration: self.min_iteration_duration,
            ..Layer::default()
        }
    }

    /// Options of the environment with those of the flags on top.
    fn overrides(&self) -> Result<Layer, OptionsError> {
        let of_environment = Layer::from_environment(|name| std::env::var(name).ok());
        let mut flags = self.layer();
        let set = self.more.set(&mut flags);
        match (of_environment, set) {
            (Ok(layer), Ok(())) => Ok(layer.apply(flags)),
            (Err(one), Err(other)) => Err(OptionsError::Several(vec![one, other])),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    fn environment(&self, includes_system: bool) -> BTreeMap<String, String> {
        let system = system_variables().filter(|_| includes_system);
        system.chain(self.environment.iter().cloned()).collect()
    }
}

/// Variables of this process in UTF-8; others cannot be JavaScript strings.
fn system_variables() -> impl Iterator<Item = (String, String)> {
    let variables = std::env::vars_os();
    variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn check(config: &Config, outline: Option<&Path>) -> anyhow::Result<ExitReason> {
    let found = match madang_load::check(config) {
        Ok(found) => found,
        Err(status) => return Ok(ExitReason::Load(status)),
    };
    let Some(file) = outline else { return Ok(ExitReason::Done) };
    let text = serde_json::to_vec(&found).map_err(std::io::Error::from);
    let written = text.and_then(|text| std::fs::write(file, text));
    written.with_context(|| format!("cannot write {}", file.display()))?;
    Ok(ExitReason::Done)
}

fn vendor(script: &Path) -> anyhow::Result<ExitReason> {
    let fetched = |url: &str, bytes: usize| println!("{url}  {bytes} bytes");
    match madang_load::vendor(script, fetched)? {
        Some(lock) => println!("{}", lock.display()),
        None => println!("nothing is imported by URL that is not built in"),
    }
    Ok(ExitReason::Done)
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitReason> {
    if args.vendor {
        return vendor(&args.script);
    }
    let (checks, outline, page) = (args.check, args.outline.clone(), args.html.clone());
    let (config, problems) = config(args);
    if !problems.is_empty() {
        for problem in problems {
            // An error may list several problems, one per line.
            for line in format!("{problem:#}").lines() {
                crate::terminal::message(format_args!("madang: {line}"));
            }
        }
        if checks {
            let _ = madang_load::check(&config);
        }
        return Ok(ExitReason::Load(ExitStatus::InvalidConfig));
    }
    if checks {
        return check(&config, outline.as_deref());
    }
    let outcome = madang_load::run(&config);
    let Some((path, report)) = page.zip(outcome.report) else {
        return Ok(ExitReason::Load(outcome.status));
    };
    let raw = serde_json::to_string(&report)?;
    let written = std::fs::write(&path, page::page(&report, &raw));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(ExitReason::Load(outcome.status))
}

/// Collects errors, so that all are reported.
#[derive(Default)]
struct Problems(Vec<anyhow::Error>);

impl Problems {
    fn take<T: Default, E: Into<anyhow::Error>>(&mut self, result: Result<T, E>) -> T {
        result.unwrap_or_else(|error| {
            self.0.push(error.into());
            T::default()
        })
    }
}

/// Configuration from arguments, environment and file of options, with all errors.
fn config(args: Args) -> (Config, Vec<anyhow::Error>) {
    let variable = &|name: &str| std::env::var(name).ok();
    let mut problems = Problems::default();
    let file = problems.take(args.more.config_file(variable));
    let summary = problems.take(args.more.summary(variable));
    let headers = flags::headers(system_variables());
    let outputs = problems.take(args.more.outputs(variable, &file));
    let system = problems.take(flags::choice(variable, "K6_INCLUDE_SYSTEM_ENV_VARS"));
    let system = args.include_system_env_vars.or(system).unwrap_or(true);
    let no_thresholds = problems.take(flags::switch(variable, "K6_NO_THRESHOLDS"));
    let no_color = problems.take(flags::switch(variable, "K6_NO_COLOR"));
    let config = Config {
        outputs: outputs.into_iter().map(|one| one.with_headers(&headers)).collect(),
        defaults: file.options,
        overrides: problems.take(args.overrides()),
        environment: args.environment(system),
        secrets: problems.take(args.more.secrets(variable)),
        script: args.script,
        quiet: args.quiet,
        no_summary: args.no_summary || summary.is_none(),
        summary_mode: summary.unwrap_or_default(),
        no_thresholds: args.no_thresholds || no_thresholds,
        console_output: args.more.console_output(variable),
        messages: problems.take(args.more.messages(variable)),
        log_format: problems.take(args.more.log_format(variable)),
        verbose: args.more.verbose,
        no_color: args.no_color || no_color,
        summary_export: args
            .summary_export
            .or_else(|| flags::named(variable, "K6_SUMMARY_EXPORT").map(Into::into)),
        report: args.report,
        started: args.started,
        warm_up: args.warm_up,
        event_loops: args.cpus.map(usize::from),
        on_second_signal: Some(|| ExitReason::Load(ExitStatus::ExternalAbort).at_once()),
    };
    (config, problems.0)
}
