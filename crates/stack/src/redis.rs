//! Debian's Redis, for tests and measurements: nothing on disk, a free port of 127.0.0.1.

use std::{
    fs, io,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    ops::Deref,
    path::Path,
    time::Duration,
};

use crate::{Error, Neighbour, Output, PortReservation, Spec, Supervisor};

/// Where Debian installs it.
const PROGRAM: &str = "/usr/bin/redis-server";
/// It opens one socket.
const READY_TIME: Duration = Duration::from_secs(10);
/// With nothing to save it ends at once.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A running Redis. Dropping it kills it.
#[derive(Debug)]
pub struct Redis(Neighbour);

/// Port, process and end are those of all such servers.
impl Deref for Redis {
    type Target = Neighbour;

    fn deref(&self) -> &Neighbour {
        &self.0
    }
}

impl Redis {
    /// Starts an empty Redis that saves nothing, in `dir`, which must exist.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] without Redis, otherwise as [`Supervisor::spawn`] and
    /// [`Process::ready_when`](crate::Process::ready_when).
    pub fn start(supervisor: &Supervisor, dir: &Path) -> Result<Self, Error> {
        let no_port = |source| Error::Io { what: "no free port".to_owned(), source };
        Self::listen(supervisor, dir, PortReservation::new().map_err(no_port)?)
    }

    /// Ends it, if it has not ended yet, and starts an empty one at the same address.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn again(self, supervisor: &Supervisor, dir: &Path) -> Result<Self, Error> {
        drop(self.0.process);
        Self::listen(supervisor, dir, self.0.reservation)
    }

    fn listen(
        supervisor: &Supervisor,
        dir: &Path,
        reservation: PortReservation,
    ) -> Result<Self, Error> {
        if !fs::exists(PROGRAM).unwrap_or(false) {
            return Err(Error::NotInstalled { program: "redis-server", package: "redis-server" });
        }
        let port = reservation.port();
        let spec = Spec::new(PROGRAM)
            .args(["--port".to_owned(), port.to_string()])
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--daemonize", "no", "--logfile", ""])
            .dir(dir)
            .stdout(Output::Null);
        let process = supervisor.spawn(&spec)?;
        let server = Self(Neighbour { process, reservation, grace: STOP_GRACE });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let answers = |left| ping(address, left).map_err(|error| error.to_string());
        server.0.process.ready_when("an answer to PING", READY_TIME, answers)?;
        Ok(server)
    }

    /// `redis://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }
}

fn ping(address: SocketAddr, time: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, time)?;
    stream.set_read_timeout(Some(time))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    if &answer == b"+PONG\r\n" { Ok(()) } else { Err(io::Error::other("not the answer of Redis")) }
}
