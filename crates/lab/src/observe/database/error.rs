use std::io;
use std::time::Duration;

/// Error of reading a number from a database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error("{0}")]
    Failed(String),
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
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
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
