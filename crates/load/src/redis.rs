//! The client of `k6/experimental/redis`, for Redis and Valkey.
//!
//! Why not the crate `redis`, which the service uses: its connections have to be able to change threads and look names up
//! themselves, while those of a script obey `hosts`, `blockHostnames`, `blacklistIPs` and the run's settings of TLS.

mod link;
mod reply;
mod target;

pub(crate) use link::{Link, LinkError};
pub(crate) use reply::Reply;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use reply::fuzz;
pub(crate) use target::{Target, TargetError};
