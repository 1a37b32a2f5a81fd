//! Threads that hash and verify passwords.

mod answer;
mod bounded;
mod metrics;
mod options;
mod queue;
mod task;
#[cfg(test)]
mod tests;
mod unbounded;
mod worker;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

pub use answer::{CheckOutcome, PasswordCheck, PoolError, Ticket};
pub use metrics::PoolMetrics;
pub use options::{PoolOptions, StartError};

use super::kernel::Memory;
use super::{Password, Scheme, StoredHash};
use bounded::Bounded;
use task::{Job, Task};
use unbounded::Unbounded;

/// What a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Checks a password: somebody wants to log in.
    Check,
    /// Hashes a new one. These find room in half of the queue only, so that a flood of sign-ups does not
    /// shut out those who log in.
    New,
}

/// Where tasks go: each is ended exactly once.
trait Engine: Send + Sync {
    /// Takes a task and gives the number to abandon it by, or ends it at once. `None` when there is nothing
    /// to abandon.
    fn submit(&self, task: Box<dyn Task>, class: Class) -> Option<u64>;

    /// Whether a task of this class would be taken now.
    fn has_room(&self, class: Class) -> bool;

    /// Ends a task whose caller has left, unless it has begun.
    fn abandon(&self, number: u64);

    fn metrics(&self) -> PoolMetrics;

    /// Ends what waits, lets what has begun end, and joins the threads.
    fn close(&self);
}

/// Threads that hash and verify passwords.
///
/// Jobs begin in the order they came. One that the threads are not expected to reach within the longest
/// wait is refused at once; so is one beyond the queue's length. What is admitted and still does not begin in
/// time is answered [`PoolError::Busy`] at its deadline and never hashed. A caller that leaves
/// (drops its [`Ticket`]) takes its job out of the queue; one that has begun is hashed to the end, so
/// that leaving early buys nobody a second job at the same time.
///
/// Memory: `threads` times that of the scheme while there is work, nothing [`PoolOptions::idle`] after.
/// A stored hash with larger parameters than the scheme takes up to 256 MiB for as long as it is checked.
///
/// Dropping the pool ends what waits with [`PoolError::Closed`], lets what has begun end, and joins the
/// threads.
pub struct HashPool {
    scheme: Scheme,
    /// What passwords of unknown users are compared with: a random hash, of no password that anybody knows.
    nobody: Arc<StoredHash>,
    engine: Arc<dyn Engine>,
}

impl HashPool {
    /// Starts a pool that protects the rest of the machine: few threads at low priority, a short queue,
    /// deadlines.
    ///
    /// Nothing is hashed before it is asked for. Until the first job has ended, none is refused for the time
    /// that those before it are expected to take.
    ///
    /// # Errors
    /// When the system refuses a thread or random bytes.
    pub fn start(options: PoolOptions) -> Result<Self, StartError> {
        let keep_bytes = options.scheme.memory_bytes();
        let engine = Arc::new(Bounded::start(&options, Duration::ZERO, keep_bytes)?);
        Self::over(options.scheme, engine)
    }

    /// Starts a pool **without protection**, as documented services have it: a thread of normal priority
    /// for each job, up to `most_threads` at once (512 in tokio's `spawn_blocking`), and an endless queue.
    /// It refuses nothing, knows no deadline, and hashes for callers that have left. To be measured
    /// against, not to be run.
    ///
    /// # Errors
    /// When the system refuses random bytes.
    pub fn start_unbounded(scheme: Scheme, most_threads: NonZeroUsize) -> Result<Self, StartError> {
        Self::over(scheme, Arc::new(Unbounded::new(most_threads)))
    }

    fn over(scheme: Scheme, engine: Arc<dyn Engine>) -> Result<Self, StartError> {
        Ok(Self { scheme, nobody: Arc::new(StoredHash::random(scheme)?), engine })
    }

    /// What new passwords are hashed with.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Hashes a new password with the pool's scheme. It may wait in the first half of the queue only:
    /// the other half is kept for checks.
    ///
    /// The job is admitted or refused before this returns; the ticket only waits for it. Dropping the
    /// ticket abandons the job if it has not begun.
    pub fn hash(&self, password: Password) -> Ticket<StoredHash> {
        let scheme = self.scheme;
        let work = move |memory: &mut Memory| Ok(scheme.hash_in(memory, &password)?);
        submit(&self.engine, Class::New, work, |_| {})
    }

    /// Checks a password against a stored hash, or against nobody's (`None`: there is no such user, or its
    /// stored hash was refused), which is always wrong.
    ///
    /// Nobody's costs one hash of the pool's scheme. A hash stored under an older scheme costs what that
    /// scheme costs: until such users have logged in once and were hashed again, the time of an answer
    /// can tell them from unknown users.
    ///
    /// `settle` is called exactly once, whatever happens, before the ticket is answered, also when nobody
    /// waits for it any more. It runs on the pool's conducting thread, or on the calling one when the job is
    /// refused or abandoned; it must be quick and must not block, for all other answers wait behind it.
    ///
    /// The job is admitted or refused before this returns; the ticket only waits for it. Dropping the
    /// ticket abandons the job if it has not begun; one that has begun is finished and settled.
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

    /// Whether half of the queue is left: what is not known to be wanted (a check of somebody with nothing to
    /// show) had better wait until then, as new passwords have to.
    pub fn has_room(&self) -> bool {
        self.engine.has_room(Class::New)
    }

    /// The figures now.
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
    Ticket::new(result, number.map(|number| (Arc::clone(engine), number)))
}

impl Drop for HashPool {
    fn drop(&mut self) {
        self.engine.close();
    }
}

impl fmt::Debug for HashPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashPool").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}
