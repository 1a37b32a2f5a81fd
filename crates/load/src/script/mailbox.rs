//! Where work is left for a virtual user.

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
    /// When it should have started; only open models have a plan for single iterations.
    pub(crate) intended: Option<Instant>,
}

/// Decides which iterations a virtual user runs.
pub(crate) trait Turns {
    /// Asked before every iteration, on the virtual user's own stack; may wait. `None` ends the work.
    fn next(&self) -> Option<Turn>;
}

/// Iterations of one scenario.
pub(crate) struct Activation {
    pub(crate) assignment: Rc<Assignment>,
    /// The exported function.
    pub(crate) exec: String,
    /// Added to `__ENV`.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) turns: Box<dyn Turns>,
    /// Notified when the last iteration is over.
    pub(crate) done: oneshot::Sender<()>,
    /// Held while there is work, also when it ends in a panic.
    pub(crate) busy: Option<OwnedMutexGuard<()>>,
}

/// A function of the life-cycle (`setup`, `teardown`, `handleSummary`), called once.
pub(crate) struct Call {
    pub(crate) function: &'static str,
    /// Its argument as JSON; `undefined` when absent.
    pub(crate) argument: Option<Arc<str>>,
    /// What is measured meanwhile belongs to a group of this name.
    pub(crate) group: Option<&'static str>,
    pub(crate) assignment: Rc<Assignment>,
    pub(crate) reply: oneshot::Sender<Result<Returned, CallError>>,
}

/// Contents by where they are to be written: a path, `stdout` or `stderr`.
pub(crate) type Outputs = Vec<(String, Vec<u8>)>;

/// What a life-cycle function gave back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Returned {
    /// As JSON; absent for `undefined` and what JSON has no words for. Of `handleSummary()` it is the argument, which the
    /// function may have changed.
    pub(crate) json: Option<String>,
    /// What `handleSummary()` wants to be written, by where; `None` when it leaves that to the engine.
    pub(crate) outputs: Option<Outputs>,
}

/// Why it gave nothing back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallError {
    Threw(String),
    /// It was cut short.
    Interrupted,
}

/// What a virtual user can be asked for.
pub(crate) enum Task {
    /// Make ready what the first iteration would otherwise have to wait for.
    Prepare(oneshot::Sender<()>),
    Iterate(Activation),
    Call(Call),
}

/// A mailbox as its virtual user has it. When that ends, even by a panic, what it leaves undone is
/// dropped, so that no one waits for it.
pub(crate) struct Served(pub(crate) Rc<Mailbox>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.close();
        let left = std::mem::take(&mut self.0.state.borrow_mut().tasks);
        drop(left);
    }
}

/// Work for one virtual user, in order.
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
    /// Gives iterations to a virtual user.
    pub(crate) fn send(&self, work: Activation) {
        self.put(Task::Iterate(work));
    }

    /// Drops the task when the mailbox is closed.
    pub(crate) fn put(&self, task: Task) {
        self.update(|state| {
            if !state.closed {
                state.tasks.push_back(task);
            }
        });
    }

    /// Ends the virtual user once it has nothing left to do.
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

    /// The next task; waits for it, on the virtual user's own stack.
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
