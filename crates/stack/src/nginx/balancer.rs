//! nginx in front of several nodes.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::template::{Profile, Template, Tls};
use super::{Nginx, READY_TIME};
use crate::{Error, PortReservation, Result, Supervisor};

/// Nodes behind nginx, and its configuration.
#[derive(Debug, Clone)]
pub struct Balancer {
    /// Addresses of the nodes; at least one.
    pub nodes: Vec<SocketAddr>,
    /// Configuration of nginx.
    pub profile: Profile,
    /// Worker processes of nginx; `None`: as many as there are CPUs.
    pub workers: Option<u16>,
    /// With a certificate, clients are served over TLS and redirected there.
    pub certificate: Option<Certificate>,
}

/// Files in PEM format.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// Certificate, followed by those of its issuers.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Nginx {
    /// Writes a configuration into `dir`, which must exist, and starts nginx on free ports of
    /// 127.0.0.1. It is ready when it listens; the nodes need not run yet.
    ///
    /// # Errors
    /// As [`static_site`](Self::static_site); also when a file of the certificate is missing.
    pub fn balancer(supervisor: &Supervisor, dir: &Path, balancer: &Balancer) -> Result<Self> {
        let no_port = |source| Error::at("no free port for", dir, source);
        let plain = PortReservation::new().map_err(no_port)?;
        let secure = balancer.certificate.as_ref().map(|_| PortReservation::new());
        let secure = secure.transpose().map_err(no_port)?;
        let status = PortReservation::new().map_err(no_port)?;
        let listen = |port: u16| format!("127.0.0.1:{port}");
        let tls = match (&balancer.certificate, &secure) {
            (Some(certificate), Some(reservation)) => {
                let port = reservation.port();
                link(dir, "certificate.pem", &certificate.chain)?;
                link(dir, "key.pem", &certificate.key)?;
                Some(Tls { listen: listen(port), port })
            }
            _ => None,
        };
        let template = Template {
            profile: balancer.profile,
            nodes: &balancer.nodes,
            workers: balancer.workers,
            listen: listen(plain.port()),
            status: listen(status.port()),
            tls,
        };
        let more = [secure, Some(status)];
        let nginx = Self::run(supervisor, dir, &template.text(), plain, more)?;
        nginx.await_sockets()?;
        Ok(nginx)
    }

    /// Stops nginx if it runs, and starts it again at its addresses.
    ///
    /// # Errors
    /// As [`balancer`](Self::balancer). nginx is then down; the restart can be repeated.
    pub fn restart(&mut self, supervisor: &Supervisor) -> Result<()> {
        self.server.stop()?;
        self.server.process = super::spawn(supervisor, &self.dir)?;
        self.await_sockets()
    }

    fn await_sockets(&self) -> Result<()> {
        let more = [&self.secure, &self.status].into_iter().flatten().map(PortReservation::port);
        let ports: Vec<_> = more.chain([self.port()]).collect();
        self.server.process.ready_when("its sockets", READY_TIME, |left| {
            let connect = |port| {
                TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), left)
            };
            ports.iter().copied().try_for_each(|port| connect(port).map(drop))
        })
    }
}

/// Links a file under a name that needs no quoting.
fn link(dir: &Path, name: &str, file: &Path) -> Result<()> {
    let linked = file.canonicalize().and_then(|file| {
        let link = dir.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => symlink(file, link),
        }
    });
    linked.map_err(|source| Error::at("cannot use", file, source))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use madang_testing::Finish as _;

    use super::*;

    const FILES: [(Profile, &str); 2] =
        [(Profile::Stock, "stock.conf"), (Profile::Tuned, "tuned.conf")];

    #[test]
    fn nothing_of_the_system_is_left_in_a_directory() {
        let nodes = [SocketAddr::from((Ipv4Addr::LOCALHOST, 9001))];
        for (profile, name) in FILES {
            for tls in [None, Some(Tls { listen: "127.0.0.1:9444".to_owned(), port: 9444 })] {
                let (workers, listen) = (Some(2), "127.0.0.1:9080".to_owned());
                let status = "127.0.0.1:9081".to_owned();
                let has_tls = tls.is_some();
                let text = Template { profile, nodes: &nodes, workers, listen, status, tls }.text();
                let directives = || text.lines().filter(|line| !line.trim().starts_with('#'));
                for of_the_system in [
                    "www-data", "/etc/", "/var/", "/run/", " auto;", ":808", "listen 80",
                    "listen 443",
                ] {
                    assert!(
                        !directives().any(|line| line.contains(of_the_system)),
                        "{name}: {text}"
                    );
                }
                assert!(!profile.deployed().contains("stub_status"), "nobody else has it");
                let count = |what: &str| directives().filter(|line| line.contains(what)).count();
                assert_eq!(count(" server {"), if has_tls { 3 } else { 2 }, "{name}: {text}");
                assert_eq!(
                    (count("stub_status"), count("listen 127.0.0.1:9081;")),
                    (1, 1),
                    "{name}"
                );
                assert_eq!(
                    (count("server 127.0.0.1:9001"), count("location / {")),
                    (1, 1),
                    "{name}"
                );
                assert_eq!(count(":9444"), if has_tls { 2 } else { 0 }, "{name}: {text}");
            }
        }
    }

    #[test]
    fn nginx_accepts_the_files_to_deploy() {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            ])
            .args(["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=nobody"])
            .current_dir(dir.path())
            .finish();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let ports = [(); 2].map(|()| PortReservation::new().unwrap());
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        for (profile, name) in FILES {
            let mut text = profile.deployed().to_owned();
            for (from, to) in [
                ("listen 80", format!("listen 127.0.0.1:{}", ports[0].port())),
                ("listen 443", format!("listen 127.0.0.1:{}", ports[1].port())),
                ("/etc/nginx/madang/fullchain.pem", at("cert.pem")),
                ("/etc/nginx/madang/privkey.pem", at("key.pem")),
                ("/var/log/nginx", at("")),
                ("/run/nginx.pid", at("pid")),
            ] {
                text = text.replace(from, &to);
            }
            let path = at(name);
            fs::write(&path, text).unwrap();
            let tested = Command::new(super::super::PROGRAM)
                .args(["-t", "-q", "-p", &at(""), "-e", "stderr", "-c", &path])
                .finish();
            let stderr = String::from_utf8_lossy(&tested.stderr);
            assert!(tested.status.success(), "{name}: {stderr}");
            assert!(!stderr.contains("[warn]"), "{name}: {stderr}");
        }
    }
}
