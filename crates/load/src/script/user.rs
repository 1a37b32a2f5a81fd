//! The state of one virtual user that its native functions share.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rquickjs::{Ctx, Error, Exception, JsLifetime};

use super::rejections::Rejections;
use super::sockets::Sockets;
use super::tasks::Tasks;
use super::under_way::UnderWay;
use super::{Control, ExpectedStatuses, Interrupted, ScriptError};
use crate::event_loop::EventLoop;
use crate::http::cookies::Jar;
use crate::http::{Client, Exchange};
use crate::metrics::{
    Builtin, GroupId, MetricId, Recorder, RequestMark, RequestSample, RequestTags, SampleTags,
};
use crate::run::{Run, Stop};

/// Requests of one iteration whose checks can still change what they count as. An iteration with
/// more settles its oldest ones early.
const MAX_OPEN_REQUESTS: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IterationOutcome {
    /// It returned.
    Complete,
    /// It was cut short; it counts for nothing.
    Interrupted,
    /// It threw; it counts as complete, as in k6.
    Threw(String),
}

/// The scenario a virtual user works for at the moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Assignment {
    /// Its place in the options; one past the last of them in the functions of the life-cycle.
    pub(crate) index: usize,
    pub(crate) scenario: String,
    pub(crate) executor: &'static str,
    /// Tags of the run and the scenario, on every value.
    pub(crate) tags: Vec<(String, String)>,
    /// What outputs have beside the tags (`vu.metrics.metadata`).
    pub(crate) metadata: Vec<(String, String)>,
    /// Iterations of the scenario so far, on all event loops.
    pub(crate) iterations: Arc<AtomicU64>,
}

impl Assignment {
    /// The tags of a value outside of all groups.
    pub(crate) fn sample_tags(&self) -> SampleTags<'_> {
        SampleTags {
            scenario: &self.scenario,
            custom: &self.tags,
            metadata: &self.metadata,
            ..SampleTags::default()
        }
    }
}

/// Where a virtual user is in its iterations, as `k6/execution` shows it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    /// Serial number of the iteration among all of the virtual user.
    pub(crate) own: u64,
    /// Serial number among all of the scenario.
    pub(crate) in_scenario: u64,
    /// How late the iteration started, in open models.
    pub(crate) start_lag: Option<Duration>,
}

/// A request of the current iteration, as `check()` finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestRef {
    iteration: u64,
    index: usize,
}

/// How a request is to be counted.
#[derive(Clone, Copy)]
pub(crate) struct RequestTagging<'a> {
    /// Its `name` tag; the address unless the script says otherwise.
    pub(crate) name: Option<&'a Rc<str>>,
    pub(crate) tags: Option<&'a [(String, String)]>,
    pub(crate) expected: &'a ExpectedStatuses,
    /// Where the script was when it made the request.
    pub(crate) group: GroupId,
}

/// Requests of the current iteration and whether they still count as good.
#[derive(Debug, Default)]
struct OpenRequests {
    /// Serial number of the iteration, so that a response kept from an earlier one is ignored.
    iteration: u64,
    settled: usize,
    marks: Vec<(RequestMark, bool)>,
    /// One of the iteration failed, or a check of it did.
    any_bad: bool,
}

pub(crate) struct User {
    /// 1-based; 0 while only the options are read.
    pub(crate) id: u32,
    pub(crate) run: Arc<Run>,
    pub(crate) event_loop: Rc<EventLoop>,
    pub(crate) control: Control,
    pub(crate) client: Client,
    /// A new one for every iteration, unless the options say otherwise.
    pub(crate) jar: RefCell<Rc<Jar>>,
    /// Which statuses the script expects of requests that do not say so themselves.
    pub(crate) expected: RefCell<Rc<ExpectedStatuses>>,
    pub(super) tasks: Tasks,
    pub(super) sockets: Sockets,
    pub(crate) under_way: UnderWay,
    pub(crate) group: Cell<GroupId>,
    pub(crate) assignment: RefCell<Rc<Assignment>>,
    pub(crate) position: Cell<Position>,
    initialising: Cell<bool>,
    open: RefCell<OpenRequests>,
    refused: RefCell<Vec<ScriptError>>,
    pub(crate) rejections: Rejections,
}

impl User {
    pub(crate) fn new(id: u32, event_loop: Rc<EventLoop>) -> Self {
        let client = Client::new(event_loop.network.clone());
        Self {
            id,
            run: event_loop.run.clone(),
            control: Control::new(event_loop.run.abort.clone()),
            event_loop,
            client,
            jar: RefCell::default(),
            expected: RefCell::default(),
            tasks: Tasks::default(),
            sockets: Sockets::default(),
            under_way: UnderWay::default(),
            group: Cell::new(GroupId::ROOT),
            assignment: RefCell::default(),
            position: Cell::default(),
            initialising: Cell::new(true),
            open: RefCell::default(),
            refused: RefCell::default(),
            rejections: Rejections::default(),
        }
    }

    /// The virtual user whose script is running in `ctx`.
    pub(crate) fn of(ctx: &Ctx<'_>) -> Rc<Self> {
        ctx.userdata::<Handle>().expect("stored before any script code runs").0.clone()
    }

    /// Makes [`Self::of`] work.
    pub(crate) fn attach(self: &Rc<Self>, ctx: &Ctx<'_>) {
        let stored = ctx.store_userdata(Handle(self.clone()));
        assert!(stored.is_ok(), "nothing borrows the user data of a new context");
    }

    /// Whether the init code is running.
    pub(crate) fn is_initialising(&self) -> bool {
        self.initialising.get()
    }

    pub(crate) fn end_initialising(&self) {
        self.initialising.set(false);
    }

    /// Blocks the script until `future` is ready.
    ///
    /// # Errors
    /// A JavaScript exception when the virtual user is interrupted; catching it does not help the
    /// script (see [`Control`]).
    pub(crate) fn wait<F: Future>(&self, ctx: &Ctx<'_>, future: F) -> Result<F::Output, Error> {
        self.control
            .wait(future)
            .map_err(|Interrupted| Exception::throw_message(ctx, "the iteration was interrupted"))
    }

    /// Refuses what the script asks for and ends the run: `error` says why, by name.
    pub(crate) fn refuse(&self, ctx: &Ctx<'_>, error: ScriptError) -> Error {
        let exception = Exception::throw_message(ctx, &error.to_string());
        if self.is_initialising() {
            self.note_refusal(error);
        } else {
            self.run.fail(error);
        }
        exception
    }

    /// Refuses something in the init code, which goes on, so that later problems are reported as well.
    pub(crate) fn note_refusal(&self, error: ScriptError) {
        let mut refused = self.refused.borrow_mut();
        if !refused.contains(&error) {
            refused.push(error);
        }
    }

    /// As [`Self::refuse`] for a feature of k6 that is missing here.
    pub(crate) fn refuse_feature(&self, ctx: &Ctx<'_>, feature: &str) -> Error {
        self.refuse(ctx, ScriptError::Unsupported(format!("`{feature}`")))
    }

    /// Why the init code was refused, if it was.
    pub(crate) fn take_refusal(&self) -> Option<ScriptError> {
        ScriptError::of(self.refused.take())
    }

    /// The tags of a value inside of a group.
    fn sample_tags<'t>(&self, assignment: &'t Assignment, group: &'t str) -> SampleTags<'t> {
        let vu = (self.id, self.position.get().own);
        let enabled = self.run.settings().system_tags;
        SampleTags { group, vu, enabled, ..assignment.sample_tags() }
    }

    /// Measures something with the tags of this moment and `tags`.
    fn measure<R>(
        &self,
        group: GroupId,
        tags: Option<&[(String, String)]>,
        record: impl FnOnce(&mut Recorder, &Assignment, SampleTags<'_>) -> R,
    ) -> R {
        let assignment = self.assignment.borrow().clone();
        let merged = merge_tags(&assignment.tags, tags);
        let custom = merged.as_deref().unwrap_or(&assignment.tags);
        let mut recorder = self.event_loop.recorder.borrow_mut();
        let group = recorder.group_path(group);
        let tags = SampleTags { custom, ..self.sample_tags(&assignment, &group) };
        record(&mut recorder, &assignment, tags)
    }

    /// Adds a value to a metric, with the tags of this moment and `tags`.
    pub(crate) fn add(&self, metric: MetricId, value: f64, tags: Option<&[(String, String)]>) {
        self.measure(self.group.get(), tags, |recorder, _, tags| {
            recorder.add(metric, value, &tags);
        });
    }

    /// Tells the outputs that an iteration or a function of the life-cycle is over.
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

    /// Forgets the cookies of the iteration before. A jar the script has kept stays as it is.
    pub(crate) fn reset_cookies(&self) {
        if !self.run.settings().http.no_cookies_reset && !self.jar.borrow().is_empty() {
            self.jar.replace(Rc::default());
        }
    }

    /// The tag `name` that all requests of this moment have.
    pub(crate) fn assigned_name(&self) -> Option<Rc<str>> {
        let assignment = self.assignment.borrow();
        let mut tags = assignment.tags.iter().rev();
        tags.find(|(tag, _)| tag == "name").map(|(_, name)| name.as_str().into())
    }

    pub(crate) fn add_request(
        &self,
        exchange: &Exchange,
        tagging: &RequestTagging<'_>,
    ) -> RequestRef {
        let RequestTagging { name, tags, expected, group } = *tagging;
        let assigned = self.assigned_name();
        let address = exchange.url.masked();
        let name = name.or(assigned.as_ref()).unwrap_or(&address);
        let (status, error, code) = match &exchange.outcome {
            Ok(answer) => {
                (answer.head.status, None, crate::http::ErrorCode::of_status(answer.head.status))
            }
            Err(error) => (0, Some(error.to_string()), Some(error.code())),
        };
        let judged = expected.judge(status);
        let expected = judged.unwrap_or(status != 0);
        let tls = exchange.peer.filter(|_| exchange.outcome.is_ok()).and_then(|peer| peer.tls);
        let request = RequestTags {
            name,
            url: name,
            method: &exchange.method,
            proto: exchange.outcome.as_ref().map_or("", |answer| answer.head.version.name()),
            status,
            error_code: code.map_or(0, |code| code.0),
            error: error.as_deref().unwrap_or_default(),
            expected_response: judged,
            tls_version: tls.map_or("", |tls| tls.version),
            ocsp_status: tls.map_or("", |tls| tls.ocsp.status),
            ip: exchange.peer.map(|peer| peer.address.ip()),
        };
        let mark = self.measure(group, tags, |recorder, assignment, tags| {
            recorder.request(&RequestSample {
                exchange,
                status,
                tags: SampleTags { request: Some(request), ..tags },
                name,
                scenario: assignment.index,
                group,
                start_lag: self.position.get().start_lag,
                expected,
                judged: judged.is_some(),
            })
        });
        self.open_request(mark, expected)
    }

    /// Notes how long an answer took.
    pub(crate) fn end_request(&self, number: u64, exchange: &Exchange) {
        let took = self.under_way.end(number, exchange.end);
        let took = took.filter(|_| exchange.outcome.is_ok());
        if let (Some(took), Some(waits)) = (took, self.event_loop.recorder.borrow_mut().waits()) {
            waits.add_answer(took);
        }
    }

    fn open_request(&self, mark: RequestMark, good: bool) -> RequestRef {
        let open = &mut *self.open.borrow_mut();
        open.marks.push((mark, good));
        open.any_bad |= !good;
        let reference =
            RequestRef { iteration: open.iteration, index: open.settled + open.marks.len() - 1 };
        if open.marks.len() > MAX_OPEN_REQUESTS {
            open.settled += MAX_OPEN_REQUESTS / 2;
            let early: Vec<_> = open.marks.drain(..MAX_OPEN_REQUESTS / 2).collect();
            self.settle(&early);
        }
        reference
    }

    /// A check failed: the request it was about (the last one when the checked value was no
    /// response) is not good.
    pub(crate) fn spoil(&self, request: Option<RequestRef>) {
        let open = &mut *self.open.borrow_mut();
        let mark = match request {
            None => open.marks.last_mut(),
            Some(request) if request.iteration == open.iteration => {
                request.index.checked_sub(open.settled).and_then(|index| open.marks.get_mut(index))
            }
            Some(_) => None,
        };
        if let Some((_, good)) = mark {
            *good = false;
            open.any_bad = true;
        }
    }

    /// Whether a request of the current iteration has failed so far, or one of its checks.
    pub(crate) fn had_bad_request(&self) -> bool {
        self.open.borrow().any_bad
    }

    /// Ends an iteration: what its requests count as is now known.
    pub(crate) fn settle_iteration(&self) {
        let open = &mut *self.open.borrow_mut();
        self.settle(&open.marks);
        open.marks.clear();
        open.settled = 0;
        open.any_bad = false;
        open.iteration += 1;
        self.group.set(GroupId::ROOT);
    }

    fn settle(&self, marks: &[(RequestMark, bool)]) {
        let mut recorder = self.event_loop.recorder.borrow_mut();
        for (mark, _) in marks.iter().filter(|(_, good)| *good) {
            recorder.settle(*mark);
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

    /// Counts an iteration that has ended by itself.
    pub(crate) fn add_iteration(&self, duration: Duration) {
        self.add(Builtin::IterationDuration.id(), duration.as_secs_f64() * 1e3, None);
        self.add(Builtin::Iterations.id(), 1.0, None);
        let index = self.assignment.borrow().index;
        if let Some(stats) = self.event_loop.recorder.borrow_mut().scenario(index) {
            stats.completed(duration, self.position.get().start_lag);
        }
    }

    /// Counts an iteration that was cut short, and its requests that waited for their answers: a server
    /// that stops answering has no response times that would tell.
    pub(crate) fn add_interrupted(&self, waiting: Vec<Duration>) {
        let index = self.assignment.borrow().index;
        let mut recorder = self.event_loop.recorder.borrow_mut();
        if let Some(stats) = recorder.scenario(index) {
            stats.interrupted += 1;
        }
        if let Some(waits) = recorder.waits() {
            waiting.into_iter().for_each(|waited| waits.add_cut_off(waited));
        }
    }

    /// A tag that what is measured now has; those of single values are not among them.
    pub(crate) fn tag(&self, key: &str) -> Option<String> {
        let group = self.group.get();
        self.measure(group, None, |_, _, tags| tags.get(key).map(std::borrow::Cow::into_owned))
    }

    pub(crate) fn tag_keys(&self) -> Vec<String> {
        let assignment = self.assignment.borrow();
        let own = assignment.tags.iter().map(|(key, _)| key.as_str());
        let scenario = (!assignment.scenario.is_empty()).then_some("scenario");
        let mut keys: Vec<String> =
            own.chain(scenario).chain(["group"]).map(str::to_owned).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Sets or removes a tag, or metadata, of everything that is measured from now on.
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

    /// What outputs have beside the tags of everything that is measured now.
    pub(crate) fn metadata(&self, key: &str) -> Option<String> {
        let assignment = self.assignment.borrow();
        assignment.metadata.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    pub(crate) fn metadata_keys(&self) -> Vec<String> {
        self.assignment.borrow().metadata.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Ends the run because the script says so: this iteration at once, all others as soon as
    /// they look.
    pub(crate) fn abort_test(&self, message: Option<&str>) {
        self.run.request_stop(Stop::Script(message.map(str::to_owned)));
        self.control.interrupt();
    }
}

/// The tags of a call on top of those of the scenario; `None` when the call has none.
fn merge_tags(
    base: &[(String, String)],
    call: Option<&[(String, String)]>,
) -> Option<Vec<(String, String)>> {
    let call = call.filter(|call| !call.is_empty())?;
    Some([base, call].concat())
}

#[derive(JsLifetime)]
struct Handle(Rc<User>);
