//! Debian's nginx: as a fast peer for measurements, and as the balancer of a cluster.

mod balancer;
mod template;

use std::ops::Deref;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use crate::{
    Error, Output, PortReservation, Process, Result, Spec, Supervisor, ThirdPartyServer, http,
};

pub use balancer::{Balancer, Certificate};
pub use template::Profile;

/// Path in Debian; `/usr/sbin` is often not in a user's `PATH`.
const PROGRAM: &str = "/usr/sbin/nginx";
/// In the directory in which it is started.
const CONFIGURATION: &str = "nginx.conf";
/// In the same directory.
const LOG: &str = "error.log";
/// nginx reads one file and opens a few sockets.
const READY_TIME: Duration = Duration::from_secs(10);
/// SIGTERM is nginx's fast shutdown.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A file server without anything that costs time per request: no access log, no reopening of
/// files, no limit on requests per connection. An upper bound for servers on this machine over
/// HTTP/1.1, to measure load generators against.
#[derive(Debug, Clone)]
pub struct StaticSite {
    /// The directory to serve.
    pub root: PathBuf,
    /// Worker processes, usually one per CPU.
    pub workers: usize,
}

/// A running nginx. Dropping it kills it.
#[derive(Debug)]
pub struct Nginx {
    server: ThirdPartyServer,
    /// Port of TLS.
    secure: Option<PortReservation>,
    /// Port of the counters.
    status: Option<PortReservation>,
    dir: PathBuf,
}

/// The port is that of plain HTTP.
impl Deref for Nginx {
    type Target = ThirdPartyServer;

    fn deref(&self) -> &ThirdPartyServer {
        &self.server
    }
}

impl Nginx {
    /// Writes a configuration into `dir`, which must exist and be empty, and starts nginx on a
    /// [reserved](PortReservation) port of 127.0.0.1.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] without nginx, otherwise as [`Supervisor::spawn`] and
    /// [`Process::ready_http`](crate::Process::ready_http).
    pub fn static_site(supervisor: &Supervisor, dir: &Path, site: &StaticSite) -> Result<Self> {
        let root = site.root.canonicalize();
        root.and_then(|root| symlink(root, dir.join("site")))
            .map_err(|source| Error::at("cannot serve", &site.root, source))?;
        let port = PortReservation::new();
        let port = port.map_err(|source| Error::at("no free port for", dir, source))?;
        let text = configuration(port.port(), site.workers, STATIC_SERVER);
        let nginx = Self::run(supervisor, dir, &text, port, [None, None])?;
        let url = http::Url::parse(&nginx.url()).map_err(|reason| Error::Io {
            what: "own address".to_owned(),
            source: io::Error::other(reason),
        })?;
        // With any status: the site need not have an index page.
        nginx.server.process.ready_when("an answer over HTTP", READY_TIME, |left| {
            http::get(&url, left).map(drop)
        })?;
        Ok(nginx)
    }

    /// Starts nginx with this configuration.
    fn run(
        supervisor: &Supervisor,
        dir: &Path,
        configuration: &str,
        reservation: PortReservation,
        [secure, status]: [Option<PortReservation>; 2],
    ) -> Result<Self> {
        installed()?;
        let write = || {
            // Workers of a master that runs as root must be able to enter.
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
            fs::write(dir.join(CONFIGURATION), configuration)?;
            dir.canonicalize()
        };
        let dir = write().map_err(|source| Error::at("cannot configure nginx in", dir, source))?;
        let process = spawn(supervisor, &dir)?;
        let server = ThirdPartyServer { process, reservation, grace: STOP_GRACE };
        Ok(Self { server, secure, status, dir })
    }

    /// `http://127.0.0.1:PORT`, or `https` with the port of TLS, without a slash at the end.
    pub fn url(&self) -> String {
        match &self.secure {
            Some(reservation) => format!("https://127.0.0.1:{}", reservation.port()),
            None => format!("http://127.0.0.1:{}", self.port()),
        }
    }

    /// Address of the counters (`stub_status`) of a [balancer](Self::balancer), at a separate port.
    pub fn status_url(&self) -> Option<String> {
        Some(format!("http://127.0.0.1:{}/", self.status.as_ref()?.port()))
    }
}

/// Checks that nginx is installed.
///
/// # Errors
/// [`Error::NotInstalled`].
pub fn installed() -> Result<()> {
    Error::unless_installed(&[PROGRAM], "nginx", "nginx-light")
}

fn spawn(supervisor: &Supervisor, dir: &Path) -> Result<Process> {
    let spec = Spec::new(PROGRAM)
        .dir(dir)
        .args(["-p", "./", "-c", CONFIGURATION, "-e", "stderr"])
        .stdout(Output::Null)
        .stderr(Output::File(dir.join(LOG)));
    supervisor.spawn(&spec)
}

/// All paths are relative, because nginx would take a `$` in a directory's name for a variable.
const STATIC_SERVER: &str = "
        root site;
        open_file_cache max=1000 inactive=1h;
        open_file_cache_valid 1h;
        open_file_cache_errors on;";

fn configuration(port: u16, workers: usize, server: &str) -> String {
    // As root, nginx would drop to an account that may not read the caller's files.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    format!(
        "{user}
daemon off;
worker_processes {workers};
worker_rlimit_nofile 65536;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 16384; }}
http {{
    default_type application/octet-stream;
    types {{ text/html html; application/json json; application/javascript js; text/css css; }}
    access_log off;
    sendfile on;
    tcp_nopush on;
    server_tokens off;
    keepalive_timeout 75s;
    keepalive_requests 1000000000;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;{server}
    }}
}}
"
    )
}
