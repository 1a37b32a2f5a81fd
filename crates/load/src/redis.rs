//! The client of `k6/experimental/redis`, for Redis and Valkey.
//!
//! Not the crate `redis`, which the service uses: its connections can move between threads and look names up, while
//! those of a script obey `hosts`, `blockHostnames`, `blacklistIPs` and the TLS settings of the run.

mod link;
mod reply;
mod target;

pub(crate) use link::{Link, LinkError};
pub(crate) use reply::Reply;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use reply::fuzz;
pub(crate) use target::{Target, TargetError};
