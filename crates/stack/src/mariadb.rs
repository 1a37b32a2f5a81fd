//! Debian's MariaDB, for tests, measurements and clusters on one machine: a data directory of its
//! own, a free port of 127.0.0.1, and no security beyond [`MariaDbSettings::account`].

mod galera;
mod settings;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{
    Error, Output, PortReservation, Process, Result, Spec, Supervisor, Tail, ThirdPartyServer,
};

pub use galera::galera_installed;
pub use settings::{Account, Login, MariaDbSettings, Member, Role};

/// Path in Debian; `/usr/sbin` is often not in a user's `PATH`.
const PROGRAM: &str = "/usr/sbin/mariadbd";
/// Data directory in the making, beside `data`.
const UNFINISHED: &str = "data.new";
/// Creates the system tables.
const INSTALLER: &str = "/usr/bin/mariadb-install-db";
/// Log file beside `data`.
const LOG: &str = "mariadb.log";
/// SQL for each start, beside `data`.
const INIT_FILE: &str = "start.sql";
/// Writing the system tables takes a second; a busy disk may need many.
const INSTALL_TIME: Duration = Duration::from_secs(60);
/// The server opens a few files and sockets.
const READY_TIME: Duration = Duration::from_secs(30);
/// After SIGTERM the server flushes its memory.
const STOP_GRACE: Duration = Duration::from_secs(20);
/// Protocol version, the first byte of the first packet after its four-byte header
/// (MySQL client/server protocol, `Protocol::HandshakeV10`).
const PROTOCOL: u8 = 10;

/// A running MariaDB. Dropping it kills it.
#[derive(Debug)]
pub struct MariaDb {
    server: ThirdPartyServer,
    /// Parent of the data directory, without symbolic links.
    dir: PathBuf,
    settings: MariaDbSettings,
    /// Further ports of a cluster member.
    _group: Vec<PortReservation>,
}

impl Deref for MariaDb {
    type Target = ThirdPartyServer;

    fn deref(&self) -> &ThirdPartyServer {
        &self.server
    }
}

impl MariaDb {
    /// Starts a server with the default settings on the store in `dir`, which must exist; creates an
    /// empty one if there is none. User `root` has no password, and there is an empty database `test`.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] without MariaDB, otherwise as [`Supervisor::spawn`] and
    /// [`Process::ready_when`](crate::Process::ready_when).
    pub fn start(supervisor: &Supervisor, dir: &Path) -> Result<Self> {
        Self::with(supervisor, dir, &MariaDbSettings::default())
    }

    /// As [`start`](Self::start), with other settings.
    ///
    /// # Errors
    /// As [`start`](Self::start); also when a name or password of the settings is refused.
    pub fn with(supervisor: &Supervisor, dir: &Path, settings: &MariaDbSettings) -> Result<Self> {
        installed()?;
        let dir = filled(supervisor, dir, settings)?;
        Self::on(supervisor, dir, settings.clone(), Vec::new())
    }

    /// Starts a server on a filled directory.
    fn on(
        supervisor: &Supervisor,
        dir: PathBuf,
        settings: MariaDbSettings,
        group: Vec<PortReservation>,
    ) -> Result<Self> {
        let reservation =
            PortReservation::new().map_err(|source| Error::at("no free port for", &dir, source))?;
        let log = log_size(&dir);
        let process = spawn(supervisor, &dir, reservation.port(), &settings)?;
        let server = ThirdPartyServer { process, reservation, grace: STOP_GRACE };
        let server = Self { server, dir, settings, _group: group };
        server.await_ready(log)?;
        Ok(server)
    }

    /// Stops the server if it runs, and starts it again with its data, address and settings.
    ///
    /// # Errors
    /// As [`start`](Self::start). The server is then down; the restart can be repeated.
    pub fn restart(&mut self, supervisor: &Supervisor) -> Result<()> {
        self.server.stop()?;
        if let Role::Member(member) = &mut self.settings.role {
            member.begins = false;
        }
        let log = log_size(&self.dir);
        self.server.process = spawn(supervisor, &self.dir, self.port(), &self.settings)?;
        self.await_ready(log)
    }

    /// Address of the database with its login: `mysql://USER:PASSWORD@127.0.0.1:PORT/DATABASE`, or
    /// without an account `mysql://root@127.0.0.1:PORT/test`.
    pub fn url(&self) -> String {
        let port = self.port();
        match &self.settings.account {
            Some(Account { database, login: Login { user, password } }) => {
                format!("mysql://{user}:{password}@127.0.0.1:{port}/{database}")
            }
            None => format!("mysql://root@127.0.0.1:{port}/test"),
        }
    }

    /// Waits until the server is ready; `log` is the size of its log before the start.
    fn await_ready(&self, log: u64) -> Result<()> {
        if let Role::Member(_) = self.settings.role {
            return self.await_group(log);
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port()));
        let greeted = |left| greeting(address, left);
        self.server.process.ready_when("the greeting of a database", READY_TIME, greeted)
    }
}

/// Fills an empty directory, and returns its path without symbolic links.
fn filled(supervisor: &Supervisor, dir: &Path, settings: &MariaDbSettings) -> Result<PathBuf> {
    let dir = dir.canonicalize().map_err(|source| Error::at("cannot use", dir, source))?;
    let filled = |source| Error::at("cannot fill", &dir, source);
    let data = dir.join("data");
    // Not /tmp: servers of the same process id, as in containers, would collide there.
    fs::create_dir_all(dir.join("tmp")).map_err(filled)?;
    if !data.exists() {
        // Under another name until it is complete: a killed start must not leave a directory that looks like a store.
        let unfinished = dir.join(UNFINISHED);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(filled(error)),
            _ => {}
        }
        install(supervisor, &dir)?;
        // `--skip-test-db` omits this database, and anonymous accounts.
        fs::create_dir(unfinished.join("test")).map_err(filled)?;
        fs::rename(&unfinished, &data).map_err(filled)?;
    }
    write_private(&dir.join(INIT_FILE), &settings.sql()?).map_err(filled)?;
    Ok(dir)
}

/// Checks that the programs of [`MariaDb::start`] are installed.
///
/// # Errors
/// [`Error::NotInstalled`].
pub fn installed() -> Result<()> {
    Error::unless_installed(&[PROGRAM, INSTALLER], "mariadbd", "mariadb-server")
}

/// Writes a file with passwords.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?
        .write_all(text.as_bytes())
}

fn spawn(
    supervisor: &Supervisor,
    dir: &Path,
    port: u16,
    settings: &MariaDbSettings,
) -> Result<Process> {
    let position = galera::position(supervisor, dir, settings)?;
    // Relative paths: that of a socket has at most 107 bytes.
    let spec = program(settings)
        .args(position)
        .args(["--datadir=.", "--tmpdir=../tmp", "--socket=mariadb.sock", "--pid-file=mariadb.pid"])
        .args([format!("--port={port}"), format!("--init-file=../{INIT_FILE}")])
        // An unresponsive name server would delay every connection.
        .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
        .args(settings.arguments())
        .dir(dir.join("data"))
        .stdout(Output::Null)
        .stderr(Output::File(dir.join(LOG)));
    supervisor.spawn(&spec)
}

/// The server, without the machine's option files. A cluster member has a file of its own: the scripts that copy data
/// read their options only from there.
fn program(settings: &MariaDbSettings) -> Spec {
    let spec = Spec::new(PROGRAM);
    as_root(match settings.role {
        Role::Member(_) => spec.arg(format!("--defaults-file=../{}", galera::OPTIONS)),
        _ => spec.arg("--no-defaults"),
    })
}

fn log_size(dir: &Path) -> u64 {
    fs::metadata(dir.join(LOG)).map_or(0, |file| file.len())
}

fn install(supervisor: &Supervisor, dir: &Path) -> Result<()> {
    let spec = as_root(Spec::new(INSTALLER).arg("--no-defaults"))
        .args([
            &format!("--datadir=./{UNFINISHED}"),
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
            // The installer reports errors on stdout.
            let stdout = Tail(installer.stdout_lines().join("\n"));
            let why = format!("{exit}{stdout}{}", installer.stderr_tail());
            let what = "mariadb-install-db failed".to_owned();
            Err(Error::Io { what, source: io::Error::other(why) })
        }
    }
}

/// MariaDB runs as root only with an explicit option.
fn as_root(spec: Spec) -> Spec {
    if rustix::process::geteuid().is_root() { spec.arg("--user=root") } else { spec }
}

/// Awaits the first packet, which a MySQL server sends unasked. While it starts it does not listen.
fn greeting(address: SocketAddr, time: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, time)?;
    stream.set_read_timeout(Some(time))?;
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    if head[4] == PROTOCOL { Ok(()) } else { Err(io::Error::other("not the greeting of MySQL")) }
}
