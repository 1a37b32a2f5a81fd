//! Fences around password checks.
//!
//! - [`hash`]: a bounded pool of low-priority threads that hash and verify passwords.
//! - [`Guard`]: how many wrong guesses an account, an address and a pair of both are allowed, what
//!   a suspicious attempt must show, and who is let through.
//! - [`limit`]: the counters behind it, and the seam at which they can be shared between nodes.
//! - [`suspicion`]: proofs of work and device marks.
//! - [`rate`]: token buckets for all other requests that cost something.
#![forbid(unsafe_code)]

pub mod clock;
pub mod config;
pub mod hash;
pub mod limit;
pub mod net;
pub mod rate;
pub mod suspicion;

mod attempt;
mod gate;
mod guard;
mod metrics;
mod reservation;

pub use attempt::{Attempt, Reason, Refused, Suspect};
pub use config::{GuardConfig, Key};
pub use guard::{BuildError, Guard, Stores};
pub use metrics::MetricsSnapshot;
pub use reservation::{Reservation, SignUp};
