//! A job of a pool: computed on one thread, settled and answered on another.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::PoolError;
use crate::hash::kernel::Memory;

/// A job with any type of result. [`end`](Task::end) settles and answers; dropping the task calls it if nothing else
/// did.
pub(super) trait Task: Send {
    /// Computes and stores the result. A panic becomes an error.
    fn compute(&mut self, memory: &mut Memory);

    /// Returns true after a computation that failed.
    fn has_failed(&self) -> bool;

    /// Settles, then answers, with the computed result or else with `unless_computed`; once.
    fn end(&mut self, unless_computed: PoolError);
}

type JobResult<T> = Result<T, PoolError>;
type Work<T> = Box<dyn FnOnce(&mut Memory) -> JobResult<T> + Send>;
type Settle<T> = Box<dyn FnOnce(&JobResult<T>) + Send>;

pub(super) struct Job<T: Send> {
    work: Option<Work<T>>,
    result: Option<JobResult<T>>,
    settle: Option<Settle<T>>,
    answer: Option<oneshot::Sender<JobResult<T>>>,
}

impl<T: Send> Job<T> {
    /// A job that runs `work`, then passes its result to `settle`, then to the receiver.
    pub(super) fn new(
        work: impl FnOnce(&mut Memory) -> JobResult<T> + Send + 'static,
        settle: impl FnOnce(&JobResult<T>) + Send + 'static,
    ) -> (Self, oneshot::Receiver<JobResult<T>>) {
        let (answer, result) = oneshot::channel();
        let (work, settle): (Work<T>, Settle<T>) = (Box::new(work), Box::new(settle));
        let answer = Some(answer);
        (Self { work: Some(work), result: None, settle: Some(settle), answer }, result)
    }
}

impl<T: Send> Task for Job<T> {
    fn compute(&mut self, memory: &mut Memory) {
        if let Some(work) = self.work.take() {
            let result = catch_unwind(AssertUnwindSafe(|| work(memory)));
            self.result = Some(result.unwrap_or(Err(PoolError::Panicked)));
        }
    }

    fn has_failed(&self) -> bool {
        matches!(self.result, Some(Err(_)))
    }

    fn end(&mut self, unless_computed: PoolError) {
        let Some(settle) = self.settle.take() else { return };
        // The password is erased before the result is sent.
        self.work = None;
        let result = self.result.take().unwrap_or(Err(unless_computed));
        // A panic in a caller's closure must not end a thread of the pool.
        let _ = catch_unwind(AssertUnwindSafe(|| settle(&result)));
        if let Some(answer) = self.answer.take() {
            // Fails if the caller has left.
            let _ = answer.send(result);
        }
    }
}

impl<T: Send> Drop for Job<T> {
    fn drop(&mut self) {
        self.end(PoolError::Closed);
    }
}
