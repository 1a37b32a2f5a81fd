//! Sources of a server's CPU time and memory.

use std::io;

use madang_stack::{Cgroup, CgroupUse, Follower};

use crate::round::launch::Running;

pub(crate) struct Member {
    cgroup: Cgroup,
    /// Last reading.
    last: Option<CgroupUse>,
}

impl Member {
    /// An ended container keeps its CPU time and has no memory.
    pub(crate) fn usage(&mut self) -> io::Result<CgroupUse> {
        match (self.cgroup.usage(), &mut self.last) {
            (Ok(used), last) => {
                *last = Some(used);
                Ok(used)
            }
            (Err(_), Some(last)) => {
                (last.memory_bytes, last.threads) = (0, 0);
                Ok(*last)
            }
            (Err(error), None) => Err(error),
        }
    }
}

pub(crate) enum Watched {
    Tree(Follower),
    Cgroups(Vec<Member>),
}

impl Watched {
    pub(crate) fn from_running(running: &Running) -> Option<Self> {
        if !running.cgroups.is_empty() {
            let cgroups = running.cgroups.iter().cloned();
            return Some(Self::Cgroups(
                cgroups.map(|cgroup| Member { cgroup, last: None }).collect(),
            ));
        }
        running.process.as_ref().map(|server| Self::Tree(server.follow()))
    }
}
