//! Resource use of a process tree, from `/proc`.

use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use crate::procfs::{self, Stat};

/// Processes that a sample counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The process itself.
    Process,
    /// The process and all its descendants.
    Tree,
    /// The descendants, including CPU time of those already waited for: a supervised command without its supervisor.
    Descendants,
}

/// One sample of a process tree. Values are sums over its processes.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When it was taken, on the monotonic clock.
    pub at: Instant,
    /// When it was taken, on the wall clock, to match records of other programs.
    pub wall: SystemTime,
    /// Living processes, zombies included.
    pub processes: u64,
    /// Their threads.
    pub threads: u64,
    /// CPU time since start, user and system: of living processes by their clocks, in nanoseconds.
    /// Unless the scope is one process, it includes ended children that were waited for, in ticks of
    /// 10 ms, rounded down for each parent. The time of ended children of a parent that ignores SIGCHLD
    /// is lost; a [`Follower`](crate::Follower) detects that.
    pub cpu: Duration,
    /// Resident memory in bytes. Pages shared by several processes count once for each.
    pub rss_bytes: u64,
    /// Proportional memory (PSS) in bytes: shared pages count once. Only for several processes; `None`
    /// without permission.
    pub pss_bytes: Option<u64>,
    /// Sum of the processes' own peaks (`VmHWM`) in bytes: exact for one process, an upper bound
    /// for several, whose peaks need not coincide.
    pub peak_rss_bytes: u64,
    /// Voluntary context switches of living threads.
    pub voluntary_switches: u64,
    /// Involuntary context switches of living threads.
    pub involuntary_switches: u64,
    /// Open file descriptors; 0 without permission.
    pub open_files: u64,
}

/// The part of a [`Sample`] that costs less: half for single-threaded processes, far less for those
/// with many threads and files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Glance {
    /// User and system CPU time, as in a [`Sample`].
    pub cpu: Duration,
    /// Living processes, zombies included.
    pub processes: u64,
    /// Threads of all living processes.
    pub threads: u64,
    /// Resident memory in bytes. Pages shared by several processes count once for each.
    pub rss_bytes: u64,
}

impl Glance {
    /// Samples the tree under `root`; see [`Sample::take`].
    ///
    /// # Errors
    /// `NotFound` when there is no such process.
    pub fn take(root: u32, scope: Scope) -> io::Result<Self> {
        let mut glance = Self::default();
        glance.cpu = walk(root, scope, |found| glance.add(found))?.cpu();
        Ok(glance)
    }

    pub(crate) fn add(&mut self, found: &Visited<'_>) {
        self.processes += 1;
        self.threads += found.stat.threads;
        self.rss_bytes += found.stat.rss_bytes();
    }
}

impl Sample {
    /// Samples the tree under `root`. A process that ends meanwhile may be missing; the next sample
    /// counts it as ended.
    ///
    /// # Errors
    /// `NotFound` when there is no such process.
    pub fn take(root: u32, scope: Scope) -> io::Result<Self> {
        let mut sample = Self::empty();
        let mut pids = Vec::new();
        let totals = walk(root, scope, |found| {
            sample.add(found);
            pids.push(found.pid);
        })?;
        sample.cpu = totals.cpu();
        sample.pss_bytes = shares(&pids).map(|shares| shares.iter().sum());
        Ok(sample)
    }

    pub(crate) fn empty() -> Self {
        Self {
            at: Instant::now(),
            wall: SystemTime::now(),
            processes: 0,
            threads: 0,
            cpu: Duration::ZERO,
            rss_bytes: 0,
            pss_bytes: None,
            peak_rss_bytes: 0,
            voluntary_switches: 0,
            involuntary_switches: 0,
            open_files: 0,
        }
    }

    pub(crate) fn add(&mut self, found: &Visited<'_>) {
        let Visited { pid, threads, stat, .. } = *found;
        self.processes += 1;
        self.threads += stat.threads;
        self.rss_bytes += stat.rss_bytes();
        self.open_files +=
            fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64);
        // Memory is per process, switches are per thread.
        for thread in threads {
            let path = format!("/proc/{pid}/task/{thread}/status");
            let Ok(status) = fs::read_to_string(path) else { continue };
            let field = |name| procfs::status_field(&status, name).unwrap_or(0);
            if *thread == pid {
                self.peak_rss_bytes += field("VmHWM") * 1024;
            }
            self.voluntary_switches += field("voluntary_ctxt_switches");
            self.involuntary_switches += field("nonvoluntary_ctxt_switches");
        }
    }
}

/// User and system CPU time of a tree, without the costlier rest of a [`Sample`].
pub(crate) fn cpu_time(root: u32, scope: Scope) -> io::Result<Duration> {
    Ok(walk(root, scope, |_| {})?.cpu())
}

/// Proportional memory of each of several processes. `None` for a single process or without permission.
pub(crate) fn shares(pids: &[u32]) -> Option<Vec<u64>> {
    if pids.len() < 2 {
        return None;
    }
    // A process that is a zombie or gone has no memory.
    let has_ended = |pid| Stat::read(pid).is_none_or(|stat| stat.rss_pages == 0);
    let share = |pid| procfs::pss_bytes(pid).or_else(|| has_ended(pid).then_some(0));
    pids.iter().copied().map(share).collect()
}

pub(crate) struct Visited<'w> {
    pub pid: u32,
    pub threads: &'w [u32],
    pub stat: &'w Stat,
    /// Its own CPU time, without its children's.
    pub cpu: Duration,
}

/// CPU time of a tree.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    /// Living processes.
    pub living: Duration,
    /// Ended processes that were waited for.
    pub reaped: Duration,
}

impl Totals {
    fn cpu(self) -> Duration {
        self.living + self.reaped
    }
}

/// Visits every process in scope and sums their CPU time.
pub(crate) fn walk(
    root: u32,
    scope: Scope,
    mut visit: impl FnMut(&Visited<'_>),
) -> io::Result<Totals> {
    let root_stat = Stat::read(root).ok_or(io::ErrorKind::NotFound)?;
    let mut totals = Totals::default();
    let mut queue = vec![root];
    while let Some(pid) = queue.pop() {
        let stat = if pid == root { Some(root_stat) } else { Stat::read(pid) };
        let Some(stat) = stat else { continue };
        // Most processes have one thread, with the same id.
        let threads = if stat.threads == 1 { vec![pid] } else { procfs::thread_ids(pid) };
        if scope != Scope::Process {
            totals.reaped += stat.reaped();
            queue.extend(procfs::children(pid, &threads));
        }
        if pid == root && scope == Scope::Descendants {
            continue;
        }
        let cpu = procfs::cpu_time(pid, &stat);
        totals.living += cpu;
        visit(&Visited { pid, threads: &threads, stat: &stat, cpu });
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_is_seen_to_use_cpu_and_memory() {
        let pid = std::process::id();
        // The process alone, because other tests start and end children.
        let take = || Sample::take(pid, Scope::Process).unwrap();
        let before = take();
        let ballast = std::hint::black_box(vec![1u8; 64 << 20]);
        let mut after = take();
        while after.cpu.saturating_sub(before.cpu) < Duration::from_millis(50) {
            after = take();
        }
        assert!(after.rss_bytes > 64 << 20, "{after:?}");
        assert!(after.peak_rss_bytes >= after.rss_bytes - (1 << 20), "{after:?}");
        assert!(after.threads >= 1 && after.processes == 1 && after.open_files >= 3, "{after:?}");
        drop(ballast);
    }

    #[test]
    fn a_process_that_does_not_exist_is_not_found() {
        // Larger than the kernel's limit on process ids, 2^22.
        let error = Sample::take(1 << 30, Scope::Tree).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
