//! Look-aside cache of finished bodies: an in-process tier that never keeps an answer older than an
//! invalidation.
//!
//! A service asks the [`NamedCache`] for a key and hands it a loader. What the loader brings is one
//! finished [`Value`]: the bytes of a response, in one or more content codings, with its entity
//! tags. Each entry depends on one to four [`Stamp`]s, and a [`Write`] on a stamp kills every entry
//! that depends on it.
//!
//! ```
//! use madang_cache::{Cache, CacheConfig, Loaded, Policy, Served, Stamp, Value};
//!
//! # #[derive(Debug, thiserror::Error)]
//! # #[error("the store is away")]
//! # struct StoreError;
//! # async fn body_of_track(id: u64) -> Result<bytes::Bytes, StoreError> { Ok("{}".into()) }
//! # async fn rename_track(id: u64) -> Result<(), StoreError> { Ok(()) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = Cache::new(&CacheConfig::with_capacity(32 << 20))?;
//! let tracks = cache.named::<StoreError>("tracks", Policy::default())?;
//! let stamp = Stamp::new("track:17");
//!
//! let load = || async { Ok(Loaded::Store(Value::new(body_of_track(17).await?, "application/json", "v1"))) };
//! let first = tracks.get("17:medium", &[stamp], load).await?;
//! assert_eq!(first.served, Served::Miss);
//! assert!(tracks.peek_fresh("17:medium").is_some());
//!
//! let write = cache.begin_write(&[stamp]).await?; // before the transaction
//! rename_track(17).await?;                        // the transaction; on error `write` is dropped
//! write.finish().await?;                          // after the commit, before the answer
//! assert!(tracks.peek_fresh("17:medium").is_none());
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//! - **Never older than a finished write.** A look-up that begins after `finish` returned (or the
//!   `Write` was dropped) is given the state after that write or a later one, by every way of
//!   serving: hit, joined load, stale answer. This holds for all states behind the stamps given, if
//!   every writer announces its writes and the loader reads committed state.
//!   Between the commit and `finish` a look-up may be given either state, and of two such look-ups
//!   the later may be given the older one; the write is not acknowledged yet.
//! - **One load per key in flight**, unless a write came between: who comes after it does not join
//!   a load begun before it.
//! - **Nobody is stranded.** Loads run in tasks of their own; a caller that goes away, a loader
//!   that panics, a runtime that is shut down or stands still leave no waiter without an answer
//!   past `queue_timeout` + `load_timeout` + 100 ms, with a shared tier 600 ms more.
//! - **Bounded.** Entries never weigh more than the capacity, at any moment; loads in flight and
//!   waiting are limited per name, as are remembered failures and stamps. How many callers wait
//!   for one load is bounded only by how many there are: that is the host's limit to set.
//! - **Not filled by whoever makes up keys.** A part whose keys are chosen outside admits a key when it is
//!   loaded for the second time within a while ([`Admission`]).
//!
//! # What is not
//! - There is no removal by key and no listing of keys: invalidation goes by stamp only.
//! - Values whose owner is the caller (who liked what) do not belong here: what is stored under a
//!   key is given to everybody who asks for it.
//! - Writes of other processes are not seen here: whoever learns of one calls [`Cache::invalidate`]. Bodies of other
//!   processes come from a shared tier in Valkey or Redis ([`Cache::with_remote`]), which never has to be told of a write.
#![forbid(unsafe_code)]

mod cache;
mod clock;
mod doorkeeper;
mod error;
mod flight;
mod load;
mod metrics;
mod named;
mod policy;
mod remote;
mod shard;
mod shared;
mod stamp;
mod store;
mod value;

pub use cache::Cache;
pub use clock::{Clock, ManualClock, SystemClock};
pub use error::CacheError;
pub use metrics::MetricsSnapshot;
pub use named::{Loaded, Lookup, NamedCache, Served};
pub use policy::{Admission, CacheConfig, ConfigError, Policy};
pub use remote::{Horizon, RemoteConfig};
pub use stamp::{MAX_STAMPS, Stamp, Write, WriteError};
pub use store::entry_weight;
pub use value::{Encoding, Value, ValueParts};
