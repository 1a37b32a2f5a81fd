//! How a pool is built.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::hash::{HashError, Scheme};

/// How a [`HashPool`](super::HashPool) is built.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// What new passwords are hashed with, and what the check of an unknown user costs.
    pub scheme: Scheme,
    /// Threads that hash. Each keeps the memory of one hash while it has work.
    pub threads: NonZeroUsize,
    /// Most jobs that wait.
    pub queue: usize,
    /// Longest wait of a job before it begins. A job not expected to begin by then is refused at once;
    /// one admitted that has not begun by then is answered [`Busy`](super::PoolError::Busy) and never
    /// hashed.
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
    /// The system refused random bytes for the hash that passwords of unknown users are compared with.
    #[error("no random hash: {0}")]
    Random(#[from] HashError),
}
