//! Rate limits on what costs something: each pass of a gate takes a token (docs/decisions/0063-rate-limits.md).
//!
//! The response to a request that took a token reports the rest, in the fields of
//! draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy: "write";q=120;w=60` (120 per 60 s) and `RateLimit:
//! "write";r=119;t=1` (119 left, all of them in 1 s). With a limit on users and one on addresses, the second names
//! the one with less left.

use crate::config::{GuardSettings, LimitSettings};
use crate::current;
use http::{HeaderMap, HeaderName, HeaderValue};
use madang_guard::Key;
use madang_guard::clock::SystemClock;
use madang_guard::limit::StoreError;
use madang_guard::rate::{Bucket, OverLimit, Rate, RateLimiter, RateMetrics, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

#[derive(Clone, Debug, Default)]
pub(crate) struct RateLimits {
    /// On uncached reads.
    pub(crate) read: Option<Arc<ClassLimit>>,
    pub(crate) write: Option<Arc<ClassLimit>>,
    pub(crate) upload: Option<Arc<ClassLimit>>,
    limiter: Option<Arc<RateLimiter>>,
}

impl RateLimits {
    /// `key` is the same on all nodes of a database.
    pub(crate) fn new(
        limits: &LimitSettings,
        guard: &GuardSettings,
        key: [u8; 32],
    ) -> Result<Self, StoreError> {
        let read = [limits.read, limits.read_address];
        let write = [limits.write, limits.write_address];
        let upload = [limits.upload, limits.upload_address];
        if [read, write, upload] == [[None; 2]; 3] {
            return Ok(Self::default());
        }
        let shared = (!guard.url.is_empty()).then(|| Shared::new(&guard.url)).transpose()?;
        let limiter = RateLimiter::new(&Key::new(key), Arc::new(SystemClock::default()), shared);
        let limiter = Arc::new(limiter);
        let class = |number, name, limits| ClassLimit::new(&limiter, number, name, limits);
        Ok(Self {
            read: class(0, ["read", "read-address"], read),
            write: class(1, ["write", "write-address"], write),
            upload: class(2, ["upload", "upload-address"], upload),
            limiter: Some(limiter),
        })
    }

    /// Metrics of all classes together; `None` without a limit.
    pub(crate) fn metrics(&self) -> Option<RateMetrics> {
        self.limiter.as_ref().map(|limiter| limiter.metrics())
    }
}

/// The limits on users and on addresses for one class of requests.
#[derive(Debug)]
pub(crate) struct ClassLimit {
    limiter: Arc<RateLimiter>,
    number: u8,
    /// Names of the limit on users and of the one on addresses.
    names: [&'static str; 2],
    user: Option<Rate>,
    address: Option<Rate>,
    policy: HeaderValue,
    refused: AtomicU64,
}

/// Rate-limit headers of a response.
#[derive(Clone, Debug)]
pub(crate) struct LimitHeaders {
    policy: HeaderValue,
    state: HeaderValue,
}

impl LimitHeaders {
    pub(crate) fn add_to(self, headers: &mut HeaderMap) {
        headers.insert(POLICY, self.policy);
        headers.insert(STATE, self.state);
    }
}

impl ClassLimit {
    fn new(
        limiter: &Arc<RateLimiter>,
        number: u8,
        names: [&'static str; 2],
        [user, address]: [Option<Rate>; 2],
    ) -> Option<Arc<Self>> {
        let policy = |(name, limit): (&str, Option<Rate>)| {
            let Rate { count, window } = limit?;
            Some(format!("\"{name}\";q={count};w={}", seconds(window)))
        };
        let policies: Vec<String> =
            names.into_iter().zip([user, address]).filter_map(policy).collect();
        if policies.is_empty() {
            return None;
        }
        Some(Arc::new(Self {
            limiter: Arc::clone(limiter),
            number,
            names,
            user,
            address,
            policy: HeaderValue::try_from(policies.join(", ")).expect("letters and digits"),
            refused: AtomicU64::new(0),
        }))
    }

    /// A fixed limit on each address, counted by this node alone.
    pub(crate) fn on_addresses(
        name: &'static str,
        address: Rate,
        key: [u8; 32],
    ) -> Option<Arc<Self>> {
        let limiter = RateLimiter::new(&Key::new(key), Arc::new(SystemClock::default()), None);
        Self::new(&Arc::new(limiter), 0, [name; 2], [None, Some(address)])
    }

    /// Takes a token of the current request's user and one of its address, and sets the headers of its response. Work for
    /// no client, or for an exempt one, takes none.
    ///
    /// # Errors
    /// The seconds until the next token.
    pub(crate) async fn take(&self) -> Result<(), u32> {
        let Some((address, user)) = current::limited() else { return Ok(()) };
        let of_user =
            user.zip(self.user).map(|(user, rate)| self.limiter.of_user(self.number, user, rate));
        let of_address =
            self.address.map(|rate| self.limiter.of_address(self.number, address, rate));
        let named = self.names.into_iter().zip([of_user, of_address]);
        let (names, buckets): (Vec<&str>, Vec<Bucket>) =
            named.filter_map(|(name, bucket)| bucket.map(|bucket| (name, bucket))).unzip();
        if buckets.is_empty() {
            return Ok(());
        }
        let taken = self.limiter.take(&buckets).await;
        let (bucket, left, full_after) = match taken {
            Ok(standing) => (standing.bucket, standing.remaining, standing.full_after),
            Err(OverLimit { bucket, full_after, .. }) => (bucket, 0, full_after),
        };
        let state = format!("\"{}\";r={left};t={}", names[bucket], seconds(full_after));
        let state = HeaderValue::try_from(state).expect("letters and digits");
        current::note_limit(LimitHeaders { policy: self.policy.clone(), state });
        taken.map(drop).map_err(|over| {
            self.refused.fetch_add(1, Relaxed);
            seconds(over.retry_after).max(1)
        })
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

/// Whole seconds, rounded up: a client that returns after them is not too early.
fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}
