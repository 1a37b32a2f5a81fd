//! Real k6 as a load generator: runs its command and turns the samples that it prints into the report that the lab reads.
//!
//! k6 writes every sample as a line of JSON (`--out json`), which costs it CPU time: the adapter is for scripts that
//! `madang load` cannot run. Three figures are less exact than the built-in generator's. k6 does not say which
//! request a check belongs to, so a request is good if it did not fail. The window begins where the first iteration did,
//! by its own samples. Response times from the intended start do not exist.

use std::io::{self, BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use madang_stack::{CpuList, Sample, Scope};
use serde::Deserialize;

use super::Args;
use super::samples::{Collector, Log};

/// Time between two readings of k6's CPU time.
const CPU_INTERVAL: Duration = Duration::from_millis(200);
/// k6's exit code for options that cannot be honoured.
const INVALID_OPTIONS: i32 = 104;
/// Its exit code for a failure without a name.
const FAILED: i32 = 1;

/// Why k6 could not be used. Its own complaints are on stderr.
#[derive(Debug, thiserror::Error)]
pub enum K6Error {
    /// The program cannot be started.
    #[error("cannot run k6 as `{}`", .program.display())]
    Start { program: PathBuf, source: io::Error },
    /// A warm-up that k6 cannot do.
    #[error(
        "k6 has no warm-up: `warm_up` in [rounds] is possible only if `duration` in [load] or the script's own \
         `duration` says how long the script runs"
    )]
    WarmUp,
    /// A report that cannot be written.
    #[error("cannot write `{}`", .path.display())]
    Write { path: PathBuf, source: io::Error },
    /// k6 printed no sample of any iteration.
    #[error("k6 reported no iteration")]
    NoIteration,
    /// Samples that cannot be read.
    #[error("cannot read k6's samples")]
    Samples(#[source] io::Error),
}

impl K6Error {
    pub fn exit_code(&self) -> i32 {
        if matches!(self, Self::WarmUp) { INVALID_OPTIONS } else { FAILED }
    }
}

/// Options that `k6 inspect` resolves.
#[derive(Debug, Deserialize)]
struct Inspected {
    #[serde(default)]
    duration: Option<String>,
    #[serde(default)]
    scenarios: std::collections::BTreeMap<String, serde::de::IgnoredAny>,
}

impl Args {
    /// Checks the script and the warm-up; returns k6's exit code.
    pub fn check(&self) -> Result<i32, K6Error> {
        let (exit, _) = self.inspect()?;
        if exit == 0 {
            self.whole_duration()?;
        }
        Ok(exit)
    }

    /// Runs the load and writes the files; returns k6's exit code.
    pub fn load(&self) -> Result<i32, K6Error> {
        let whole = self.whole_duration()?;
        let window = whole.map(|whole| whole.saturating_sub(self.warm_up));
        let mut command = self.command("run");
        // No REST server: its port would be taken by the other side of a pair.
        command.args(["--quiet", "--no-usage-report", "--summary-mode=disabled", "--address="]);
        command.args(["--out=json", "--log-format=json"]);
        if let Some(vus) = self.vus {
            command.args(["--vus".to_owned(), vus.to_string()]);
        }
        if let Some(whole) = whole {
            command.args(["--duration".to_owned(), format!("{}ms", whole.as_millis())]);
        }
        let mut child = self.spawn(command.arg(&self.script))?;
        let collector = Collector::new(self.warm_up, window);
        let (exit, collector, log, cpu) = self.follow(&mut child, collector)?;
        let report = collector.report(&log, |from, to| {
            (madang_lab::value_at(&cpu, to) - madang_lab::value_at(&cpu, from), cores())
        });
        // Without iterations k6 has said why.
        let report = match report {
            Some(report) => report,
            None if exit != 0 => return Ok(exit),
            None => return Err(K6Error::NoIteration),
        };
        if let Some(path) = &self.report {
            let text = serde_json::to_vec(&report).map_err(io::Error::from);
            let written = text.and_then(|text| fs::write(path, text));
            written.map_err(|source| K6Error::Write { path: path.clone(), source })?;
        }
        Ok(exit)
    }

    /// Reads samples, messages and CPU time until k6 has ended.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn follow(
        &self,
        child: &mut Child,
        mut collector: Collector,
    ) -> Result<(i32, Collector, Log, Vec<(f64, f64)>), K6Error> {
        let (samples, messages) = (child.stdout.take(), child.stderr.take());
        let pid = child.id();
        let has_ended = AtomicBool::new(false);
        let (read, log, cpu) = thread::scope(|scope| {
            let log = scope.spawn(|| messages.map(|stderr| Log::read(BufReader::new(stderr))));
            let cpu = scope.spawn(|| cpu_times(pid, &has_ended));
            let read = samples.map_or(Ok(()), |stdout| {
                let mut is_told = false;
                for line in BufReader::new(stdout).lines() {
                    collector.line(&line.map_err(K6Error::Samples)?);
                    if let (Some(start), false, Some(path)) =
                        (collector.window_start(), is_told, &self.started)
                    {
                        is_told = true;
                        fs::write(path, format!("{start}\n"))
                            .map_err(|source| K6Error::Write { path: path.clone(), source })?;
                    }
                }
                Ok(())
            });
            has_ended.store(true, Ordering::Relaxed);
            let log = log.join().ok().flatten().unwrap_or_default();
            (read, log, cpu.join().unwrap_or_default())
        });
        let exit = child.wait().map_err(K6Error::Samples)?;
        read?;
        Ok((exit.code().unwrap_or(FAILED), collector, log, cpu))
    }

    /// Time that k6 has to run, warm-up included; `None` if the script's scenarios decide.
    fn whole_duration(&self) -> Result<Option<Duration>, K6Error> {
        if let Some(duration) = self.duration {
            return Ok(Some(self.warm_up + duration));
        }
        if self.warm_up.is_zero() {
            return Ok(None);
        }
        let (_, inspected) = self.inspect()?;
        let only = inspected.filter(|options| options.scenarios.len() <= 1);
        let duration =
            only.and_then(|options| madang_load::parse_duration(&options.duration?).ok());
        duration.map(|duration| Some(self.warm_up + duration)).ok_or(K6Error::WarmUp)
    }

    /// Runs `k6 inspect`, which executes the script's init code.
    fn inspect(&self) -> Result<(i32, Option<Inspected>), K6Error> {
        let mut command = self.command("inspect");
        command.arg("--execution-requirements").arg(&self.script).stderr(Stdio::inherit());
        let output = command.output().map_err(|source| self.cannot_start(source))?;
        let inspected = serde_json::from_slice(&output.stdout).ok();
        Ok((output.status.code().unwrap_or(FAILED), inspected))
    }

    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(what).arg("--include-system-env-vars=false").stdin(Stdio::null());
        for variable in &self.env {
            command.args(["--env", variable]);
        }
        command
    }

    fn spawn(&self, command: &mut Command) -> Result<Child, K6Error> {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|source| self.cannot_start(source))
    }

    fn cannot_start(&self, source: io::Error) -> K6Error {
        K6Error::Start { program: self.program.clone(), source }
    }
}

/// CPU time of k6 and of this process, read until the samples end: moments in seconds since 1970 and seconds.
fn cpu_times(pid: u32, has_ended: &AtomicBool) -> Vec<(f64, f64)> {
    let mut times = Vec::new();
    loop {
        let is_last = has_ended.load(Ordering::Relaxed);
        if let Ok(sample) = Sample::take(pid, Scope::Process) {
            let used = sample.cpu + madang_stack::own_cpu_time();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            times.push((now.as_secs_f64(), used.as_secs_f64()));
        }
        if is_last {
            return times;
        }
        thread::sleep(CPU_INTERVAL);
    }
}

fn cores() -> u32 {
    let allowed = CpuList::allowed().map_or(1, |cpus| cpus.as_slice().len());
    u32::try_from(allowed).unwrap_or(u32::MAX)
}
