//! `madang up restart`: a command through a socket in the directory of a running `madang up`.
//!
//! The client sends one line, `restart`. The server sends lines as the nodes are restarted; the last is
//! `done` or `failed`.

use super::directory::PREFIX;
use super::managed::{Context, Managed};
use super::report::log;
use crate::exit::ExitReason;
use crate::settings::usage;
use anyhow::Context as _;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Name of the socket.
const SOCKET: &str = "up.sock";
const COMMAND: &str = "restart";
const DONE: &str = "done";
const FAILED: &str = "failed";
/// Time limit for the other nodes to be ready before a node is restarted. A node restarts within
/// seconds; if one does not, no other may be stopped.
const OTHERS_TIME: Duration = Duration::from_secs(60);
/// Interval between two checks of the other nodes.
const POLL: Duration = Duration::from_millis(50);
/// Time limit for the command, which the client sends at once.
const COMMAND_TIME: Duration = Duration::from_secs(5);

/// Arguments of `madang up restart`.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Each node drains (server.drain_delay, server.drain_timeout), ends, and is started again at its
address. The next one follows once it is ready and nginx uses it again: two seconds later, with
--profile stock eleven. With several nodes behind nginx no request fails. The restart stops at a
node that does not become ready.

Examples:
  madang up restart             the only `madang up` of this user that runs in a temporary
                                directory
  madang up restart --dir shop  the one that was started with --dir shop")]
pub(crate) struct Args {
    /// Directory of the running `madang up` [default: the only temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitReason> {
    let stream = match &args.dir {
        Some(dir) => {
            connect(dir).with_context(|| format!("no `madang up` runs in {}", dir.display()))?
        }
        None => only_one()?,
    };
    (&stream).write_all(format!("{COMMAND}\n").as_bytes()).context("cannot ask for the restart")?;
    let mut out = io::stdout().lock();
    for line in BufReader::new(&stream).lines() {
        match line.context("cannot read how it goes")?.as_str() {
            DONE => return Ok(ExitReason::Done),
            FAILED => return Ok(ExitReason::Failed),
            line => writeln!(out, "{line}").and_then(|()| out.flush())?,
        }
    }
    anyhow::bail!("`madang up` ended before all nodes were restarted")
}

/// Connects to the only `madang up` of this user in a temporary directory.
fn only_one() -> anyhow::Result<UnixStream> {
    let mut found = Vec::new();
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Ok(stream) = connect(&entry.path())
        {
            found.push((entry.path(), stream));
        }
    }
    let names: Vec<String> = found.iter().map(|(dir, _)| dir.display().to_string()).collect();
    match (found.pop(), found.is_empty()) {
        (Some((_, stream)), true) => Ok(stream),
        (None, _) => Err(usage(
            "no `madang up` runs in a temporary directory; name its directory with --dir",
        )),
        _ => Err(usage(format!("several run; name one with --dir: {}", names.join(", ")))),
    }
}

/// Uses the socket of a directory through a short path: that of a socket has at most 107 bytes.
fn with_path<T>(dir: &Path, act: impl FnOnce(PathBuf) -> io::Result<T>) -> io::Result<T> {
    let opened = File::open(dir)?;
    act(Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join(SOCKET))
}

fn connect(dir: &Path) -> io::Result<UnixStream> {
    with_path(dir, UnixStream::connect)
}

/// The socket; removed when dropped.
pub(crate) struct Control {
    path: PathBuf,
}

impl Control {
    /// Starts to serve commands, one after another. The caller holds the lock of the directory.
    pub(crate) fn listen(nodes: &[Arc<Managed>], context: &Arc<Context>) -> anyhow::Result<Self> {
        let path = context.dir.join(SOCKET);
        let bind = || {
            // A killed process leaves its socket.
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            with_path(&context.dir, UnixListener::bind)
        };
        let listener = bind().with_context(|| format!("cannot listen on {}", path.display()))?;
        let (nodes, context) = (nodes.to_vec(), Arc::clone(context));
        // If a node ended while nginx still avoids another one, nginx could have none left.
        let front = context.plan.front.as_ref();
        let served = front.map_or(Duration::ZERO, |front| front.profile.left_out());
        // Ends with the process.
        std::thread::Builder::new().name("orders".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                let handled = stream.and_then(|stream| handle(&stream, &nodes, served, &context));
                if let Err(error) = handled {
                    log(format_args!("an order was not understood: {error}"));
                    // There may be no file descriptor left.
                    context.stopping.pause(Duration::from_millis(100));
                }
            }
        })?;
        Ok(Self { path })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A temporary directory is removed as a whole; in a named one the next start removes the socket.
        let _ = fs::remove_file(&self.path);
    }
}

fn handle(
    stream: &UnixStream,
    nodes: &[Arc<Managed>],
    served: Duration,
    context: &Context,
) -> io::Result<()> {
    stream.set_read_timeout(Some(COMMAND_TIME))?;
    let mut command = String::new();
    BufReader::new(stream).read_line(&mut command)?;
    match command.trim_end() {
        // The client only checked that this process runs.
        "" => return Ok(()),
        COMMAND => {}
        other => return Err(io::Error::other(format!("`{other}`"))),
    }
    // Continues even if the client leaves.
    let send = |line: &str| drop((&mut &*stream).write_all(format!("{line}\n").as_bytes()));
    for node in nodes {
        match restart(node, nodes, served, context) {
            Ok(Some(took)) => {
                send(&format!("{} restarted in {:.1} s", node.name, took.as_secs_f64()));
            }
            Ok(None) => return Ok(()),
            Err(why) => {
                log(format_args!("{why}"));
                send(&why);
                send(FAILED);
                return Ok(());
            }
        }
    }
    send(DONE);
    Ok(())
}

/// Restarts a node once all others have been ready for `served`; returns the time taken, or `None` when this process
/// is stopping.
fn restart(
    node: &Arc<Managed>,
    nodes: &[Arc<Managed>],
    served: Duration,
    context: &Context,
) -> Result<Option<Duration>, String> {
    let name = &node.name;
    let end = Instant::now() + OTHERS_TIME;
    for other in nodes.iter().filter(|other| !Arc::ptr_eq(other, node)) {
        while !other.has_served_for(served) {
            if Instant::now() > end {
                return Err(format!("{} is not ready, so {name} is not restarted", other.name));
            }
            if context.stopping.pause(POLL) {
                return Ok(None);
            }
        }
    }
    node.restart(context).map_err(|error| format!("{name} did not become ready: {error}"))
}
