//! `madang limit`: finds the highest rate at which variants of a service meet a goal.

use crate::compare::bare::{script_experiment, table};
use crate::compare::host::Madang;
use crate::compare::stored::{GO_ON, go_on_after};
use crate::compare::{CheckError, SEEDS, watch_signals};
use crate::exit::ExitReason;
use crate::settings::usage;
use crate::terminal;
use anyhow::{Context as _, bail};
use madang_lab::limit::{
    Console, Goal, LimitFinished, LimitOptions, LimitPlan, LimitReport, SearchEnd, Steering,
    StoredLimit,
};
use madang_lab::report::Language;
use madang_lab::{Cancel, Experiment, Warning};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `madang limit`.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("goal").multiple(true)
    .args(["p95", "p99", "errors", "max_dropped"]))]
#[command(after_help = "\
Iterations of a script are started by the clock. Short tries, at a rate that doubles and then is
narrowed down, get near the limit. Long tries decide: a rate is confirmed when three of them met
the goal, and refuted when one missed it; response times that grow all the time are a miss,
whatever they are. Every try has a fresh process with the same data. That is repeated in blocks,
the variants in turn. The answer is the median of the highest confirmed rates; ratios come with
95 % intervals. What gave way first is said: response times, errors, the server itself. When the
load generator, or the number of virtual users, gave way first, the answer is \"at least\",
never a limit of the server.

Five searches of a variant take about half an hour, of which --blocks 1 does the first only. For
a quick look: --blocks 1 --duration 5s, which takes 2 minutes and cannot see queues that grow
slowly.

How the rate gets to the script: a script that reads __ENV.RATE gets the iterations per second
there, with the length of a try in __ENV.DURATION and a number of virtual users in __ENV.VUS:

  import http from 'k6/http';
  import { check } from 'k6';
  export const options = { scenarios: { all: {
    executor: 'constant-arrival-rate', rate: Number(__ENV.RATE), timeUnit: '1s',
    duration: __ENV.DURATION, preAllocatedVUs: Number(__ENV.VUS),
  } } };
  export default function () {
    check(http.get(`${__ENV.BASE_URL}/v1/tracks/1`), { ok: (r) => r.status === 200 });
  }

Of any other script, also one that would not follow RATE and DURATION exactly, the default
function is started at the rate, whatever its options say; `sleep` in it makes it need more
virtual users (--vus). An iteration may make several requests: the rate is in iterations, the
report has good requests per second, too.

Examples:
  madang limit experiments/long-track --p95 200ms --errors 0.1%
  madang limit experiments/long-track --p99 50ms --variant medium --blocks 1
  madang limit script.js --url http://127.0.0.1:8080 --p95 200ms
                                           a server that runs already
  madang limit experiments/sign-up --p95 1s --json | jq '.variants[].capacity'
  madang limit --resume results/NAME-TIME  go on with a search that was interrupted or killed
  madang limit --report results/NAME-TIME --lang ko
                                           write its reports again, in Korean

A table goes to stdout; report.html, report.md, report.json (described by
experiments/limit.schema.json) and every try go to the results' directory.
")]
pub(crate) struct Args {
    /// Experiment file or its directory, as for `compare`; or a k6 script, with --url
    #[arg(value_name = "DIR|FILE|SCRIPT", required_unless_present_any = ["report", "resume"], requires = "goal")]
    path: Option<PathBuf>,
    /// Go on with the search in this directory of results: what its tries showed stays
    #[arg(long, value_name = "DIR", conflicts_with_all = FIXED)]
    resume: Option<PathBuf>,
    /// Write the reports of the search in this directory of results again; runs nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = FIXED, conflicts_with = "resume")]
    report: Option<PathBuf>,
    /// Language of table and reports: en or ko [default: en, or that of the stored search]
    #[arg(long, value_name = "LANG", value_parser = crate::compare::language, conflicts_with = "resume")]
    lang: Option<Language>,
    /// The server a script is run against; it gets it as BASE_URL
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Goal: longest 95th percentile of response times, such as 200ms
    #[arg(long, value_name = "TIME", value_parser = time)]
    p95: Option<Duration>,
    /// Goal: longest 99th percentile of response times
    #[arg(long, value_name = "TIME", value_parser = time)]
    p99: Option<Duration>,
    /// Goal: largest share of requests that fail, or one of whose checks fails [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    errors: Option<f64>,
    /// Goal: largest share of iterations that cannot start, or do not end [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    max_dropped: Option<f64>,
    /// Only this variant; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,
    /// Searches for each variant
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    blocks: u32,
    /// Rate to begin near, in iterations per second
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    from: u32,
    /// Highest rate to be tried
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    max_rate: u32,
    /// A search is over when the confirmed and the refuted rate are this close
    #[arg(long, value_name = "PERCENT", default_value = "2.5%", value_parser = resolution)]
    resolution: f64,
    /// Measured time of a long try; a short one takes a sixth [default: 20 times the goal, at least 30s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Load before each try [default: the experiment's, else 2s]
    #[arg(long, value_name = "TIME", value_parser = warm_up)]
    warm_up: Option<Duration>,
    /// Virtual users [default: fitted to rate and goal, 20 to 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=30_000))]
    vus: Option<u32>,
    /// A variable of the script's `__ENV`, with --url; may be repeated
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE", value_parser = crate::load::pair, requires = "url")]
    environment: Vec<(String, String)>,
    /// A disturbance that is taken as it comes: steal or foreign_cpu; may be repeated
    #[arg(long, value_name = "WHAT", value_parser = disturbance)]
    accept: Vec<Warning>,
    /// Use the file's quick settings
    #[arg(long)]
    quick: bool,
    /// Directory for the results, new or empty [default: results/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print report.json instead of the table
    #[arg(long)]
    json: bool,
    /// Only check file and flags, and estimate the time
    #[arg(long)]
    check: bool,
    /// Seed of orders and first rates, to repeat a search [default: a new one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(SEEDS))]
    seed: Option<u64>,
}

/// Arguments that a stored search determines.
const FIXED: [&str; 17] = [
    "path", "goal", "url", "variant", "blocks", "from", "max_rate", "resolution", "duration",
    "warm_up", "vus", "environment", "accept", "quick", "out", "check", "seed",
];
/// Maximum rate, above that of any generator.
const MOST: i64 = 1_000_000;
/// Default share of failed requests and of dropped iterations.
const DEFAULT_SHARE: f64 = 0.01;

fn time(text: &str) -> anyhow::Result<Duration> {
    match warm_up(text)? {
        Duration::ZERO => bail!("it must be longer than zero"),
        time => Ok(time),
    }
}

/// Requires a unit: for k6 a bare number means milliseconds, a person may mean seconds.
fn warm_up(text: &str) -> anyhow::Result<Duration> {
    if text.parse::<f64>().is_ok() {
        bail!("a time with its unit, such as 200ms or 5s");
    }
    Ok(madang_load::parse_duration(text)?)
}

/// Requires the sign, because 0.1 could be meant as a share.
fn percent(text: &str) -> anyhow::Result<f64> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.map(|number| number / 100.0).context("a percentage such as 0.1%")
}

/// The sign is optional. Below a thousandth there is only noise.
fn resolution(text: &str) -> anyhow::Result<f64> {
    let with_sign = format!("{}%", text.trim_end_matches('%'));
    let share = percent(&with_sign).ok().filter(|share| *share >= 0.001);
    share.context("a percentage from 0.1% to 100%")
}

fn disturbance(text: &str) -> anyhow::Result<Warning> {
    match text {
        "steal" => Ok(Warning::Steal),
        "foreign_cpu" => Ok(Warning::ForeignCpu),
        _ => bail!("accepted are steal and foreign_cpu"),
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitReason> {
    if let Some(dir) = &args.report {
        let report = StoredLimit::read(dir)?.report_again(args.lang)?;
        show(&report, args.json)?;
        return Ok(report.conclusion().into());
    }
    if let Some(dir) = &args.resume {
        let stored = StoredLimit::read(dir)?;
        let cancel = Cancel::default();
        watch_signals(cancel.clone())?;
        let progress = &mut Console::default();
        let finished = madang_lab::limit::resume(stored, &Madang, &cancel, progress)?;
        return ended(finished, dir, args.json);
    }
    let mut experiment = read(&args)?;
    let (out, json, check) = (args.out.clone(), args.json, args.check);
    let place = experiment.file.display().to_string();
    let mut plan = LimitPlan::new(&experiment, options(args)?).context(place.clone())?;
    let cancel = Cancel::default();
    watch_signals(cancel.clone())?;
    let mut problems = madang_lab::check(&experiment, &Madang);
    let script = plan.check_script(&experiment, &Madang, &cancel);
    problems.extend(script.wrong);
    if !problems.is_empty() {
        return Err(CheckError { file: experiment.file, problems }.into());
    }
    if let Some(outline) = script.outline {
        experiment.apply_outline(&outline)?;
    }
    if check {
        return describe(&place, &plan);
    }
    let out = out.unwrap_or_else(|| madang_lab::default_out(&experiment));
    let progress = &mut Console::default();
    let finished = madang_lab::limit::run(&experiment, &plan, &Madang, &out, &cancel, progress)?;
    ended(finished, &out, json)
}

fn ended(finished: LimitFinished, out: &Path, json: bool) -> anyhow::Result<ExitReason> {
    let report = finished.report;
    show(&report, json)?;
    // Shown above in any case: it may be hours of work.
    finished.written?;
    let place = out.display();
    terminal::message(format_args!("results in {place}"));
    let hint = match report.ended {
        SearchEnd::Interrupted => Some(GO_ON),
        SearchEnd::Broken { .. } => go_on_after(None),
        _ => None,
    };
    if let Some(hint) = hint {
        terminal::message(format_args!("{hint}: madang limit --resume {place}"));
    }
    Ok(report.conclusion().into())
}

fn show(report: &LimitReport, json: bool) -> anyhow::Result<()> {
    terminal::print(&if json { report.to_json() } else { report.to_text() })
}

fn read(args: &Args) -> anyhow::Result<Experiment> {
    // Clap requires it.
    let path = args.path.as_deref().unwrap_or(Path::new("."));
    let is_script = path.extension().is_some_and(|kind| kind == "js" || kind == "mjs");
    let file: Result<&Path, &str> = match (&args.url, is_script) {
        (Some(_), true) if !path.is_file() => Err("there is no such file"),
        (Some(url), true) => {
            let variants = table([("server", table([("url", url.clone().into())]).into())]);
            let rest = table([("question", format!("How much can {url} take?").into())]);
            let env = args.environment.iter();
            let env = env.map(|(name, value)| (name.as_str(), value.clone().into()));
            let load = table([("env", table(env).into())]);
            return script_experiment("limit", path, load, variants, rest);
        }
        (None, true) => Err("a script needs --url: the server it is to be run against"),
        (Some(_), false) => Err("--url belongs to a script; an experiment has its variants"),
        (None, false) => Ok(path),
    };
    let file = file.map_err(|why| usage(format!("{}: {why}", path.display())))?;
    let files = Experiment::files(file)?;
    let [only] = &files[..] else {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let why = "it has several experiments; name one of";
        return Err(usage(format!("{}: {why} {}", file.display(), names.join(", "))));
    };
    Ok(Experiment::read(only)?)
}

fn options(args: Args) -> anyhow::Result<LimitOptions> {
    if args.from > args.max_rate {
        return Err(usage("--from must not be above --max-rate"));
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    Ok(LimitOptions {
        goal: Goal {
            p95_ms: args.p95.map(milliseconds),
            p99_ms: args.p99.map(milliseconds),
            errors: args.errors.unwrap_or(DEFAULT_SHARE),
            max_dropped: args.max_dropped.unwrap_or(DEFAULT_SHARE),
        },
        variants: args.variant,
        blocks: args.blocks,
        from: args.from,
        max_rate: args.max_rate,
        resolution: args.resolution,
        duration: args.duration,
        warm_up: args.warm_up,
        vus: args.vus,
        quick: args.quick,
        seed: args.seed,
        accept: args.accept,
        language: args.lang.unwrap_or_default(),
    })
}

/// Prints the plan.
fn describe(place: &str, plan: &LimitPlan) -> anyhow::Result<ExitReason> {
    let names: Vec<&str> = plan.plan.variants.iter().map(|variant| variant.name.as_str()).collect();
    let how = match plan.steering {
        Steering::Script => "the script follows RATE",
        Steering::Generator => "the script's default function is started at the rate",
    };
    terminal::print(&format!(
        "{place}: right; goal: {}; variants: {}; {how}; about {:.0} min\n",
        plan.options.goal,
        names.join(", "),
        plan.estimate().as_secs_f64() / 60.0,
    ))?;
    Ok(ExitReason::Done)
}
