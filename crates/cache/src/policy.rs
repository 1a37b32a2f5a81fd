//! Settings: of the whole cache, and of one named part of it.

use std::time::Duration;

/// Settings of the whole cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Maximum weight of all entries in bytes. The process needs somewhat more, since allocators round
    /// up: 15 to 20 % more with bodies of 1 KiB, less with larger ones. Default: 64 MiB.
    pub capacity_bytes: u64,
    /// Slots for stamps, 8 bytes each; rounded up to a power of two, at most 2³². Two stamps in one slot
    /// invalidate each other's entries, so use several times as many slots as stamps are written
    /// during an entry's life. Default: 65,536 (512 KiB).
    pub stamp_slots: usize,
    /// Parts with a lock of their own; rounded up to a power of two, at most 1,024. Default: 16.
    pub shards: usize,
    /// `false`: every name behaves as under [`Policy::off`], whatever its policy says.
    pub enabled: bool,
    /// Bodies are kept in this process; `false`: in the shared tier only.
    pub local: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            capacity_bytes: 64 << 20,
            stamp_slots: 1 << 16,
            shards: 16,
            enabled: true,
            local: true,
        }
    }
}

impl CacheConfig {
    /// The defaults with another capacity.
    pub fn with_capacity(capacity_bytes: u64) -> Self {
        Self { capacity_bytes, ..Self::default() }
    }

    /// Rejects invalid settings.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        require(self.shards >= 1 && self.shards <= 1 << 10, "shards", "1 to 1024")?;
        let slots = self.stamp_slots as u64;
        require((1..=1 << 32).contains(&slots), "stamp_slots", "1 to 4294967296")
    }
}

/// Longest timeout: more than a day is a mistake.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Results that a named part stores at their first load. Others are served, and stored when they are loaded again
/// before some ten thousand other such keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Values and absence. For keys that no client chooses.
    Everything,
    /// Values, not absence. For keys that name things which must exist.
    Values,
    /// Nothing. For keys that any client can invent: searches, pages, page sizes.
    Nothing,
}

/// Settings of one named part of the cache.
///
/// ```text
/// age 0 ────────── refresh_ahead ────────── soft_ttl ─────────────── hard_ttl ──────►
///       hit                │ hit, and one      │ load; the old value     │ load; never
///                          │ load behind it    │ only on error or after  │ the old value
///                          │                   │ soft_timeout            │
/// ```
/// Age counts from the call of the loader. An invalidation ends all of this at once: a dead entry is
/// never served again, not even while the loader fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// `false`: every `get` runs its own loader in the caller's task; nothing is stored, shared,
    /// limited or timed out, as in a service without a cache.
    pub enabled: bool,
    /// Age until which an entry is served without a load.
    pub soft_ttl: Duration,
    /// Age from which an entry is never served; at least `soft_ttl`.
    pub hard_ttl: Duration,
    /// Age until which absence is cached; zero: not at all.
    pub negative_ttl: Duration,
    /// Each entry lives shorter than its times to live by a share drawn evenly between zero and
    /// this (0 to 1, 1 excluded), so that entries made together do not expire together. The
    /// times themselves stay upper bounds.
    pub jitter: f64,
    /// Share of the soft time to live (0 to 1, both excluded) after which a hit also starts a
    /// load in the background; `None`: never.
    pub refresh_ahead: Option<f64>,
    /// Longest wait for a load when an entry past its soft time could be served; zero serves the
    /// old value at once and loads in the background (RFC 5861, stale-while-revalidate).
    pub soft_timeout: Duration,
    /// Longest run of the loader, from the moment it may begin.
    pub load_timeout: Duration,
    /// An entry that weighs more is served, not stored.
    pub max_entry_bytes: u64,
    /// Results that are stored at their first load.
    pub admission: Admission,
    /// Loads of this name that may run at once.
    pub max_loads_in_flight: usize,
    /// Loads that may wait for their turn; further ones fail at once.
    pub max_loads_waiting: usize,
    /// Longest wait of a load for its turn.
    pub queue_timeout: Duration,
    /// Pause of a key after a failed load, doubling with each further failure up to
    /// `failure_backoff_max`; zero: no pause. Meanwhile callers get the old value where one may be
    /// served, the error otherwise.
    pub failure_backoff: Duration,
    /// The longest pause after failures.
    pub failure_backoff_max: Duration,
}

impl Default for Policy {
    /// For pages that change now and then and may be a minute old.
    fn default() -> Self {
        Self {
            enabled: true,
            soft_ttl: Duration::from_secs(60),
            hard_ttl: Duration::from_secs(600),
            negative_ttl: Duration::from_secs(5),
            jitter: 0.1,
            refresh_ahead: Some(0.8),
            soft_timeout: Duration::from_millis(100),
            load_timeout: Duration::from_secs(5),
            max_entry_bytes: 4 << 20,
            admission: Admission::Everything,
            max_loads_in_flight: 64,
            max_loads_waiting: 1024,
            queue_timeout: Duration::from_secs(1),
            failure_backoff: Duration::from_millis(100),
            failure_backoff_max: Duration::from_secs(5),
        }
    }
}

impl Policy {
    /// The defaults with other times to live.
    pub fn with_ttl(soft_ttl: Duration, hard_ttl: Duration) -> Self {
        Self { soft_ttl, hard_ttl, ..Self::default() }
    }

    /// No cache: see [`Policy::enabled`].
    pub fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// Rejects invalid settings.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        require(!self.soft_ttl.is_zero(), "soft_ttl", "more than zero")?;
        require(self.hard_ttl >= self.soft_ttl, "hard_ttl", "at least soft_ttl")?;
        require((0.0..1.0).contains(&self.jitter), "jitter", "0 up to, but not, 1")?;
        let share = self.refresh_ahead.is_none_or(|share| share > 0.0 && share < 1.0);
        require(share, "refresh_ahead", "between 0 and 1, or none")?;
        let load_timeout = !self.load_timeout.is_zero() && self.load_timeout <= LONGEST_WAIT;
        require(load_timeout, "load_timeout", "more than zero, at most a day")?;
        require(self.queue_timeout <= LONGEST_WAIT, "queue_timeout", "at most a day")?;
        let loads = 1..=tokio::sync::Semaphore::MAX_PERMITS;
        require(loads.contains(&self.max_loads_in_flight), "max_loads_in_flight", "at least 1")?;
        let backoff = self.failure_backoff_max >= self.failure_backoff;
        require(backoff, "failure_backoff_max", "at least failure_backoff")
    }
}

fn require(holds: bool, setting: &'static str, accepted: &'static str) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Setting { setting, accepted }) }
}

/// A cache, or a named part of it, could not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum ConfigError {
    /// The shared tier cannot be used as it is configured.
    #[error("{0}")]
    Remote(String),
    /// A setting has a value that cannot work.
    #[error("{setting} must be {accepted}")]
    Setting {
        /// The field of [`CacheConfig`] or [`Policy`].
        setting: &'static str,
        accepted: &'static str,
    },
    /// The name is taken: each has one policy and one set of figures.
    #[error("the cache already has a part named {name:?}")]
    NameTaken { name: Box<str> },
}
