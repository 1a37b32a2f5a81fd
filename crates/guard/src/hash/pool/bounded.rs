//! The pool that protects the rest: few threads at low priority, a short queue, deadlines.
//!
//! One more thread, the *conductor*, at normal priority, owns the workers: it gives out what waits, ends what
//! expires, settles and answers what is done. The workers themselves only hash. They touch no lock that
//! anybody else could want, neither the queue's nor a lock inside a caller's `settle`: a thread of nice
//! 19 on a busy machine may be off its core for a long time, and a lock it held would stop an event loop
//! for as long.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::queue::Queue;
use super::task::Task;
use super::worker::Worker;
use super::{Class, Engine, PoolError, PoolMetrics, PoolOptions};

/// The pool's engine: see the module.
pub(super) struct Bounded {
    queue: Arc<Mutex<Queue>>,
    wake: Thread,
    conductor: Mutex<Option<JoinHandle<()>>>,
    memory: Vec<Arc<AtomicUsize>>,
}

impl Bounded {
    /// Starts the threads. `hash_time` is what a job is expected to take until some have been seen;
    /// `keep_bytes` how much memory a worker keeps between jobs.
    pub(super) fn start(
        options: &PoolOptions,
        hash_time: Duration,
        keep_bytes: usize,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Mutex::new(Queue::new(options, hash_time)));
        // The conductor waits for its workers, which need its handle to wake it. When a worker cannot be
        // started, the sender goes and the conductor with it.
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
        // It waits for exactly this and cannot have gone.
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

    fn has_room(&self, class: Class) -> bool {
        self.queue.lock().has_room(class)
    }

    fn abandon(&self, number: u64) {
        let abandoned = self.queue.lock().abandon(number);
        if let Some(mut task) = abandoned {
            // Nobody hears the answer, but `settle` is told.
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
    /// Only threads of normal priority lock it, and none for longer than a few look-ups.
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
            if step.has_told {
                // Who is told may wait for something itself, and with that take the wake-up that was meant for here.
                continue;
            }
            // Whoever wakes it between the step and here makes this return at once.
            match step.next_deadline {
                Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }

    /// Takes back what is done, gives out what waits, ends what expired. Workers get their next job
    /// before any answer is given: settling and answering cost no hashing time.
    fn step(&mut self) -> Step {
        let done: Vec<_> = self.workers.iter_mut().filter_map(Worker::collect).collect();
        let mut begin = Vec::new();
        let mut unheard = Vec::new();
        let step = {
            let mut queue = self.queue.lock();
            for (task, took) in &done {
                queue.metrics.ended(*took, task.has_failed());
            }
            if queue.closed {
                unheard.extend(queue.clear().into_iter().map(|task| (task, PoolError::Closed)));
            }
            let now = Instant::now();
            unheard.extend(std::iter::from_fn(|| queue.expire(now)));
            let idle = self.workers.iter().filter(|worker| !worker.is_busy()).count();
            begin.extend(std::iter::from_fn(|| queue.begin()).take(idle));
            let has_told = !done.is_empty() || !unheard.is_empty();
            Step { next_deadline: queue.next_deadline(), closed: queue.closed, has_told }
        };
        let idle = self.workers.iter_mut().filter(|worker| !worker.is_busy());
        for (worker, task) in idle.zip(begin) {
            worker.give(task);
        }
        for (mut task, _) in done {
            // It has a result of its own.
            task.end(PoolError::Panicked);
        }
        for (mut task, reason) in unheard {
            task.end(reason);
        }
        step
    }
}

/// What the conductor must know to sleep.
struct Step {
    next_deadline: Option<Instant>,
    closed: bool,
    /// Somebody was told how a task ended.
    has_told: bool,
}
