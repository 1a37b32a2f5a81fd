//! Watches the server, the generator and the machine while a round is loaded.

pub(crate) mod database;
pub(crate) mod prometheus;
mod watched;

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use madang_stack::{CgroupUse, Glance, Process, Sample, machine};
use serde::{Deserialize, Serialize};

use crate::round::Pace;
use crate::round::launch::Running;
use watched::{Member, Watched};

/// Time between two samples. Ten a second find short memory peaks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Time between two looks at what costs most to look at: a file for each thread, and a list of all
/// open files, of which there are hundreds with as many connections.
const DETAIL_INTERVAL: Duration = Duration::from_secs(1);

/// What processes share takes long to find out where they are many and large: after a sample there is none for so
/// many times as long as it took, so that it costs 0.3 % of a core at most.
const SHARES_PAUSE: u32 = 300;

/// Names of others that are kept, and the least that they use.
const MOST_OTHERS: usize = 5;
const LEAST_CORES: f64 = 0.05;

/// What a server's process tree used in the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerUse {
    /// CPU time, user and system, children that ended included. `None` when children ended whose
    /// parent ignores SIGCHLD: the kernel forgets what they used.
    pub cpu_seconds: Option<f64>,
    /// CPU time from the end of the window until the `drain` hook was done; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_cpu_seconds: Option<f64>,
    /// Largest sum of the processes' resident memory among the samples.
    pub peak_rss_bytes: u64,
    /// Largest memory of the tree among the samples, at most one a second of several processes: what they
    /// share counts once. `None` in runs of versions that did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Largest number of threads among the samples.
    pub threads: u64,
    /// Largest number of open file descriptors among the samples, one a second.
    pub open_files: u64,
    /// Times a thread waited.
    pub voluntary_switches: u64,
    /// Times a thread was made to wait.
    pub involuntary_switches: u64,
    /// CPU and memory over time, in steps as long as those of the load's series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ServerStep>,
}

impl ServerUse {
    /// CPU time, with that of what was left to do when the load had ended, if somebody waited for it.
    pub fn cpu_with_drain(&self) -> Option<f64> {
        Some(self.cpu_seconds? + self.drain_cpu_seconds.unwrap_or(0.0))
    }

    /// The most memory that the machine had to have for it.
    pub fn memory(&self) -> u64 {
        self.peak_memory_bytes.unwrap_or(self.peak_rss_bytes)
    }
}

/// What a server's process tree used in one step of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ServerStep {
    /// CPU time per time; `None` where it is not known of the whole window.
    pub cpu_cores: Option<f64>,
    /// Largest resident memory among the samples.
    pub rss_bytes: u64,
}

/// What else happened on the machine in the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineUse {
    /// Share of all CPU time the hypervisor gave to others, from 0 to 1.
    pub steal_share: f64,
    /// Cores used by processes other than the server, the generator and the lab. `None` when the
    /// server cannot be told from them, as with a `url`, or when its own CPU time is not known.
    pub foreign_cores: Option<f64>,
    /// Cores the lab itself used: what watching cost. `None` in runs of versions that did not
    /// tell.
    #[serde(default)]
    pub lab_cores: Option<f64>,
    /// Whose those were, by the names of processes, the most first; without those of less than 0.05 cores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Other>,
    /// Load average over the last minute, at the end.
    pub load_average: f64,
    /// How fast the server's cores ran. `None` of a server that the lab did not start, and in runs of
    /// versions that did not look.
    #[serde(default)]
    pub pace: Option<Pace>,
}

/// Processes of one name that are neither the server's nor the lab's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// As the kernel has it, of up to 15 bytes.
    pub name: String,
    /// CPU time per time.
    pub cores: f64,
}

/// One sample of everything.
struct UsageSample {
    /// Seconds since 1970.
    at: f64,
    server: Option<Seen>,
    /// What the generator used cannot be read any more once it has ended.
    generator_lives: bool,
    generator_cpu: f64,
    lab_cpu: f64,
    /// By commands of the experiment that run beside the load.
    hooks_cpu: f64,
    machine: machine::Sample,
}

/// What a server's process tree used so far in the round, those processes included that were
/// killed and replaced.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    cpu: f64,
    rss_bytes: u64,
    /// Without counting twice what processes share, which takes long to find out: of several
    /// processes only with the details.
    memory_bytes: Option<u64>,
    threads: u64,
    /// Children have ended since the sample before whose CPU time nobody got.
    lost: bool,
    /// Not looked at each time.
    detail: Option<Detail>,
}

/// What is looked at once a second.
#[derive(Debug, Clone, Copy, Default)]
struct Detail {
    voluntary: u64,
    involuntary: u64,
    open_files: u64,
}

impl Seen {
    fn closely(sample: &Sample, earlier: &Self, lost: bool, shares: bool) -> Self {
        let before = earlier.detail.unwrap_or_default();
        let detail = Detail {
            voluntary: before.voluntary + sample.voluntary_switches,
            involuntary: before.involuntary + sample.involuntary_switches,
            open_files: sample.open_files,
        };
        Self {
            cpu: earlier.cpu + sample.cpu.as_secs_f64(),
            rss_bytes: sample.rss_bytes,
            memory_bytes: if shares || sample.processes == 1 {
                Some(sample.pss_bytes.unwrap_or(sample.rss_bytes))
            } else {
                None
            },
            threads: sample.threads,
            lost,
            detail: Some(detail),
        }
    }

    /// Open files and switches are counted for processes only.
    fn of_cgroups(used: &CgroupUse, earlier: &Self, closely: bool) -> Self {
        Self {
            cpu: earlier.cpu + used.cpu.as_secs_f64(),
            rss_bytes: used.memory_bytes,
            memory_bytes: Some(used.memory_bytes),
            threads: used.threads,
            lost: false,
            detail: closely.then(Detail::default),
        }
    }

    fn at_a_glance(glance: &Glance, earlier: &Self, lost: bool) -> Self {
        Self {
            cpu: earlier.cpu + glance.cpu.as_secs_f64(),
            rss_bytes: glance.rss_bytes,
            memory_bytes: (glance.processes == 1).then_some(glance.rss_bytes),
            threads: glance.threads,
            lost,
            detail: None,
        }
    }
}

/// The samples of one round, in order of time.
pub(crate) struct Observer<'p> {
    server: Option<Watched>,
    /// What servers used that this one replaced.
    earlier: Seen,
    generator: &'p Process,
    hooks_cpu: Duration,
    samples: Vec<UsageSample>,
    groups: BTreeMap<String, Vec<u32>>,
    /// Memory of each of them, whenever shares were looked at.
    group_memory: Vec<(f64, Vec<u64>)>,
    /// When the details were last looked at.
    detailed: Option<Instant>,
    /// From when on what processes share may be looked at again.
    shares_due: Option<Instant>,
    others: machine::Others,
    /// When those were first looked at.
    others_since: Option<Instant>,
}

impl<'p> Observer<'p> {
    pub(crate) fn new(running: &Running, generator: &'p Process) -> Self {
        let server = Watched::from_running(running);
        let (earlier, samples, hooks_cpu) = (Seen::default(), Vec::new(), Duration::ZERO);
        Self {
            server,
            earlier,
            generator,
            hooks_cpu,
            samples,
            groups: running.processes.clone(),
            group_memory: Vec::new(),
            detailed: None,
            shares_due: None,
            others: machine::Others::default(),
            others_since: None,
        }
    }

    /// What commands of the experiment have used so far, for the next samples: they are no strangers.
    pub(crate) fn set_hooks_cpu(&mut self, cpu: Duration) {
        self.hooks_cpu = cpu;
    }

    /// Goes on with another process in place of a server that was killed on purpose.
    pub(crate) fn replace(&mut self, running: &Running) {
        let mut last = self.samples.last().and_then(|sample| sample.server).unwrap_or_default();
        let details = self.samples.iter().rev().find_map(|sample| sample.server?.detail);
        last.detail = last.detail.or(details);
        self.earlier = last;
        self.server = Watched::from_running(running);
    }

    /// Takes one sample. A process that has just ended is left out of it; the caller notices by
    /// other means.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        let is_due = self.detailed.is_none_or(|last| last.elapsed() >= DETAIL_INTERVAL);
        if !is_due {
            return self.take(false, false);
        }
        self.detailed = Some(Instant::now());
        let shares_due = self.shares_due.is_none_or(|due| Instant::now() >= due);
        self.take(true, shares_due)
    }

    /// As [`look`](Self::look), at everything: before the server is gone, and at the end, as what
    /// happened after the last full sample would be missing.
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
        let earlier = &self.earlier;
        let seen = self.server.as_mut().map(|server| {
            let server = match server {
                Watched::Tree(server) => server,
                Watched::Cgroups(cgroups) => {
                    let used = cgroups.iter_mut().map(Member::usage).sum::<io::Result<CgroupUse>>();
                    return used.map(|used| Seen::of_cgroups(&used, earlier, closely));
                }
            };
            if closely {
                let begun = madang_stack::thread_cpu_time();
                let sample = server.sample(shares);
                if shares {
                    let memory = self.groups.values().map(|pids| server.memory_of(pids));
                    self.group_memory.push((seconds(SystemTime::now()), memory.collect()));
                    let took = madang_stack::thread_cpu_time().saturating_sub(begun);
                    self.shares_due = Some(Instant::now() + took * SHARES_PAUSE);
                }
                let lost = server.has_lost_children();
                sample.map(|sample| Seen::closely(&sample, earlier, lost, shares))
            } else {
                let glance = server.glance();
                glance.map(|glance| Seen::at_a_glance(&glance, earlier, server.has_lost_children()))
            }
        });
        let server = match seen {
            None => None,
            Some(Ok(seen)) => Some(seen),
            Some(Err(_)) => return Ok(()),
        };
        let last = self.samples.last().map_or(0.0, |sample| sample.generator_cpu);
        let generator = self.generator.cpu_time();
        let generator_lives = generator.is_ok();
        let generator = generator.map_or(last, |cpu| cpu.as_secs_f64());
        let lab = madang_stack::own_cpu_time();
        self.samples.push(UsageSample {
            at: seconds(machine.wall),
            server,
            generator_lives,
            // A generator that has ended leaves nothing to read: what it used stays used.
            generator_cpu: generator.max(last),
            lab_cpu: lab.as_secs_f64(),
            hooks_cpu: self.hooks_cpu.as_secs_f64(),
            machine,
        });
        Ok(())
    }

    /// How many cores the server uses in `time` from now on; `None` without a server.
    pub(crate) fn cores_for(&mut self, time: Duration) -> io::Result<Option<f64>> {
        let samples = self.samples.len();
        self.look()?;
        std::thread::sleep(time);
        self.look()?;
        // A server that has ended leaves no sample.
        let Some([first, last]) = self.samples.get(samples..) else { return Ok(None) };
        let used = |sample: &UsageSample| Some(sample.server?.cpu);
        let cores = |used: f64| used / (last.at - first.at);
        Ok(used(last).zip(used(first)).map(|(last, first)| cores(last - first)))
    }

    /// What the server used between two moments, in seconds since 1970; `step` is the length of
    /// a step in seconds. Drained: what it used until the last sample counts for what was asked before.
    pub(crate) fn server_use(
        &self,
        start: f64,
        end: f64,
        step: f64,
        drained: bool,
    ) -> Option<ServerUse> {
        self.server.as_ref()?;
        let change = |get: fn(&Seen) -> Option<f64>| {
            let point = |sample: &UsageSample| Some((sample.at, get(sample.server.as_ref()?)?));
            let points: Vec<(f64, f64)> = self.samples.iter().filter_map(point).collect();
            at(&points, end) - at(&points, start)
        };
        let switches = |get: fn(&Seen) -> Option<f64>| change(get).max(0.0) as u64;
        let largest = |get: fn(&Seen) -> u64| {
            self.within(start, end).filter_map(|sample| sample.server.as_ref().map(get)).max()
        };
        // One a second: there may be none inside of a short window.
        let rare = |get: fn(&Seen) -> Option<u64>| {
            let point = |sample: &UsageSample| Some((sample.at, get(sample.server.as_ref()?)?));
            let points: Vec<(f64, u64)> = self.samples.iter().filter_map(point).collect();
            around(&points, start, end).map(|(_, value)| *value).max()
        };
        let until = if drained { f64::INFINITY } else { end };
        let is_known = !self.has_lost(start, until);
        let cpu = |sample: &UsageSample| Some((sample.at, sample.server?.cpu));
        let cpu: Vec<(f64, f64)> = self.samples.iter().filter_map(cpu).collect();
        let at_end = at(&cpu, end);
        Some(ServerUse {
            cpu_seconds: is_known.then(|| at_end - at(&cpu, start)),
            drain_cpu_seconds: (drained && is_known).then(|| at(&cpu, f64::INFINITY) - at_end),
            peak_rss_bytes: largest(|seen| seen.rss_bytes)?,
            threads: largest(|seen| seen.threads)?,
            peak_memory_bytes: rare(|seen| seen.memory_bytes),
            open_files: rare(|seen| Some(seen.detail?.open_files))?,
            voluntary_switches: switches(|seen| Some(seen.detail?.voluntary as f64)),
            involuntary_switches: switches(|seen| Some(seen.detail?.involuntary as f64)),
            steps: self.steps(start, end, step),
        })
    }

    /// The most memory that groups of its processes had, as [`ServerUse::peak_memory_bytes`].
    pub(crate) fn memory_of_groups(&self, start: f64, end: f64) -> BTreeMap<String, u64> {
        let most = |(at, name): (usize, &String)| {
            let memory = around(&self.group_memory, start, end).map(|(_, memory)| memory[at]);
            Some((name.clone(), memory.max()?))
        };
        self.groups.keys().enumerate().filter_map(most).collect()
    }

    /// Whether processes of the server ended between two moments whose CPU time nobody got.
    fn has_lost(&self, start: f64, end: f64) -> bool {
        let mut samples = self.within(start, end).filter(|sample| sample.at > start);
        samples.any(|sample| sample.server.is_some_and(|seen| seen.lost))
    }

    /// Steps from the start on. The last one may be shorter; one of less than a sample is left out.
    fn steps(&self, start: f64, end: f64, step: f64) -> Vec<ServerStep> {
        let cpu_at = |sample: &UsageSample| (sample.at, sample.server.map_or(0.0, |seen| seen.cpu));
        let cpu: Vec<(f64, f64)> = self.samples.iter().map(cpu_at).collect();
        let is_known = !self.has_lost(start, end);
        let mut steps = Vec::new();
        let mut from = start;
        while end - from >= INTERVAL.as_secs_f64() {
            let to = (from + step).min(end);
            let cpu = at(&cpu, to) - at(&cpu, from);
            let memory = self.within(from, to).filter_map(|sample| Some(sample.server?.rss_bytes));
            let Some(rss_bytes) = memory.max() else { break };
            let cpu_cores = is_known.then(|| cpu / (to - from));
            steps.push(ServerStep { cpu_cores, rss_bytes });
            from = to;
        }
        steps
    }

    /// What else happened between two moments.
    pub(crate) fn machine_use(
        &self,
        start: f64,
        end: f64,
        pace: Option<Pace>,
    ) -> Option<MachineUse> {
        // A sample after the generator's end would count its last CPU time as somebody else's.
        let mut samples = self.within(start, end).filter(|sample| sample.generator_lives);
        let first = samples.next()?;
        let last = samples.last().unwrap_or(first);
        let elapsed = last.at - first.at;
        let ours = |sample: &UsageSample| {
            let server = sample.server.as_ref().map_or(0.0, |seen| seen.cpu);
            server + sample.generator_cpu + sample.lab_cpu + sample.hooks_cpu
        };
        let all = |sample: &UsageSample| sample.machine.processes.as_secs_f64();
        let foreign = (all(last) - all(first)) - (ours(last) - ours(first));
        // What the server lost would be somebody else's.
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

    /// Who else used the machine until now, since the first sample.
    fn others(&self) -> Vec<Other> {
        let seconds = self.others_since.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let used = self.others.used().into_iter();
        let cores = used.map(|(name, time)| Other { name, cores: time.as_secs_f64() / seconds });
        cores.filter(|other| other.cores >= LEAST_CORES).take(MOST_OTHERS).collect()
    }

    /// The samples inside a window, and the nearest on either side.
    fn within(&self, start: f64, end: f64) -> impl Iterator<Item = &UsageSample> {
        let first = self.samples.partition_point(|sample| sample.at <= start).saturating_sub(1);
        let last = self.samples.partition_point(|sample| sample.at < end).min(self.samples.len());
        self.samples.iter().skip(first).take((last + 1).saturating_sub(first))
    }
}

/// The points inside a window, and the nearest on either side.
fn around<T>(points: &[(f64, T)], start: f64, end: f64) -> impl Iterator<Item = &(f64, T)> {
    let first = points.partition_point(|(at, _)| *at <= start).saturating_sub(1);
    let last = points.partition_point(|(at, _)| *at < end);
    points.iter().skip(first).take((last + 1).saturating_sub(first))
}

/// The value of a growing counter at a moment between two readings, by linear interpolation;
/// outside of all readings, the nearest one.
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
