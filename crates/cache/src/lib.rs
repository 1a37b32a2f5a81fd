#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cache;
mod clock;
mod doorkeeper;
mod error;
mod flight;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
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
pub use stamp::{MAX_STAMPS, Stamp};
pub use store::entry_weight;
pub use value::{Encoding, Value, ValueParts};
