//! Exit codes, all decided here: from the reason for which a command ended, or from its error.

use crate::compare::CheckError;
use crate::settings::Usage;
use madang_lab::experiment::FileError;
use madang_lab::limit::PlanError;
use madang_lab::stored::StoredError;
use madang_lab::{Conclusion, NoQuick, RunError};
use madang_service::accounts::AccountsError;
use madang_service::app::AppError;
use madang_service::config::ConfigError;
use madang_service::http::server::BindError;
use madang_service::store::backup::BackupError;
use madang_service::store::copy::CopyError;
use madang_service::store::{LockError, StoreError};
use std::io::ErrorKind;
use std::process::ExitCode;

/// Printed below the help of every command.
pub(crate) const TABLE: &str = "\
Exit codes:
    0  done
    1  failed, wholly or in part
    2  wrong usage, setting or file
    3  the machine was too noisy, or the load generator too slow, to tell
    4  the address is taken, or not of this machine
    5  the data directory is in use by another process
    6  the store, or the token key beside it, is unusable
    7  --fail-on matched: by default, a prediction is refuted
    8  what was measured is broken: the server crashed, the script threw, more than 1 % of a check
       failed, an invariant does not hold, no request succeeded, or `limit`'s goal is missed even
       at one request a second
  130  interrupted
`load` has those of k6:
   99  a threshold failed
  100  setup() took too long
  101  teardown() took too long
  104  an option or feature is wrong or missing
  105  stopped by a signal
  107  the script threw in its init code, setup() or teardown()
  108  exec.test.abort() was called
  109  the load engine panicked
  110  exec.test.fail() was called";

/// Reason for which a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitReason {
    Done,
    Failed,
    WrongUsage,
    CannotTell,
    AddressTaken,
    DirectoryInUse,
    StoreUnusable,
    FailOn,
    SystemBroken,
    Interrupted,
    /// Exit code of another load generator.
    Other(u8),
    Load(madang_load::ExitStatus),
}

impl ExitReason {
    /// The number in [`TABLE`].
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::WrongUsage => 2,
            Self::CannotTell => 3,
            Self::AddressTaken => 4,
            Self::DirectoryInUse => 5,
            Self::StoreUnusable => 6,
            Self::FailOn => 7,
            Self::SystemBroken => 8,
            Self::Load(status) => status.code(),
            Self::Other(code) => code,
            Self::Interrupted => 130,
        }
    }

    /// Ends the process immediately, as on a second Ctrl-C.
    pub(crate) fn at_once(self) -> ! {
        std::process::exit(self.code().into())
    }
}

impl From<()> for ExitReason {
    fn from((): ()) -> Self {
        Self::Done
    }
}

impl From<Conclusion> for ExitReason {
    fn from(conclusion: Conclusion) -> Self {
        match conclusion {
            Conclusion::Done => Self::Done,
            Conclusion::Failed => Self::Failed,
            Conclusion::CannotTell => Self::CannotTell,
            Conclusion::SystemBroken => Self::SystemBroken,
            Conclusion::Interrupted => Self::Interrupted,
        }
    }
}

/// Partial success. The failures have been reported already.
#[derive(Debug, thiserror::Error)]
#[error("not everything could be done")]
pub(crate) struct Partly;

/// Prints the error, if any, as one line, and returns the exit code.
pub(crate) fn code<E: Into<ExitReason>>(result: anyhow::Result<E>) -> ExitCode {
    let ended = match result {
        Ok(ended) => ended.into(),
        // The reader of stdout needs no more.
        Err(error) if is_broken_pipe(&error) => ExitReason::Done,
        Err(error) => {
            if !error.is::<Partly>() {
                crate::terminal::message(format_args!("madang: {error:#}"));
            }
            error.chain().find_map(reason).unwrap_or(ExitReason::Failed)
        }
    };
    ExitCode::from(ended.code())
}

fn reason(cause: &(dyn std::error::Error + 'static)) -> Option<ExitReason> {
    if is_wrong_usage(cause) {
        return Some(ExitReason::WrongUsage);
    }
    if let Some(BindError { source, .. }) = cause.downcast_ref() {
        let is_address =
            matches!(source.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable);
        return Some(if is_address { ExitReason::AddressTaken } else { ExitReason::Failed });
    }
    if let Some(error) = cause.downcast_ref() {
        return Some(lock_reason(error));
    }
    if let Some(error) = cause.downcast_ref() {
        return Some(backup_reason(error));
    }
    let is_of_store = match cause.downcast_ref() {
        Some(AppError::Store(_)) => true,
        Some(AppError::Accounts(e)) => matches!(e, AccountsError::Store(_) | AccountsError::Key(_)),
        _ => cause.is::<StoreError>(),
    };
    let is_of_copy = matches!(
        cause.downcast_ref(),
        Some(CopyError::Store(_) | CopyError::Key(_) | CopyError::Refused(_))
    );
    (is_of_store || is_of_copy).then_some(ExitReason::StoreUnusable)
}

fn lock_reason(error: &LockError) -> ExitReason {
    match error {
        LockError::InUse { .. } => ExitReason::DirectoryInUse,
        LockError::Unusable { .. } => ExitReason::StoreUnusable,
    }
}

fn backup_reason(error: &BackupError) -> ExitReason {
    match error {
        BackupError::Lock(error) => lock_reason(error),
        BackupError::Copy(error) => reason(error).unwrap_or(ExitReason::Failed),
        BackupError::Store(_) | BackupError::Key(_) | BackupError::Damaged(_) => {
            ExitReason::StoreUnusable
        }
        BackupError::Refused(_) => ExitReason::WrongUsage,
        BackupError::Io { .. } => ExitReason::Failed,
    }
}

/// Wrong usage, setting or file.
fn is_wrong_usage(cause: &(dyn std::error::Error + 'static)) -> bool {
    let run = cause.downcast_ref::<RunError>();
    matches!(run, Some(RunError::NotEmpty(_) | RunError::Stored(_)))
        || matches!(cause.downcast_ref(), Some(CopyError::Url(_)))
        || cause.is::<ConfigError>()
        || cause.is::<Usage>()
        || cause.is::<FileError>()
        || cause.is::<NoQuick>()
        || cause.is::<CheckError>()
        || cause.is::<StoredError>()
        || cause.is::<PlanError>()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use madang_load::ExitStatus;
    use std::collections::BTreeSet;

    /// All reasons, which the table has to list.
    const ALL: [ExitReason; 19] = [
        ExitReason::Done,
        ExitReason::Failed,
        ExitReason::WrongUsage,
        ExitReason::CannotTell,
        ExitReason::AddressTaken,
        ExitReason::DirectoryInUse,
        ExitReason::StoreUnusable,
        ExitReason::FailOn,
        ExitReason::SystemBroken,
        ExitReason::Interrupted,
        ExitReason::Load(ExitStatus::ThresholdsFailed),
        ExitReason::Load(ExitStatus::SetupTimeout),
        ExitReason::Load(ExitStatus::TeardownTimeout),
        ExitReason::Load(ExitStatus::InvalidConfig),
        ExitReason::Load(ExitStatus::ExternalAbort),
        ExitReason::Load(ExitStatus::ScriptException),
        ExitReason::Load(ExitStatus::ScriptAborted),
        ExitReason::Load(ExitStatus::Panic),
        ExitReason::Load(ExitStatus::MarkedAsFailed),
    ];

    #[test]
    fn an_address_is_taken_when_the_system_says_so_and_not_when_it_forbids_it() {
        let ended = |kind: ErrorKind| {
            let address = ([127, 0, 0, 1], 80).into();
            reason(&BindError { setting: "server.listen", address, source: kind.into() })
        };
        assert_eq!(ended(ErrorKind::AddrInUse), Some(ExitReason::AddressTaken));
        assert_eq!(ended(ErrorKind::AddrNotAvailable), Some(ExitReason::AddressTaken));
        assert_eq!(ended(ErrorKind::PermissionDenied), Some(ExitReason::Failed));
    }

    #[test]
    fn each_code_has_one_cause_and_stands_in_the_table() {
        let codes: BTreeSet<u8> = ALL.iter().map(|ended| ended.code()).collect();
        assert_eq!(codes.len(), ALL.len());
        let first = |line: &str| line.split_whitespace().next()?.parse::<u8>().ok();
        let printed: Vec<u8> = TABLE.lines().filter_map(first).collect();
        let codes: Vec<u8> = codes.into_iter().collect();
        let mut sorted = printed.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, codes, "{TABLE}");
    }
}
