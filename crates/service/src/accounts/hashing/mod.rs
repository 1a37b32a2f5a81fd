//! Where passwords are hashed: on a bounded pool, or, as documented, on a thread for each.

mod unbounded;

use crate::config::{AccountSettings, HashPoolKind};
use crate::http::Problem;
use madang_guard::hash::{
    HashPool, Outcome, Password, PoolError, PoolMetrics, PoolOptions, Scheme, StartError,
    StoredHash, Verdict,
};
use std::num::NonZeroUsize;
use unbounded::Unbounded;

/// Hashes and verifies passwords.
#[derive(Debug)]
pub enum Hasher {
    /// On few threads of low priority.
    Bounded(HashPool),
    /// On a thread for each.
    Unbounded(Unbounded),
}

/// Why there is no hash and no verdict.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(transparent)]
pub struct HashFailure(#[from] pub PoolError);

impl Hasher {
    /// Starts what the settings ask for.
    ///
    /// # Errors
    /// When the system refuses threads, random bytes or memory.
    pub fn start(settings: &AccountSettings) -> Result<Self, StartError> {
        if settings.hash_pool == HashPoolKind::Unbounded {
            return Unbounded::start(settings.hash).map(Hasher::Unbounded);
        }
        let mut options = PoolOptions {
            scheme: settings.hash,
            queue: settings.hash_queue,
            max_wait: settings.hash_wait,
            ..PoolOptions::default()
        };
        if let Some(threads) = settings.hash_threads.and_then(NonZeroUsize::new) {
            options.threads = threads;
        }
        HashPool::start(options).map(Hasher::Bounded)
    }

    /// What new passwords are hashed with.
    pub fn scheme(&self) -> Scheme {
        match self {
            Hasher::Bounded(pool) => pool.scheme(),
            Hasher::Unbounded(threads) => threads.scheme(),
        }
    }

    /// Hashes a new password.
    ///
    /// # Errors
    /// When too much waits, or hashing failed.
    pub async fn hash(&self, password: Password) -> Result<StoredHash, HashFailure> {
        Ok(match self {
            Hasher::Bounded(pool) => pool.hash(password).await?,
            Hasher::Unbounded(threads) => threads.hash(password).await?,
        })
    }

    /// Checks a password against a stored hash, or against nobody's, which costs the same. `settle` is
    /// told the outcome exactly once, whether or not anybody still waits for the verdict.
    ///
    /// # Errors
    /// When too much waits, or hashing failed.
    pub async fn verify(
        &self,
        password: Password,
        stored: Option<StoredHash>,
        settle: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<Verdict, HashFailure> {
        Ok(match self {
            Hasher::Bounded(pool) => pool.verify(password, stored, settle).await?,
            Hasher::Unbounded(threads) => threads.verify(password, stored, settle).await?,
        })
    }

    /// The figures now.
    pub fn metrics(&self) -> PoolMetrics {
        match self {
            Hasher::Bounded(pool) => pool.metrics(),
            Hasher::Unbounded(threads) => threads.metrics(),
        }
    }
}

impl From<HashFailure> for Problem {
    fn from(HashFailure(error): HashFailure) -> Self {
        match error {
            PoolError::Busy { retry_after } => Problem::unavailable(
                "too many passwords are being checked right now",
                u32::try_from(retry_after.as_millis().div_ceil(1000)).unwrap_or(60),
                "the hash pool is full",
            ),
            PoolError::Closed => Problem::unavailable("the service is stopping", 1, "hash pool"),
            other => Problem::internal(format!("hashing: {other}")),
        }
    }
}
