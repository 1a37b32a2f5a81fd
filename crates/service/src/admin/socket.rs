//! The admin socket, and the thread that serves it.
//!
//! It is the file `admin.sock` with mode 0600 in the data directory, so the system decides who may connect. The user
//! of a connection is checked as well: the user that runs the server, or root. Each connection has one command. Few
//! connections are served at once, each with a deadline for its command and one for taking the reply; further ones
//! wait in the kernel.
//!
//! An accepted command is carried out to its end, even if nobody waits for the reply.

use super::act::Admin;
use super::audit::Peer;
use super::command::{Command, CommandError, LONGEST_COMMAND, Reply};
use super::{LONGEST_REPLY, Operated};
use crate::app::App;
use crate::config::Settings;
use crate::ops::quiet_log::QuietLog;
use crate::ops::thread::Joined;
use rustix::fs::{Mode, fchmod};
use socket2::{Domain, SockAddr, Type};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Name of the socket in the data directory.
pub const FILE: &str = "admin.sock";

const MOST_CONNECTIONS: usize = 8;
/// Further connections that wait in the kernel.
const BACKLOG: i32 = 16;
/// Time limit for a client to take the reply.
const REPLY_TIME: Duration = Duration::from_secs(5);

static ACCEPT_ERRORS: QuietLog = QuietLog::every_seconds(1);

/// The bound socket. Drop deletes its file.
#[derive(Debug)]
pub struct Socket {
    listener: Option<StdListener>,
    path: PathBuf,
}

/// Error of binding the socket. A server can run without it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", path.display(), reason(source))]
pub struct SocketError {
    path: PathBuf,
    source: io::Error,
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidInput => {
            "the path of a socket has 107 bytes at most; use a shorter data directory".to_owned()
        }
        ErrorKind::AlreadyExists => "this file is not a socket; move it away".to_owned(),
        _ => error.to_string(),
    }
}

impl Socket {
    /// Binds it, and replaces one left by a killed server. The caller holds the lock of the directory.
    ///
    /// # Errors
    /// The path is too long, another file is in its place, or the file system has no sockets.
    pub fn bind(dir: &Path) -> Result<Self, SocketError> {
        let path = dir.join(FILE);
        match bind(&path) {
            Ok(listener) => Ok(Self { listener: Some(listener), path }),
            Err(source) => Err(SocketError { path, source }),
        }
    }
}

fn bind(path: &Path) -> io::Result<StdListener> {
    let address = SockAddr::unix(path)?;
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ErrorKind::AlreadyExists.into());
        }
        Ok(_) => std::fs::remove_file(path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Before it is bound, so that the file always has this mode.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&address)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(OwnedFd::from(socket).into())
}

impl Drop for Socket {
    fn drop(&mut self) {
        // It is this server's file: the lock of the directory is still held.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The thread. On drop it finishes running commands and ends.
#[derive(Debug)]
pub(crate) struct Running {
    _thread: Joined,
    stop: watch::Sender<bool>,
}

impl Running {
    pub(crate) fn start(
        operated: Operated,
        app: &Arc<App>,
        settings: &Settings,
    ) -> io::Result<Running> {
        let Operated { mut socket, version, set_log } = operated;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let admin = Arc::new(Admin::new(Arc::clone(app), settings, version, set_log));
        let (stop, stopped) = watch::channel(false);
        let drain_timeout = settings.server.drain_timeout;
        let listener = {
            let _inside = runtime.enter();
            let listener = socket.listener.take().ok_or(ErrorKind::NotConnected)?;
            UnixListener::from_std(listener)?
        };
        let desk = Desk { admin, command_time: settings.server.header_timeout, stopped };
        let _thread = Joined::spawn("admin", move || {
            runtime.block_on(desk.serve(listener, drain_timeout));
            // Deletes its file when no more connections are accepted.
            drop(socket);
        })?;
        Ok(Running { _thread, stop })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

#[derive(Clone)]
struct Desk {
    admin: Arc<Admin>,
    command_time: Duration,
    stopped: watch::Receiver<bool>,
}

impl Desk {
    async fn serve(self, listener: UnixListener, drain_timeout: Duration) {
        let mut stopped = self.stopped.clone();
        let mut open = JoinSet::new();
        let accepting = async {
            let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
            while let Ok(place) = Arc::clone(&places).acquire_owned().await {
                // Remove finished ones.
                while open.try_join_next().is_some() {}
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let desk = self.clone();
                        open.spawn(async move {
                            desk.hear(stream).await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        if let Some(unsaid) = ACCEPT_ERRORS.admit() {
                            tracing::warn!(%error, unsaid, "cannot accept admin connections");
                        }
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            }
        };
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => {}
            () = accepting => {}
        }
        drop(listener);
        let finished = timeout(drain_timeout, async { while open.join_next().await.is_some() {} });
        if finished.await.is_err() {
            tracing::warn!("an admin command was not finished in time");
        }
    }

    async fn hear(mut self, mut stream: UnixStream) {
        let command = tokio::select! {
            // A partial command is dropped.
            _ = self.stopped.wait_for(|stop| *stop) => return,
            command = timeout(self.command_time, command(&mut stream)) => command,
        };
        let reply = match (command, peer(&stream)) {
            (Err(_), _) => Err("the command did not arrive in time".into()),
            // The client is gone.
            (Ok(Ok(None) | Err(_)), _) => return,
            (_, Err(refused)) => Err(refused),
            (Ok(Ok(Some(Err(refused)))), _) => Err(refused),
            (Ok(Ok(Some(Ok(command)))), Ok(peer)) => self.admin.carry_out(command, peer).await,
        };
        let _ = timeout(REPLY_TIME, send(&mut stream, &reply)).await;
    }
}

/// Reads the command of a connection; `None` if it ends before.
async fn command(stream: &mut UnixStream) -> io::Result<Option<Result<Command, CommandError>>> {
    let mut line = Vec::with_capacity(256);
    while !line.ends_with(b"\n") {
        if line.len() >= LONGEST_COMMAND {
            let text = format!("the command is longer than {LONGEST_COMMAND} bytes");
            return Ok(Some(Err(text.into())));
        }
        let room = LONGEST_COMMAND - line.len();
        if (&mut *stream).take(room as u64).read_buf(&mut line).await? == 0 {
            return Ok(None);
        }
    }
    let read = serde_json::from_slice(&line);
    Ok(Some(read.map_err(|error| format!("the server cannot read the command: {error}").into())))
}

/// The peer of a connection, if it may give commands.
fn peer(stream: &UnixStream) -> Result<Peer, CommandError> {
    let cred = stream.peer_cred().map_err(|error| format!("cannot tell who asks: {error}"))?;
    let (uid, own) = (cred.uid(), rustix::process::geteuid().as_raw());
    if uid == 0 || uid == own {
        return Ok(Peer { uid, pid: cred.pid() });
    }
    tracing::warn!(uid, "refused an admin command of another user");
    Err(format!("not permitted: only user {own}, who runs the server, and root may").into())
}

async fn send(stream: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    let mut text = serde_json::to_vec(reply)?;
    text.push(b'\n');
    debug_assert!(text.len() as u64 <= LONGEST_REPLY, "no reply is so long");
    stream.write_all(&text).await?;
    stream.shutdown().await
}
