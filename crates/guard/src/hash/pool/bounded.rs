//! The engine that protects the rest of the machine: few threads at low priority, a short queue, deadlines.
//!
//! One more thread, the *conductor*, at normal priority, owns the workers: it hands out waiting jobs, ends expired
//! ones, and settles and answers finished ones. The workers only hash. They take no lock that another thread could
//! wait for, neither the queue's nor one inside a caller's `settle`: a thread of nice 19 on a busy machine may be off
//! its core for a long time, and a lock that it held would stop an event loop for as long.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::queue::Queue;
use super::task::Task;
use super::worker::Worker;
use super::{Class, Engine, PoolError, PoolMetrics, PoolOptions};

pub(super) struct Bounded {
    queue: Arc<Mutex<Queue>>,
    wake: Thread,
    conductor: Mutex<Option<JoinHandle<()>>>,
    memory: Vec<Arc<AtomicUsize>>,
}

impl Bounded {
    /// Starts the threads. `hash_time` is the expected time of a job until the first has ended; `keep_bytes` is the
    /// memory that a worker keeps between jobs.
    pub(super) fn start(
        options: &PoolOptions,
        hash_time: Duration,
        keep_bytes: usize,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Mutex::new(Queue::new(options, hash_time)));
        // The conductor waits for its workers, which need its handle to wake it. If a worker cannot be
        // started, the sender is dropped and the conductor ends.
        let (send, receive) = mpsc::channel();
        let conductor = {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name("hash".to_owned()).spawn(move || {
                if let Ok(workers) = receive.recv() {
                    Conductor { queue, workers }.run();
                }
            })?
        };
        let wake = conductor.thread().clone();
        let workers = (0..options.threads.get())
            .map(|i| Worker::start(format!("hash-{i}"), wake.clone(), options.idle, keep_bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let memory = workers.iter().map(Worker::memory).collect();
        // The conductor is waiting for this and cannot have ended.
        let _ = send.send(workers);
        Ok(Self { queue, wake, conductor: Mutex::new(Some(conductor)), memory })
    }
}

impl Engine for Bounded {
    fn submit(&self, task: Box<dyn Task>, class: Class) -> Option<u64> {
        let admitted = self.queue.lock().admit(task, class, Instant::now());
        match admitted {
            Ok(number) => {
                self.wake.unpark();
                Some(number)
            }
            Err((mut task, reason)) => {
                task.end(reason);
                None
            }
        }
    }

    fn has_room(&self) -> bool {
        self.queue.lock().has_room(Class::New)
    }

    fn abandon(&self, number: u64) {
        let abandoned = self.queue.lock().abandon(number);
        if let Some(mut task) = abandoned {
            // For `settle`: nobody waits for the result.
            task.end(PoolError::Closed);
        }
    }

    fn metrics(&self) -> PoolMetrics {
        let memory_bytes = self.memory.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum();
        let queue = self.queue.lock();
        PoolMetrics { queued: queue.len(), memory_bytes, ..queue.metrics }
    }

    fn close(&self) {
        self.queue.lock().closed = true;
        self.wake.unpark();
        let conductor = self.conductor.lock().take();
        // A `settle` may drop the pool; the conductor, which runs it, cannot join itself and ends after it.
        if let Some(conductor) = conductor
            && conductor.thread().id() != thread::current().id()
        {
            let _ = conductor.join();
        }
    }
}

/// The thread between the queue and the workers.
struct Conductor {
    /// Locked only by threads of normal priority, for a few look-ups at most.
    queue: Arc<Mutex<Queue>>,
    workers: Vec<Worker>,
}

impl Conductor {
    fn run(mut self) {
        loop {
            let step = self.step();
            if step.closed && !self.workers.iter().any(Worker::is_busy) {
                return;
            }
            if step.has_settled {
                // A `settle` that parks takes the wake-up meant for this thread.
                continue;
            }
            // A wake-up between the step and here makes this return at once.
            match step.next_deadline {
                Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }

    /// Collects finished jobs, hands out waiting ones, and ends expired ones. Workers get their next job
    /// before any result is sent: settling and answering cost no hashing time.
    fn step(&mut self) -> Step {
        let done: Vec<_> = self.workers.iter_mut().filter_map(Worker::collect).collect();
        let mut begin = Vec::new();
        let mut not_run = Vec::new();
        let step = {
            let mut queue = self.queue.lock();
            for (task, took) in &done {
                queue.metrics.ended(*took, task.has_failed());
            }
            if queue.closed {
                not_run.extend(queue.clear().into_iter().map(|task| (task, PoolError::Closed)));
            }
            let now = Instant::now();
            not_run.extend(std::iter::from_fn(|| queue.expire(now)));
            let idle = self.workers.iter().filter(|worker| !worker.is_busy()).count();
            begin.extend(std::iter::from_fn(|| queue.begin()).take(idle));
            let has_settled = !done.is_empty() || !not_run.is_empty();
            Step { next_deadline: queue.next_deadline(), closed: queue.closed, has_settled }
        };
        let idle = self.workers.iter_mut().filter(|worker| !worker.is_busy());
        for (worker, task) in idle.zip(begin) {
            worker.give(task);
        }
        for (mut task, _) in done {
            // The task has a result of its own.
            task.end(PoolError::Panicked);
        }
        for (mut task, reason) in not_run {
            task.end(reason);
        }
        step
    }
}

/// State after a step, which decides how long the conductor sleeps.
struct Step {
    next_deadline: Option<Instant>,
    closed: bool,
    /// A task was settled.
    has_settled: bool,
}
