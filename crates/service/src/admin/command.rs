//! The commands, as one program sends them to the other.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of the longest command with the end of its line.
pub(super) const LONGEST_COMMAND: usize = 4096;

/// Bytes of the longest reply.
pub const LONGEST_REPLY: u64 = 64 * 1024;

/// What to print, or why it was not done.
pub type Reply = Result<String, String>;

/// A command of the operator. A user is a nickname, or `id:` and a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// What this server is and does.
    Status,
    /// What is stored of a user.
    UserShow {
        /// Whom.
        user: String,
    },
    /// Ends all tokens of a user.
    UserLogout {
        /// Whose.
        user: String,
    },
    /// Sets a random password and ends all tokens.
    UserPassword {
        /// Whose.
        user: String,
    },
    /// Deletes the account.
    UserDelete {
        /// Whose.
        user: String,
    },
    /// Removes a post.
    PostDelete {
        /// Which.
        id: i64,
    },
    /// Deletes an article with its comments and likes.
    ArticleDelete {
        /// Which.
        id: i64,
    },
    /// Deletes a comment.
    CommentDelete {
        /// Which.
        id: i64,
    },
    /// Deletes a track with its runs.
    TrackDelete {
        /// Which.
        id: i64,
    },
    /// Ends all that is cached, on every node.
    CacheClear,
    /// Takes the write-ahead log into the database.
    Checkpoint,
    /// Sets the filter of the log until the server stops.
    LogLevel {
        /// A level, or a filter as in `log.level`.
        level: String,
    },
    /// Refuses writes from now on.
    MaintenanceOn {
        /// What clients are told.
        message: Option<String>,
    },
    /// Takes writes again.
    MaintenanceOff,
}

impl Command {
    /// Whether it is written down: all that changes something or shows what is stored of somebody.
    pub(super) fn is_audited(&self) -> bool {
        *self != Self::Status
    }
}

/// As it is typed.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status => f.write_str("status"),
            Self::UserShow { user } => write!(f, "user show {user}"),
            Self::UserLogout { user } => write!(f, "user logout {user}"),
            Self::UserPassword { user } => write!(f, "user password {user}"),
            Self::UserDelete { user } => write!(f, "user delete {user}"),
            Self::PostDelete { id } => write!(f, "post delete {id}"),
            Self::ArticleDelete { id } => write!(f, "article delete {id}"),
            Self::CommentDelete { id } => write!(f, "comment delete {id}"),
            Self::TrackDelete { id } => write!(f, "track delete {id}"),
            Self::CacheClear => f.write_str("cache clear"),
            Self::Checkpoint => f.write_str("checkpoint"),
            Self::LogLevel { level } => write!(f, "log-level {level}"),
            Self::MaintenanceOn { message: None } => f.write_str("maintenance on"),
            Self::MaintenanceOn { message: Some(text) } => {
                write!(f, "maintenance on --message \"{text}\"")
            }
            Self::MaintenanceOff => f.write_str("maintenance off"),
        }
    }
}
