//! The operator's commands: one line of JSON each way, over a socket in the data directory.
//!
//! **Why a socket.** What is changed in the database behind a server's back stays in its caches, and in those of other
//! nodes. A command that the server itself carries out passes the gates and transactions of requests, with their
//! effects on every node. **Why not a route of the API.** A route needs an account that may do everything, which can be
//! guessed, stolen and forgotten. Who may use a file is decided by the system.
//!
//! | file | what it holds |
//! |---|---|
//! | `command.rs` | the commands, as they are sent and written down |
//! | `socket.rs` | the socket, who may use it, and its bounds |
//! | `act.rs` | what each command does |
//! | `audit.rs` | the file that says who did what |
//! | `maintenance.rs` | the mode in which writes are refused |
//!
//! **Limit.** A command is for one node: the level of its log and its maintenance mode are its own. What it takes away,
//! and the cache that it clears, are those of all nodes.

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

/// Sets the filter of a log, or says what is wrong with it.
pub type SetLog = Box<dyn Fn(&str) -> Result<(), Box<dyn std::error::Error>> + Send + Sync>;

/// What the process around the service gives to its operator.
pub struct Operated {
    /// Where commands come from.
    pub socket: Socket,
    /// Version of the program.
    pub version: &'static str,
    /// Sets the filter of the log.
    pub set_log: SetLog,
}

crate::opaque_debug!(Operated);
