//! A thread that hashes, at low priority.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::task::Task;
use crate::hash::kernel::Memory;

/// The place where the conductor and one worker exchange a task. A flag holds the turn, so the lock is never
/// contended: a thread of low priority that loses its core while it holds a lock would delay all that wait for it.
#[derive(Default)]
struct Slot {
    workers_turn: AtomicBool,
    over: AtomicBool,
    task: Mutex<Option<Box<dyn Task>>>,
    took_nanos: AtomicU64,
    memory_bytes: Arc<AtomicUsize>,
}

impl Slot {
    fn pass(&self, task: Box<dyn Task>, to_worker: bool) {
        *self.task.lock() = Some(task);
        self.workers_turn.store(to_worker, Ordering::Release);
    }

    fn take(&self) -> Option<Box<dyn Task>> {
        self.task.lock().take()
    }
}

/// The conductor's end of a worker.
pub(super) struct Worker {
    slot: Arc<Slot>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
}

impl Worker {
    /// Starts the thread. It wakes `conductor` after each task.
    pub(super) fn start(
        name: String,
        conductor: Thread,
        idle: Duration,
        keep_bytes: usize,
    ) -> std::io::Result<Self> {
        let slot = Arc::<Slot>::default();
        let memory = Memory::default();
        let hasher = Hasher { slot: Arc::clone(&slot), conductor, idle, keep_bytes, memory };
        let thread = thread::Builder::new().name(name).spawn(move || hasher.run())?;
        Ok(Self { slot, thread: Some(thread), busy: false })
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Gives it a task. It must not be busy.
    pub(super) fn give(&mut self, task: Box<dyn Task>) {
        debug_assert!(!self.busy, "one task at a time");
        self.busy = true;
        self.slot.pass(task, true);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Takes back a finished task and the time that it took.
    pub(super) fn collect(&mut self) -> Option<(Box<dyn Task>, Duration)> {
        if !self.busy || self.slot.workers_turn.load(Ordering::Acquire) {
            return None;
        }
        self.busy = false;
        let took = Duration::from_nanos(self.slot.took_nanos.load(Ordering::Relaxed));
        self.slot.take().map(|task| (task, took))
    }

    /// Bytes of memory that it keeps.
    pub(super) fn memory(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.slot.memory_bytes)
    }
}

impl Drop for Worker {
    /// Ends and joins the thread, after its task if it has one.
    fn drop(&mut self) {
        self.slot.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread cannot have panicked: tasks catch their own panics.
            let _ = thread.join();
        }
    }
}

struct Hasher {
    slot: Arc<Slot>,
    conductor: Thread,
    idle: Duration,
    keep_bytes: usize,
    memory: Memory,
}

impl Hasher {
    fn run(mut self) {
        lower_priority();
        let mut last_task = Instant::now();
        while !self.slot.over.load(Ordering::Acquire) {
            if self.slot.workers_turn.load(Ordering::Acquire) {
                self.hash();
                last_task = Instant::now();
            } else {
                self.rest(last_task);
            }
        }
    }

    fn hash(&mut self) {
        let Some(mut task) = self.slot.take() else { return };
        let begun = Instant::now();
        task.compute(&mut self.memory);
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.slot.took_nanos.store(nanos, Ordering::Relaxed);
        if self.memory.bytes() > self.keep_bytes {
            // An older hash took more memory than the present scheme.
            self.memory.release();
        }
        self.slot.memory_bytes.store(self.memory.bytes(), Ordering::Relaxed);
        self.slot.pass(task, false);
        self.conductor.unpark();
    }

    /// Sleeps until the next task; frees the memory when none arrives within `idle`.
    fn rest(&mut self, last_task: Instant) {
        if self.memory.bytes() == 0 {
            thread::park();
            return;
        }
        let left = self.idle.saturating_sub(last_task.elapsed());
        if left.is_zero() {
            self.memory.release();
            self.slot.memory_bytes.store(0, Ordering::Relaxed);
        } else {
            thread::park_timeout(left);
        }
    }
}

/// Gives the calling thread the lowest priority that still gets a share of a busy core (nice 19, a weight
/// of 15 against 1,024). The idle policy (SCHED_IDLE, weight 3) would starve logins on a busy machine.
///
/// Linux has a nice value per thread (setpriority(2), "C library/kernel differences"); elsewhere this
/// would lower the whole process, so it does nothing.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        const LOWEST: i32 = 19;
        // Raising the nice value needs no privilege; where a sandbox forbids it, hashing still works.
        let _ = rustix::process::setpriority_process(None, LOWEST);
    }
}
