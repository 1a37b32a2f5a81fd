//! Valkey, or Redis where that is what is installed: a free port of 127.0.0.1, nothing saved on disk.

use std::{
    fs, io,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    ops::Deref,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Error, Neighbour, Output, PortReservation, Spec, Supervisor};

/// Where Debian installs them. The first that is there is used.
const PROGRAMS: [&str; 2] = ["/usr/bin/valkey-server", "/usr/bin/redis-server"];
/// It opens one socket.
const READY_TIME: Duration = Duration::from_secs(10);
/// With nothing to save it ends at once.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Redis {
    neighbour: Neighbour,
    dir: PathBuf,
    args: Vec<String>,
}

/// Port, process and end are those of all such servers.
impl Deref for Redis {
    type Target = Neighbour;

    fn deref(&self) -> &Neighbour {
        &self.neighbour
    }
}

impl Redis {
    /// Starts an empty server that saves nothing, in `dir`, which must exist.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] without such a server, otherwise as [`Supervisor::spawn`] and
    /// [`Process::ready_when`](crate::Process::ready_when).
    pub fn start(supervisor: &Supervisor, dir: &Path) -> Result<Self, Error> {
        Self::with(supervisor, dir, &[])
    }

    /// [`start`](Self::start) with further arguments of the server, which count more than its own.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn with(supervisor: &Supervisor, dir: &Path, args: &[&str]) -> Result<Self, Error> {
        let no_port = |source| Error::Io { what: "no free port".to_owned(), source };
        let reservation = PortReservation::new().map_err(no_port)?;
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let process = spawn(supervisor, dir, reservation.port(), &args)?;
        let neighbour = Neighbour { process, reservation, grace: STOP_GRACE };
        let server = Self { neighbour, dir: dir.to_owned(), args };
        server.await_answer()?;
        Ok(server)
    }

    /// Ends it, if it has not ended yet, and starts it again at the same address, empty.
    ///
    /// # Errors
    /// As [`start`](Self::start). The server is then down, and this can be tried again.
    pub fn restart(&mut self, supervisor: &Supervisor) -> Result<(), Error> {
        self.neighbour.stop()?;
        self.neighbour.process = spawn(supervisor, &self.dir, self.port(), &self.args)?;
        self.await_answer()
    }

    /// `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    fn await_answer(&self) -> Result<(), Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()));
        let answers = |left| ping(address, left).map_err(|error| error.to_string());
        self.neighbour.process.ready_when("an answer to PING", READY_TIME, answers)
    }
}

/// Whether one is installed.
///
/// # Errors
/// [`Error::NotInstalled`].
pub fn installed() -> Result<(), Error> {
    program().map(drop)
}

fn program() -> Result<&'static str, Error> {
    let found = PROGRAMS.into_iter().find(|program| fs::exists(program).unwrap_or(false));
    found.ok_or(Error::NotInstalled { program: "redis-server", package: "redis-server" })
}

fn spawn(
    supervisor: &Supervisor,
    dir: &Path,
    port: u16,
    args: &[String],
) -> Result<crate::Process, Error> {
    let spec = Spec::new(program()?)
        .args(["--port".to_owned(), port.to_string()])
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--daemonize", "no", "--logfile", ""])
        .args(args)
        .dir(dir)
        .stdout(Output::Null);
    supervisor.spawn(&spec)
}

fn ping(address: SocketAddr, time: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, time)?;
    stream.set_read_timeout(Some(time))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    if &answer == b"+PONG\r\n" { Ok(()) } else { Err(io::Error::other("not the answer of Redis")) }
}
