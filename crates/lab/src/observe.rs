//! Samples the server, the generator and the machine under load.

pub(crate) mod database;
pub(crate) mod prometheus;
mod watched;

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use madang_stack::{CgroupUse, Process, machine};
use serde::{Deserialize, Serialize};

use crate::round::Pace;
use crate::round::launch::Running;
use watched::{Member, Watched};

/// Sampling interval. Ten samples a second find short memory peaks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Interval of expensive samples: a file for each thread, and a list of open files, one per connection.
const DETAIL_INTERVAL: Duration = Duration::from_secs(1);

/// Pause after reading shared memory, as a multiple of the time it took: it costs at most 0.3 % of a core.
const SHARES_PAUSE: u32 = 300;

/// Other processes that are reported: how many, and from how many cores on.
const MOST_OTHERS: usize = 5;
const LEAST_CORES: f64 = 0.05;

/// Use of a server's process tree in the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerUse {
    /// User and system time, ended children included. `None` if their parent ignores SIGCHLD: the kernel drops their use.
    pub cpu_seconds: Option<f64>,
    /// CPU time from the end of the window to the end of the `drain` hook; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_cpu_seconds: Option<f64>,
    /// Peak sum of the processes' resident memory.
    pub peak_rss_bytes: u64,
    /// Peak memory, shared memory counted once. Sampled at most once a second. `None` in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Peak number of threads.
    pub threads: u64,
    /// Peak number of open file descriptors, sampled once a second.
    pub open_files: u64,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    /// In steps as long as those of the load's series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ServerStep>,
}

impl ServerUse {
    /// CPU time, including the `drain` hook.
    pub fn cpu_with_drain(&self) -> Option<f64> {
        Some(self.cpu_seconds? + self.drain_cpu_seconds.unwrap_or(0.0))
    }

    /// Peak memory, or the sum of resident memory in runs of older versions.
    pub fn memory(&self) -> u64 {
        self.peak_memory_bytes.unwrap_or(self.peak_rss_bytes)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ServerStep {
    /// `None` if unknown for the whole window.
    pub cpu_cores: Option<f64>,
    /// Peak resident memory.
    pub rss_bytes: u64,
}

/// Use of the machine in the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineUse {
    /// Share of stolen CPU time, from 0 to 1.
    pub steal_share: f64,
    /// Cores used by processes other than the server, the generator and the lab. `None` for a `url`, which may be one
    /// of them, and if the server's own CPU time is unknown.
    pub foreign_cores: Option<f64>,
    /// Cores used by the lab itself. `None` in runs of older versions.
    #[serde(default)]
    pub lab_cores: Option<f64>,
    /// Other processes that used at least 0.05 cores, ordered by use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Other>,
    /// Over the last minute, at the end.
    pub load_average: f64,
    /// `None` for a server that the lab did not start, and in runs of older versions.
    #[serde(default)]
    pub pace: Option<Pace>,
}

/// Other processes of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// Truncated to 15 bytes by the kernel.
    pub name: String,
    pub cores: f64,
}

/// One sample of everything.
struct UsageSample {
    /// Seconds since 1970.
    at: f64,
    server: Option<ServerSample>,
    /// The use of a generator cannot be read after its end.
    generator_lives: bool,
    generator_cpu: f64,
    lab_cpu: f64,
    /// Commands `during` the load.
    hooks_cpu: f64,
    machine: machine::Sample,
}

/// Use of a server since the start of the round, including processes that a restart replaced.
#[derive(Debug, Clone, Copy, Default)]
struct ServerSample {
    cpu: f64,
    rss_bytes: u64,
    /// Counts shared memory once. Slow to read, so for several processes only with the details.
    memory_bytes: Option<u64>,
    threads: u64,
    /// Children have ended since the last sample whose CPU time is unknown.
    lost: bool,
    /// Read once a second.
    detail: Option<Detail>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Detail {
    voluntary: u64,
    involuntary: u64,
    open_files: u64,
}

impl ServerSample {
    /// Adds the use of earlier processes.
    fn after(self, earlier: &Self) -> Self {
        let before = earlier.detail.unwrap_or_default();
        let detail = self.detail.map(|detail| Detail {
            voluntary: before.voluntary + detail.voluntary,
            involuntary: before.involuntary + detail.involuntary,
            open_files: detail.open_files,
        });
        Self { cpu: earlier.cpu + self.cpu, detail, ..self }
    }
}

/// The samples of one round, in order of time.
pub(crate) struct Observer<'p> {
    server: Option<Watched>,
    /// Use of servers that were replaced.
    earlier: ServerSample,
    generator: &'p Process,
    hooks_cpu: Duration,
    samples: Vec<UsageSample>,
    groups: BTreeMap<String, Vec<u32>>,
    /// Memory of each group, whenever shared memory was read.
    group_memory: Vec<(f64, Vec<u64>)>,
    /// Last reading of the details.
    detailed: Option<Instant>,
    /// Next reading of shared memory.
    shares_due: Option<Instant>,
    others: machine::Others,
    /// First reading of the others.
    others_since: Option<Instant>,
}

impl<'p> Observer<'p> {
    pub(crate) fn new(running: &Running, generator: &'p Process) -> Self {
        Self {
            server: Watched::from_running(running),
            earlier: ServerSample::default(),
            generator,
            hooks_cpu: Duration::ZERO,
            samples: Vec::new(),
            groups: running.processes.clone(),
            group_memory: Vec::new(),
            detailed: None,
            shares_due: None,
            others: machine::Others::default(),
            others_since: None,
        }
    }

    /// Sets the CPU time of commands `during` the load, so that they do not count as foreign.
    pub(crate) fn set_hooks_cpu(&mut self, cpu: Duration) {
        self.hooks_cpu = cpu;
    }

    /// Continues with the process of a restarted server.
    pub(crate) fn replace(&mut self, running: &Running) {
        let mut last = self.samples.last().and_then(|sample| sample.server).unwrap_or_default();
        let details = self.samples.iter().rev().find_map(|sample| sample.server?.detail);
        last.detail = last.detail.or(details);
        self.earlier = last;
        self.server = Watched::from_running(running);
    }

    /// Takes one sample; none if the server has just ended, which the caller notices by other means.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        let is_due = self.detailed.is_none_or(|last| last.elapsed() >= DETAIL_INTERVAL);
        if !is_due {
            return self.take(false, false);
        }
        self.detailed = Some(Instant::now());
        let shares_due = self.shares_due.is_none_or(|due| Instant::now() >= due);
        self.take(true, shares_due)
    }

    /// Takes one sample with all details: before the server stops, and at the end.
    pub(crate) fn look_closely(&mut self) -> io::Result<()> {
        self.detailed = Some(Instant::now());
        self.take(true, true)
    }

    fn take(&mut self, closely: bool, shares: bool) -> io::Result<()> {
        let machine = machine::Sample::now()?;
        if closely {
            self.others.look()?;
            self.others_since.get_or_insert_with(Instant::now);
        }
        let Ok(server) = self.server_sample(closely, shares) else { return Ok(()) };
        let last = self.samples.last().map_or(0.0, |sample| sample.generator_cpu);
        let generator = self.generator.cpu_time();
        self.samples.push(UsageSample {
            at: seconds(machine.wall),
            server,
            generator_lives: generator.is_ok(),
            generator_cpu: generator.map_or(last, |cpu| cpu.as_secs_f64().max(last)),
            lab_cpu: madang_stack::own_cpu_time().as_secs_f64(),
            hooks_cpu: self.hooks_cpu.as_secs_f64(),
            machine,
        });
        Ok(())
    }

    fn server_sample(&mut self, closely: bool, shares: bool) -> io::Result<Option<ServerSample>> {
        let sample = match &mut self.server {
            None => return Ok(None),
            Some(Watched::Cgroups(cgroups)) => {
                let used = cgroups.iter_mut().map(Member::usage).sum::<io::Result<CgroupUse>>()?;
                ServerSample {
                    cpu: used.cpu.as_secs_f64(),
                    rss_bytes: used.memory_bytes,
                    memory_bytes: Some(used.memory_bytes),
                    threads: used.threads,
                    lost: false,
                    // Open files and switches are counted for processes only.
                    detail: closely.then(Detail::default),
                }
            }
            Some(Watched::Tree(server)) if closely => {
                let begun = madang_stack::thread_cpu_time();
                let sample = server.sample(shares);
                if shares {
                    let memory = self.groups.values().map(|pids| server.memory_of(pids));
                    self.group_memory.push((seconds(SystemTime::now()), memory.collect()));
                    let took = madang_stack::thread_cpu_time().saturating_sub(begun);
                    self.shares_due = Some(Instant::now() + took * SHARES_PAUSE);
                }
                let lost = server.has_lost_children();
                let sample = sample?;
                ServerSample {
                    cpu: sample.cpu.as_secs_f64(),
                    rss_bytes: sample.rss_bytes,
                    memory_bytes: (shares || sample.processes == 1)
                        .then(|| sample.pss_bytes.unwrap_or(sample.rss_bytes)),
                    threads: sample.threads,
                    lost,
                    detail: Some(Detail {
                        voluntary: sample.voluntary_switches,
                        involuntary: sample.involuntary_switches,
                        open_files: sample.open_files,
                    }),
                }
            }
            Some(Watched::Tree(server)) => {
                let glance = server.glance()?;
                ServerSample {
                    cpu: glance.cpu.as_secs_f64(),
                    rss_bytes: glance.rss_bytes,
                    memory_bytes: (glance.processes == 1).then_some(glance.rss_bytes),
                    threads: glance.threads,
                    lost: server.has_lost_children(),
                    detail: None,
                }
            }
        };
        Ok(Some(sample.after(&self.earlier)))
    }

    /// Cores that the server uses during `time` from now on; `None` without a server.
    pub(crate) fn cores_for(&mut self, time: Duration) -> io::Result<Option<f64>> {
        let samples = self.samples.len();
        self.look()?;
        std::thread::sleep(time);
        self.look()?;
        // A server that has ended leaves no sample.
        let Some([first, last]) = self.samples.get(samples..) else { return Ok(None) };
        let used = last.server.zip(first.server).map(|(last, first)| last.cpu - first.cpu);
        Ok(used.map(|used| used / (last.at - first.at)))
    }

    /// Use of the server between two times, in seconds since 1970, in steps of `step` seconds. If `drained`, all CPU
    /// time up to the last sample belongs to the window's requests.
    pub(crate) fn server_use(
        &self,
        start: f64,
        end: f64,
        step: f64,
        drained: bool,
    ) -> Option<ServerUse> {
        self.server.as_ref()?;
        // Details are rare: there may be none inside of a short window.
        let most = |get: fn(&ServerSample) -> Option<u64>| {
            around(&self.points(get), start, end, |(at, _)| *at)
                .iter()
                .map(|(_, value)| *value)
                .max()
        };
        let switches = |get: fn(&Detail) -> u64| {
            let points = self.points(|server| Some(get(&server.detail?) as f64));
            (at(&points, end) - at(&points, start)).max(0.0) as u64
        };
        let until = if drained { f64::INFINITY } else { end };
        let is_known = !self.has_lost(start, until);
        let cpu = self.points(|server| Some(server.cpu));
        let at_end = at(&cpu, end);
        Some(ServerUse {
            cpu_seconds: is_known.then(|| at_end - at(&cpu, start)),
            drain_cpu_seconds: (drained && is_known).then(|| at(&cpu, f64::INFINITY) - at_end),
            peak_rss_bytes: most(|server| Some(server.rss_bytes))?,
            threads: most(|server| Some(server.threads))?,
            peak_memory_bytes: most(|server| server.memory_bytes),
            open_files: most(|server| Some(server.detail?.open_files))?,
            voluntary_switches: switches(|detail| detail.voluntary),
            involuntary_switches: switches(|detail| detail.involuntary),
            steps: self.steps(&cpu, start, end, step),
        })
    }

    /// A value of the server over time.
    fn points<T>(&self, get: impl Fn(&ServerSample) -> Option<T>) -> Vec<(f64, T)> {
        let point = |sample: &UsageSample| Some((sample.at, get(sample.server.as_ref()?)?));
        self.samples.iter().filter_map(point).collect()
    }

    /// Peak memory of the groups of processes, measured like [`ServerUse::peak_memory_bytes`].
    pub(crate) fn memory_of_groups(&self, start: f64, end: f64) -> BTreeMap<String, u64> {
        let samples = around(&self.group_memory, start, end, |(at, _)| *at);
        let most = |(place, name): (usize, &String)| {
            Some((name.clone(), samples.iter().map(|(_, memory)| memory[place]).max()?))
        };
        self.groups.keys().enumerate().filter_map(most).collect()
    }

    /// True if processes of the server ended between two times whose CPU time is unknown.
    fn has_lost(&self, start: f64, end: f64) -> bool {
        let mut samples = self.within(start, end).iter().filter(|sample| sample.at > start);
        samples.any(|sample| sample.server.is_some_and(|server| server.lost))
    }

    /// Steps of a window. The last one may be shorter; one of less than a sample is left out.
    fn steps(&self, cpu: &[(f64, f64)], start: f64, end: f64, step: f64) -> Vec<ServerStep> {
        let is_known = !self.has_lost(start, end);
        let mut steps = Vec::new();
        let mut from = start;
        while end - from >= INTERVAL.as_secs_f64() {
            let to = (from + step).min(end);
            let used = at(cpu, to) - at(cpu, from);
            let memory = self.within(from, to).iter().filter_map(|sample| sample.server);
            let Some(rss_bytes) = memory.map(|server| server.rss_bytes).max() else { break };
            steps.push(ServerStep { cpu_cores: is_known.then(|| used / (to - from)), rss_bytes });
            from = to;
        }
        steps
    }

    /// Use of the machine between two times.
    pub(crate) fn machine_use(
        &self,
        start: f64,
        end: f64,
        pace: Option<Pace>,
    ) -> Option<MachineUse> {
        // After the generator's end, its last CPU time would count as foreign.
        let samples = self.within(start, end).iter();
        let mut samples = samples.filter(|sample| sample.generator_lives);
        let first = samples.next()?;
        let last = samples.next_back().unwrap_or(first);
        let elapsed = last.at - first.at;
        let ours = |sample: &UsageSample| {
            let server = sample.server.map_or(0.0, |server| server.cpu);
            server + sample.generator_cpu + sample.lab_cpu + sample.hooks_cpu
        };
        let all = |sample: &UsageSample| sample.machine.processes.as_secs_f64();
        let foreign = (all(last) - all(first)) - (ours(last) - ours(first));
        // CPU time that the server lost would count as foreign.
        let known = self.server.is_some() && elapsed > 0.0 && !self.has_lost(start, end);
        Some(MachineUse {
            steal_share: last.machine.steal_share_since(&first.machine),
            foreign_cores: known.then(|| (foreign / elapsed).max(0.0)),
            lab_cores: (elapsed > 0.0).then(|| (last.lab_cpu - first.lab_cpu) / elapsed),
            others: self.others(),
            load_average: machine::load_average().unwrap_or(0.0),
            pace,
        })
    }

    /// Other processes that used the machine since the first sample.
    fn others(&self) -> Vec<Other> {
        let seconds = self.others_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let used = self.others.used().into_iter();
        let cores = used.map(|(name, time)| Other { name, cores: time.as_secs_f64() / seconds });
        cores.filter(|other| other.cores >= LEAST_CORES).take(MOST_OTHERS).collect()
    }

    fn within(&self, start: f64, end: f64) -> &[UsageSample] {
        around(&self.samples, start, end, |sample| sample.at)
    }
}

/// The samples inside a window, and the nearest on either side.
fn around<T>(samples: &[T], start: f64, end: f64, at: impl Fn(&T) -> f64) -> &[T] {
    let first = samples.partition_point(|sample| at(sample) <= start).saturating_sub(1);
    let last = samples.partition_point(|sample| at(sample) < end);
    samples.get(first..samples.len().min(last + 1)).unwrap_or_default()
}

/// Linear interpolation between two readings of a counter; outside of all readings, the nearest one.
pub fn at(points: &[(f64, f64)], moment: f64) -> f64 {
    let after = points.partition_point(|(time, _)| *time < moment);
    match (after.checked_sub(1).and_then(|before| points.get(before)), points.get(after)) {
        (Some((t0, v0)), Some((t1, v1))) if t1 > t0 => v0 + (v1 - v0) * (moment - t0) / (t1 - t0),
        (_, Some((_, value))) | (Some((_, value)), None) => *value,
        (None, None) => 0.0,
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_read_between_two_looks() {
        let points = [(10.0, 0.0), (11.0, 2.0), (13.0, 2.0)];
        let value = |moment| at(&points, moment);
        assert_eq!([value(10.5), value(12.0)], [1.0, 2.0]);
        assert_eq!([value(9.0), value(10.0), value(20.0)], [0.0, 0.0, 2.0]);
        assert_eq!(at(&[], 5.0), 0.0);
    }
}
