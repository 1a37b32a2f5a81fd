//! Results of a pool.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Engine;
use crate::hash::HashError;

/// The result of a password check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordCheck {
    /// The password is right.
    Right {
        /// The password should be hashed again with the pool's scheme and stored
        /// ([`StoredHash::needs_upgrade`](crate::hash::StoredHash::needs_upgrade)).
        needs_upgrade: bool,
    },
    /// The password is wrong, or there is no such user.
    Wrong,
}

/// Outcome of a password check, passed to its `settle` closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The password was compared and is right.
    Right,
    /// The password was compared and is wrong, or there is no such user.
    Wrong,
    /// Nothing was compared: refused, expired, abandoned before it began, or the pool closed. Cancel a reservation:
    /// the guess was not evaluated.
    NotRun,
    /// It began and gave no result (no memory, a panic). Keep a reservation.
    Failed,
}

impl From<&Result<PasswordCheck, PoolError>> for CheckOutcome {
    fn from(result: &Result<PasswordCheck, PoolError>) -> Self {
        match result {
            Ok(PasswordCheck::Right { .. }) => Self::Right,
            Ok(PasswordCheck::Wrong) => Self::Wrong,
            Err(PoolError::Busy { .. } | PoolError::Closed) => Self::NotRun,
            Err(PoolError::Hash(_) | PoolError::Panicked) => Self::Failed,
        }
    }
}

/// Error of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Nothing was hashed, because too many jobs wait.
    #[error("too many passwords wait to be hashed; try again in {retry_after:?}")]
    Busy {
        /// Once to twice the expected time of the backlog, at random so that refused clients do not retry
        /// together; at least one second.
        retry_after: Duration,
    },
    /// The job began, but the hash could not be computed.
    #[error("the hash could not be computed: {0}")]
    Hash(#[from] HashError),
    /// The job began, but panicked.
    #[error("the hashing job panicked")]
    Panicked,
    /// The pool is closing; nothing was hashed.
    #[error("the hash pool is closing")]
    Closed,
}

/// A job of a pool: a future of its result. Works on any runtime.
#[must_use = "dropping the ticket abandons the job"]
pub struct Ticket<T> {
    pub(super) result: oneshot::Receiver<Result<T, PoolError>>,
    /// Engine and number of the job; `None` once it has a result.
    pub(super) waiting: Option<(Arc<dyn Engine>, u64)>,
}

impl<T> Future for Ticket<T> {
    type Output = Result<T, PoolError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = Pin::new(&mut self.result).poll(cx);
        if poll.is_ready() {
            self.waiting = None;
        }
        poll.map(|result| result.unwrap_or(Err(PoolError::Closed)))
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if let Some((engine, number)) = self.waiting.take() {
            engine.abandon(number);
        }
    }
}
