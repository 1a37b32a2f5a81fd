//! Valkey, or else Redis: a free port of 127.0.0.1, by default nothing saved on disk.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use crate::{Error, Output, PortReservation, Result, Spec, Supervisor, ThirdPartyServer};

/// Paths in Debian. The first that exists is used.
const PROGRAMS: [&str; 2] = ["/usr/bin/valkey-server", "/usr/bin/redis-server"];
/// The server opens one socket.
const READY_TIME: Duration = Duration::from_secs(10);
/// Members of a cluster contact each other ten times a second.
const CLUSTER_TIME: Duration = Duration::from_secs(30);
/// Maximum size of a reply.
const ANSWER_BYTES: u64 = 64 << 10;
/// A member's state of the cluster.
const CLUSTER_FILE: &str = "nodes.conf";
/// Slots of a cluster.
const SLOTS: u16 = 16384;
/// Without anything to save it ends at once.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Redis {
    server: ThirdPartyServer,
    dir: PathBuf,
    args: Vec<String>,
    /// Port of the cluster bus.
    bus: Option<PortReservation>,
}

impl Deref for Redis {
    type Target = ThirdPartyServer;

    fn deref(&self) -> &ThirdPartyServer {
        &self.server
    }
}

impl Redis {
    /// Starts an empty server that saves nothing, in `dir`, which must exist.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] without such a server, otherwise as [`Supervisor::spawn`] and
    /// [`Process::ready_when`](crate::Process::ready_when).
    pub fn start(supervisor: &Supervisor, dir: &Path) -> Result<Self> {
        Self::with(supervisor, dir, &[])
    }

    /// As [`start`](Self::start), with further arguments, which override the defaults.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn with(supervisor: &Supervisor, dir: &Path, args: &[&str]) -> Result<Self> {
        let no_port = |source| Error::Io { what: "no free port".to_owned(), source };
        let reservation = PortReservation::new().map_err(no_port)?;
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let process = spawn(supervisor, dir, reservation.port(), &args)?;
        let server = ThirdPartyServer { process, reservation, grace: STOP_GRACE };
        let server = Self { server, dir: dir.to_owned(), args, bus: None };
        server.await_answer()?;
        Ok(server)
    }

    /// Starts a cluster of `servers` empty servers, each with its own directory in `dir`. The slots are divided
    /// evenly, without replicas; when one server is down, the others still serve their slots.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn cluster(
        supervisor: &Supervisor,
        dir: &Path,
        servers: u16,
        args: &[&str],
    ) -> Result<Vec<Self>> {
        let failed = |source| Error::Io { what: "no cluster".to_owned(), source };
        let mut cluster = Vec::new();
        for number in 1..=servers {
            let home = dir.join(number.to_string());
            fs::create_dir_all(&home).map_err(failed)?;
            // The file of an earlier start has other ports.
            match fs::remove_file(home.join(CLUSTER_FILE)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
            let bus = PortReservation::new().map_err(failed)?;
            let port = bus.port().to_string();
            let mut own = vec!["--cluster-enabled", "yes", "--cluster-config-file", CLUSTER_FILE];
            own.extend(["--cluster-port", &port, "--cluster-node-timeout", "2000"]);
            own.extend(["--cluster-require-full-coverage", "no"]);
            own.extend(args);
            let server = Self::with(supervisor, &home, &own)?;
            cluster.push(Self { bus: Some(bus), ..server });
        }
        join(&cluster).map_err(failed)?;
        let known = format!("cluster_known_nodes:{servers}\r\n");
        for server in &cluster {
            let is_joined = |left| {
                let info = ask(server.address(), left, "CLUSTER INFO")?;
                let parts = ["cluster_state:ok\r\n", "cluster_slots_ok:16384\r\n", &known];
                let is_whole = parts.iter().all(|part| info.contains(part));
                if is_whole { Ok(()) } else { Err(io::Error::other(info)) }
            };
            server.process.ready_when("a whole cluster", CLUSTER_TIME, is_joined)?;
        }
        Ok(cluster)
    }

    /// Stops the server if it runs, and starts it again at the same address, empty.
    ///
    /// # Errors
    /// As [`start`](Self::start). The server is then down; the restart can be repeated.
    pub fn restart(&mut self, supervisor: &Supervisor) -> Result<()> {
        self.server.stop()?;
        self.server.process = spawn(supervisor, &self.dir, self.port(), &self.args)?;
        self.await_answer()
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()))
    }

    fn await_answer(&self) -> Result<()> {
        let answers = |left| match ask(self.address(), left, "PING")?.as_str() {
            "PONG" => Ok(()),
            answer => Err(io::Error::other(format!("the answer is {answer:?}"))),
        };
        self.server.process.ready_when("an answer to PING", READY_TIME, answers)
    }
}

/// Checks that Valkey or Redis is installed.
///
/// # Errors
/// [`Error::NotInstalled`].
pub fn installed() -> Result<()> {
    program().map(drop)
}

fn program() -> Result<&'static str> {
    let found = PROGRAMS.into_iter().find(|program| fs::exists(program).unwrap_or(false));
    found.ok_or(Error::NotInstalled { program: "redis-server", package: "redis-server" })
}

fn spawn(
    supervisor: &Supervisor,
    dir: &Path,
    port: u16,
    args: &[String],
) -> Result<crate::Process> {
    let spec = Spec::new(program()?)
        .args(["--port".to_owned(), port.to_string()])
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--daemonize", "no", "--logfile", ""])
        .args(args)
        .dir(dir)
        .stdout(Output::Null);
    supervisor.spawn(&spec)
}

/// Assigns slots to each server and introduces it to the first.
fn join(cluster: &[Redis]) -> io::Result<()> {
    let Some(first) = cluster.first() else { return Ok(()) };
    let first_bus = first.bus.as_ref().map_or(0, PortReservation::port);
    let count = u16::try_from(cluster.len()).unwrap_or(SLOTS);
    for (number, server) in (0..count).zip(cluster) {
        let slot = |number: u16| u32::from(SLOTS) * u32::from(number) / u32::from(count);
        let (from, to) = (slot(number), slot(number + 1) - 1);
        let send = |command: String| ask(server.address(), READY_TIME, &command);
        send(format!("CLUSTER ADDSLOTSRANGE {from} {to}"))?;
        send(format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1))?;
        if number > 0 {
            send(format!("CLUSTER MEET 127.0.0.1 {} {first_bus}", first.port()))?;
        }
    }
    Ok(())
}

/// The reply to a command whose words contain no spaces.
fn ask(address: SocketAddr, time: Duration, command: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, time)?;
    stream.set_read_timeout(Some(time))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream.take(ANSWER_BYTES));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    match line.trim_end().split_at_checked(1) {
        Some(("+", text)) => Ok(text.to_owned()),
        Some(("$", length)) => {
            let mut text = String::new();
            let length = length.parse().map_err(io::Error::other)?;
            reader.take(length).read_to_string(&mut text)?;
            Ok(text)
        }
        Some(("-", why)) => Err(io::Error::other(why.to_owned())),
        _ => Err(io::Error::other("not the answer of Redis")),
    }
}
