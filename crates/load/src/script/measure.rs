//! Measuring: the values of a virtual user and their tags.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::user::{Assignment, Position, User};
use crate::metrics::{Builtin, GroupId, MetricId, Recorder, SampleTags};

impl User {
    /// Adds a value to a metric, with the current tags and `tags`.
    pub(crate) fn add(&self, metric: MetricId, value: f64, tags: Option<&[(String, String)]>) {
        self.measure(self.group.get(), tags, |recorder, _, tags| {
            recorder.add(metric, value, &tags);
        });
    }

    /// Notifies the outputs of the end of an iteration or life-cycle function.
    pub(crate) fn end_iteration(&self) {
        self.measure(self.group.get(), None, |recorder, _, tags| recorder.end_iteration(&tags));
    }

    pub(crate) fn add_check(&self, name: &str, passed: bool, tags: Option<&[(String, String)]>) {
        let group = self.group.get();
        self.measure(group, tags, |recorder, assignment, tags| {
            recorder.check(group, name, passed, &SampleTags { check: name, ..tags });
            if let Some(stats) = recorder.scenario(assignment.index) {
                stats.checks.passes += u64::from(passed);
                stats.checks.fails += u64::from(!passed);
            }
        });
    }

    /// Counts an iteration that was not cut short.
    pub(crate) fn add_iteration(&self, duration: Duration) {
        self.add(Builtin::IterationDuration.id(), duration.as_secs_f64() * 1e3, None);
        self.add(Builtin::Iterations.id(), 1.0, None);
        let index = self.assignment.borrow().index;
        if let Some(stats) = self.event_loop.recorder.borrow_mut().scenario(index) {
            stats.completed(duration, self.position.get().start_lag);
        }
    }

    pub(crate) fn begin_iteration(&self, own: u64, start_lag: Option<Duration>) {
        let assignment = self.assignment.borrow();
        let in_scenario = assignment.iterations.fetch_add(1, Ordering::Relaxed);
        self.position.set(Position { own, in_scenario, start_lag });
        if let Some(lag) = start_lag
            && let Some(stats) = self.event_loop.recorder.borrow_mut().scenario(assignment.index)
        {
            stats.start_lag.record(lag.as_secs_f64() * 1e3);
        }
    }

    /// Records with the current tags and `tags`.
    pub(super) fn measure<R>(
        &self,
        group: GroupId,
        tags: Option<&[(String, String)]>,
        record: impl FnOnce(&mut Recorder, &Assignment, SampleTags<'_>) -> R,
    ) -> R {
        let assignment = self.assignment.borrow().clone();
        let tags = tags.filter(|tags| !tags.is_empty());
        let merged = tags.map(|tags| [&assignment.tags, tags].concat());
        let custom = merged.as_deref().unwrap_or(&assignment.tags);
        let mut recorder = self.event_loop.recorder.borrow_mut();
        let group = recorder.group_path(group);
        let tags = SampleTags {
            custom,
            group: &group,
            vu: (self.id, self.position.get().own),
            enabled: self.run.settings().system_tags,
            ..assignment.sample_tags()
        };
        record(&mut recorder, &assignment, tags)
    }

    /// A tag that all values have at present.
    pub(crate) fn tag(&self, key: &str) -> Option<String> {
        let group = self.group.get();
        self.measure(group, None, |_, _, tags| tags.get(key).map(std::borrow::Cow::into_owned))
    }

    pub(crate) fn tag_keys(&self) -> Vec<String> {
        let assignment = self.assignment.borrow();
        let own = assignment.tags.iter().map(|(key, _)| key.as_str());
        let scenario = (!assignment.scenario.is_empty()).then_some("scenario");
        let keys: BTreeSet<&str> = own.chain(scenario).chain(["group"]).collect();
        keys.into_iter().map(str::to_owned).collect()
    }

    /// Sets or removes a tag or metadata of all further values.
    pub(crate) fn set_own(
        &self,
        list: fn(&mut Assignment) -> &mut Vec<(String, String)>,
        key: &str,
        value: Option<String>,
    ) {
        let mut assignment = Assignment::clone(&self.assignment.borrow());
        let own = list(&mut assignment);
        own.retain(|(known, _)| known != key);
        own.extend(value.map(|value| (key.to_owned(), value)));
        self.assignment.replace(Rc::new(assignment));
    }

    /// Metadata that outputs write beside the tags.
    pub(crate) fn metadata(&self, key: &str) -> Option<String> {
        let assignment = self.assignment.borrow();
        assignment.metadata.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    pub(crate) fn metadata_keys(&self) -> Vec<String> {
        self.assignment.borrow().metadata.iter().map(|(key, _)| key.clone()).collect()
    }
}
