//! Rate limits of users and addresses.
//!
//! Each limit is a token bucket: it holds `count` tokens, refills evenly in `window`, and a request takes one.
//! So an idle client may send `count` requests at once, and one that never stops gets `count` per window.
//! A bucket is stored as one number, the time at which it will be full again (GCRA, the generic cell rate
//! algorithm of ITU-T I.371): a full bucket needs no memory.
//!
//! # Memory
//! Buckets live in a table of fixed size: sets of eight, found by a keyed hash that nobody outside can
//! predict. When a set is full, the bucket that is full again first is evicted, which gives its owner at most the
//! tokens that were missing in it.
//!
//! # Several processes
//! With a server ([`Shared`]) a request takes its tokens there as well, from buckets that all processes share.
//! The process remembers the server's answers, so it refuses a client over its limit without another request.
//! While the server does not answer, each process counts alone.

mod table;
mod valkey;

pub use valkey::Shared;

use crate::clock::{Clock, nanos};
use crate::config::Key;
use crate::limit::{Hashing, Id};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use table::Table;

/// A number of requests per window, all at once or evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens of a full bucket, at least 1.
    pub count: u32,
    /// Time in which an empty bucket fills, at least 1 µs per token.
    pub window: Duration,
}

impl Rate {
    /// Nanoseconds in which one token comes back.
    fn interval(self) -> u64 {
        (nanos(self.window) / u64::from(self.count.max(1))).max(1)
    }

    /// Nanoseconds in which an empty bucket fills.
    fn full(self) -> u64 {
        self.interval() * u64::from(self.count.max(1))
    }
}

/// The bucket of a user or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    id: Id,
    rate: Rate,
}

/// The bucket with the fewest tokens after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Index among the request's buckets.
    pub bucket: usize,
    /// Tokens left.
    pub remaining: u32,
    /// Time until it is full.
    pub full_after: Duration,
}

/// A refused request; no token was taken. Describes the empty bucket that stays empty for longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit {
    /// Index among the request's buckets.
    pub bucket: usize,
    /// Time until it holds a token.
    pub retry_after: Duration,
    /// Time until it is full.
    pub full_after: Duration,
}

/// Metrics of a rate limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateMetrics {
    /// Buckets held, among them some that are full again.
    pub buckets: u64,
    /// Buckets evicted before they were full.
    pub evictions: u64,
    /// Requests for which the shared server did not answer.
    pub alone: u64,
}

/// Buckets in memory: 1 MiB.
const CAPACITY: usize = 65_536;

/// Limits requests by token buckets.
pub struct RateLimiter {
    table: Table,
    ids: Hashing,
    clock: Arc<dyn Clock>,
    shared: Option<Shared>,
    alone: AtomicU64,
}

impl RateLimiter {
    /// A limiter with all buckets full. Processes that share buckets have the same `key`.
    #[must_use]
    pub fn new(key: &Key, clock: Arc<dyn Clock>, shared: Option<Shared>) -> Self {
        let ids = Hashing::with_key(&key.half(b"rate limits"));
        Self { table: Table::new(CAPACITY), ids, clock, shared, alone: AtomicU64::new(0) }
    }

    /// The bucket of a user for a class of requests.
    pub fn of_user(&self, class: u8, user: i64, rate: Rate) -> Bucket {
        Bucket { id: self.ids.rate(class, b'u', &user.to_le_bytes()), rate }
    }

    /// The bucket of an address, as [`counted`](crate::net::counted) gives it.
    pub fn of_address(&self, class: u8, address: IpAddr, rate: Rate) -> Bucket {
        let id = match address {
            IpAddr::V4(v4) => self.ids.rate(class, b'4', &v4.octets()),
            IpAddr::V6(v6) => self.ids.rate(class, b'6', &v6.octets()),
        };
        Bucket { id, rate }
    }

    /// Takes a token from each bucket, or from none.
    ///
    /// # Errors
    /// A bucket is empty.
    ///
    /// # Panics
    /// `buckets` is empty.
    pub async fn take(&self, buckets: &[Bucket]) -> Result<Standing, OverLimit> {
        let now = nanos(self.clock.now());
        let standing = self.take_here(buckets, now)?;
        let Some(shared) = &self.shared else { return Ok(standing) };
        match shared.take(buckets).await {
            Ok(taken) => self.adopt(buckets, &taken.until_full, taken.is_over, now),
            Err(_away) => {
                self.alone.fetch_add(1, Relaxed);
                Ok(standing)
            }
        }
    }

    fn take_here(&self, buckets: &[Bucket], now: u64) -> Result<Standing, OverLimit> {
        let mut tightest: Option<Standing> = None;
        for (place, bucket) in buckets.iter().enumerate() {
            match self.table.take(*bucket, now) {
                Ok(full_after) => {
                    keep_tightest(&mut tightest, standing(place, bucket.rate, full_after));
                }
                Err(full_after) => {
                    for taken in &buckets[..place] {
                        self.table.give_back(*taken);
                    }
                    return Err(over(place, bucket.rate, full_after));
                }
            }
        }
        Ok(tightest.expect("a request has a bucket"))
    }

    /// Stores the server's answer: the time until each bucket is full, in nanoseconds.
    fn adopt(
        &self,
        buckets: &[Bucket],
        until_full: &[u64],
        is_over: bool,
        now: u64,
    ) -> Result<Standing, OverLimit> {
        let mut tightest = None;
        let mut longest: Option<OverLimit> = None;
        for (place, (bucket, until_full)) in buckets.iter().zip(until_full).enumerate() {
            if is_over {
                // The server took nothing.
                self.table.give_back(*bucket);
            }
            self.table.fill_no_earlier(*bucket, now, *until_full);
            keep_tightest(&mut tightest, standing(place, bucket.rate, *until_full));
            let here = over(place, bucket.rate, *until_full);
            if longest.is_none_or(|longest| longest.retry_after < here.retry_after) {
                longest = Some(here);
            }
        }
        match longest {
            Some(longest) if is_over => Err(longest),
            _ => Ok(tightest.expect("a request has a bucket")),
        }
    }

    /// Current metrics.
    pub fn metrics(&self) -> RateMetrics {
        let Table { buckets, evictions, .. } = &self.table;
        let [buckets, evictions, alone] =
            [buckets, evictions, &self.alone].map(|count| count.load(Relaxed));
        RateMetrics { buckets, evictions, alone }
    }
}

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateLimiter").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}

fn keep_tightest(tightest: &mut Option<Standing>, standing: Standing) {
    if tightest.is_none_or(|tightest| standing.remaining < tightest.remaining) {
        *tightest = Some(standing);
    }
}

fn standing(bucket: usize, rate: Rate, full_after: u64) -> Standing {
    let left = rate.full().saturating_sub(full_after) / rate.interval();
    Standing {
        bucket,
        remaining: u32::try_from(left).unwrap_or(u32::MAX),
        full_after: Duration::from_nanos(full_after),
    }
}

fn over(bucket: usize, rate: Rate, full_after: u64) -> OverLimit {
    OverLimit {
        bucket,
        retry_after: Duration::from_nanos(
            (full_after + rate.interval()).saturating_sub(rate.full()),
        ),
        full_after: Duration::from_nanos(full_after),
    }
}

#[cfg(test)]
mod tests;
