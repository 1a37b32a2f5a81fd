//! Runs k6 and turns the samples that it prints into the report that the lab reads.
//!
//! k6 writes every sample as a line of JSON (`--out json`), which costs it CPU time: this is for scripts that
//! `madang load` cannot run. Three figures are less exact than those of the built-in generator. k6 does not relate checks to
//! requests, so a request is good if it did not fail. The window begins with the first iteration, according to its
//! samples. Response times from the intended start do not exist.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use anyhow::{Context as _, bail};
use madang_stack::{CpuList, Sample, Scope};
use serde::Deserialize;

use super::Args;
use super::samples::{Collector, read_messages};

/// Interval between two readings of k6's CPU time.
const CPU_INTERVAL: Duration = Duration::from_millis(200);
/// k6's exit code for options that cannot be honoured.
pub(super) const INVALID_OPTIONS: i32 = 104;
/// k6's exit code for other failures.
pub(super) const FAILED: i32 = 1;

/// A warm-up without a known duration.
#[derive(Debug, thiserror::Error)]
#[error(
    "k6 has no warm-up: `warm_up` in [rounds] is possible only if `duration` in [load] or the script's own \
     `duration` says how long the script runs"
)]
pub(super) struct WarmUpError;

/// Error of reading k6's stdout.
const SAMPLES: &str = "cannot read k6's samples";

/// Options resolved by `k6 inspect`.
#[derive(Debug, Deserialize)]
struct Inspected {
    #[serde(default)]
    duration: Option<String>,
    #[serde(default)]
    scenarios: BTreeMap<String, serde::de::IgnoredAny>,
}

impl Args {
    /// Checks the script and the warm-up; returns k6's exit code.
    pub(crate) fn check(&self) -> anyhow::Result<i32> {
        let (exit, _) = self.inspect()?;
        if exit == 0 {
            self.whole_duration()?;
        }
        Ok(exit)
    }

    /// Runs the load and writes the files; returns k6's exit code.
    pub(crate) fn load(&self) -> anyhow::Result<i32> {
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
        let mut collector = Collector::new(self.warm_up, window);
        let (exit, exceptions, cpu) = self.follow(&mut child, &mut collector)?;
        let report = collector.report(&exceptions, |from, to| {
            (madang_lab::value_at(&cpu, to) - madang_lab::value_at(&cpu, from), cores())
        });
        let report = match report {
            Some(report) => report,
            // k6 has printed the reason.
            None if exit != 0 => return Ok(exit),
            None => bail!("k6 reported no iteration"),
        };
        if let Some(path) = &self.report {
            write(path, &serde_json::to_vec(&report)?)?;
        }
        Ok(exit)
    }

    /// Reads samples, messages and CPU time until k6 has ended; returns its exit code, the exceptions of iterations,
    /// and the CPU times.
    fn follow(
        &self,
        child: &mut Child,
        collector: &mut Collector,
    ) -> anyhow::Result<(i32, BTreeMap<String, u64>, CpuTimes)> {
        let (samples, messages) = (child.stdout.take(), child.stderr.take());
        let pid = child.id();
        let has_ended = AtomicBool::new(false);
        let (read, exceptions, cpu) = thread::scope(|scope| {
            let exceptions =
                scope.spawn(|| messages.map(|stderr| read_messages(BufReader::new(stderr))));
            let cpu = scope.spawn(|| cpu_times(pid, &has_ended));
            let read: anyhow::Result<()> = samples.map_or(Ok(()), |stdout| {
                let mut is_started = false;
                for line in BufReader::new(stdout).lines() {
                    collector.line(&line.context(SAMPLES)?);
                    if let (Some(start), false, Some(path)) =
                        (collector.window_start(), is_started, &self.started)
                    {
                        is_started = true;
                        write(path, format!("{start}\n").as_bytes())?;
                    }
                }
                Ok(())
            });
            has_ended.store(true, Ordering::Relaxed);
            let exceptions = exceptions.join().ok().flatten().unwrap_or_default();
            (read, exceptions, cpu.join().unwrap_or_default())
        });
        let exit = child.wait().context(SAMPLES)?;
        read?;
        Ok((exit.code().unwrap_or(FAILED), exceptions, cpu))
    }

    /// Duration of the run, warm-up included; `None` if the script's scenarios decide.
    fn whole_duration(&self) -> anyhow::Result<Option<Duration>> {
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
        Ok(Some(self.warm_up + duration.ok_or(WarmUpError)?))
    }

    /// Runs `k6 inspect`, which executes the script's init code.
    fn inspect(&self) -> anyhow::Result<(i32, Option<Inspected>)> {
        let mut command = self.command("inspect");
        command.arg("--execution-requirements").arg(&self.script).stderr(Stdio::inherit());
        let output = command.output().with_context(|| self.cannot_run())?;
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

    fn spawn(&self, command: &mut Command) -> anyhow::Result<Child> {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().with_context(|| self.cannot_run())
    }

    fn cannot_run(&self) -> String {
        format!("cannot run k6 as `{}`", self.program.display())
    }
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Time in seconds since 1970, and CPU seconds of k6 and of this process.
type CpuTimes = Vec<(f64, f64)>;

fn cpu_times(pid: u32, has_ended: &AtomicBool) -> CpuTimes {
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
