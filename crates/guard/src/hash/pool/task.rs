//! A job on its way through a pool: computed on one thread, settled and answered on another.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::PoolError;
use crate::hash::kernel::Memory;

/// A job, whatever its result. [`end`](Task::end) settles and answers; a task dropped without it does so
/// then, so that neither can be forgotten.
pub(super) trait Task: Send {
    /// Computes the result and keeps it. A panic becomes a result.
    fn compute(&mut self, memory: &mut Memory);

    /// Whether it was computed without a result.
    fn has_failed(&self) -> bool;

    /// Settles, then answers, with what was computed or else with `unless_computed`.
    fn end(self: Box<Self>, unless_computed: PoolError);
}

/// A job of one kind.
pub(super) struct Job<T, W, S>
where
    S: FnOnce(&Result<T, PoolError>),
{
    work: Option<W>,
    result: Option<Result<T, PoolError>>,
    settle: Option<S>,
    answer: Option<oneshot::Sender<Result<T, PoolError>>>,
}

impl<T, W, S> Job<T, W, S>
where
    S: FnOnce(&Result<T, PoolError>),
{
    /// A job that does `work`, then tells its result to `settle`, then to the receiver.
    pub(super) fn new(work: W, settle: S) -> (Self, oneshot::Receiver<Result<T, PoolError>>) {
        let (answer, result) = oneshot::channel();
        let job =
            Self { work: Some(work), result: None, settle: Some(settle), answer: Some(answer) };
        (job, result)
    }

    fn finish(&mut self, unless_computed: PoolError) {
        // The password goes before anybody is told.
        self.work = None;
        let result = self.result.take().unwrap_or(Err(unless_computed));
        if let Some(settle) = self.settle.take() {
            // What a caller's closure does wrong must not end a thread of the pool.
            let _ = catch_unwind(AssertUnwindSafe(|| settle(&result)));
        }
        if let Some(answer) = self.answer.take() {
            // The caller may have left; nobody wants the result then.
            let _ = answer.send(result);
        }
    }
}

impl<T, W, S> Task for Job<T, W, S>
where
    T: Send,
    W: FnOnce(&mut Memory) -> Result<T, PoolError> + Send,
    S: FnOnce(&Result<T, PoolError>) + Send,
{
    fn compute(&mut self, memory: &mut Memory) {
        if let Some(work) = self.work.take() {
            let result = catch_unwind(AssertUnwindSafe(|| work(memory)));
            self.result = Some(result.unwrap_or(Err(PoolError::Panicked)));
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self.result, Some(Err(_)))
    }

    fn end(mut self: Box<Self>, unless_computed: PoolError) {
        self.finish(unless_computed);
    }
}

impl<T, W, S> Drop for Job<T, W, S>
where
    S: FnOnce(&Result<T, PoolError>),
{
    fn drop(&mut self) {
        if self.settle.is_some() {
            self.finish(PoolError::Closed);
        }
    }
}
