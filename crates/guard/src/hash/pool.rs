//! Threads that hash.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{HashError, Password, Scheme, StoredHash, kernel::Memory};

/// How a [`HashPool`] is built.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// What new passwords are hashed with, and what the check of an unknown user costs.
    pub scheme: Scheme,
    /// Threads that hash.
    pub threads: NonZeroUsize,
    /// Most jobs that wait.
    pub queue: usize,
    /// Longest wait of a job before it begins. A job that is not expected to begin by then is refused at
    /// once; one that has not begun by then is never hashed.
    pub max_wait: Duration,
    /// How long a thread without work keeps its memory.
    pub idle: Duration,
}

impl Default for PoolOptions {
    /// The default scheme on all cores but one (at least one thread), 256 jobs waiting at most 2 s,
    /// memory kept for 10 s.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            scheme: Scheme::default(),
            threads: NonZeroUsize::new(cores - 1).unwrap_or(NonZeroUsize::MIN),
            queue: 256,
            max_wait: Duration::from_secs(2),
            idle: Duration::from_secs(10),
        }
    }
}

/// Why a pool did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system refused a thread.
    #[error("cannot start a hashing thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The first hash, the one that checks of unknown users are compared with, failed.
    #[error("cannot hash: {0}")]
    Hash(#[from] HashError),
}

/// Why a job gave no verdict or hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Nothing was hashed, because too much waits. Worth trying again after a while.
    #[error("too many passwords wait to be hashed; try again in {retry_after:?}")]
    Busy {
        /// When the present backlog should be gone; at least one second.
        retry_after: Duration,
    },
    /// The job began, but the hash could not be computed.
    #[error("the hash could not be computed: {0}")]
    Hash(#[from] HashError),
    /// The job began, but panicked.
    #[error("the hashing job panicked")]
    Panicked,
    /// The pool is closing.
    #[error("the hash pool is closing")]
    Closed,
}

/// The answer to a password check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the password.
    Right {
        /// Whether it should be hashed again with the pool's scheme and stored
        /// ([`StoredHash::needs_upgrade`]).
        needs_upgrade: bool,
    },
    /// It is not, or there is no such user.
    Wrong,
}

/// How a password check ended, told once to its `settle` closure, whether or not anybody still waits for
/// the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The password was compared and is right.
    Right,
    /// The password was compared and is wrong, or there is no such user.
    Wrong,
    /// Nothing was compared and nothing will be: refused, expired, abandoned before it began, or the pool
    /// closed. A reservation can be given back: nobody learned anything.
    NotRun,
    /// It began and gave no verdict (no memory, a panic). A reservation is best kept.
    Failed,
}

/// Figures of a pool since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// Jobs being hashed now.
    pub running: usize,
    /// Jobs waiting now.
    pub queued: usize,
    /// Jobs hashed to the end.
    pub done: u64,
    /// Jobs refused at once.
    pub refused: u64,
    /// Jobs admitted that did not begin in time.
    pub expired: u64,
    /// Jobs whose caller left before they began.
    pub abandoned: u64,
    /// Jobs that began and gave no result.
    pub failed: u64,
    /// Time spent hashing, summed over the threads.
    pub hashing: Duration,
    /// Most jobs that ever waited.
    pub queued_max: usize,
    /// Most jobs that were ever being hashed at once.
    pub running_max: usize,
    /// Memory kept for argon2id now, in bytes.
    pub memory_bytes: usize,
}

/// Threads that hash and verify passwords.
pub struct HashPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    options: PoolOptions,
    nobody: StoredHash,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    metrics: PoolMetrics,
    closed: bool,
}

struct Job {
    deadline: Instant,
    run: Box<dyn FnOnce(Option<&mut Memory>) + Send>,
}

impl HashPool {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system refuses a thread, random bytes or memory.
    pub fn start(options: PoolOptions) -> Result<Self, StartError> {
        let nobody =
            options.scheme.hash(&Password::new(super::kernel::random::<32>()?.to_vec()))?;
        let threads = options.threads.get();
        let shared =
            Arc::new(Shared { options, nobody, state: Mutex::default(), work: Condvar::new() });
        let mut pool = Self { shared, threads: Vec::new() };
        for i in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = std::thread::Builder::new().name(format!("hash-{i}"));
            pool.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(pool)
    }

    /// What new passwords are hashed with.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.shared.options.scheme
    }

    /// Hashes a new password with the pool's scheme.
    ///
    /// The job is admitted or refused before this returns; the ticket only waits for it. Dropping the
    /// ticket abandons the job if it has not begun.
    pub fn hash(&self, password: Password) -> Ticket<StoredHash> {
        let scheme = self.scheme();
        self.submit(
            move |memory| scheme.hash_in(memory, &password).map_err(PoolError::from),
            |_| {},
        )
    }

    /// Checks a password against a stored hash, or against nobody's (`None`: there is no such user, or its
    /// stored hash was refused), which costs one hash of the pool's scheme and is always wrong.
    ///
    /// `settle` is called exactly once, whatever happens, before the ticket is answered. It runs on a
    /// thread of the pool (or on the calling one, when refused or abandoned) and must not block.
    ///
    /// The job is admitted or refused before this returns; the ticket only waits for it. Dropping the
    /// ticket abandons the job if it has not begun; one that has begun is finished and settled.
    pub fn verify(
        &self,
        password: Password,
        stored: Option<StoredHash>,
        settle: impl FnOnce(Outcome) + Send + 'static,
    ) -> Ticket<Verdict> {
        let shared = Arc::clone(&self.shared);
        self.submit(
            move |memory| shared.check(memory, &password, stored.as_ref()),
            move |result: &Result<Verdict, PoolError>| {
                settle(match result {
                    Ok(Verdict::Right { .. }) => Outcome::Right,
                    Ok(Verdict::Wrong) => Outcome::Wrong,
                    Err(PoolError::Hash(_) | PoolError::Panicked) => Outcome::Failed,
                    Err(_) => Outcome::NotRun,
                });
            },
        )
    }

    /// The figures now.
    #[must_use]
    pub fn metrics(&self) -> PoolMetrics {
        let state = self.shared.state();
        PoolMetrics { queued: state.queue.len(), ..state.metrics }
    }

    fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Memory) -> Result<T, PoolError> + Send + 'static,
        settle: impl FnOnce(&Result<T, PoolError>) + Send + 'static,
    ) -> Ticket<T> {
        let (answer, result) = oneshot::channel();
        let run = Box::new(move |memory: Option<&mut Memory>| {
            let result = match memory {
                Some(memory) if !answer.is_closed() => {
                    catch_unwind(AssertUnwindSafe(|| work(memory)))
                        .unwrap_or(Err(PoolError::Panicked))
                }
                _ => Err(PoolError::Busy { retry_after: Duration::from_secs(1) }),
            };
            let _ = catch_unwind(AssertUnwindSafe(|| settle(&result)));
            let _ = answer.send(result);
        });
        let job = Job { deadline: Instant::now() + self.shared.options.max_wait, run };
        let mut state = self.shared.state();
        if state.queue.len() < self.shared.options.queue {
            state.queue.push_back(job);
            self.shared.work.notify_one();
        } else {
            state.metrics.refused += 1;
            drop(state);
            (job.run)(None);
        }
        Ticket { result }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(
        &self,
        memory: &mut Memory,
        password: &Password,
        stored: Option<&StoredHash>,
    ) -> Result<Verdict, PoolError> {
        let same = stored.unwrap_or(&self.nobody).verify_in(memory, password)?;
        Ok(match stored {
            Some(stored) if same => {
                Verdict::Right { needs_upgrade: stored.needs_upgrade(&self.options.scheme) }
            }
            _ => Verdict::Wrong,
        })
    }

    fn work(&self) {
        let mut memory = Memory::default();
        loop {
            let mut state = self.state();
            let job = loop {
                if let Some(job) = state.queue.pop_front() {
                    break job;
                }
                if state.closed {
                    return;
                }
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            let in_time = !state.closed && Instant::now() < job.deadline;
            state.metrics.running += 1;
            drop(state);
            let begun = Instant::now();
            (job.run)(in_time.then_some(&mut memory));
            let mut state = self.state();
            state.metrics.running -= 1;
            state.metrics.done += 1;
            state.metrics.hashing += begun.elapsed();
        }
    }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for HashPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashPool").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// A job given to a pool; a future of its result.
#[must_use = "dropping the ticket abandons the job"]
pub struct Ticket<T> {
    result: oneshot::Receiver<Result<T, PoolError>>,
}

impl<T> Future for Ticket<T> {
    type Output = Result<T, PoolError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(cx).map(|result| result.unwrap_or(Err(PoolError::Closed)))
    }
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}
