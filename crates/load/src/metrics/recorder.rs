//! Measurements of one event loop. Recorders are not shared between threads; they are merged after the run.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    Breakdown, Builtin, CheckCount, GroupMeasured, Measured, MetricId, MetricKind, Registry,
    RequestKey, RequestStats, SampleTags, ScenarioStats, Sink, TagFilter, Waits,
};
use crate::http::{Exchange, Timings};
use crate::samples::{Emitter, Samples};

/// Limits of distinct `name` tags, groups and checks; further ones are counted under [`OVERFLOW_NAME`]. A script that
/// puts an id into every URL must not exhaust the memory.
const MAX_NAMES: usize = 500;
const MAX_GROUPS: usize = 1000;
const MAX_CHECKS: usize = 5000;
pub(crate) const OVERFLOW_NAME: &str = "(other)";

/// Number of a request's values in outputs; the last is `http_req_failed`.
const REQUEST_VALUES: usize = 9;

/// Index of a group in one recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GroupId(u32);

impl GroupId {
    /// Outside of all groups.
    pub(crate) const ROOT: Self = Self(0);
}

#[derive(Debug, Default)]
struct Group {
    measured: GroupMeasured,
    /// Path of `measured`, for the tags of values.
    path: Rc<str>,
    check_index: HashMap<String, usize>,
}

pub(crate) struct RequestSample<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) status: u16,
    pub(crate) tags: SampleTags<'a>,
    pub(crate) name: &'a Rc<str>,
    /// Index in the options.
    pub(crate) scenario: usize,
    pub(crate) group: GroupId,
    /// Start lag of its iteration, in open models.
    pub(crate) start_lag: Option<Duration>,
    pub(crate) expected: bool,
    /// True if it counts in `http_req_failed`.
    pub(crate) judged: bool,
}

/// Record of a counted request, for [`Recorder::settle`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestMark {
    WarmUp,
    Recorded { second: u32, name: u32 },
}

/// Scenario, group and `name` tag of requests that are counted together.
type OwnKey = (usize, GroupId, Rc<str>);

#[derive(Debug)]
pub(crate) struct Recorder {
    kinds: Vec<MetricKind>,
    /// Sub-metrics by parent, without `{expected_response:true}`, which every run has.
    subs: HashMap<MetricId, Vec<(MetricId, TagFilter)>>,
    expected_duration: MetricId,
    /// Without groups, names and breakdown.
    measured: Measured,
    groups: Vec<Group>,
    group_index: HashMap<(u32, String), u32>,
    check_count: usize,
    names: Vec<(OwnKey, RequestStats)>,
    name_index: HashMap<OwnKey, u32>,
    /// For the full summary.
    pub(crate) breakdown: Option<Box<Breakdown>>,
    /// Requests since the last read, of the warm-up as well; `None` without a terminal.
    pub(crate) recent: Option<Box<RequestStats>>,
    /// `None` without an output.
    emitter: Option<Box<Emitter>>,
    /// `None` during the warm-up.
    recording_since: Option<Instant>,
}

impl Recorder {
    /// A recorder for the metrics of `registry`, which records nothing before [`Self::start`].
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
            kinds,
            subs,
            expected_duration,
            groups: vec![Group::default()],
            group_index: HashMap::new(),
            check_count: 0,
            names: Vec::new(),
            name_index: HashMap::new(),
            breakdown: None,
            recent: None,
            emitter: None,
            recording_since: None,
        }
    }

    pub(crate) fn emit_to(&mut self, samples: Option<&Arc<Samples>>) {
        self.emitter = samples.map(|samples| Box::new(Emitter::new(samples.clone())));
    }

    /// `None` without an output, and while nothing is recorded.
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

    pub(crate) fn add(&mut self, metric: MetricId, value: f64, tags: &SampleTags<'_>) {
        self.count(metric, value, tags);
        if let Some(emitter) = self.emitter() {
            emitter.samples.send(Instant::now(), &[(metric, value)], tags);
        }
    }

    /// Adds a value to a metric and its sub-metrics.
    fn count(&mut self, metric: MetricId, value: f64, tags: &SampleTags<'_>) {
        let is_recording = self.is_recording();
        self.measured.keep(is_recording, metric, value);
        if let Some(breakdown) = self.breakdown.as_deref_mut().filter(|_| is_recording) {
            breakdown.add(metric, self.kinds[metric.0 as usize], value, tags);
        }
        for (id, filter) in self.subs.get(&metric).into_iter().flatten() {
            if filter.matches(tags) {
                self.measured.keep(is_recording, *id, value);
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

    /// Adds the values of a request to their metrics and sends them to the outputs.
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
            // In outputs bytes are values of iterations, sent at their ends.
            let values = values.map(|(metric, value)| (metric.id(), value));
            let length = if sample.judged { REQUEST_VALUES } else { REQUEST_VALUES - 1 };
            emitter.samples.send(*end, &values[..length], &sample.tags);
            emitter.add_traffic(sample.tags.vu.0, *traffic);
        }
        if sample.expected && sample.judged && sample.tags.enabled.allows("expected_response") {
            let is_recording = self.is_recording();
            self.measured.keep(is_recording, self.expected_duration, duration_ms);
        }
    }

    /// Counts a request by status, name, error and second.
    fn record_request(
        &mut self,
        sample: &RequestSample<'_>,
        duration_ms: f64,
        since: Instant,
    ) -> RequestMark {
        *self.measured.statuses.entry(sample.status).or_default() += 1;
        let name = self.name((sample.scenario, sample.group, sample.name.clone()));
        let stats = &mut self.names[name as usize].1;
        stats.add(!sample.expected, duration_ms);
        if let Some(lag) = sample.start_lag {
            stats.response.record(duration_ms + milliseconds(lag));
        }
        match &sample.exchange.outcome {
            Err(error) => {
                self.measured.failures.add(&error.to_string());
                self.measured.exhausted += u64::from(error.is_exhaustion());
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

    /// Sends the end of an iteration to the outputs.
    pub(crate) fn end_iteration(&mut self, tags: &SampleTags<'_>) {
        if let Some(emitter) = self.emitter() {
            emitter.end_iteration(tags);
        }
    }

    /// `None` while nothing is recorded.
    pub(crate) fn waits(&mut self) -> Option<&mut Waits> {
        self.recording_since.map(|_| &mut self.measured.waits)
    }

    /// Counts the error of a request that was not sent.
    pub(crate) fn add_refusal(&mut self, text: &str) {
        if self.is_recording() {
            self.measured.failures.add(text);
        }
    }

    /// Counts an exception of an iteration, in `threw` only without a bad request.
    pub(crate) fn add_exception(&mut self, text: &str, had_bad_request: bool) {
        if self.is_recording() {
            self.measured.threw += u64::from(!had_bad_request);
            self.measured.exceptions.add_thrown(text);
        }
    }

    /// Counts a request as good: neither it nor one of its checks failed.
    pub(crate) fn settle(&mut self, mark: RequestMark) {
        let RequestMark::Recorded { second, name } = mark else {
            self.measured.warm_up.good += 1;
            return;
        };
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
        let path = format!("{}::{name}", self.groups[parent.0 as usize].path);
        let id = self.groups.len();
        let (name, shared) = (name.to_owned(), path.as_str().into());
        let measured = GroupMeasured { name, path, ..GroupMeasured::default() };
        self.groups.push(Group { measured, path: shared, ..Group::default() });
        self.groups[parent.0 as usize].measured.children.push(id);
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
        let Group { measured: GroupMeasured { checks, .. }, check_index, .. } =
            &mut self.groups[group.0 as usize];
        let index = match check_index.get(name) {
            Some(index) => *index,
            None => {
                let full = self.check_count >= MAX_CHECKS;
                let name = if full { OVERFLOW_NAME } else { name }.to_owned();
                *check_index.entry(name.clone()).or_insert_with(|| {
                    self.check_count += 1;
                    checks.push((name, CheckCount::default()));
                    checks.len() - 1
                })
            }
        };
        checks[index].1.merge(CheckCount::single(passed));
    }

    /// The statistics of a scenario by its index in the options; `None` while nothing is recorded.
    pub(crate) fn scenario(&mut self, index: usize) -> Option<&mut ScenarioStats> {
        self.recording_since?;
        if index >= self.measured.scenarios.len() {
            self.measured.scenarios.resize_with(index + 1, ScenarioStats::default);
        }
        self.measured.scenarios.get_mut(index)
    }

    /// Adds metrics defined since this recorder was created.
    pub(crate) fn learn(&mut self, registry: &Registry) {
        for (_, metric) in registry.iter().skip(self.kinds.len()) {
            self.kinds.push(metric.kind);
            self.measured.sinks.push(Sink::new(metric.kind));
        }
    }

    /// The current state of some metrics.
    pub(crate) fn snapshot(&self, metrics: &[MetricId]) -> Vec<Sink> {
        metrics.iter().filter_map(|id| self.measured.sinks.get(id.0 as usize)).cloned().collect()
    }

    /// The measurements, in a form that can leave the thread.
    pub(crate) fn finish(self) -> Measured {
        let key = |(scenario, group, name): OwnKey| RequestKey {
            scenario,
            group: self.groups[group.0 as usize].path.to_string(),
            name: name.to_string(),
        };
        // Groups may share a path: `b` in `a:` and `:b` in `a`.
        let mut names: BTreeMap<RequestKey, RequestStats> = BTreeMap::new();
        for (own, stats) in self.names {
            names.entry(key(own)).or_default().merge(&stats);
        }
        Measured {
            names,
            groups: self.groups.into_iter().map(|group| group.measured).collect(),
            breakdown: self.breakdown.map(|breakdown| *breakdown).unwrap_or_default(),
            ..self.measured
        }
    }

    fn name(&mut self, key: OwnKey) -> u32 {
        if let Some(index) = self.name_index.get(&key) {
            return *index;
        }
        if self.names.len() >= MAX_NAMES && &*key.2 != OVERFLOW_NAME {
            // By scenario: there are few.
            return self.name((key.0, GroupId::ROOT, OVERFLOW_NAME.into()));
        }
        let index = self.names.len() as u32;
        self.names.push((key.clone(), RequestStats::default()));
        self.name_index.insert(key, index);
        index
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests;
