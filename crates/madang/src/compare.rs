//! `madang compare`: measures variants of a service in interleaved rounds, with a verdict.

use crate::exit;
use anyhow::{Context as _, anyhow};
use madang_lab::experiment::FileError;
use madang_lab::host::{Host, HostError, Launch, Ready};
use madang_lab::progress::Console;
use madang_lab::{Cancel, Experiment, NoQuick, Options, Plan, RunError};
use madang_service::config::{ConfigError, Origin, Sources};
use madang_stack::{Patience, Spec, Supervisor};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// This program as it runs now, even when its file is replaced by a build meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// Filling a store may take this long; the largest bundled one takes seconds.
const PREPARE_LIMIT: Duration = Duration::from_secs(1800);
/// Filling is stopped gently, so that everything is on disk.
const STOP_GRACE: Duration = Duration::from_secs(30);
/// As a shell reports a second Ctrl-C.
const EXIT_INTERRUPTED: i32 = 130;
/// Signals this soon after the first are the same wish: `timeout` of coreutils signals the command
/// and then its process group. Nobody presses Ctrl-C twice as fast as this and means it.
const SAME_WISH: Duration = Duration::from_millis(500);
/// Seeds stay below 2^53: every JSON reader can hold them exactly (RFC 8259, section 6).
const SEEDS: std::ops::Range<u64> = 0..1 << 53;

/// Arguments of `madang compare`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Each block runs every variant once, in random order, on a fresh process with the same data. Ratios
are against the reference of the same block, with 95 % intervals. A table and the verdict go to
stdout; report.md, report.json and every round go to the results' directory. The format of an
experiment is explained in experiments/README.md.

Examples:
  madang compare experiments/long-track                   as many blocks as the file says
  madang compare experiments/long-track --quick           its quick settings, for a first look
  madang compare experiments/long-track --a-a             the reference with itself: how far apart
                                                          do two equal things appear on this machine?
  madang compare experiments/long-track --check           is the file right? Runs nothing
  madang compare my.toml --out out --json | jq .verdict   for a script

Exit codes: 0 it ran, whatever the verdict · 1 a round stayed broken · 2 a wrong file or flag ·
3 reserved for a machine too noisy to tell (not given yet) · 130 interrupted (complete blocks are reported).")]
pub struct Args {
    /// Experiment file, or a directory with an experiment.toml
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,
    /// Use the file's quick settings
    #[arg(long)]
    quick: bool,
    /// Complete this many blocks instead of the file's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    blocks: Option<u32>,
    /// Directory for the results, new or empty [default: results/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print report.json instead of the table
    #[arg(long)]
    json: bool,
    /// Only check the file
    #[arg(long)]
    check: bool,
    /// Compare the reference with itself
    #[arg(long)]
    a_a: bool,
    /// Seed of the order of rounds, to repeat one [default: a new one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(SEEDS))]
    seed: Option<u64>,
}

/// Compares, and gives the exit code.
pub fn run(args: Args) -> ExitCode {
    match compare(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            tell(&format!("madang: {error:#}"));
            ExitCode::from(error.chain().find_map(code_of).unwrap_or(exit::FAILED))
        }
    }
}

fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    let not_empty = matches!(cause.downcast_ref::<RunError>(), Some(RunError::NotEmpty(_)));
    let usage =
        not_empty || cause.is::<FileError>() || cause.is::<NoQuick>() || cause.is::<Wrong>();
    usage.then_some(exit::USAGE)
}

/// What the host found wrong in a file that is well formed.
#[derive(Debug)]
struct Wrong {
    file: PathBuf,
    wrong: Vec<String>,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.wrong.join("; "))
    }
}

impl std::error::Error for Wrong {}

fn compare(args: Args) -> anyhow::Result<u8> {
    let experiment = Experiment::read(&args.path)?;
    let options =
        Options { quick: args.quick, blocks: args.blocks, calibration: args.a_a, seed: args.seed };
    let plan =
        Plan::new(&experiment, &options).with_context(|| experiment.file.display().to_string())?;
    let wrong = madang_lab::check(&experiment, &Madang);
    if !wrong.is_empty() {
        return Err(Wrong { file: experiment.file, wrong }.into());
    }
    if args.check {
        say(&format!("{}: right; {} rounds\n", experiment.file.display(), plan.rounds()))?;
        return Ok(0);
    }
    let out = args.out.unwrap_or_else(|| madang_lab::default_out(&experiment));
    let cancel = Cancel::default();
    watch_signals(cancel.clone())?;
    let finished =
        madang_lab::run(&experiment, &plan, &Madang, &out, &cancel, &mut Console::new())?;
    let report = finished.report;
    say(&if args.json { report.to_json() } else { report.to_text() })?;
    // Shown above all the same: it may be hours of work.
    finished.written?;
    let kept = format!("{} of {} blocks complete", report.complete_blocks, report.settings.blocks);
    tell(&format!("{kept}; results in {}", out.display()));
    Ok(report.exit_code())
}

/// A reader that has seen enough is no error.
fn say(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to stdout")
        }
        _ => Ok(()),
    }
}

/// A line on stderr, which somebody may have closed: the exit code and the results say it too.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The first Ctrl-C or SIGTERM ends the run in order, a later one at once. Either way the
/// supervisors leave no process behind.
fn watch_signals(cancel: Cancel) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let watch = async move {
        let mut first: Option<Instant> = None;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            match first {
                None => {
                    first = Some(Instant::now());
                    cancel.cancel();
                    tell("stopping; complete blocks are kept (again to stop at once)");
                }
                Some(at) if at.elapsed() < SAME_WISH => {}
                Some(_) => std::process::exit(EXIT_INTERRUPTED),
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(watch))?;
    Ok(())
}

/// What the lab needs to know about this program.
struct Madang;

impl Madang {
    fn fill_with_samples(
        &self,
        template: &Path,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), HostError> {
        let server = self.supervisor().spawn(&serve(template).arg("--demo")).map_err(in_words)?;
        server.ready_line(LISTENING, Patience::new(PREPARE_LIMIT, give_up)).map_err(in_words)?;
        let exit = server.stop(Patience::new(STOP_GRACE, give_up)).map_err(in_words)?;
        if exit.is_success() {
            return Ok(());
        }
        let said = server.stderr_tail();
        Err(HostError(format!("the server that stored the samples failed ({exit}){said}")))
    }
}

impl Host for Madang {
    fn supervisor(&self) -> Supervisor {
        Supervisor::this_program(["supervise"])
    }

    fn generator(&self) -> Vec<OsString> {
        vec![THIS_PROGRAM.into(), "load".into()]
    }

    fn check_serve(&self, settings: &toml::Table) -> Result<(), HostError> {
        let origin = Origin::Flag("--set".to_owned());
        // Where it stands is said by the caller, who knows the variant.
        let in_words = |error: ConfigError| {
            let (text, place) = (error.to_string(), format!("{origin}: "));
            HostError(text.strip_prefix(&place).unwrap_or(&text).to_owned())
        };
        let mut sources = Sources::new();
        let mut seen = BTreeSet::new();
        for (key, value) in flat(settings) {
            sources.set(&key, &value, origin.clone()).map_err(in_words)?;
            if seen.contains(&key) {
                return Err(HostError(format!("`{key}` is given twice")));
            }
            seen.insert(key);
        }
        sources.resolve().map(drop).map_err(in_words)
    }

    fn check_data(&self, data: &toml::Table, dir: &Path) -> Result<(), HostError> {
        Data::read(data, dir).map(drop)
    }

    fn own_variables(&self) -> &[&str] {
        &OWN_VARIABLES
    }

    fn prepare(
        &self,
        data: &toml::Table,
        dir: &Path,
        template: &Path,
        cancel: &Cancel,
    ) -> Result<(), HostError> {
        let data = Data::read(data, dir)?;
        let give_up = || cancel.is_cancelled();
        if data.samples {
            self.fill_with_samples(template, &give_up)?;
        }
        if data.tracks.is_empty() {
            return Ok(());
        }
        let import = this_program(template).args(["import", "tracks", "--data"]).arg(template);
        let import =
            self.supervisor().spawn(&import.arg("--").args(&data.tracks)).map_err(in_words)?;
        match import.wait_patiently(Patience::new(PREPARE_LIMIT, &give_up)).map_err(in_words)? {
            exit if exit.is_success() => Ok(()),
            exit => {
                Err(HostError(format!("`import tracks` failed ({exit}){}", import.stderr_tail())))
            }
        }
    }

    fn serve(&self, settings: &toml::Table, data_dir: &Path) -> Result<Launch, HostError> {
        let mut spec = serve(data_dir);
        for (key, value) in flat(settings) {
            spec = spec.args(["--set".to_owned(), format!("{key}={value}")]);
        }
        Ok(Launch { spec, ready: Ready::Line(LISTENING.to_owned()) })
    }

    fn versions(&self) -> Vec<(String, String)> {
        vec![("madang".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]
    }
}

/// Line 1 of `serve`'s stdout begins with this.
const LISTENING: &str = "listening ";

/// A server on a free port with its data in `dir`.
fn serve(dir: &Path) -> Spec {
    this_program(dir).args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(dir)
}

/// How the variables of server and generator begin: settings, and options that k6 has, too.
const OWN_VARIABLES: [&str; 2] = ["MADANG_", "K6_"];

/// This program without anything of its caller's that would change what it does: a round's
/// settings are those of the experiment, not those of the shell or directory it was started in.
fn this_program(dir: &Path) -> Spec {
    let spec = Spec::new(THIS_PROGRAM).dir(dir);
    OWN_VARIABLES.iter().fold(spec, |spec, prefix| spec.env_remove_prefix(prefix))
}

/// The `[data]` table of this host.
#[derive(Debug, Default, PartialEq, Eq)]
struct Data {
    /// The bundled samples.
    samples: bool,
    /// GPX and GeoJSON files, relative to the experiment.
    tracks: Vec<PathBuf>,
}

impl Data {
    fn read(table: &toml::Table, dir: &Path) -> Result<Self, HostError> {
        let mut data = Self::default();
        for (key, value) in table {
            match (key.as_str(), value) {
                ("samples", toml::Value::Boolean(samples)) => data.samples = *samples,
                ("tracks", toml::Value::Array(files)) => {
                    data.tracks =
                        files.iter().map(|file| track(file, dir)).collect::<Result<_, _>>()?;
                }
                ("samples", _) => {
                    return Err(HostError("`samples` must be true or false".to_owned()));
                }
                ("tracks", _) => {
                    return Err(HostError("`tracks` must be a list of files".to_owned()));
                }
                _ => {
                    return Err(HostError(format!(
                        "unknown key `{key}`: accepted are `samples`, `tracks`"
                    )));
                }
            }
        }
        Ok(data)
    }
}

fn track(file: &toml::Value, dir: &Path) -> Result<PathBuf, HostError> {
    let path = file.as_str().map(|name| dir.join(name));
    let path =
        path.ok_or_else(|| HostError(format!("`tracks` must be a list of files, not {file}")))?;
    if path.is_file() {
        Ok(path)
    } else {
        Err(HostError(format!("`tracks`: no file `{}`", path.display())))
    }
}

/// Settings as `--set` has them: dotted keys, strings without their quotes. TOML reads
/// `cache.mode = "off"` without quotes around the key as a table in a table; both ways are meant
/// alike.
fn flat(settings: &toml::Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (key, value) in settings {
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => {
                let inner = flat(inner).into_iter();
                found.extend(inner.map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            toml::Value::String(text) => found.push((key.clone(), text.clone())),
            other => found.push((key.clone(), other.to_string())),
        }
    }
    found
}

fn in_words(error: madang_stack::Error) -> HostError {
    HostError(format!("{:#}", anyhow!(error)))
}
