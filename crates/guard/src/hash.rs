//! Hashing and verifying passwords on a bounded pool of low-priority threads.
//!
//! - [`Scheme`]: how new passwords are hashed: `argon2id:m=19456,t=2,p=1` or `bcrypt:10`.
//! - [`StoredHash`]: a hash as it stands in a store, refused when its parameters are hostile.
//! - [`HashPool`]: the threads. An honest hash costs 20 ms of a core or more, so whoever may ask for
//!   one may ask for the whole machine. The pool gives hashing a fixed number of threads at low
//!   priority and a short queue; what does not fit is refused at once with the time to come back.
//!
//! Passwords travel as [`Password`], which does not print and is wiped when dropped.

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
