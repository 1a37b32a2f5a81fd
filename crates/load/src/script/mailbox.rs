//! The queue of work for a virtual user.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::Instant;

use super::coroutine;
use super::user::Assignment;

/// One iteration that may start now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) start: Instant,
    /// Planned start; `None` in closed models, which plan no single iterations.
    pub(crate) intended: Option<Instant>,
}

/// Schedules the iterations of a virtual user.
pub(crate) trait Turns {
    /// Called before every iteration, on the virtual user's own stack; may wait. `None` ends the work.
    fn next(&self) -> Option<Turn>;
}

/// Iterations of one scenario.
pub(crate) struct Activation {
    pub(crate) assignment: Rc<Assignment>,
    /// Name of the exported function.
    pub(crate) exec: String,
    /// Added to `__ENV`.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) turns: Box<dyn Turns>,
    /// Notified after the last iteration.
    pub(crate) done: oneshot::Sender<()>,
    /// Held until the work ends, even by a panic.
    pub(crate) busy: Option<OwnedMutexGuard<()>>,
}

/// One call of a life-cycle function (`setup`, `teardown`, `handleSummary`).
pub(crate) struct Call {
    pub(crate) function: &'static str,
    /// Argument as JSON; `None` is `undefined`.
    pub(crate) argument: Option<Arc<str>>,
    /// Group of the values measured during the call.
    pub(crate) group: Option<&'static str>,
    pub(crate) assignment: Rc<Assignment>,
    pub(crate) reply: oneshot::Sender<Result<Returned, CallError>>,
}

/// Contents by target: a path, `stdout` or `stderr`.
pub(crate) type Outputs = Vec<(String, Vec<u8>)>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Returned {
    /// As JSON; `None` for `undefined` and values without JSON. For `handleSummary()` the argument, which the
    /// function may have changed.
    pub(crate) json: Option<String>,
    /// Outputs of `handleSummary()`; `None` leaves the summary to the engine.
    pub(crate) outputs: Option<Outputs>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallError {
    Threw(String),
    Interrupted,
}

pub(crate) enum Task {
    /// Prepare the data of `setup()`, which the first iteration would otherwise wait for.
    Prepare(oneshot::Sender<()>),
    Iterate(Activation),
    Call(Call),
}

/// The mailbox as its virtual user holds it. Dropping it, even in a panic, drops the tasks that are left, so that
/// nothing waits for them.
pub(crate) struct Served(pub(crate) Rc<Mailbox>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.close();
        let left = std::mem::take(&mut self.0.state.borrow_mut().tasks);
        drop(left);
    }
}

#[derive(Default)]
pub(crate) struct Mailbox {
    state: RefCell<MailboxState>,
}

#[derive(Default)]
struct MailboxState {
    tasks: VecDeque<Task>,
    closed: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    pub(crate) fn send(&self, work: Activation) {
        self.put(Task::Iterate(work));
    }

    /// Queues a task; drops it if the mailbox is closed.
    pub(crate) fn put(&self, task: Task) {
        self.update(|state| {
            if !state.closed {
                state.tasks.push_back(task);
            }
        });
    }

    /// Ends the virtual user after the tasks queued so far.
    pub(crate) fn close(&self) {
        self.update(|state| state.closed = true);
    }

    fn update(&self, change: impl FnOnce(&mut MailboxState)) {
        let mut state = self.state.borrow_mut();
        change(&mut state);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Waits for the next task, on the virtual user's own stack.
    pub(super) fn receive(&self) -> Option<Task> {
        coroutine::block_on(std::future::poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if let Some(task) = state.tasks.pop_front() {
                return Poll::Ready(Some(task));
            }
            if state.closed {
                return Poll::Ready(None);
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        }))
    }
}
