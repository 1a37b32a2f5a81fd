//! The engine of documented services: a thread for each job, at normal priority, with memory of its
//! own, and an unbounded queue behind the last. **Unsafe**: a client that sends logins faster than the
//! machine hashes takes its cores and up to 512 times the memory of a hash. It is a reference for measurements.
//!
//! Equivalent to hashing in tokio's `spawn_blocking` (512 threads by default), or in the worker threads of
//! a servlet container. As there, a job whose caller has left is still hashed.

use parking_lot::{Condvar, Mutex};
use std::collections::{HashSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::task::Task;
use super::{Class, Engine, PoolError, PoolMetrics};
use crate::hash::kernel::Memory;

pub(super) struct Unbounded {
    shared: Arc<Shared>,
}

struct Shared {
    most_threads: usize,
    state: Mutex<PoolState>,
    thread_ended: Condvar,
}

#[derive(Default)]
struct PoolState {
    waiting: VecDeque<Box<dyn Task>>,
    threads: HashSet<ThreadId>,
    metrics: PoolMetrics,
    closed: bool,
}

impl Unbounded {
    pub(super) fn new(most_threads: NonZeroUsize) -> Self {
        Self {
            shared: Arc::new(Shared {
                most_threads: most_threads.get(),
                state: Mutex::default(),
                thread_ended: Condvar::new(),
            }),
        }
    }
}

impl Engine for Unbounded {
    fn submit(&self, mut task: Box<dyn Task>, _class: Class) -> Option<u64> {
        let mut state = self.shared.state.lock();
        if state.closed {
            state.metrics.closed += 1;
            drop(state);
            task.end(PoolError::Closed);
            return None;
        }
        state.waiting.push_back(task);
        let queued = state.waiting.len();
        state.metrics.queued(queued);
        if state.threads.len() < self.shared.most_threads {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("hash".to_owned());
            if let Ok(thread) = thread.spawn(move || shared.work()) {
                state.threads.insert(thread.thread().id());
            } else if state.threads.is_empty() {
                // No thread would ever take it. With a thread alive it waits for that one.
                state.metrics.refused += 1;
                let task = state.waiting.pop_back();
                drop(state);
                if let Some(mut task) = task {
                    task.end(PoolError::Busy { retry_after: Duration::from_secs(1) });
                }
            }
        }
        None
    }

    fn has_room(&self) -> bool {
        true
    }

    fn abandon(&self, _: u64) {}

    fn metrics(&self) -> PoolMetrics {
        let state = self.shared.state.lock();
        PoolMetrics { queued: state.waiting.len(), ..state.metrics }
    }

    fn close(&self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        state.metrics.closed += waiting.len() as u64;
        drop(state);
        for mut task in waiting {
            task.end(PoolError::Closed);
        }
        // A `settle` that drops the pool runs on one of these threads.
        let mut state = self.shared.state.lock();
        let own = usize::from(state.threads.contains(&thread::current().id()));
        while state.threads.len() > own {
            self.shared.thread_ended.wait(&mut state);
        }
    }
}

impl Shared {
    /// Runs jobs until none waits.
    fn work(&self) {
        let mut state = self.state.lock();
        while let Some(mut task) = state.waiting.pop_front() {
            state.metrics.begun();
            drop(state);
            let begun = Instant::now();
            task.compute(&mut Memory::default());
            state = self.state.lock();
            state.metrics.ended(begun.elapsed(), task.has_failed());
            drop(state);
            task.end(PoolError::Panicked);
            state = self.state.lock();
        }
        state.threads.remove(&thread::current().id());
        self.thread_ended.notify_all();
    }
}
