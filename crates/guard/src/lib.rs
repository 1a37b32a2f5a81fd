#![doc = include_str!("../README.md")]

pub mod clock;
pub mod config;
pub mod hash;
pub mod limit;
pub mod net;
pub mod rate;
pub mod suspicion;

mod attempt;
mod attempt_limiter;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod metrics;
mod reservation;
mod sets;

pub use attempt::{Attempt, Reason, Refused, Suspect};
pub use config::{GuardConfig, Key};
pub use guard::{BuildError, Guard, Stores};
pub use metrics::MetricsSnapshot;
pub use reservation::{Reservation, SignUp};
