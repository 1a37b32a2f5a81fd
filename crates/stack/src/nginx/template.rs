//! Configurations of [`Nginx::balancer`](super::Nginx::balancer): the files of `deploy/nginx`, adapted to a
//! directory.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

/// Configuration of nginx.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Debian's `nginx.conf` with an `upstream` and a `proxy_pass`, untuned.
    Stock,
    /// Tuned for the nodes and some thousands of clients.
    Tuned,
}

impl Profile {
    /// Maximum time until nginx uses a recovered node again: `fail_timeout`, which nginx counts in whole
    /// seconds and so may exceed by one.
    pub fn left_out(self) -> Duration {
        let fail_timeout = match self {
            // The default (ngx_http_upstream_module, `server`).
            Self::Stock => 10,
            Self::Tuned => 1,
        };
        Duration::from_secs(fail_timeout + 1)
    }

    /// The file in `deploy/nginx`, with directives of Debian 12 (nginx 1.22): `listen … http2`, since
    /// `http2 on` came with 1.25.1.
    pub(super) fn deployed(self) -> &'static str {
        match self {
            Self::Stock => include_str!("../../../../deploy/nginx/stock.conf"),
            Self::Tuned => include_str!("../../../../deploy/nginx/tuned.conf"),
        }
    }
}

/// TLS, with `certificate.pem` and `key.pem` of the directory.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub listen: String,
    /// Port to which clients are redirected.
    pub port: u16,
}

/// A configuration for a directory, to run in the foreground.
#[derive(Debug, Clone)]
pub(super) struct Template<'t> {
    pub profile: Profile,
    pub nodes: &'t [SocketAddr],
    /// Worker processes; `None`: as many as there are CPUs.
    pub workers: Option<u16>,
    /// Address of plain HTTP.
    pub listen: String,
    /// Address of the counters, which `deploy/nginx` does not have.
    pub status: String,
    pub tls: Option<Tls>,
}

/// First line of the TLS directives, which end at the location.
const TLS_FROM: &str = "        # 308 keeps";
const LOCATION: &str = "\n        location / {";

impl Template<'_> {
    pub(super) fn text(&self) -> String {
        let mut text = self.profile.deployed().to_owned();
        let mut put = |from: &str, to: &str| {
            assert_eq!(text.matches(from).count(), 1, "{:?} has it once: {from}", self.profile);
            text = text.replacen(from, to, 1);
        };
        // As root, nginx would switch to an account that may not read the caller's files.
        let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
        put("user www-data;\n", &format!("{user}daemon off;\n"));
        // All paths are relative: nginx would take a `$` in a directory's name for a variable.
        put("/run/nginx.pid", "nginx.pid");
        put("/var/log/nginx/error.log", "stderr");
        let mut access_log = String::new();
        for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            let _ = writeln!(access_log, "    {name}_temp_path {name};");
        }
        access_log.push_str("    access_log access.log");
        put("    access_log /var/log/nginx/access.log", &access_log);
        if let Some(workers) = self.workers {
            put("worker_processes auto;", &format!("worker_processes {workers};"));
        }
        let failures = match self.profile {
            Profile::Stock => "",
            Profile::Tuned => " max_fails=3 fail_timeout=1s",
        };
        let server = |node: &dyn std::fmt::Display| format!("        server {node}{failures};\n");
        put(&server(&"127.0.0.1:8082"), "");
        let nodes: String = self.nodes.iter().map(|node| server(node)).collect();
        put(&server(&"127.0.0.1:8081"), &nodes);
        let upstream = "    upstream madang {";
        let status = self.status.as_str();
        let counters = format!(
            "    server {{\n        listen {status};\n        access_log off;\n        \
             location = / {{ stub_status; }}\n    }}\n\n"
        );
        put(upstream, &(counters + upstream));
        put("listen 80", &format!("listen {}", self.listen));
        match (&self.tls, self.profile) {
            (Some(Tls { listen, port }), Profile::Tuned) => {
                put("https://$host$", &format!("https://$host:{port}$"));
                put("listen 443", &format!("listen {listen}"));
                put("/etc/nginx/madang/fullchain.pem", "certificate.pem");
                put("/etc/nginx/madang/privkey.pem", "key.pem");
            }
            (Some(Tls { listen, port }), Profile::Stock) => {
                let redirect = format!("return 308 https://$host:{port}$request_uri;");
                let server = format!(
                    "listen {listen} ssl;\n        ssl_certificate certificate.pem;\n        \
                     ssl_certificate_key key.pem;"
                );
                let servers =
                    format!("        {redirect}\n    }}\n\n    server {{\n        {server}\n");
                put(LOCATION, &(servers + LOCATION));
            }
            (None, Profile::Tuned) => {
                let (plain, rest) = text.split_once(TLS_FROM).expect("it redirects");
                let (_, location) = rest.split_once(LOCATION).expect("it has a location");
                return [plain, LOCATION, location].concat();
            }
            (None, Profile::Stock) => {}
        }
        text
    }
}
