//! Debian's MariaDB, for tests and measurements: data in a directory of its own, a free port of
//! 127.0.0.1, and no security at all beyond that.

use std::{
    fs,
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    ops::Deref,
    path::Path,
    time::Duration,
};

use crate::{Error, Neighbour, Output, PortReservation, Spec, Supervisor, Tail};

/// Where Debian installs it; `/usr/sbin` is often not in a user's `PATH`.
const PROGRAM: &str = "/usr/sbin/mariadbd";
/// Makes the system tables.
const INSTALLER: &str = "/usr/bin/mariadb-install-db";
/// Writing the system tables takes a second; a busy disk may need many.
const INSTALL_TIME: Duration = Duration::from_secs(60);
/// It opens a few files and sockets.
const READY_TIME: Duration = Duration::from_secs(30);
/// After SIGTERM it writes out what it holds.
const STOP_GRACE: Duration = Duration::from_secs(20);
/// The version of the protocol, first byte of the first packet after its four bytes of head
/// (MySQL client/server protocol, `Protocol::HandshakeV10`).
const PROTOCOL: u8 = 10;

/// A running MariaDB. Dropping it kills it.
#[derive(Debug)]
pub struct MariaDb(Neighbour);

/// Port, process and end are those of all such servers.
impl Deref for MariaDb {
    type Target = Neighbour;

    fn deref(&self) -> &Neighbour {
        &self.0
    }
}

impl MariaDb {
    /// Makes an empty store in `dir`, which must exist, and starts a server on it. Its user `root`
    /// has no password, and there is an empty database `test`.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] without MariaDB, otherwise as [`Supervisor::spawn`] and
    /// [`Process::ready_when`](crate::Process::ready_when).
    pub fn start(supervisor: &Supervisor, dir: &Path) -> Result<Self, Error> {
        for program in [PROGRAM, INSTALLER] {
            if !fs::exists(program).unwrap_or(false) {
                return Err(Error::NotInstalled { program: "mariadbd", package: "mariadb-server" });
            }
        }
        let failed =
            |what: &str, source| Error::Io { what: format!("{what} `{}`", dir.display()), source };
        let dir = dir.canonicalize().map_err(|source| failed("cannot use", source))?;
        let data = dir.join("data");
        // Not /tmp: servers of one process id, as in containers, would meet there.
        let temporary = dir.join("tmp");
        fs::create_dir_all(&temporary).map_err(|source| failed("cannot fill", source))?;
        if !data.exists() {
            install(supervisor, &dir)?;
            // `--skip-test-db` leaves this out, and with it accounts without a name.
            fs::create_dir(data.join("test")).map_err(|source| failed("cannot fill", source))?;
        }
        let reservation =
            PortReservation::new().map_err(|source| failed("no free port for", source))?;
        let port = reservation.port();
        // Relative, because the path of a socket has 107 bytes at most.
        let spec = as_root(Spec::new(PROGRAM).arg("--no-defaults"))
            .args([
                "--datadir=.",
                "--tmpdir=../tmp",
                "--socket=mariadb.sock",
                "--pid-file=mariadb.pid",
            ])
            .args([format!("--port={port}"), "--bind-address=127.0.0.1".to_owned()])
            // A name server that does not answer would hold up every connection.
            .args(["--skip-name-resolve", "--innodb-buffer-pool-size=16M"])
            .dir(&data)
            .stdout(Output::Null);
        let process = supervisor.spawn(&spec)?;
        let server = Self(Neighbour { process, reservation, grace: STOP_GRACE });
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let greeted = |left| greeting(address, left).map_err(|error| error.to_string());
        server.0.process.ready_when("the greeting of a database", READY_TIME, greeted)?;
        Ok(server)
    }

    /// `mysql://root@127.0.0.1:PORT/test`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/test", self.port())
    }
}

fn install(supervisor: &Supervisor, dir: &Path) -> Result<(), Error> {
    let spec = as_root(Spec::new(INSTALLER).arg("--no-defaults"))
        .args([
            "--datadir=./data",
            "--tmpdir=../tmp",
            "--skip-test-db",
            "--innodb-log-file-size=4M",
        ])
        .arg("--auth-root-authentication-method=normal")
        .dir(dir);
    let installer = supervisor.spawn(&spec)?;
    match installer.wait_patiently(INSTALL_TIME)? {
        exit if exit.is_success() => Ok(()),
        exit => {
            // It tells what went wrong on stdout, to people at a terminal.
            let said = Tail(installer.stdout_lines().join("\n"));
            let why = format!("{exit}{said}{}", installer.stderr_tail());
            let what = "mariadb-install-db failed".to_owned();
            Err(Error::Io { what, source: io::Error::other(why) })
        }
    }
}

/// As root, MariaDB only runs when it is told that this is meant.
fn as_root(spec: Spec) -> Spec {
    if rustix::process::geteuid().is_root() { spec.arg("--user=root") } else { spec }
}

/// A MySQL server speaks first. While it starts it does not listen yet.
fn greeting(address: SocketAddr, time: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, time)?;
    stream.set_read_timeout(Some(time))?;
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    if head[4] == PROTOCOL { Ok(()) } else { Err(io::Error::other("not the greeting of MySQL")) }
}
