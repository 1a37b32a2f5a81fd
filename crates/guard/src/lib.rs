//! Fences around password checks.
//!
//! - [`hash`]: a bounded pool of low-priority threads that hash and verify passwords.
//! - [`limit`]: how many wrong guesses an account, an address and a pair of both are allowed.
//! - [`suspicion`]: what a suspicious attempt must show: a proof of work or a device mark.
#![forbid(unsafe_code)]

pub mod clock;
pub mod hash;
pub mod limit;
pub mod suspicion;
