//! Accounts: register, log in, log out, who am I.

mod caller;

pub use caller::{Caller, MaybeCaller};

/// Identifier of a user, never reused.
pub type UserId = i64;
