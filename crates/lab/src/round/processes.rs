//! What each part of a stack uses.

use std::collections::BTreeMap;

use madang_stack::{Glance, Scope};

/// CPU time of groups of processes since a moment.
pub(crate) struct Processes {
    groups: BTreeMap<String, Vec<u32>>,
    before: BTreeMap<u32, f64>,
}

impl Processes {
    pub(crate) fn begin(groups: &BTreeMap<String, Vec<u32>>) -> Self {
        Self { groups: groups.clone(), before: seconds(groups) }
    }

    /// Until now, in seconds. A group of which a process has ended is left out, as its use is unknown.
    pub(crate) fn end(self) -> BTreeMap<String, f64> {
        let now = seconds(&self.groups);
        let since = |pid: &u32| Some(now.get(pid)? - self.before.get(pid)?);
        let used = |pids: &[u32]| pids.iter().map(since).sum::<Option<f64>>();
        self.groups.iter().filter_map(|(name, pids)| Some((name.clone(), used(pids)?))).collect()
    }
}

/// Of each process once, so that the sums of groups fit together.
fn seconds(groups: &BTreeMap<String, Vec<u32>>) -> BTreeMap<u32, f64> {
    let mut all: Vec<u32> = groups.values().flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    let of = |pid| Some((pid, Glance::take(pid, Scope::Tree).ok()?.cpu.as_secs_f64()));
    all.into_iter().filter_map(of).collect()
}
