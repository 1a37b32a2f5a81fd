//! State of one virtual user, shared by its native functions.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rquickjs::{Ctx, Error, Exception, JsLifetime};
use tokio::task::AbortHandle;

use super::rejections::Rejections;
use super::requests::{OpenRequests, PendingRequests};
use super::sockets::Sockets;
use super::tasks::Tasks;
use super::{Control, ExpectedStatuses, Interrupted, ScriptError};
use crate::event_loop::EventLoop;
use crate::http::Client;
use crate::http::cookies::Jar;
use crate::metrics::{GroupId, SampleTags};
use crate::panics::{Place, within};
use crate::run::{Run, Stop};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IterationOutcome {
    Complete,
    /// It was cut short, and counts for nothing.
    Interrupted,
    /// It threw, and counts as complete, as in k6.
    Threw(String),
}

/// The scenario a virtual user works for at present.
#[derive(Debug, Clone, Default)]
pub(crate) struct Assignment {
    /// Index in the options; one past the last scenario in life-cycle functions.
    pub(crate) index: usize,
    pub(crate) scenario: String,
    pub(crate) executor: &'static str,
    /// Tags of the run and the scenario, on every value.
    pub(crate) tags: Vec<(String, String)>,
    /// Written by outputs beside the tags (`vu.metrics.metadata`).
    pub(crate) metadata: Vec<(String, String)>,
    /// Iterations of the scenario so far, on all event loops.
    pub(crate) iterations: Arc<AtomicU64>,
}

impl Assignment {
    /// Tags of a value outside of all groups.
    pub(crate) fn sample_tags(&self) -> SampleTags<'_> {
        SampleTags {
            scenario: &self.scenario,
            custom: &self.tags,
            metadata: &self.metadata,
            ..SampleTags::default()
        }
    }
}

/// Position of a virtual user in its iterations, as shown by `k6/execution`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Position {
    /// Serial number among all iterations of the virtual user.
    pub(crate) own: u64,
    /// Serial number among all iterations of the scenario.
    pub(crate) in_scenario: u64,
    /// Delay of the start; only in open models.
    pub(crate) start_lag: Option<Duration>,
}

pub(crate) struct User {
    /// From 1; 0 while only the options are read.
    pub(crate) id: u32,
    pub(crate) run: Arc<Run>,
    pub(crate) event_loop: Rc<EventLoop>,
    pub(crate) control: Control,
    pub(crate) client: Client,
    /// Renewed for every iteration, unless the options say otherwise.
    pub(crate) jar: RefCell<Rc<Jar>>,
    /// Statuses expected by requests without a `responseCallback`.
    pub(crate) expected: RefCell<Rc<ExpectedStatuses>>,
    pub(super) tasks: Tasks,
    pub(super) sockets: Sockets,
    pub(crate) pending: PendingRequests,
    pub(crate) group: Cell<GroupId>,
    pub(crate) assignment: RefCell<Rc<Assignment>>,
    pub(crate) position: Cell<Position>,
    initialising: Cell<bool>,
    pub(super) open: RefCell<OpenRequests>,
    refused: RefCell<Vec<ScriptError>>,
    pub(crate) rejections: Rejections,
    /// The script has called `exec.test.abort()`.
    pub(super) has_aborted: Cell<bool>,
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
            pending: PendingRequests::default(),
            group: Cell::new(GroupId::ROOT),
            assignment: RefCell::default(),
            position: Cell::default(),
            initialising: Cell::new(true),
            open: RefCell::default(),
            refused: RefCell::default(),
            rejections: Rejections::default(),
            has_aborted: Cell::default(),
        }
    }

    /// The virtual user whose script runs in `ctx`.
    pub(crate) fn of(ctx: &Ctx<'_>) -> Rc<Self> {
        ctx.userdata::<Handle>().expect("stored before any script code runs").0.clone()
    }

    /// Makes [`Self::of`] work.
    pub(crate) fn attach(self: &Rc<Self>, ctx: &Ctx<'_>) {
        let stored = ctx.store_userdata(Handle(self.clone()));
        assert!(stored.is_ok(), "nothing borrows the user data of a new context");
    }

    /// Runs a part of the virtual user's work on its event loop.
    pub(crate) fn spawn(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) -> AbortHandle {
        tokio::task::spawn_local(within(self.clone(), task)).abort_handle()
    }

    pub(crate) fn is_initialising(&self) -> bool {
        self.initialising.get()
    }

    pub(crate) fn end_initialising(&self) {
        self.initialising.set(false);
    }

    /// Blocks the script until `future` is ready.
    ///
    /// # Errors
    /// A JavaScript exception when the virtual user is interrupted, which the script cannot escape by catching it
    /// (see [`Control`]).
    pub(crate) fn wait<F: Future>(&self, ctx: &Ctx<'_>, future: F) -> Result<F::Output, Error> {
        self.control
            .wait(future)
            .map_err(|Interrupted| Exception::throw_message(ctx, "the iteration was interrupted"))
    }

    /// Refuses a call of the script and ends the run with `error`.
    pub(crate) fn refuse(&self, ctx: &Ctx<'_>, error: ScriptError) -> Error {
        let exception = Exception::throw_message(ctx, &error.to_string());
        if self.is_initialising() {
            self.note_refusal(error);
        } else {
            self.run.fail(error);
        }
        exception
    }

    /// Refuses a part of the init code, which goes on, so that later problems are reported as well.
    pub(crate) fn note_refusal(&self, error: ScriptError) {
        let mut refused = self.refused.borrow_mut();
        if !refused.contains(&error) {
            refused.push(error);
        }
    }

    /// Refuses a feature of k6 that is missing here.
    pub(crate) fn refuse_feature(&self, ctx: &Ctx<'_>, feature: &str) -> Error {
        self.refuse(ctx, ScriptError::Unsupported(format!("`{feature}`")))
    }

    /// The refusals of the init code.
    pub(crate) fn take_refusal(&self) -> Option<ScriptError> {
        ScriptError::of(self.refused.take())
    }

    /// Drops the cookies of the previous iteration. A jar kept by the script stays as it is.
    pub(crate) fn reset_cookies(&self) {
        if !self.run.settings().no_cookies_reset && !self.jar.borrow().is_empty() {
            self.jar.replace(Rc::default());
        }
    }

    /// Ends the run at the script's request: this iteration at once, all others as soon as they poll.
    pub(crate) fn abort_test(&self, message: Option<&str>) {
        self.run.request_stop(Stop::Script(message.map(str::to_owned)));
        self.has_aborted.set(true);
        self.control.interrupt();
    }
}

impl Place for User {
    fn place(&self) -> String {
        match self.assignment.try_borrow() {
            _ if self.is_initialising() => "the init code".to_owned(),
            Ok(assignment) => assignment.place(),
            Err(_) => "a virtual user".to_owned(),
        }
    }
}

impl Place for Assignment {
    fn place(&self) -> String {
        match &*self.scenario {
            "" => "setup(), teardown() or handleSummary()".to_owned(),
            scenario => format!("the scenario `{scenario}`"),
        }
    }
}

#[derive(JsLifetime)]
struct Handle(Rc<User>);
