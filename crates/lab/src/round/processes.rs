//! CPU time of the parts of a stack.

use std::collections::BTreeMap;

use madang_stack::{Glance, Scope};

pub(crate) struct Processes {
    groups: BTreeMap<String, Vec<u32>>,
    before: BTreeMap<u32, f64>,
}

impl Processes {
    pub(crate) fn begin(groups: &BTreeMap<String, Vec<u32>>) -> Self {
        Self { groups: groups.clone(), before: seconds(groups) }
    }

    /// CPU time so far, in seconds. Omits groups of which a process has ended, as its use is unknown.
    pub(crate) fn end(self) -> BTreeMap<String, f64> {
        let now = seconds(&self.groups);
        let since = |pid: &u32| Some(now.get(pid)? - self.before.get(pid)?);
        let used = |pids: &[u32]| pids.iter().map(since).sum::<Option<f64>>();
        self.groups.iter().filter_map(|(name, pids)| Some((name.clone(), used(pids)?))).collect()
    }
}

/// Each process is read once, so that the sums of groups are consistent.
fn seconds(groups: &BTreeMap<String, Vec<u32>>) -> BTreeMap<u32, f64> {
    let mut all: Vec<u32> = groups.values().flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    let of = |pid| Some((pid, Glance::take(pid, Scope::Tree).ok()?.cpu.as_secs_f64()));
    all.into_iter().filter_map(of).collect()
}
