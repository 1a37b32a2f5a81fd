//! Everything one event loop measures. Nothing here is shared between threads; the recorders of
//! all loops are merged when the run is over.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    Breakdown, Builtin, GroupMeasured, Measured, MetricId, MetricKind, NameStats, Recent, Registry,
    RequestKey, SampleTags, ScenarioStats, Sink, TagFilter, Waits,
};
use crate::http::{Exchange, Timings};
use crate::samples::{Emitter, Samples};

/// Distinct `name` tags, groups and checks kept apart; further ones are counted under
/// [`OVERFLOW_NAME`]. A script that puts an id into every URL must not exhaust the memory.
const MAX_NAMES: usize = 500;
const MAX_GROUPS: usize = 1000;
const MAX_CHECKS: usize = 5000;
/// What stands for everything beyond a limit.
pub(crate) const OVERFLOW_NAME: &str = "(other)";

/// Values of a request in the order of outputs; the last one is whether it failed.
const REQUEST_VALUES: usize = 9;

/// A group's place in one event loop's recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GroupId(u32);

impl GroupId {
    /// The group outside of all groups.
    pub(crate) const ROOT: Self = Self(0);
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CheckCount {
    pub(crate) passes: u64,
    pub(crate) fails: u64,
}

/// A `group()` with its checks in the order of their first use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// `::outer::inner`; empty for the root.
    pub(crate) path: Rc<str>,
    pub(crate) children: Vec<usize>,
    pub(crate) checks: Vec<(Rc<str>, CheckCount)>,
    by_name: HashMap<Rc<str>, usize>,
}

pub(crate) struct RequestSample<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) status: u16,
    pub(crate) tags: SampleTags<'a>,
    pub(crate) name: &'a Rc<str>,
    /// The scenario's place in the options.
    pub(crate) scenario: usize,
    pub(crate) group: GroupId,
    /// How late its iteration started, in open models.
    pub(crate) start_lag: Option<Duration>,
    pub(crate) expected: bool,
    /// Whether it counts in `http_req_failed` at all.
    pub(crate) judged: bool,
}

/// Where a request was counted, for when its checks are known.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestMark {
    /// Only in sums: it was answered while warming up.
    WarmUp,
    /// In a second of the recorded window and under a name.
    Recorded { second: u32, name: u32 },
}

/// Scenario, group and `name` tag of requests that are counted together.
type OwnKey = (usize, GroupId, Rc<str>);

/// The measurements of one event loop.
#[derive(Debug)]
pub(crate) struct Recorder {
    kinds: Arc<Vec<MetricKind>>,
    /// Sub-metrics by parent, `{expected_response:true}` apart because every run has it.
    subs: Arc<HashMap<MetricId, Vec<(MetricId, TagFilter)>>>,
    expected_duration: MetricId,
    /// All but what is kept in another form until the end.
    measured: Measured,
    groups: Vec<Group>,
    group_index: HashMap<(u32, String), u32>,
    checks: usize,
    names: Vec<(OwnKey, NameStats)>,
    name_index: HashMap<OwnKey, u32>,
    /// By scenario and group, for the full summary.
    breakdown: Option<Box<Breakdown>>,
    /// For a terminal; `None` without one.
    recent: Option<Box<Recent>>,
    /// Where single values go; `None` without an output.
    emitter: Option<Box<Emitter>>,
    /// Values are kept from here on; `None` while warming up.
    recording_since: Option<Instant>,
}

impl Recorder {
    /// A recorder for the metrics that exist now; it records nothing before [`Self::start`].
    pub(crate) fn new(registry: &Registry) -> Self {
        let kinds: Vec<MetricKind> = registry.iter().map(|(_, metric)| metric.kind).collect();
        let mut subs: HashMap<MetricId, Vec<(MetricId, TagFilter)>> = HashMap::new();
        let mut expected_duration = Builtin::HttpReqDuration.id();
        for (id, metric) in registry.iter() {
            let Some(sub) = &metric.sub else { continue };
            if sub.parent == Builtin::HttpReqDuration.id() && sub.filter.is_expected_response() {
                expected_duration = id;
            } else {
                subs.entry(sub.parent).or_default().push((id, sub.filter.clone()));
            }
        }
        Self {
            measured: Measured {
                sinks: kinds.iter().map(|kind| Sink::new(*kind)).collect(),
                ..Measured::default()
            },
            kinds: Arc::new(kinds),
            subs: Arc::new(subs),
            expected_duration,
            groups: vec![Group::default()],
            group_index: HashMap::new(),
            checks: 0,
            names: Vec::new(),
            name_index: HashMap::new(),
            breakdown: None,
            recent: None,
            emitter: None,
            recording_since: None,
        }
    }

    /// Also keeps the values of each scenario and group.
    pub(crate) fn enable_breakdown(&mut self) {
        self.breakdown = Some(Box::default());
    }

    /// Counts requests for a terminal, too.
    pub(crate) fn show_recent(&mut self) {
        self.recent = Some(Box::default());
    }

    /// Requests since the last call, of the warm-up as well.
    pub(crate) fn take_recent(&mut self) -> Recent {
        self.recent.as_deref_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Gives every recorded value to outputs, too.
    pub(crate) fn emit_to(&mut self, samples: Option<&Arc<Samples>>) {
        self.emitter = samples.map(|samples| Box::new(Emitter::new(samples.clone())));
    }

    /// The way to the outputs; `None` without one and while nothing is recorded.
    fn emitter(&mut self) -> Option<&mut Emitter> {
        self.recording_since?;
        self.emitter.as_deref_mut()
    }

    pub(crate) fn start(&mut self, start: Instant) {
        self.recording_since = Some(start);
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.recording_since.is_some()
    }

    /// Adds a value of any metric but those of requests and checks.
    pub(crate) fn add(&mut self, metric: MetricId, value: f64, tags: &SampleTags<'_>) {
        self.count(metric, value, tags);
        if let Some(emitter) = self.emitter() {
            emitter.send(Instant::now(), &[(metric, value)], tags);
        }
    }

    /// Adds a value to a metric and its sub-metrics.
    fn count(&mut self, metric: MetricId, value: f64, tags: &SampleTags<'_>) {
        self.keep(metric, value);
        if let Some(breakdown) =
            self.breakdown.as_deref_mut().filter(|_| self.recording_since.is_some())
        {
            breakdown.add(metric, self.kinds[metric.0 as usize], value, tags);
        }
        if self.subs.is_empty() {
            return;
        }
        let subs = Arc::clone(&self.subs);
        for (id, filter) in subs.get(&metric).into_iter().flatten() {
            if filter.matches(tags) {
                self.keep(*id, value);
            }
        }
    }

    /// Counts a request; the mark is for [`Self::settle`].
    pub(crate) fn request(&mut self, sample: &RequestSample<'_>) -> RequestMark {
        let duration_ms = milliseconds(sample.exchange.timings.duration());
        if let Some(recent) = &mut self.recent {
            recent.add(!sample.expected, duration_ms);
        }
        self.count_request(sample, duration_ms);
        match self.recording_since {
            Some(since) => self.record_request(sample, duration_ms, since),
            None => RequestMark::WarmUp,
        }
    }

    /// Adds the values of a request to their metrics, and gives them to outputs.
    fn count_request(&mut self, sample: &RequestSample<'_>, duration_ms: f64) {
        let Exchange { timings, traffic, end, .. } = sample.exchange;
        let Timings { blocked, connecting, tls_handshaking, sending, waiting, receiving, .. } =
            *timings;
        let values = [
            (Builtin::HttpReqs, 1.0),
            (Builtin::HttpReqDuration, duration_ms),
            (Builtin::HttpReqBlocked, milliseconds(blocked)),
            (Builtin::HttpReqConnecting, milliseconds(connecting)),
            (Builtin::HttpReqTlsHandshaking, milliseconds(tls_handshaking)),
            (Builtin::HttpReqSending, milliseconds(sending)),
            (Builtin::HttpReqWaiting, milliseconds(waiting)),
            (Builtin::HttpReqReceiving, milliseconds(receiving)),
            (Builtin::HttpReqFailed, f64::from(u8::from(!sample.expected))),
            (Builtin::DataSent, traffic.sent as f64),
            (Builtin::DataReceived, traffic.received as f64),
        ];
        for (metric, value) in values {
            if metric == Builtin::HttpReqFailed && !sample.judged {
                continue;
            }
            self.count(metric.id(), value, &sample.tags);
        }
        if let Some(emitter) = self.emitter() {
            // Bytes are values of iterations there, and are sent at their ends.
            let values = values.map(|(metric, value)| (metric.id(), value));
            let length = if sample.judged { REQUEST_VALUES } else { REQUEST_VALUES - 1 };
            emitter.send(*end, &values[..length], &sample.tags);
            emitter.add_traffic(sample.tags.vu.0, *traffic);
        }
        if sample.expected && sample.judged && sample.tags.enabled.allows("expected_response") {
            let id = self.expected_duration;
            self.keep(id, duration_ms);
        }
    }

    /// Counts a request by status, name, cause of failure and second.
    fn record_request(
        &mut self,
        sample: &RequestSample<'_>,
        duration_ms: f64,
        since: Instant,
    ) -> RequestMark {
        *self.measured.statuses.entry(sample.status).or_default() += 1;
        self.measured.totals.requests += 1;
        let name = self.name((sample.scenario, sample.group, sample.name.clone()));
        let stats = &mut self.names[name as usize].1;
        stats.requests += 1;
        stats.duration.record(duration_ms);
        if let Some(lag) = sample.start_lag {
            stats.response.record(duration_ms + milliseconds(lag));
        }
        if !sample.expected {
            self.measured.totals.failed += 1;
            stats.failed += 1;
        }
        match &sample.exchange.outcome {
            Err(error) => {
                self.measured.failures.add(&error.to_string());
                self.measured.totals.exhausted += u64::from(error.is_exhaustion());
            }
            Ok(_) if !sample.expected => {
                self.measured.failures.add(&format!("status {}", sample.status));
            }
            Ok(_) => {}
        }
        let second = sample.exchange.end.saturating_duration_since(since).as_secs();
        let second = u32::try_from(second).unwrap_or(u32::MAX);
        let step = self.measured.series.at(second);
        step.requests += 1;
        step.durations.record(duration_ms);
        RequestMark::Recorded { second, name }
    }

    /// Notifies the outputs that an iteration is over.
    pub(crate) fn end_iteration(&mut self, tags: &SampleTags<'_>) {
        if let Some(emitter) = self.emitter() {
            emitter.end_iteration(tags);
        }
    }

    /// Notes how long requests that are answered or cut off have waited; `None` while nothing is
    /// recorded.
    pub(crate) fn waits(&mut self) -> Option<&mut Waits> {
        self.recording_since.map(|_| &mut self.measured.waits)
    }

    /// Notes why something was no request at all: without it, only failed checks would be seen.
    pub(crate) fn add_refusal(&mut self, text: &str) {
        if self.is_recording() {
            self.measured.failures.add(text);
        }
    }

    /// Notes what an iteration threw. When one of its requests was bad, that is what went wrong and
    /// is counted already.
    pub(crate) fn add_exception(&mut self, text: &str, had_bad_request: bool) {
        if self.is_recording() {
            self.measured.totals.threw += u64::from(!had_bad_request);
            self.measured.exceptions.add_thrown(text);
        }
    }

    /// Counts a request as good: it did not fail and none of its checks did.
    pub(crate) fn settle(&mut self, mark: RequestMark) {
        let RequestMark::Recorded { second, name } = mark else {
            self.measured.warm_up.good += 1;
            return;
        };
        self.measured.totals.good += 1;
        self.names[name as usize].1.good += 1;
        self.measured.series.at(second).good += 1;
    }

    /// The group of that name inside `parent`.
    pub(crate) fn group(&mut self, parent: GroupId, name: &str) -> GroupId {
        let key = (parent.0, name.to_owned());
        if let Some(id) = self.group_index.get(&key) {
            return GroupId(*id);
        }
        if self.groups.len() >= MAX_GROUPS && name != OVERFLOW_NAME {
            return self.group(GroupId::ROOT, OVERFLOW_NAME);
        }
        let path = format!("{}::{name}", self.groups[parent.0 as usize].path).into();
        let id = self.groups.len();
        self.groups.push(Group { name: name.to_owned(), path, ..Group::default() });
        self.groups[parent.0 as usize].children.push(id);
        self.group_index.insert(key, id as u32);
        GroupId(id as u32)
    }

    pub(crate) fn group_path(&self, group: GroupId) -> Rc<str> {
        self.groups[group.0 as usize].path.clone()
    }

    pub(crate) fn check(
        &mut self,
        group: GroupId,
        name: &str,
        passed: bool,
        tags: &SampleTags<'_>,
    ) {
        self.add(Builtin::Checks.id(), f64::from(u8::from(passed)), tags);
        if !self.is_recording() {
            return;
        }
        let full = self.checks >= MAX_CHECKS;
        let group = &mut self.groups[group.0 as usize];
        let index = match group.by_name.get(name) {
            Some(index) => *index,
            None => {
                let name: Rc<str> = if full { OVERFLOW_NAME } else { name }.into();
                let checks = &mut group.checks;
                *group.by_name.entry(name.clone()).or_insert_with(|| {
                    self.checks += 1;
                    checks.push((name, CheckCount::default()));
                    checks.len() - 1
                })
            }
        };
        let count = &mut group.checks[index].1;
        if passed {
            count.passes += 1;
        } else {
            count.fails += 1;
        }
    }

    /// What is counted for each scenario apart, by its place in the options; `None` while nothing is
    /// recorded.
    pub(crate) fn scenario(&mut self, index: usize) -> Option<&mut ScenarioStats> {
        self.recording_since?;
        if index >= self.measured.scenarios.len() {
            self.measured.scenarios.resize_with(index + 1, ScenarioStats::default);
        }
        self.measured.scenarios.get_mut(index)
    }

    /// Learns of metrics that were defined after this recorder was made.
    pub(crate) fn learn(&mut self, registry: &Registry) {
        if registry.len() > self.kinds.len() {
            let kinds: Vec<MetricKind> = registry.iter().map(|(_, metric)| metric.kind).collect();
            self.measured
                .sinks
                .extend(kinds[self.kinds.len()..].iter().map(|kind| Sink::new(*kind)));
            self.kinds = Arc::new(kinds);
        }
    }

    /// The state of some metrics now.
    pub(crate) fn snapshot(&self, metrics: &[MetricId]) -> Vec<Sink> {
        metrics.iter().filter_map(|id| self.measured.sinks.get(id.0 as usize)).cloned().collect()
    }

    /// What was measured, in a form that can leave the thread.
    pub(crate) fn finish(self) -> Measured {
        let key = |(scenario, group, name): OwnKey| RequestKey {
            scenario,
            group: self.groups[group.0 as usize].path.to_string(),
            name: name.to_string(),
        };
        let names = self.names.into_iter().map(|(name, stats)| (key(name), stats)).collect();
        Measured {
            names,
            groups: self.groups.into_iter().map(GroupMeasured::from).collect(),
            breakdown: self.breakdown.map(|breakdown| *breakdown).unwrap_or_default(),
            ..self.measured
        }
    }

    /// Keeps a value; of one from before the recording, only what it adds to a sum.
    fn keep(&mut self, metric: MetricId, value: f64) {
        if self.is_recording() {
            self.sink(metric).add(value);
        } else {
            self.measured.warm_up.add(metric, value);
        }
    }

    fn sink(&mut self, metric: MetricId) -> &mut Sink {
        let index = metric.0 as usize;
        debug_assert!(index < self.kinds.len(), "metrics are defined before a recorder is made");
        &mut self.measured.sinks[index]
    }

    fn name(&mut self, key: OwnKey) -> u32 {
        if let Some(index) = self.name_index.get(&key) {
            return *index;
        }
        if self.names.len() >= MAX_NAMES && &*key.2 != OVERFLOW_NAME {
            // Scenarios are few, and stay apart.
            return self.name((key.0, GroupId::ROOT, OVERFLOW_NAME.into()));
        }
        let index = self.names.len() as u32;
        self.names.push((key.clone(), NameStats::default()));
        self.name_index.insert(key, index);
        index
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests;
