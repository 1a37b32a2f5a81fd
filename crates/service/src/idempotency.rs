//! `Idempotency-Key`: a repeated create makes nothing new and gets the first response.
//!
//! A client that lost the response to a POST cannot know whether it took effect. With a key of its choice in the
//! request it may send it again (draft-ietf-httpapi-idempotency-key-header-07). The outcome is stored with the key
//! **in the transaction of the create**: either both are durable or neither is, so a crash cannot make the retry a
//! second create. Simultaneous retries need no lock and no 409: the one writer runs them one after another, and the
//! second finds the first, even within one group commit.
//!
//! - A key belongs to a user and a route. It is stored with a fingerprint of path, query and body: the same key with
//!   another request is an error of the client, answered 422.
//! - Refusals and failures are not stored: a create that met a limit may succeed later.
//! - Stored are outcomes (an id, rarely more), not responses. The same code makes the response from the outcome both
//!   times, and a replayed one carries `Idempotent-Replayed: true` (Stripe's name, the most common one; the draft has
//!   none).
//! - Bounds: `idempotency.keep` in time, `KEYS_PER_USER` in number; the oldest are deleted first. Expired rows are
//!   deleted in small transactions of their own, started by requests with keys only.
//! - Requests without the header cause none of this.

pub(crate) mod key;
mod store;

pub use key::IdempotencyKey;

use crate::accounts::UserId;
use crate::housekeeping::DependentRows;
use crate::http::rfc3339::now_ms;
use crate::store::Store;
use axum::response::Response;
use http::HeaderValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Keys kept for one user: a retry comes within minutes, not after a thousand other creates.
const KEYS_PER_USER: u32 = 1000;

/// Shortest time between two sweeps of expired rows.
const SWEEP_EVERY_MS: u64 = 60_000;
/// Rows deleted by one transaction of a sweep: about a millisecond of the writer.
const SWEEP_ROWS: u32 = 500;
/// Most transactions of one sweep; the next sweep deletes the rest.
const SWEEP_TRANSACTIONS: u32 = 100;

/// Rows of a deleted user.
pub(crate) const OF_USER: &[DependentRows] =
    &[DependentRows::delete("idempotency_keys", "user_id", "number")];

/// The outcome of a create, small enough to be stored with its key.
pub trait Replayable: Serialize + DeserializeOwned {
    /// Whether something was made, which a retry must not make again. After a refusal, a retry runs again.
    fn is_made(&self) -> bool;
}

impl Replayable for i64 {
    fn is_made(&self) -> bool {
        true
    }
}

/// `None` is a refusal.
impl<T: Replayable> Replayable for Option<T> {
    fn is_made(&self) -> bool {
        self.as_ref().is_some_and(T::is_made)
    }
}

/// Runs a create at most once (`Once::run`). The default has no key and always runs it.
#[derive(Debug, Default)]
pub struct Once(Option<Box<Claim>>);

impl Once {
    pub(crate) fn has_key(&self) -> bool {
        self.0.is_some()
    }

    #[cfg(test)]
    pub(crate) fn with_key(user: UserId, key: &str) -> Self {
        let (route, key) = ("/test".into(), key.into());
        Once(Some(Box::new(Claim { user, route, key, fingerprint: [0; 32], keep_ms: 60_000 })))
    }
}

/// A key of a user, with the request it belongs to.
#[derive(Debug)]
struct Claim {
    user: UserId,
    /// Template of the route.
    route: Box<str>,
    key: Box<str>,
    /// SHA-256 of path, query and body.
    fingerprint: [u8; 32],
    keep_ms: i64,
}

/// A create that was run by this request or an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<T> {
    /// Its outcome.
    pub outcome: T,
    /// Whether an earlier request ran it.
    pub replayed: bool,
}

impl<T> Done<T> {
    /// A create that this request ran.
    pub fn now(outcome: T) -> Self {
        Done { outcome, replayed: false }
    }

    /// The response, with a header when it is a replay. It must depend on the outcome and the request alone, so that
    /// both are the same.
    pub fn answer(self, write: impl FnOnce(T) -> Response) -> Response {
        let mut response = write(self.outcome);
        if self.replayed {
            response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
        }
        response
    }
}

impl<T> Done<Option<T>> {
    /// `None` if the create was refused.
    pub fn made(self) -> Option<Done<T>> {
        let replayed = self.replayed;
        self.outcome.map(|outcome| Done { outcome, replayed })
    }
}

/// Lifetime of keys, and the last sweep of expired ones.
#[derive(Debug)]
pub struct Idempotency {
    keep: Duration,
    /// Milliseconds since 1970; 0 means never.
    swept_at_ms: AtomicU64,
}

impl Idempotency {
    /// Keeps outcomes for this time.
    pub fn new(keep: Duration) -> Self {
        Self { keep, swept_at_ms: AtomicU64::new(0) }
    }

    fn keep_ms(&self) -> i64 {
        i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX)
    }

    /// Starts a sweep in its own task, when due.
    fn sweep_when_due(&self, store: &Store) {
        let now = u64::try_from(now_ms()).unwrap_or(0);
        let last = self.swept_at_ms.load(Relaxed);
        // A clock that was set back must not stop the sweeps.
        if now.abs_diff(last) < SWEEP_EVERY_MS
            || self.swept_at_ms.compare_exchange(last, now, Relaxed, Relaxed).is_err()
        {
            return;
        }
        let store = store.clone();
        tokio::spawn(async move {
            for _ in 0..SWEEP_TRANSACTIONS {
                match store::sweep(&store, now_ms(), SWEEP_ROWS).await {
                    Ok(deleted) if deleted == SWEEP_ROWS as usize => {}
                    Ok(_) => return,
                    Err(error) => {
                        tracing::debug!(%error, "expired idempotency keys stay for now");
                        return;
                    }
                }
            }
        });
    }
}
