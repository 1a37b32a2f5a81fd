//! The cache as a whole: one budget and one set of stamps for all its named parts.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;

use crate::clock::{Clock, SystemClock};
use crate::flight::Flights;
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::named::NamedCache;
use crate::policy::{CacheConfig, ConfigError, Policy};
use crate::remote::{Horizon, Remote, RemoteConfig};
use crate::shard::Name;
use crate::shared::Shared;
use crate::stamp::{Stamp, StampTable};
use crate::store::Store;

/// A cache of finished bodies. Cheap to clone; all clones are one cache. It may be dropped before its named parts.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    enabled: bool,
    local: bool,
    remote: Option<Arc<Remote>>,
    names: Mutex<Vec<Arc<Name>>>,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("enabled", &self.inner.enabled)
            .field("used_bytes", &self.used_bytes())
            .field("capacity_bytes", &self.capacity_bytes())
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// A cache with the system clock.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] names an invalid setting.
    pub fn new(config: &CacheConfig) -> Result<Self, ConfigError> {
        Self::with_clock(config, Arc::new(SystemClock::default()))
    }

    /// A cache with the given clock.
    ///
    /// # Errors
    /// [`ConfigError::Setting`] names an invalid setting.
    pub fn with_clock(config: &CacheConfig, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self::build(config, clock, None))
    }

    /// A cache with a second tier, shared with other processes. It connects at first use, and works without that tier
    /// while it is unavailable.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`ConfigError::Remote`] if the addresses cannot be used together.
    pub fn with_remote(
        config: &CacheConfig,
        remote: RemoteConfig,
        horizon: Arc<dyn Horizon>,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let remote = Remote::new(remote, horizon);
        let remote = remote.map_err(|error| ConfigError::Remote(error.to_string()))?;
        Ok(Self::build(config, Arc::new(SystemClock::default()), Some(Arc::new(remote))))
    }

    /// True if the shared tier answers, as far as is known; `None` without one.
    pub fn remote_is_up(&self) -> Option<bool> {
        self.inner.remote.as_ref().map(|remote| remote.is_up())
    }

    /// A disabled cache: every look-up runs its loader, and nothing is stored or shared (see [`Policy::enabled`]).
    pub fn disabled() -> Self {
        let config = CacheConfig {
            capacity_bytes: 0,
            stamp_slots: 1024,
            shards: 1,
            enabled: false,
            local: true,
        };
        Self::build(&config, Arc::new(SystemClock::default()), None)
    }

    fn build(config: &CacheConfig, clock: Arc<dyn Clock>, remote: Option<Arc<Remote>>) -> Self {
        let stamps = Arc::new(StampTable::new(config.stamp_slots));
        let store = Arc::new(Store::new(config.capacity_bytes, config.shards, stamps));
        let names = Mutex::default();
        let CacheConfig { enabled, local, .. } = *config;
        Self { inner: Arc::new(Inner { store, clock, enabled, local, remote, names }) }
    }

    /// Makes a named part. `E` is the error of its loaders.
    ///
    /// # Errors
    /// [`ConfigError::NameTaken`] if the cache already has a part of this name;
    /// [`ConfigError::Setting`] names an invalid setting.
    pub fn named<E>(&self, name: &str, mut policy: Policy) -> Result<NamedCache<E>, ConfigError> {
        policy.check()?;
        let Inner { store, clock, enabled, local, remote, .. } = &*self.inner;
        let mut names = self.inner.names.lock();
        if names.iter().any(|taken| *taken.name == *name) {
            return Err(ConfigError::NameTaken { name: name.into() });
        }
        let id = names.len() as u64;
        let name = Arc::new(Name { id, name: name.into(), metrics: Metrics::default() });
        names.push(Arc::clone(&name));
        policy.enabled &= *enabled;
        let permits = Arc::new(Semaphore::new(policy.max_loads_in_flight));
        let (store, clock, remote) = (Arc::clone(store), Arc::clone(clock), remote.clone());
        let (local, flights) = (*local, Mutex::new(Flights::new()));
        let shared = Shared { name, policy, store, local, remote, clock, flights, permits };
        Ok(NamedCache { shared: Arc::new(shared) })
    }

    /// Invalidates every entry that depends on `stamps`, and prevents loads in flight from being stored. Call it
    /// after the commit and before the write is acknowledged, also when the outcome of the commit is unknown: an
    /// unnecessary load costs less than a wrong answer.
    ///
    /// A load that began before the commit is then not stored, or its entry is invalidated; one that begins after
    /// this call reads the committed state.
    pub fn invalidate(&self, stamps: &[Stamp]) {
        stamps.iter().for_each(|stamp| self.inner.store.stamps.raise(*stamp));
    }

    /// Invalidates every entry and every load in flight: for a restored database, or when invalidations may have been
    /// missed.
    pub fn invalidate_all(&self) {
        self.inner.store.invalidate_all();
    }

    /// Weight of all entries in bytes, including those being inserted. Never more than
    /// [`capacity_bytes`](Self::capacity_bytes).
    pub fn used_bytes(&self) -> u64 {
        self.inner.store.used()
    }

    /// The budget, in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.inner.store.capacity()
    }

    /// The metrics of every named part, in order of creation.
    pub fn metrics(&self) -> Vec<(Box<str>, MetricsSnapshot)> {
        self.inner
            .names
            .lock()
            .iter()
            .map(|name| (name.name.clone(), name.metrics.snapshot()))
            .collect()
    }
}
