//! Repeated samples of one process tree.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use crate::procfs::{self, Stat};
use crate::tree::{self, Visited};
use crate::{Glance, Sample, Scope};

/// Roundings per parent: the kernel shows user and system time of its ended children, each rounded down to a tick.
const ROUNDED: u64 = 2;

/// Samples the processes below a supervisor repeatedly. The CPU time never decreases: the last seen
/// time of a process still counts when it ends, even if no parent waits for it.
#[derive(Debug)]
pub struct Follower {
    supervisor: u32,
    /// Living processes as last seen; `None` before the first sample.
    known: Option<HashMap<u32, Known>>,
    /// CPU time of ended processes, at least.
    ended: Duration,
    /// Part of it that parents did not account for, in the last sample.
    excess: Duration,
    /// Part of the excess that was reported as lost.
    reported: Duration,
    lost: bool,
    /// Memory of living processes in the last sample with shares.
    memory: HashMap<u32, u64>,
}

/// A process as last seen.
#[derive(Debug, Clone, Copy)]
struct Known {
    start: u64,
    parent: u32,
    cpu: Duration,
}

impl Follower {
    pub(crate) fn new(supervisor: u32) -> Self {
        let (ended, excess, reported) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let memory = HashMap::new();
        Self { supervisor, known: None, ended, excess, reported, lost: false, memory }
    }

    /// As [`Process::sample`](crate::Process::sample). `with_shares` adds shared memory, which costs some 0.7 ms for
    /// each process of 60 MiB.
    ///
    /// # Errors
    /// `NotFound` when the tree has ended.
    pub fn sample(&mut self, with_shares: bool) -> io::Result<Sample> {
        let mut sample = Sample::empty();
        let (mut pids, mut resident) = (Vec::new(), Vec::new());
        sample.cpu = self.look(|found| {
            sample.add(found);
            pids.push(found.pid);
            resident.push(found.stat.rss_bytes());
        })?;
        if with_shares {
            let shares = tree::shares(&pids);
            sample.pss_bytes = shares.as_ref().map(|shares| shares.iter().sum());
            self.memory = pids.into_iter().zip(shares.unwrap_or(resident)).collect();
        }
        Ok(sample)
    }

    /// Memory in bytes of these processes and their descendants, in the last sample with shares.
    pub fn memory_of(&self, roots: &[u32]) -> u64 {
        let parent = |pid: &u32| Some(self.known.as_ref()?.get(pid)?.parent);
        let is_below = |pid: u32| {
            let mut line = std::iter::successors(Some(pid), parent);
            line.any(|pid| roots.contains(&pid))
        };
        self.memory.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, bytes)| bytes).sum()
    }

    /// The part of [`sample`](Self::sample) that costs less.
    ///
    /// # Errors
    /// `NotFound` when the tree has ended.
    pub fn glance(&mut self) -> io::Result<Glance> {
        let mut glance = Glance::default();
        glance.cpu = self.look(|found| glance.add(found))?;
        Ok(glance)
    }

    /// Whether the last sample found an ended process whose CPU time no parent received: its parent
    /// ignores SIGCHLD, or a process outside of the tree waited for it. Its CPU time since it was last
    /// seen is unknown, so the total is too small.
    pub fn has_lost_children(&self) -> bool {
        self.lost
    }

    fn look(&mut self, mut visit: impl FnMut(&Visited<'_>)) -> io::Result<Duration> {
        let mut known = HashMap::new();
        let mut reaped = tree::walk(self.supervisor, Scope::Descendants, |found| {
            known.insert(found.pid, Known::new(found.stat, found.cpu));
            visit(found);
        })?
        .reaped;
        let (mut ended, mut is_forgotten) = (Duration::ZERO, false);
        for (pid, earlier) in self.known.iter().flatten() {
            if let Some(now) = known.get_mut(pid).filter(|now| now.start == earlier.start) {
                // The clock of a process that ends during the walk is gone before its last ticks.
                now.cpu = now.cpu.max(earlier.cpu);
                continue;
            }
            if let Some(stat) = Stat::read(*pid).filter(|stat| stat.start == earlier.start) {
                // Re-parented during the walk, or to a process outside of the tree.
                let cpu = procfs::cpu_time(*pid, &stat).max(earlier.cpu);
                known.insert(*pid, Known::new(&stat, cpu));
                reaped += stat.reaped();
                continue;
            }
            ended += earlier.cpu;
            if procfs::ignores_children(earlier.parent) {
                is_forgotten = true;
                self.reported += earlier.cpu;
            }
        }
        // Both are too small: the first by rounding and by what was lost, the second by the time used
        // since the last sample.
        self.ended = reaped.max(self.ended + ended);
        let excess = self.ended - reaped;
        let parents = known.len() as u64 + 1;
        let rounding = procfs::ticks(ROUNDED * parents);
        // A process that ended during the walk is accounted for by its parent the next time.
        let lasting = excess.min(self.excess).saturating_sub(self.reported);
        let is_missing = lasting > rounding;
        if is_missing {
            self.reported += lasting;
        }
        self.lost = is_forgotten || is_missing;
        self.excess = excess;
        let living: Duration = known.values().map(|process| process.cpu).sum();
        self.known = Some(known);
        Ok(living + self.ended)
    }
}

impl Known {
    fn new(stat: &Stat, cpu: Duration) -> Self {
        Self { start: stat.start, parent: stat.parent, cpu }
    }
}
