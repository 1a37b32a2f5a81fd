//! The operator's commands: one line of JSON each way, over a socket in the data directory.
//!
//! **A socket**, because the server's caches, and those of other nodes, would keep what is changed in the database
//! without it. A command that the server carries out passes the gates and transactions of requests, with their
//! effects on every node. **Not a route of the API**, because a route needs an account with all rights, which can be
//! guessed, stolen or forgotten. The system decides who may use a file.
//!
//! | file | content |
//! |---|---|
//! | `command.rs` | the commands, as they are sent and logged |
//! | `socket.rs` | the socket, its permissions and bounds |
//! | `act.rs` | execution of the commands |
//! | `audit.rs` | the audit log |
//! | `maintenance.rs` | the mode in which writes are refused |
//!
//! **Limit.** A command is for one node: log level and maintenance mode are the node's own. Deletions and clearing
//! the cache apply to all nodes.

mod act;
mod audit;
mod command;
mod maintenance;
mod socket;

pub use audit::{Entry, last};
pub use command::{Command, CommandError, LONGEST_REPLY, Reply};
pub use maintenance::{LONGEST_MESSAGE, Maintenance};
pub(crate) use socket::Running;
pub use socket::{FILE, Socket, SocketError};

/// Sets the filter of the log, or returns its fault.
pub type SetLog = Box<dyn Fn(&str) -> Result<(), Box<dyn std::error::Error>> + Send + Sync>;

/// Parts of the process that the operator's commands use.
pub struct Operated {
    /// Socket for the commands.
    pub socket: Socket,
    /// Version of the program.
    pub version: &'static str,
    /// Sets the filter of the log.
    pub set_log: SetLog,
}

crate::opaque_debug!(Operated);
