//! Looking at a tree again and again.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use crate::procfs::{self, Stat};
use crate::tree::{self, Found};
use crate::{Glance, Sample, Scope};

/// Of a parent's sum over children that ended, the kernel shows user and system time, each rounded
/// down to a tick.
const ROUNDED: u64 = 2;

/// Looks at the processes below a supervisor again and again. Its CPU time never goes back: what a
/// process was last seen to have used stays used when it ends, even if nobody waits for it.
#[derive(Debug)]
pub struct Follower {
    supervisor: u32,
    /// The living, as last seen; `None` before the first look.
    known: Option<HashMap<u32, Known>>,
    /// At least so much was used by those that ended.
    ended: Duration,
    /// By how much that is more than parents account for, at the last look.
    excess: Duration,
    /// How much of that was told.
    told: Duration,
    lost: bool,
    /// Memory of the living when shares were last looked at.
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
        let (ended, excess, told) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Self { supervisor, known: None, ended, excess, told, lost: false, memory: HashMap::new() }
    }

    /// As [`Process::sample`](crate::Process::sample); without `with_shares` it does not look at what
    /// processes share, which takes some 0.7 ms for each that has 60 MiB. The error is `NotFound` when the tree has ended.
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

    /// Memory of these processes and their descendants in the last sample with shares, in bytes.
    pub fn memory_of(&self, roots: &[u32]) -> u64 {
        let parent = |pid: &u32| Some(self.known.as_ref()?.get(pid)?.parent);
        let is_below = |pid: u32| {
            let mut line = std::iter::successors(Some(pid), parent);
            line.any(|pid| roots.contains(&pid))
        };
        self.memory.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, bytes)| bytes).sum()
    }

    /// As [`Process::glance`](crate::Process::glance). The error is `NotFound` when the tree has ended.
    pub fn glance(&mut self) -> io::Result<Glance> {
        let mut glance = Glance::empty();
        glance.cpu = self.look(|found| glance.add(found))?;
        Ok(glance)
    }

    /// Whether the last look found that a process had ended whose CPU time nobody got: its parent
    /// ignores SIGCHLD, or somebody outside of the tree waited for it. What it, and others like it,
    /// used since they were last seen is not known, so the CPU time is too small.
    pub fn has_lost_children(&self) -> bool {
        self.lost
    }

    fn look(&mut self, mut visit: impl FnMut(&Found<'_>)) -> io::Result<Duration> {
        let mut known = HashMap::new();
        let mut reaped = tree::walk(self.supervisor, Scope::Descendants, |found| {
            known.insert(found.pid, Known::new(found.stat, found.cpu));
            visit(found);
        })?
        .reaped;
        let (mut ended, mut is_forgotten) = (Duration::ZERO, false);
        for (pid, earlier) in self.known.iter().flatten() {
            if let Some(now) = known.get_mut(pid).filter(|now| now.start == earlier.start) {
                // The clock of one that ended while this looked is gone before its last ticks.
                now.cpu = now.cpu.max(earlier.cpu);
                continue;
            }
            if let Some(stat) = Stat::read(*pid).filter(|stat| stat.start == earlier.start) {
                // Given to another parent while this looked, or to one outside of the tree.
                let cpu = procfs::cpu_time(*pid, &stat).max(earlier.cpu);
                known.insert(*pid, Known::new(&stat, cpu));
                reaped += stat.reaped();
                continue;
            }
            ended += earlier.cpu;
            if procfs::ignores_children(earlier.parent) {
                is_forgotten = true;
                self.told += earlier.cpu;
            }
        }
        // Both are too small: the first by rounding and by what was lost, the second by what was
        // used after the last look.
        self.ended = reaped.max(self.ended + ended);
        let excess = self.ended - reaped;
        let parents = known.len() as u64 + 1;
        let rounding = procfs::ticks(ROUNDED * parents);
        // One that ended while this looked is found at its parent the next time.
        let lasting = excess.min(self.excess).saturating_sub(self.told);
        let is_missing = lasting > rounding;
        if is_missing {
            self.told += lasting;
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
