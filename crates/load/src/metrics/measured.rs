//! What a run measured: the recorders of all event loops, merged.

use std::collections::BTreeMap;

use super::recorder::Group;
use super::{
    Breakdown, CheckCount, NameStats, ScenarioStats, Series, Sink, Totals, Troubles, Waits, WarmUp,
};

/// Whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestKey {
    /// The scenario's place in the options.
    pub(crate) scenario: usize,
    pub(crate) group: String,
    pub(crate) name: String,
}

/// A [`Group`] that can leave its thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupMeasured {
    pub(crate) name: String,
    pub(crate) path: String,
    /// Indices into the list of groups.
    pub(crate) children: Vec<usize>,
    pub(crate) checks: Vec<(String, CheckCount)>,
}

impl From<Group> for GroupMeasured {
    fn from(group: Group) -> Self {
        Self {
            name: group.name,
            path: group.path.to_string(),
            children: group.children,
            checks: group
                .checks
                .into_iter()
                .map(|(name, count)| (name.to_string(), count))
                .collect(),
        }
    }
}

/// The measurements of one event loop or, merged, of all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    /// By metric id.
    pub(crate) sinks: Vec<Sink>,
    /// The root first.
    pub(crate) groups: Vec<GroupMeasured>,
    pub(crate) names: BTreeMap<RequestKey, NameStats>,
    /// In the order of the options; the last ones are missing where nothing was counted.
    pub(crate) scenarios: Vec<ScenarioStats>,
    /// Requests by status code; 0 for those without a response.
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) totals: Totals,
    pub(crate) waits: Waits,
    pub(crate) warm_up: WarmUp,
    /// Why requests got no answer.
    pub(crate) failures: Troubles,
    /// What iterations threw.
    pub(crate) exceptions: Troubles,
    pub(crate) series: Series,
    /// By scenario and group, when that is wanted.
    pub(crate) breakdown: Breakdown,
}

impl Measured {
    /// Adds the measurements of another event loop.
    pub(crate) fn merge(&mut self, other: Self) {
        if self.sinks.is_empty() {
            *self = other;
            return;
        }
        for (mine, theirs) in self.sinks.iter_mut().zip(&other.sinks) {
            mine.merge(theirs);
        }
        // A metric may be defined on one event loop only, by a virtual user made in the run.
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
        self.totals.merge(&other.totals);
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
                Some((_, known)) => {
                    known.passes += count.passes;
                    known.fails += count.fails;
                }
                None => checks.push((name.clone(), *count)),
            }
        }
        for child in &theirs[at].children {
            let GroupMeasured { name, path, .. } = &theirs[*child];
            let known = self.groups[mine]
                .children
                .iter()
                .copied()
                .find(|id| self.groups[*id].name == *name);
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
