//! Measurements by scenario and group, for the full summary.

use std::collections::{BTreeMap, HashMap};

use super::{Builtin, CheckCount, MetricId, MetricKind, SampleTags, Sink};

/// Limit of scenarios and groups; further ones count only in the totals.
const MAX_PARTS: usize = 1000;

#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// Empty for `default` and outside of scenarios.
    pub(crate) scenario: String,
    /// Path `::outer::inner`; empty for the whole scenario.
    pub(crate) group: String,
    pub(crate) sinks: BTreeMap<MetricId, Sink>,
    /// In the order of their first use.
    pub(crate) checks: Vec<(String, CheckCount)>,
}

/// All parts in the order of their first use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Breakdown {
    all: Vec<Part>,
    indices: HashMap<String, HashMap<String, usize>>,
}

impl Breakdown {
    /// Adds a value, as in k6 to its scenario, unless that is `default`, and to its group, unless that is the one of
    /// `setup()` or `teardown()`.
    pub(crate) fn add(
        &mut self,
        metric: MetricId,
        kind: MetricKind,
        value: f64,
        tags: &SampleTags<'_>,
    ) {
        let scenario = if tags.scenario == "default" { "" } else { tags.scenario };
        let group = if matches!(tags.group, "::setup" | "::teardown") { "" } else { tags.group };
        let of_scenario = Some("").filter(|_| !scenario.is_empty());
        let of_group = Some(group).filter(|group| !group.is_empty());
        for group in of_scenario.into_iter().chain(of_group) {
            let Some(part) = self.part(scenario, group) else { continue };
            part.sinks.entry(metric).or_insert_with(|| Sink::new(kind)).add(value);
            if metric == Builtin::Checks.id() {
                part.count(tags.check, CheckCount::single(value != 0.0));
            }
        }
    }

    fn part(&mut self, scenario: &str, group: &str) -> Option<&mut Part> {
        let known = self.indices.get(scenario).and_then(|groups| groups.get(group));
        let index = match known {
            Some(index) => *index,
            None if self.all.len() >= MAX_PARTS => return None,
            None => {
                let index = self.all.len();
                let (scenario, group) = (scenario.to_owned(), group.to_owned());
                let groups = self.indices.entry(scenario.clone()).or_default();
                groups.insert(group.clone(), index);
                self.all.push(Part { scenario, group, ..Part::default() });
                index
            }
        };
        self.all.get_mut(index)
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for theirs in other.all {
            let Some(mine) = self.part(&theirs.scenario, &theirs.group) else { continue };
            for (metric, sink) in theirs.sinks {
                match mine.sinks.get_mut(&metric) {
                    Some(mine) => mine.merge(&sink),
                    None => drop(mine.sinks.insert(metric, sink)),
                }
            }
            for (name, count) in theirs.checks {
                mine.count(&name, count);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Part> {
        self.all.iter()
    }
}

impl Part {
    fn count(&mut self, check: &str, count: CheckCount) {
        match self.checks.iter_mut().find(|(name, _)| name == check) {
            Some((_, known)) => known.merge(count),
            None => self.checks.push((check.to_owned(), count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags<'t>(scenario: &'t str, group: &'t str, check: &'t str) -> SampleTags<'t> {
        SampleTags { scenario, group, check, ..SampleTags::default() }
    }

    #[test]
    fn a_value_is_in_its_scenario_and_its_group() {
        let requests = |parts: &mut Breakdown, scenario, group| {
            let metric = Builtin::HttpReqs.id();
            parts.add(metric, MetricKind::Counter, 1.0, &tags(scenario, group, ""));
        };
        let mut one = Breakdown::default();
        requests(&mut one, "buy", "");
        requests(&mut one, "buy", "::a::b");
        requests(&mut one, "default", "");
        requests(&mut one, "default", "::a");
        requests(&mut one, "", "::setup");
        requests(&mut one, "", "::setup::c");
        let mut other = Breakdown::default();
        requests(&mut other, "buy", "::a::b");
        let checks = Builtin::Checks.id();
        other.add(checks, MetricKind::Rate, 0.0, &tags("buy", "", "ok"));
        one.merge(other);
        let counted: Vec<_> = one
            .iter()
            .map(|part| {
                let sum = match part.sinks.get(&Builtin::HttpReqs.id()) {
                    Some(Sink::Counter { sum, .. }) => *sum,
                    _ => 0.0,
                };
                (part.scenario.as_str(), part.group.as_str(), sum, part.checks.len())
            })
            .collect();
        let expected = [
            ("buy", "", 3.0, 1),
            ("buy", "::a::b", 2.0, 0),
            ("", "::a", 1.0, 0),
            ("", "::setup::c", 1.0, 0),
        ];
        assert_eq!(counted, expected);
    }
}
