//! The commands, as they are sent.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of the longest command with the end of its line.
pub(super) const LONGEST_COMMAND: usize = 4096;

/// Bytes of the longest reply.
pub const LONGEST_REPLY: u64 = 64 * 1024;

/// The text to print, or the failure.
pub type Reply = Result<String, CommandError>;

/// The failure of a command, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandError(pub String);

/// Takes the message of any error, like `anyhow::Error`; so it is not an `Error` itself.
impl<E: fmt::Display> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A command of the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Shows the version, the store, the cache and the modes of the server.
    Status,
    /// Lists users, the newest first.
    UserList {
        /// Prefix of nicknames; may be empty.
        begins: String,
        /// Most users to list, 1 to 200.
        last: u32,
    },
    /// Shows the stored data of a user.
    UserShow {
        /// A nickname, or `id:` and a number.
        user: String,
    },
    /// Ends all tokens of a user.
    UserLogout {
        /// A nickname, or `id:` and a number.
        user: String,
    },
    /// Sets a random password and ends all tokens.
    UserPassword {
        /// A nickname, or `id:` and a number.
        user: String,
    },
    /// Deletes the account.
    UserDelete {
        /// A nickname, or `id:` and a number.
        user: String,
    },
    /// Removes a post.
    PostDelete {
        /// Identifier of the post.
        id: i64,
    },
    /// Deletes an article with its comments and likes.
    ArticleDelete {
        /// Identifier of the article.
        id: i64,
    },
    /// Deletes a comment.
    CommentDelete {
        /// Identifier of the comment.
        id: i64,
    },
    /// Deletes a track with its runs.
    TrackDelete {
        /// Identifier of the track.
        id: i64,
    },
    /// Ends all cached responses, on every node.
    CacheClear,
    /// Copies the write-ahead log into the database.
    Checkpoint,
    /// Sets the filter of the log until the server stops.
    LogLevel {
        /// A level, or a filter as in `log.level`.
        level: String,
    },
    /// Refuses writes from now on.
    MaintenanceOn {
        /// Message in the 503 answers: one line, 1 to 200 characters.
        message: Option<String>,
    },
    /// Takes writes again.
    MaintenanceOff,
}

impl Command {
    /// Whether it is logged: all that change something or show data of users.
    pub(super) fn is_audited(&self) -> bool {
        *self != Self::Status
    }
}

/// As it is typed.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status => f.write_str("status"),
            Self::UserList { begins, last } => write!(f, "user list {begins} --last {last}"),
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
