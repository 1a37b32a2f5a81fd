//! `madang up restart`: a word through a socket in the directory of a running `madang up`.
//!
//! One line goes there, `restart`. Lines come back as the nodes are restarted; the last one is `done`
//! or `failed`.

use super::directory::PREFIX;
use super::kept::{Kept, Means};
use super::plan::FrontPlan;
use super::report::tell;
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
const ORDER: &str = "restart";
const DONE: &str = "done";
const FAILED: &str = "failed";
/// Time that the other nodes get to serve again before a node is restarted. A node is started again
/// within seconds; one that does not start is a reason not to take another one away.
const OTHERS_TIME: Duration = Duration::from_secs(60);
/// Time between two looks at the other nodes.
const LOOK: Duration = Duration::from_millis(50);
/// Time for the one line of an order, which is sent at once.
const ORDER_TIME: Duration = Duration::from_secs(5);

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
pub struct Args {
    /// Directory of the running `madang up` [default: the only temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<ExitReason> {
    let stream = match &args.dir {
        Some(dir) => {
            connect(dir).with_context(|| format!("no `madang up` runs in {}", dir.display()))?
        }
        None => only_one()?,
    };
    (&stream).write_all(format!("{ORDER}\n").as_bytes()).context("cannot ask for the restart")?;
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

/// The one `madang up` of this user that has a temporary directory.
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

/// The socket of a directory by a short path: a name of a socket has 107 bytes at most.
fn with_path<T>(dir: &Path, act: impl FnOnce(PathBuf) -> io::Result<T>) -> io::Result<T> {
    let opened = File::open(dir)?;
    act(Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join(SOCKET))
}

fn connect(dir: &Path) -> io::Result<UnixStream> {
    with_path(dir, UnixStream::connect)
}

/// The socket; removed when dropped.
pub struct Control {
    path: PathBuf,
}

impl Control {
    /// Answers orders from now on, one after another. The caller holds the lock of the directory.
    pub fn listen(
        dir: &Path,
        nodes: &[Arc<Kept>],
        front: Option<&FrontPlan>,
        means: &Arc<Means>,
    ) -> anyhow::Result<Self> {
        let path = dir.join(SOCKET);
        let bind = || {
            // One that was killed has left its own.
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            with_path(dir, UnixListener::bind)
        };
        let listener = bind().with_context(|| format!("cannot listen on {}", path.display()))?;
        let (nodes, means) = (nodes.to_vec(), Arc::clone(means));
        // If a node ended while nginx still leaves out another one, nginx would know none.
        let served = front.map_or(Duration::ZERO, |front| front.profile.left_out());
        // It ends with the process.
        std::thread::Builder::new().name("orders".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                let answered = stream.and_then(|stream| answer(&stream, &nodes, served, &means));
                if let Err(error) = answered {
                    tell(format_args!("an order was not understood: {error}"));
                    // As when there is no file descriptor left.
                    means.stopping.pause(Duration::from_millis(100));
                }
            }
        })?;
        Ok(Self { path })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A temporary directory goes as a whole; in a named one the next start removes it.
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(
    stream: &UnixStream,
    nodes: &[Arc<Kept>],
    served: Duration,
    means: &Means,
) -> io::Result<()> {
    stream.set_read_timeout(Some(ORDER_TIME))?;
    let mut order = String::new();
    BufReader::new(stream).read_line(&mut order)?;
    match order.trim_end() {
        // Somebody only looked whether this process is there.
        "" => return Ok(()),
        ORDER => {}
        other => return Err(io::Error::other(format!("`{other}`"))),
    }
    // Whoever asked may leave: what was begun is finished.
    let say = |line: &str| drop((&mut &*stream).write_all(format!("{line}\n").as_bytes()));
    for node in nodes {
        match restart(node, nodes, served, means) {
            Ok(Some(took)) => {
                say(&format!("{} restarted in {:.1} s", node.name, took.as_secs_f64()));
            }
            Ok(None) => return Ok(()),
            Err(why) => {
                tell(format_args!("{why}"));
                say(&why);
                say(FAILED);
                return Ok(());
            }
        }
    }
    say(DONE);
    Ok(())
}

/// Restarts a node once all others have served for this long; answers how long that took, or nothing when this process
/// is to stop.
fn restart(
    node: &Arc<Kept>,
    nodes: &[Arc<Kept>],
    served: Duration,
    means: &Means,
) -> Result<Option<Duration>, String> {
    let name = &node.name;
    let end = Instant::now() + OTHERS_TIME;
    for other in nodes.iter().filter(|other| !Arc::ptr_eq(other, node)) {
        while !other.has_served_for(served) {
            if Instant::now() > end {
                return Err(format!("{} is not ready, so {name} is not restarted", other.name));
            }
            if means.stopping.pause(LOOK) {
                return Ok(None);
            }
        }
    }
    node.restart(means).map_err(|error| format!("{name} did not become ready: {error}"))
}
