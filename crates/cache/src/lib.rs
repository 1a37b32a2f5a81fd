//! Look-aside cache of finished bodies: an in-process tier that never keeps an answer older than an
//! invalidation.
#![forbid(unsafe_code)]

mod cache;
mod clock;
mod error;
mod flight;
mod load;
mod metrics;
mod named;
mod policy;
mod shard;
mod stamp;
mod store;
mod value;

pub use cache::Cache;
pub use clock::{Clock, ManualClock, SystemClock};
pub use error::CacheError;
pub use metrics::MetricsSnapshot;
pub use named::{Loaded, Lookup, NamedCache, Served};
pub use policy::{CacheConfig, ConfigError, Policy};
pub use stamp::{MAX_STAMPS, Stamp, Write, WriteError};
pub use store::entry_weight;
pub use value::{Encoding, Value, ValueParts};
