//! Hashing and verifying passwords on a bounded pool of low-priority threads.
//!
//! - [`Scheme`]: the hash function of new passwords: `argon2id:m=19456,t=2,p=1` or `bcrypt:10`.
//! - [`StoredHash`]: a hash from a store, refused when its parameters are hostile.
//! - [`HashPool`]: the threads. A strong hash costs 20 ms of a core or more, so anybody who may
//!   request hashes could take the whole machine. The pool gives hashing a fixed number of threads at low
//!   priority and a short queue; jobs beyond that are refused at once with a time to retry after.
//!
//! [`Password`] does not print and is wiped when dropped.

mod blocks;
mod kernel;
mod password;
mod pool;
mod scheme;
mod stored;

pub use kernel::HashError;
pub use password::Password;
pub use pool::{
    CheckOutcome, HashPool, PasswordCheck, PoolError, PoolMetrics, PoolOptions, StartError, Ticket,
};
pub use scheme::{Scheme, SchemeError};
pub use stored::{StoredHash, StoredHashError};
