//! Measurements of a run.

use std::collections::BTreeMap;

use super::{
    Breakdown, CheckCount, MetricId, RequestStats, ScenarioStats, Series, Sink, Troubles, Waits,
    WarmUp,
};

/// Scenario, group and `name` tag of requests counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestKey {
    /// Index in the options.
    pub(crate) scenario: usize,
    pub(crate) group: String,
    pub(crate) name: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct GroupMeasured {
    pub(crate) name: String,
    /// `::outer::inner`; empty for the root.
    pub(crate) path: String,
    /// Indices into the list of groups.
    pub(crate) children: Vec<usize>,
    /// In the order of their first use.
    pub(crate) checks: Vec<(String, CheckCount)>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    /// By metric id.
    pub(crate) sinks: Vec<Sink>,
    /// The root first.
    pub(crate) groups: Vec<GroupMeasured>,
    pub(crate) names: BTreeMap<RequestKey, RequestStats>,
    /// In the order of the options; the last are missing without values.
    pub(crate) scenarios: Vec<ScenarioStats>,
    /// Requests by status code; 0 without a response.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Requests that failed for want of a file descriptor or port of this machine.
    pub(crate) exhausted: u64,
    /// Iterations that threw although none of their requests was bad.
    pub(crate) threw: u64,
    pub(crate) waits: Waits,
    pub(crate) warm_up: WarmUp,
    pub(crate) failures: Troubles,
    pub(crate) exceptions: Troubles,
    pub(crate) series: Series,
    /// Empty unless enabled.
    pub(crate) breakdown: Breakdown,
}

impl Measured {
    pub(crate) fn requests(&self, matches: impl Fn(&RequestKey) -> bool) -> RequestStats {
        let mut all = RequestStats::default();
        self.names.iter().filter(|(key, _)| matches(key)).for_each(|(_, one)| all.merge(one));
        all
    }

    /// Keeps a value; before the recording only its sums.
    pub(super) fn keep(&mut self, is_recording: bool, metric: MetricId, value: f64) {
        if is_recording {
            self.sinks[metric.0 as usize].add(value);
        } else {
            self.warm_up.add(metric, value);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        if self.sinks.is_empty() {
            *self = other;
            return;
        }
        for (mine, theirs) in self.sinks.iter_mut().zip(&other.sinks) {
            mine.merge(theirs);
        }
        // A virtual user created during the run may define a metric on one event loop only.
        let known = self.sinks.len().min(other.sinks.len());
        self.sinks.extend_from_slice(&other.sinks[known..]);
        for (index, theirs) in other.scenarios.iter().enumerate() {
            match self.scenarios.get_mut(index) {
                Some(mine) => mine.merge(theirs),
                None => self.scenarios.push(theirs.clone()),
            }
        }
        if !other.groups.is_empty() {
            self.merge_group(0, &other.groups, 0);
        }
        for (name, theirs) in other.names {
            self.names.entry(name).or_default().merge(&theirs);
        }
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.exhausted += other.exhausted;
        self.threw += other.threw;
        self.waits.merge(other.waits);
        self.warm_up.merge(&other.warm_up);
        self.failures.merge(&other.failures);
        self.exceptions.merge(&other.exceptions);
        self.series.merge(other.series);
        self.breakdown.merge(other.breakdown);
    }

    fn merge_group(&mut self, mine: usize, theirs: &[GroupMeasured], at: usize) {
        for (name, count) in &theirs[at].checks {
            let checks = &mut self.groups[mine].checks;
            match checks.iter_mut().find(|(found, _)| found == name) {
                Some((_, known)) => known.merge(*count),
                None => checks.push((name.clone(), *count)),
            }
        }
        for child in &theirs[at].children {
            let GroupMeasured { name, path, .. } = &theirs[*child];
            let mut children = self.groups[mine].children.iter().copied();
            let known = children.find(|id| self.groups[*id].name == *name);
            let known = known.unwrap_or_else(|| {
                let id = self.groups.len();
                let (name, path) = (name.clone(), path.clone());
                self.groups.push(GroupMeasured { name, path, ..GroupMeasured::default() });
                self.groups[mine].children.push(id);
                id
            });
            self.merge_group(known, theirs, *child);
        }
    }
}
