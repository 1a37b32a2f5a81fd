//! Threads that hash and verify passwords.

mod bounded;
mod metrics;
mod queue;
mod task;
#[cfg(test)]
mod tests;
mod ticket;
mod unbounded;
mod worker;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

pub use metrics::PoolMetrics;
pub use ticket::{CheckOutcome, PasswordCheck, PoolError, Ticket};

use super::kernel::Memory;
use super::{HashError, Password, Scheme, StoredHash};
use bounded::Bounded;
use task::{Job, Task};
use unbounded::Unbounded;

/// Purpose of a task.
#[derive(Clone, Copy)]
enum Class {
    /// Checks a password at a log-in.
    Check,
    /// Hashes a new password. Restricted to half of the queue, so that a flood of sign-ups does not block log-ins.
    New,
}

/// Runs tasks; each is ended exactly once.
trait Engine: Send + Sync {
    /// Takes a task and returns the number to abandon it by, or ends it at once. `None`: it cannot be abandoned.
    fn submit(&self, task: Box<dyn Task>, class: Class) -> Option<u64>;

    /// Returns true while a task of [`Class::New`] would be taken.
    fn has_room(&self) -> bool;

    /// Ends a task whose caller has left, unless it has begun.
    fn abandon(&self, number: u64);

    fn metrics(&self) -> PoolMetrics;

    /// Ends waiting tasks, finishes those that have begun, and joins the threads.
    fn close(&self);
}

/// Options of a [`HashPool`].
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Scheme of new passwords, and cost of checking an unknown user.
    pub scheme: Scheme,
    /// Threads that hash. Each keeps the memory of one hash while it has work.
    pub threads: NonZeroUsize,
    /// Jobs that wait at most.
    pub queue: usize,
    /// Longest wait of a job. A job not expected to begin by then is refused at once; an admitted one that has not
    /// begun by then gets [`PoolError::Busy`] and is never hashed.
    pub max_wait: Duration,
    /// Time for which a thread without work keeps its memory.
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

/// Error of starting a pool.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The operating system refused a thread.
    #[error("cannot start a hashing thread: {0}")]
    Thread(#[from] std::io::Error),
    /// The operating system gave no random bytes for the hash of unknown users.
    #[error("no random hash: {0}")]
    Random(#[from] HashError),
}

/// Threads that hash and verify passwords.
///
/// Jobs begin in order of arrival. A job that the threads are not expected to reach within the longest wait is
/// refused at once, as is one beyond the queue's length. An admitted job that does not begin in time gets
/// [`PoolError::Busy`] at its deadline and is never hashed. A caller that drops its [`Ticket`] removes its job from
/// the queue; a job that has begun is hashed to the end, so leaving early does not get a client a second job at the
/// same time.
///
/// Memory: `threads` times that of the scheme while there is work, none [`PoolOptions::idle`] after.
/// A stored hash with larger parameters than the scheme takes up to 256 MiB while it is checked.
///
/// Dropping the pool ends waiting jobs with [`PoolError::Closed`], finishes those that have begun, and joins the
/// threads.
pub struct HashPool {
    scheme: Scheme,
    /// Random hash of no known password, with which passwords of unknown users are compared.
    nobody: Arc<StoredHash>,
    engine: Arc<dyn Engine>,
}

impl HashPool {
    /// Starts a pool that protects the rest of the machine: few threads at low priority, a short queue, deadlines.
    ///
    /// Until the first job has ended, no job is refused for its expected wait.
    ///
    /// # Errors
    /// The operating system refuses a thread or random bytes.
    pub fn start(options: PoolOptions) -> Result<Self, StartError> {
        let keep_bytes = options.scheme.memory_bytes();
        let engine = Arc::new(Bounded::start(&options, Duration::ZERO, keep_bytes)?);
        Self::over(options.scheme, engine)
    }

    /// Starts a pool **without protection**, as in documented services: a thread of normal priority for each job, up
    /// to `most_threads` at once (512 in tokio's `spawn_blocking`), and an unbounded queue. It refuses nothing, has
    /// no deadlines, and hashes for callers that have left. A reference for measurements, not for production.
    ///
    /// # Errors
    /// The operating system refuses random bytes.
    pub fn start_unbounded(scheme: Scheme, most_threads: NonZeroUsize) -> Result<Self, StartError> {
        Self::over(scheme, Arc::new(Unbounded::new(most_threads)))
    }

    fn over(scheme: Scheme, engine: Arc<dyn Engine>) -> Result<Self, StartError> {
        Ok(Self { scheme, nobody: Arc::new(StoredHash::random(scheme)?), engine })
    }

    /// Scheme of new passwords.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Hashes a new password with the pool's scheme. It waits in the first half of the queue only: the other half is
    /// reserved for checks.
    ///
    /// The job is admitted or refused before this returns. Dropping the ticket abandons the job if it has not begun.
    pub fn hash(&self, password: Password) -> Ticket<StoredHash> {
        let scheme = self.scheme;
        let work = move |memory: &mut Memory| Ok(scheme.hash_in(memory, &password)?);
        submit(&self.engine, Class::New, work, |_| {})
    }

    /// Checks a password against a stored hash. With `None` (an unknown user, or a refused stored hash) the result is
    /// [`PasswordCheck::Wrong`], at the cost of one hash of the pool's scheme.
    ///
    /// A hash stored under an older scheme costs what that scheme costs: until its user has logged in once and was
    /// hashed again, the response time can distinguish this user from unknown ones.
    ///
    /// `settle` is called exactly once, before the ticket resolves, also when the ticket was dropped. It runs on the
    /// conductor's thread, or on the calling one when the job is refused or abandoned; it must be quick and must not
    /// block, because all other tickets wait for it.
    ///
    /// The job is admitted or refused before this returns. Dropping the ticket abandons the job if it has not begun;
    /// one that has begun is finished and settled.
    pub fn verify(
        &self,
        password: Password,
        stored: Option<StoredHash>,
        settle: impl FnOnce(CheckOutcome) + Send + 'static,
    ) -> Ticket<PasswordCheck> {
        let nobody = Arc::clone(&self.nobody);
        let scheme = self.scheme;
        submit(
            &self.engine,
            Class::Check,
            move |memory| {
                let same = stored.as_ref().unwrap_or(&nobody).verify_in(memory, &password)?;
                Ok(match &stored {
                    Some(stored) if same => {
                        let needs_upgrade =
                            stored.needs_upgrade(&scheme) && stored.determines(&password);
                        PasswordCheck::Right { needs_upgrade }
                    }
                    _ => PasswordCheck::Wrong,
                })
            },
            move |result| settle(result.into()),
        )
    }

    /// Returns true while half of the queue is free: the part for new passwords, and for checks of clients without a
    /// proof or device token.
    pub fn has_room(&self) -> bool {
        self.engine.has_room()
    }

    /// Current metrics.
    pub fn metrics(&self) -> PoolMetrics {
        self.engine.metrics()
    }
}

fn submit<T: Send + 'static>(
    engine: &Arc<dyn Engine>,
    class: Class,
    work: impl FnOnce(&mut Memory) -> Result<T, PoolError> + Send + 'static,
    settle: impl FnOnce(&Result<T, PoolError>) + Send + 'static,
) -> Ticket<T> {
    let (job, result) = Job::new(work, settle);
    let number = engine.submit(Box::new(job), class);
    Ticket { result, waiting: number.map(|number| (Arc::clone(engine), number)) }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        self.engine.close();
    }
}
