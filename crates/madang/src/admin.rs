//! `madang admin`: commands of the operator, executed by a running server.

use crate::settings::SettingsArgs;
use anyhow::{Context as _, anyhow, bail};
use clap::Subcommand;
use madang_service::admin::{self, Command, CommandError, LONGEST_REPLY, Reply};
use madang_service::config::Settings;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `madang admin`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Talks to the server through `admin.sock` in its data directory, so it runs on the same machine,
as the user that runs the server or as root. USER is a nickname, or `id:` and a number. What is
deleted is gone from the cache of every node before the command ends. Each command is written to
`admin.log` there before it is carried out; `madang admin audit` prints that, also without a
server.

Examples:
  madang admin status              version, store, maintenance mode, log level
  madang admin user list mi        the newest users whose nicknames begin with mi
  madang admin user show mina      since when, how much is theirs, whether tokens were ended
  madang admin user password mina  set a random password, print it, and log mina out everywhere
  madang admin post delete 7       remove a post, whoever wrote it
  madang admin maintenance on --message 'back at 10:00'
                                   refuse writes; reads go on
  madang admin log-level debug     until the server stops
  madang admin --data /var/lib/madang audit --last 5
                                   who did what")]
pub(crate) struct Args {
    /// Data directory of the server (setting data.dir) [default: madang-data]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// Configuration file of the server [default: madang.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "MADANG_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Print the server's version, store, maintenance mode and log level
    Status,
    /// List users, show one, end their tokens, set a password, or delete the account
    #[command(subcommand)]
    User(UserAction),
    /// Remove a post
    #[command(subcommand)]
    Post(ContentAction),
    /// Delete an article with its comments and likes
    #[command(subcommand)]
    Article(ContentAction),
    /// Delete a comment on an article
    #[command(subcommand)]
    Comment(ContentAction),
    /// Delete a track with its runs
    #[command(subcommand)]
    Track(ContentAction),
    /// Discard cached answers
    #[command(subcommand)]
    Cache(CacheAction),
    /// Copy the write-ahead log into the database and begin it anew
    Checkpoint,
    /// Set the log level, or a filter as in log.level, until the server stops
    LogLevel {
        /// off, error, warn, info, debug, trace, or a filter
        #[arg(value_parser = log_filter)]
        level: String,
    },
    /// Refuse writes with 503 while reads go on
    #[command(subcommand)]
    Maintenance(MaintenanceAction),
    /// Print who gave which commands, from admin.log; needs no server
    Audit {
        /// Number of commands, the newest
        #[arg(long, value_name = "N", default_value_t = 20)]
        last: usize,
    },
}

#[derive(clap::Args, Debug)]
struct User {
    /// Nickname, or id: and a number
    user: String,
}

#[derive(Subcommand, Debug)]
enum UserAction {
    /// List users, the newest first
    List {
        /// Only those whose nicknames begin so
        #[arg(default_value = "", hide_default_value = true)]
        begins: String,
        /// Number of users, the newest
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
        last: u32,
    },
    /// Print what is stored of a user
    Show(User),
    /// End all tokens of a user
    Logout(User),
    /// Set a random password, print it, and end all tokens
    Password(User),
    /// Delete the account; posts, articles, comments and tracks stay without a name
    Delete(User),
}

#[derive(Subcommand, Debug)]
enum ContentAction {
    /// Take it away, for everybody and on every node
    Delete {
        /// Number of it, as in its path
        id: i64,
    },
}

#[derive(Subcommand, Debug)]
enum CacheAction {
    /// End all cached answers, on every node
    Clear,
}

#[derive(Subcommand, Debug)]
enum MaintenanceAction {
    /// Refuse writes from now on, also after a restart
    On {
        /// Message in the answers to refused requests, up to 200 characters
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
    },
    /// Take writes again
    Off,
}

fn log_filter(text: &str) -> anyhow::Result<String> {
    let wrong = "expected off, error, warn, info, debug, trace, or a filter such as info,madang_service=debug";
    madang_service::config::log_filter(text).context(wrong)
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let settings = SettingsArgs { data: args.data, config: args.config, set: Vec::new() };
    let settings = settings.resolve()?;
    let command = match args.action {
        Action::Audit { last } => return audit(&settings.data_dir, last),
        Action::Status => Command::Status,
        Action::User(UserAction::List { begins, last }) => Command::UserList { begins, last },
        Action::User(UserAction::Show(User { user })) => Command::UserShow { user },
        Action::User(UserAction::Logout(User { user })) => Command::UserLogout { user },
        Action::User(UserAction::Password(User { user })) => Command::UserPassword { user },
        Action::User(UserAction::Delete(User { user })) => Command::UserDelete { user },
        Action::Post(ContentAction::Delete { id }) => Command::PostDelete { id },
        Action::Article(ContentAction::Delete { id }) => Command::ArticleDelete { id },
        Action::Comment(ContentAction::Delete { id }) => Command::CommentDelete { id },
        Action::Track(ContentAction::Delete { id }) => Command::TrackDelete { id },
        Action::Cache(CacheAction::Clear) => Command::CacheClear,
        Action::Checkpoint => Command::Checkpoint,
        Action::LogLevel { level } => Command::LogLevel { level },
        Action::Maintenance(MaintenanceAction::On { message }) => {
            Command::MaintenanceOn { message }
        }
        Action::Maintenance(MaintenanceAction::Off) => Command::MaintenanceOff,
    };
    let reply = send(&settings, &command)?.map_err(|CommandError(why)| anyhow!(why))?;
    writeln!(std::io::stdout(), "{reply}")?;
    Ok(())
}

fn audit(dir: &Path, last: usize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for entry in admin::last(dir, last).with_context(|| format!("{}", dir.display()))? {
        let outcome =
            entry.outcome.as_deref().unwrap_or("no outcome: under way, or the server ended");
        let [who, what, outcome] = [entry.who.as_str(), &entry.command, outcome].map(printable);
        writeln!(out, "{}  {who}  {what}  {outcome}", entry.time)?;
    }
    Ok(())
}

/// Escapes control characters: text of a command must not move the terminal's cursor.
fn printable(text: &str) -> String {
    text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'")
}

/// Time beyond the server's limit for a request: queues, disk, reply.
const PATIENCE: Duration = Duration::from_secs(30);

fn send(settings: &Settings, command: &Command) -> anyhow::Result<Reply> {
    let dir = &settings.data_dir;
    let patience = settings.server.request_timeout + PATIENCE;
    let mut stream =
        connect(&dir.join(admin::FILE), patience).map_err(|e| connect_error(dir, &e))?;
    stream.set_read_timeout(Some(patience))?;
    let mut text = serde_json::to_string(command)?;
    text.push('\n');
    let mut reply = String::new();
    // A server that refuses a command without reading it replies nevertheless.
    let sent = stream.write_all(text.as_bytes());
    // Only the line: if the server closes with unread bytes, reading to the end fails.
    let received = BufReader::new(stream.take(LONGEST_REPLY)).read_line(&mut reply);
    if reply.ends_with('\n') {
        return serde_json::from_str(&reply).context("this program cannot read the server's reply");
    }
    // As text, because a broken pipe as a cause counts as a closed stdout, which is no failure.
    let why = match (sent, received) {
        (Err(error), _) | (_, Err(error)) => format!(" ({error})"),
        _ => String::new(),
    };
    bail!(
        "the server ended the connection without a reply{why}; `madang admin audit` shows whether it had begun"
    )
}

/// Connects with a time limit, as a server with too many connections accepts none for a while. The limit remains for
/// writes.
fn connect(path: &Path, patience: Duration) -> std::io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path).map_err(|_| ErrorKind::InvalidInput)?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let stream = UnixStream::from(socket_with(family, kind, SocketFlags::CLOEXEC, None)?);
    stream.set_write_timeout(Some(patience))?;
    rustix::net::connect(&stream, &address)?;
    Ok(stream)
}

fn connect_error(dir: &Path, error: &std::io::Error) -> anyhow::Error {
    let dir = dir.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
            "no server is running in the data directory {dir}; name the directory of one with --data"
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "not permitted in the data directory {dir}: run this as the user that runs the server, or as root"
        ),
        ErrorKind::InvalidInput => {
            anyhow!("the data directory {dir} has too long a path for a socket (107 bytes at most)")
        }
        ErrorKind::WouldBlock => anyhow!(
            "the server in the data directory {dir} does not answer; its log and `/health/live` show more"
        ),
        _ => anyhow!("cannot connect to the server in the data directory {dir}: {error}"),
    }
}
