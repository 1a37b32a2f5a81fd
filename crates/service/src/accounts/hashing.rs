//! Hashing of passwords: on a bounded pool or, as in documented services, on a thread each.

use super::Accounts;
use crate::config::{AccountSettings, HashPoolKind};
use crate::current;
use crate::http::{Problem, Secret};
use crate::ops::record::Part;
use madang_guard::hash::{HashPool, Password, PoolError, PoolOptions, StartError};
use std::num::NonZeroUsize;

/// Threads of the unbounded pool: the maximum of the blocking pools and servlet containers that it models (tokio 512,
/// others 200).
const UNBOUNDED_THREADS: NonZeroUsize = NonZeroUsize::new(512).expect("512 is not 0");

pub(super) fn start(settings: &AccountSettings) -> Result<HashPool, StartError> {
    if settings.hash_pool == HashPoolKind::Unbounded {
        return HashPool::start_unbounded(settings.hash, UNBOUNDED_THREADS);
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
    HashPool::start(options)
}

impl Accounts {
    /// The text of a password's hash.
    pub(super) async fn hash(&self, password: &Secret) -> Result<String, Problem> {
        let _time = current::time(Part::Hash);
        let hash = self.hasher().hash(Password::from(password.expose())).await;
        Ok(hash.map_err(|error| problem(&error))?.as_str().to_owned())
    }
}

/// The response of a failure of the pool.
pub(super) fn problem(error: &PoolError) -> Problem {
    match error {
        PoolError::Busy { retry_after } => Problem::unavailable(
            "too many passwords are being checked; try again later",
            u32::try_from(retry_after.as_millis().div_ceil(1000)).unwrap_or(60),
            "the hash pool is full",
        ),
        PoolError::Closed => Problem::unavailable("the server is stopping", 1, "hash pool"),
        // Not a 500: checking a larger old hash is likelier to find no memory than checking an unknown user, and must
        // not reveal that the account exists.
        other => Problem::unavailable(
            "the password could not be checked; try again later",
            1,
            format!("hashing: {other}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use madang_guard::hash::HashError;
    use std::time::Duration;

    #[test]
    fn no_failure_of_the_pool_is_told_from_a_full_one_by_its_status() {
        let busy = PoolError::Busy { retry_after: Duration::from_secs(1) };
        for error in
            [busy, PoolError::Closed, PoolError::Panicked, PoolError::Hash(HashError::NoEntropy)]
        {
            assert_eq!(problem(&error).status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
        }
    }
}
