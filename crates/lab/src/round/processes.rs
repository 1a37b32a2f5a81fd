//! What each part of a stack uses.

use std::collections::BTreeMap;

use madang_stack::{Glance, Scope};

/// CPU time of groups of processes since a moment.
pub struct Processes(Vec<(String, Vec<u32>, Option<f64>)>);

impl Processes {
    pub fn begin(groups: &BTreeMap<String, Vec<u32>>) -> Self {
        let groups = groups.iter();
        Self(groups.map(|(name, pids)| (name.clone(), pids.clone(), seconds(pids))).collect())
    }

    /// Until now, in seconds. A group of which a process has ended is left out: nobody knows what it used.
    pub fn end(self) -> BTreeMap<String, f64> {
        let groups = self.0.into_iter();
        groups.filter_map(|(name, pids, before)| Some((name, seconds(&pids)? - before?))).collect()
    }
}

fn seconds(pids: &[u32]) -> Option<f64> {
    let of = |pid: &u32| Glance::take(*pid, Scope::Tree).ok();
    pids.iter().map(|pid| Some(of(pid)?.cpu.as_secs_f64())).sum()
}
