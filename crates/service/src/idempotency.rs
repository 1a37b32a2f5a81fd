//! `Idempotency-Key`: a create that is sent again makes nothing new and gets its first answer.
//!
//! A client that lost the answer to a POST cannot know whether it took effect. With a key of its own
//! choice in the request it may simply send it again (draft-ietf-httpapi-idempotency-key-header-07).
//! What was made is written down beside the key **in the transaction that made it**: either both are
//! durable or neither is, so there is no moment at which a crash could make the retry a second
//! create. Retries that arrive together need no lock and no 409: the one writer runs them one after
//! another, and the second finds what the first wrote, even within one group commit.
//!
//! - A key belongs to a user and a route. With it goes a fingerprint of path, query and body: the same
//!   key with another request is a mistake of the client and answered 422.
//! - Refusals and failures are not remembered: a create that met a limit may succeed when it is sent
//!   again.
//! - Kept are the outcomes (an id, rarely more), not answers. An answer is written from its outcome by
//!   the same code both times, and a replayed one carries `Idempotent-Replayed: true` (Stripe's name,
//!   the most common one; the draft has none).
//! - Bounded: `idempotency.keep` in time, [`KEYS_PER_USER`] in number; the oldest go first. Expired rows
//!   are deleted in small transactions of their own, started by keyed requests, never by others.
//! - Without the header nothing of this happens.

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

/// Keys that are kept for one user; a retry comes within minutes, not after a thousand other creates.
pub const KEYS_PER_USER: u32 = 1000;

/// Expired rows are looked for at most once in this time.
const SWEEP_EVERY_MS: u64 = 60_000;
/// Rows that one transaction of the sweep deletes: about a millisecond of the writer.
const SWEEP_ROWS: u32 = 500;
/// Transactions of one sweep; what is left waits for the next.
const SWEEP_TRANSACTIONS: u32 = 100;

/// What a user leaves who is deleted.
pub(crate) const OF_USER: &[DependentRows] =
    &[DependentRows::delete("idempotency_keys", "user_id", "number")];

/// What a create came to, small enough to be written down beside its key.
pub trait Replayable: Serialize + DeserializeOwned {
    /// Whether something was made, so that the same request must not make it again. A refusal is
    /// forgotten: sent again, the request is tried again.
    fn is_made(&self) -> bool;
}

/// An id.
impl Replayable for i64 {
    fn is_made(&self) -> bool {
        true
    }
}

/// Nothing means that it was refused.
impl<T: Replayable> Replayable for Option<T> {
    fn is_made(&self) -> bool {
        self.as_ref().is_some_and(T::is_made)
    }
}

/// At most one run of a create within its transaction (`Once::run`); by default any number.
#[derive(Debug, Default)]
pub struct Once(Option<Box<Claim>>);

impl Once {
    /// Whether the request had a key at all.
    pub(crate) fn has_key(&self) -> bool {
        self.0.is_some()
    }

    /// This key of this user, for tests of creates.
    #[cfg(test)]
    pub(crate) fn with_key(user: UserId, key: &str) -> Self {
        let (route, key) = ("/test".into(), key.into());
        Once(Some(Box::new(Claim { user, route, key, fingerprint: [0; 32], keep_ms: 60_000 })))
    }
}

/// A user's claim to a key.
#[derive(Debug)]
struct Claim {
    user: UserId,
    /// The route's template.
    route: Box<str>,
    key: Box<str>,
    /// Of path, query and body.
    fingerprint: [u8; 32],
    keep_ms: i64,
}

/// A create that has been run, now or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<T> {
    /// What it came to.
    pub outcome: T,
    /// Whether that was before: this request made nothing.
    pub replayed: bool,
}

impl<T> Done<T> {
    /// Done by this request.
    pub fn now(outcome: T) -> Self {
        Done { outcome, replayed: false }
    }

    /// The answer, which says when it is that of an earlier request. It must follow from the outcome and
    /// the request alone, or the two answers would differ.
    pub fn answer(self, write: impl FnOnce(T) -> Response) -> Response {
        let mut response = write(self.outcome);
        if self.replayed {
            response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
        }
        response
    }
}

impl<T> Done<Option<T>> {
    /// What was made, if it was not refused.
    pub fn made(self) -> Option<Done<T>> {
        let replayed = self.replayed;
        self.outcome.map(|outcome| Done { outcome, replayed })
    }
}

/// Settings of keys, and when their table was last swept.
#[derive(Debug)]
pub struct Idempotency {
    keep: Duration,
    /// Milliseconds since 1970; 0 = not yet.
    swept_at_ms: AtomicU64,
}

impl Idempotency {
    /// Keeps outcomes for so long.
    pub fn new(keep: Duration) -> Self {
        Self { keep, swept_at_ms: AtomicU64::new(0) }
    }

    fn keep_ms(&self) -> i64 {
        i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX)
    }

    /// Starts a sweep in a task of its own, when one is due.
    fn sweep_when_due(&self, store: &Store) {
        let now = u64::try_from(now_ms()).unwrap_or(0);
        let last = self.swept_at_ms.load(Relaxed);
        // A clock that was set back must not stop the sweeps for as long.
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
