//! What each scenario and each group has measured, for the full summary.

use std::collections::{BTreeMap, HashMap};

use super::{Builtin, CheckCount, MetricId, MetricKind, SampleTags, Sink};

/// Most scenarios and groups kept apart. Further ones are in the totals only.
const MAX_PARTS: usize = 1000;

/// The measurements of one scenario, or of one group in it alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// Empty for the scenario `default` and outside of all scenarios.
    pub(crate) scenario: String,
    /// The group's path, `::outer::inner`; empty for all of the scenario.
    pub(crate) group: String,
    pub(crate) sinks: BTreeMap<MetricId, Sink>,
    /// In the order of their first use.
    pub(crate) checks: Vec<(String, CheckCount)>,
}

/// All of them in the order of their first use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Breakdown {
    all: Vec<Part>,
    places: HashMap<String, HashMap<String, usize>>,
}

impl Breakdown {
    /// Adds a value where k6 does: to its scenario unless that is the default one, and to its group unless that is
    /// the one of `setup()` or `teardown()`.
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
                let passed = u64::from(value != 0.0);
                part.count(tags.check, CheckCount { passes: passed, fails: 1 - passed });
            }
        }
    }

    fn part(&mut self, scenario: &str, group: &str) -> Option<&mut Part> {
        let known = self.places.get(scenario).and_then(|groups| groups.get(group));
        let place = match known {
            Some(place) => *place,
            None if self.all.len() >= MAX_PARTS => return None,
            None => {
                let place = self.all.len();
                let (scenario, group) = (scenario.to_owned(), group.to_owned());
                let groups = self.places.entry(scenario.clone()).or_default();
                groups.insert(group.clone(), place);
                self.all.push(Part { scenario, group, ..Part::default() });
                place
            }
        };
        self.all.get_mut(place)
    }

    /// Adds what another event loop has measured.
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
        let known = self.checks.iter().position(|(name, _)| name == check);
        let place = known.unwrap_or_else(|| {
            self.checks.push((check.to_owned(), CheckCount::default()));
            self.checks.len() - 1
        });
        let sum = &mut self.checks[place].1;
        sum.passes += count.passes;
        sum.fails += count.fails;
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
        let told: Vec<_> = one
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
        assert_eq!(told, expected);
    }
}
