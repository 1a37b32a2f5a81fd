//! Why a database gave no number.

use std::io;
use std::time::Duration;

/// Why a database gave no number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DatabaseError {
    /// Its address cannot be used.
    #[error("{0}")]
    Address(String),
    #[error("{0}")]
    Failed(String),
    /// It answered, but not with the number that was asked for.
    #[error("{0}")]
    NoNumber(String),
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    #[error("interrupted")]
    Interrupted,
    #[error("no thread: {0}")]
    NoThread(String),
    #[error("its thread ended")]
    ThreadEnded,
}

impl DatabaseError {
    pub(crate) fn no_number(why: impl Into<String>) -> Self {
        Self::NoNumber(why.into())
    }

    pub(super) fn of_connection(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        Self::Failed(match error.kind() {
            Kind::WouldBlock | Kind::TimedOut => "no answer in time".to_owned(),
            Kind::UnexpectedEof | Kind::BrokenPipe | Kind::ConnectionReset => {
                "the connection was closed".to_owned()
            }
            _ => error.to_string(),
        })
    }
}
