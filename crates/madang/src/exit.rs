//! The one place that turns a final error into a line and an exit code.

use madang_service::accounts::AccountsError;
use madang_service::app::AppError;
use madang_service::config::ConfigError;
use madang_service::http::server::BindError;
use madang_service::store::{LockError, StoreError};
use std::io::Write as _;
use std::process::ExitCode;

/// Something failed that no other code names, or failed in part.
pub const FAILED: u8 = 1;
/// Wrong usage, a wrong setting, or a file that cannot be read as what it should be.
pub const USAGE: u8 = 2;
/// The address is taken or not ours.
pub const ADDRESS: u8 = 4;
/// Another process owns the data directory.
pub const IN_USE: u8 = 5;
/// The store, or the token key beside it, is damaged, full, read-only, somebody else's, or open to others.
pub const STORE: u8 = 6;

/// Work that was done in part; what was not done has been said already.
#[derive(Debug)]
pub struct Partly;

impl std::fmt::Display for Partly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not everything could be done")
    }
}

impl std::error::Error for Partly {}

/// Prints the error, if any, as one line, and gives its exit code.
pub fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if is_broken_pipe(&error) {
        // The reader of our output has seen enough.
        return ExitCode::SUCCESS;
    }
    if !error.is::<Partly>() {
        // The exit code says it too when nobody reads this.
        let _ = writeln!(std::io::stderr(), "madang: {error:#}");
    }
    ExitCode::from(error.chain().find_map(code_of).unwrap_or(FAILED))
}

fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if cause.is::<ConfigError>() || cause.is::<crate::settings::Usage>() {
        return Some(USAGE);
    }
    if cause.is::<BindError>() {
        return Some(ADDRESS);
    }
    if let Some(error) = cause.downcast_ref::<LockError>() {
        return Some(if matches!(error, LockError::InUse { .. }) { IN_USE } else { STORE });
    }
    let of_the_store = match cause.downcast_ref() {
        Some(AppError::Store(_)) => true,
        Some(AppError::Accounts(e)) => matches!(e, AccountsError::Store(_) | AccountsError::Key(_)),
        _ => cause.is::<StoreError>(),
    };
    of_the_store.then_some(STORE)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
