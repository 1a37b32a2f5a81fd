//! The machine: its description, and the use of its CPUs by other processes.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use crate::procfs::{self, Stat, ticks};

/// CPU time of the whole machine since it started, from the first line of `/proc/stat` (proc(5)).
#[derive(Debug, Clone)]
pub struct Sample {
    /// When it was taken, on the monotonic clock.
    pub at: Instant,
    /// When it was taken, on the wall clock.
    pub wall: SystemTime,
    /// Time of processes: user (niced and guests included) and system, without interrupt handling,
    /// which the kernel charges to no process.
    pub processes: Duration,
    /// Time spent in hard and soft interrupts.
    pub interrupts: Duration,
    /// Idle time, waiting for a disk included.
    pub idle: Duration,
    /// Time the hypervisor gave to others while this machine's CPUs wanted to run.
    pub steal: Duration,
}

impl Sample {
    /// Takes a sample.
    ///
    /// # Errors
    /// When `/proc/stat` is absent or unreadable.
    pub fn now() -> io::Result<Self> {
        let (at, wall) = (Instant::now(), SystemTime::now());
        let text = fs::read_to_string("/proc/stat")?;
        let [user, nice, system, idle, iowait, irq, softirq, steal] = cpu_line(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no cpu line"))?;
        Ok(Self {
            at,
            wall,
            processes: ticks(user + nice + system),
            interrupts: ticks(irq + softirq),
            idle: ticks(idle + iowait),
            steal: ticks(steal),
        })
    }

    /// Share of all CPU time stolen between `earlier` and this sample, from 0 to 1.
    pub fn steal_share_since(&self, earlier: &Self) -> f64 {
        let steal = self.steal.saturating_sub(earlier.steal).as_secs_f64();
        let all = |sample: &Self| {
            (sample.processes + sample.interrupts + sample.idle + sample.steal).as_secs_f64()
        };
        let elapsed = all(self) - all(earlier);
        if elapsed > 0.0 { steal / elapsed } else { 0.0 }
    }
}

/// CPU time of other processes, by name, up to the last sample that saw each of them.
#[derive(Debug, Default)]
pub struct Others {
    /// CPU time by process id and start.
    known: HashMap<(u32, u64), Duration>,
    used: BTreeMap<String, Duration>,
    is_sampled: bool,
}

impl Others {
    /// Samples all processes but this one and its descendants. Takes 1 ms for some hundred processes.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn look(&mut self) -> io::Result<()> {
        let pids = procfs::all_pids()?.into_iter();
        let found: BTreeMap<u32, (String, Stat)> =
            pids.filter_map(|pid| Some((pid, Stat::named(pid)?))).collect();
        let own = std::process::id();
        let is_ours = |mut pid: u32| {
            // Bounded: a process that ends meanwhile may leave a cycle.
            for _ in 0..found.len() {
                match found.get(&pid) {
                    Some(_) if pid == own => return true,
                    Some((_, stat)) => pid = stat.parent,
                    None => return false,
                }
            }
            false
        };
        let mut known = HashMap::new();
        for (pid, (name, stat)) in &found {
            if is_ours(*pid) {
                continue;
            }
            let now = ticks(stat.user_ticks + stat.system_ticks);
            let before = self.known.get(&(*pid, stat.start)).copied();
            // A process that the first sample did not see is new.
            let before = before.unwrap_or(if self.is_sampled { Duration::ZERO } else { now });
            let used = now.saturating_sub(before);
            if !used.is_zero() {
                *self.used.entry(name.clone()).or_default() += used;
            }
            known.insert((*pid, stat.start), now);
        }
        self.known = known;
        self.is_sampled = true;
        Ok(())
    }

    /// CPU time since the first sample, largest first.
    pub fn used(&self) -> Vec<(String, Duration)> {
        let mut used: Vec<_> = self.used.clone().into_iter().collect();
        used.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        used
    }
}

pub(crate) fn cpu_line(text: &str) -> Option<[u64; 8]> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut fields = line.split_ascii_whitespace().map(|field| field.parse::<u64>().ok());
    let mut values = [0; 8];
    for value in &mut values {
        *value = fields.next()??;
    }
    Some(values)
}

/// The load average over the last minute: runnable and disk-waiting tasks.
///
/// # Errors
/// When `/proc/loadavg` is absent or unreadable.
pub fn load_average() -> io::Result<f64> {
    let text = fs::read_to_string("/proc/loadavg")?;
    let first = text.split_ascii_whitespace().next().and_then(|field| field.parse().ok());
    first.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Description of the machine for a report. Parts that cannot be read are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// The CPU's model name.
    pub cpu: Option<String>,
    /// Number of online CPUs.
    pub cpus: Option<usize>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Name of the distribution.
    pub system: Option<String>,
}

impl Description {
    /// Reads `/proc` and `/etc/os-release`.
    pub fn read() -> Self {
        let value_after = |path: &str, key: &str, separator: char| {
            let text = fs::read_to_string(path).ok()?;
            text.lines().find_map(|line| {
                let (name, value) = line.split_once(separator)?;
                (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
            })
        };
        let cpus = fs::read_to_string("/proc/stat").ok().map(|text| {
            text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count()
        });
        let memory_kib = value_after("/proc/meminfo", "MemTotal", ':')
            .and_then(|value| value.trim_end_matches("kB").trim().parse::<u64>().ok());
        Self {
            cpu: value_after("/proc/cpuinfo", "model name", ':'),
            cpus,
            memory_bytes: memory_kib.map(|kib| kib * 1024),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .ok()
                .map(|text| text.trim().to_owned()),
            system: value_after("/etc/os-release", "PRETTY_NAME", '='),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// One busy shell is a child of this process; the other was orphaned by its parent.
    #[test]
    fn who_works_is_named_unless_this_process_has_started_it() {
        let work = "i=0; while [ $i -lt 5000000 ]; do i=$((i+1)); done";
        let mut others = Others::default();
        others.look().unwrap();
        let mut own = Command::new("sh").args(["-c", work]).spawn().unwrap();
        let script = format!("sh -c '{work}' >/dev/null 2>&1 & echo $!");
        let left = Command::new("sh").args(["-c", &script]).output().unwrap();
        let left: u32 = String::from_utf8(left.stdout).unwrap().trim().parse().unwrap();
        for pid in [own.id(), left] {
            let is_busy = || Stat::read(pid).is_some_and(|stat| stat.user_ticks > 5);
            madang_testing::until("the shell has worked", || is_busy().then_some(()));
        }
        others.look().unwrap();
        let knows = |wanted: u32| others.known.keys().any(|(pid, _)| *pid == wanted);
        let (knows_own, knows_left) = (knows(own.id()), knows(left));
        let named = others.used().into_iter().find(|(name, _)| name == "sh");
        own.kill().unwrap();
        own.wait().unwrap();
        let left = i32::try_from(left).ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
        assert!(!knows_own && knows_left, "{others:?}");
        assert!(named.is_some_and(|(_, time)| time > Duration::from_millis(40)), "{others:?}");
    }

    #[test]
    fn the_summary_line_is_told_from_the_single_cpus() {
        let text = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 9 9 9 9 9 9 9 9 9 9\n";
        assert_eq!(cpu_line(text), Some([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(cpu_line("cpu0 9 9\n"), None);
        assert_eq!(cpu_line("cpu  1 2 3\n"), None);
    }

    #[test]
    fn steal_is_a_share_of_all_cpu_time() {
        let sample = |processes, idle, steal| Sample {
            at: Instant::now(),
            wall: SystemTime::now(),
            processes: Duration::from_secs(processes),
            interrupts: Duration::ZERO,
            idle: Duration::from_secs(idle),
            steal: Duration::from_secs(steal),
        };
        let share = sample(15, 14, 1).steal_share_since(&sample(10, 10, 0));
        assert!((share - 0.1).abs() < 1e-9, "{share}");
        assert!(sample(1, 1, 1).steal_share_since(&sample(1, 1, 1)).abs() < f64::EPSILON);
    }

    #[test]
    fn this_machine_can_be_described_and_sampled() {
        let description = Description::read();
        assert!(description.cpus.unwrap() >= 1);
        assert!(description.memory_bytes.unwrap() > 1 << 20);
        assert!(Sample::now().unwrap().processes > Duration::ZERO);
        assert!(load_average().unwrap() >= 0.0);
    }
}
