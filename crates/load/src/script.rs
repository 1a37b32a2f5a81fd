//! Scripts: one QuickJS runtime per virtual user, each on a stack of its own.

mod commonjs;
mod compiled;
mod console;
pub(crate) mod control;
pub(crate) mod coroutine;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod iterations;
mod jslib;
pub(crate) mod life;
mod loader;
pub(crate) mod mailbox;
mod measure;
mod modules;
mod raw;
mod rejections;
mod requests;
mod shared;
mod sockets;
mod source;
mod syntax;
mod tasks;
pub(crate) mod user;
mod vendor;

pub(crate) use control::{Control, Interrupted};
pub(crate) use error::ScriptError;
pub(crate) use modules::expected_statuses::ExpectedStatuses;
pub(crate) use shared::{Files, SharedArrays};
pub(crate) use source::{Sources, normalize};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use syntax::Language;
pub use vendor::{VendorError, vendor};

/// QuickJS heap of one virtual user, at most.
pub(crate) const MEMORY_LIMIT_BYTES: usize = 256 * 1024 * 1024;
