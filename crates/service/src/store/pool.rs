//! A fixed number of threads, each with its own state (a connection, or nothing), behind one bounded queue. Blocking or
//! CPU-heavy work runs here, never on an event loop.

use crate::ops::memory::{self, Tidy};
use crate::ops::thread::Joined;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Threads that run jobs. Dropping it finishes the queued jobs and joins the threads.
pub struct Pool<S> {
    // Dropped before the threads, which ends them.
    queue: Sender<Job<S>>,
    _threads: Vec<Joined>,
    jobs: Arc<AtomicU64>,
}

/// Error of a job without a result.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PoolError {
    /// The queue is full.
    #[error("the queue is full")]
    Full,
    /// The pool is closing.
    #[error("the pool is closing")]
    Closed,
    /// The job panicked with this message.
    #[error("the job panicked: {0}")]
    Panicked(String),
}

impl<S: Send + 'static> Pool<S> {
    /// Starts one thread for each state; at most `queue` jobs wait.
    pub(crate) fn start(name: &str, states: Vec<S>, queue: usize) -> std::io::Result<Pool<S>> {
        let (queue, receive) = bounded::<Job<S>>(queue);
        // A complete pool from the first thread on: if one does not start, the sender is dropped before the threads.
        let mut pool = Pool { queue, _threads: Vec::new(), jobs: Arc::default() };
        for (i, state) in states.into_iter().enumerate() {
            let (receive, jobs) = (receive.clone(), Arc::clone(&pool.jobs));
            let work = move || work(state, &receive, &jobs);
            pool._threads.push(Joined::spawn(format!("{name}-{i}"), work)?);
        }
        Ok(pool)
    }

    /// Runs a job on a free thread. Skips it if its caller is gone before it starts.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let run = self.ask(move |state, answer| {
            let outcome = catch_unwind(AssertUnwindSafe(|| job(state)));
            // The caller may be gone meanwhile.
            let _ = answer.send(outcome.map_err(|panic| PoolError::Panicked(panic_text(&*panic))));
        });
        run.await?
    }

    /// [`run`](Self::run) for a job that sends its result itself, and does not panic.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S, oneshot::Sender<T>) + Send + 'static,
    ) -> Result<T, PoolError> {
        let (answer, result) = oneshot::channel();
        self.hand_over(move |state| {
            if !answer.is_closed() {
                job(state, answer);
            }
        })?;
        result.await.map_err(|_| PoolError::Closed)
    }

    /// [`run`](Self::run) without a result. The job must not panic. With an error, it does not run.
    pub(crate) fn hand_over(
        &self,
        job: impl FnOnce(&mut S) + Send + 'static,
    ) -> Result<(), PoolError> {
        self.queue.try_send(Box::new(job)).map_err(|refused| match refused {
            TrySendError::Full(_) => PoolError::Full,
            TrySendError::Disconnected(_) => PoolError::Closed,
        })
    }

    /// Jobs waiting now.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Jobs run so far.
    pub(crate) fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Relaxed)
    }
}

fn work<S>(mut state: S, queue: &Receiver<Job<S>>, jobs: &AtomicU64) {
    let mut tidy = Tidy::default();
    loop {
        let job = if tidy.is_due() {
            match queue.recv_timeout(memory::EVERY) {
                Err(RecvTimeoutError::Timeout) => {
                    tidy.look();
                    continue;
                }
                job => job.ok(),
            }
        } else {
            queue.recv().ok()
        };
        let Some(job) = job else { return };
        jobs.fetch_add(1, Ordering::Relaxed);
        job(&mut state);
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

crate::opaque_debug!(Pool<S>, S);

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    #[tokio::test]
    async fn a_full_queue_refuses_and_a_panic_ends_one_job_only() {
        let pool = Arc::new(Pool::start("t", vec![()], 1).unwrap());
        let (release, gate) = std::sync::mpsc::channel::<()>();
        let (started, running) = oneshot::channel();
        let busy = {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move {
                pool.run(move |()| {
                    started.send(()).unwrap();
                    gate.recv().unwrap();
                })
                .await
            })
        };
        running.await.unwrap();
        let mut queued = Box::pin(pool.run(|()| panic!("boom")));
        assert!(
            std::future::poll_fn(|cx| Poll::Ready(queued.as_mut().poll(cx).is_pending())).await,
            "it waits"
        );
        assert_eq!(pool.run(|()| ()).await, Err(PoolError::Full));
        release.send(()).unwrap();
        busy.await.unwrap().unwrap();
        assert_eq!(queued.await, Err(PoolError::Panicked("boom".to_owned())));
        assert_eq!(pool.run(|()| 7).await, Ok(7));
    }
}
