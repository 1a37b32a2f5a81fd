//! The requests of a virtual user: those in flight, and those of the current iteration whose checks can still change
//! how they count.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::ExpectedStatuses;
use super::user::User;
use crate::http::{ErrorCode, Exchange};
use crate::metrics::{GroupId, RequestMark, RequestSample, RequestTags, SampleTags};

/// Requests of one iteration that checks can still change. An iteration with more settles its oldest ones early.
const MAX_OPEN_REQUESTS: usize = 4096;

/// A request of the current iteration, as kept by its response for `check()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestRef {
    iteration: u64,
    index: usize,
}

/// Tags and judgement of a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestTagging<'a> {
    /// The `name` tag; the address if `None`.
    pub(crate) name: Option<&'a Rc<str>>,
    pub(crate) tags: Option<&'a [(String, String)]>,
    pub(crate) expected: &'a ExpectedStatuses,
    /// Group in which the script made the request.
    pub(crate) group: GroupId,
}

/// Requests of the current iteration, each with whether it still counts as good.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    /// Serial number of the iteration, so that a response kept from an earlier one is ignored.
    iteration: u64,
    settled: usize,
    marks: Vec<(RequestMark, bool)>,
    /// A request of the iteration failed, or one of its checks.
    any_bad: bool,
}

/// Requests in flight, and when each began.
///
/// Kept here and not by the calls that wait for them: an asynchronous one is dropped some time after its iteration,
/// when its scenario may be over.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    next: Cell<u64>,
    /// Few at a time: one, except for batches and asynchronous requests.
    since: RefCell<Vec<(u64, Instant)>>,
}

impl PendingRequests {
    /// Registers a request; returns the number to [`end`](Self::end) it with.
    pub(crate) fn begin(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        self.since.borrow_mut().push((number, Instant::now()));
        number
    }

    /// Removes a request that ended at `end`; returns how long it took.
    pub(crate) fn end(&self, number: u64, end: Instant) -> Option<Duration> {
        let mut since = self.since.borrow_mut();
        let at = since.iter().position(|(known, _)| *known == number)?;
        let (_, begun) = since.swap_remove(at);
        Some(end.saturating_duration_since(begun))
    }

    /// Removes all requests; returns how long each has waited.
    pub(crate) fn give_up(&self) -> Vec<Duration> {
        let now = Instant::now();
        self.since.take().into_iter().map(|(_, begun)| now - begun).collect()
    }
}

impl User {
    /// The tag `name` that all requests have at present.
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
            Ok(answer) => (answer.head.status, None, ErrorCode::of_status(answer.head.status)),
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

    /// Records the duration of a request.
    pub(crate) fn end_request(&self, number: u64, exchange: &Exchange) {
        let took = self.pending.end(number, exchange.end);
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

    /// Marks a request as bad after a failed check; the latest one if the checked value was no response.
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

    pub(crate) fn had_bad_request(&self) -> bool {
        self.open.borrow().any_bad
    }

    /// Ends an iteration: from here on nothing changes how its requests count.
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

    /// Counts an interrupted iteration and its unanswered requests, which would otherwise hide a server that stops
    /// answering.
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
}
