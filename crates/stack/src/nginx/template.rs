//! The one text from which both configurations of the balancer are made: those in `deploy/nginx`, and
//! those that [`Nginx::balancer`](super::Nginx::balancer) starts.
//!
//! Directives are those of Debian 12 (nginx 1.22): `listen … http2`, for `http2 on` is 1.25.1's.

use std::fmt::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How nginx treats nodes and clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Debian's `nginx.conf` with an `upstream` and a `proxy_pass`, as systems are that nobody tuned.
    Stock,
    /// What the nodes and some thousands of clients need.
    Tuned,
}

impl Profile {
    /// Time after which nginx uses a node again that refused connections and is back: `fail_timeout`,
    /// of which nginx counts whole seconds, so that it may last a second longer.
    pub fn left_out(self) -> Duration {
        let fail_timeout = match self {
            // The default (ngx_http_upstream_module, `server`).
            Self::Stock => 10,
            Self::Tuned => 1,
        };
        Duration::from_secs(fail_timeout + 1)
    }

    /// The file of this profile in `deploy/nginx`: nodes at 127.0.0.1:8081 and 8082, the ports of
    /// HTTP and, when tuned, of HTTPS.
    pub fn deployed(self) -> String {
        let nodes = [8081, 8082].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let tls = (self == Self::Tuned).then(|| Tls {
            listen: "443".to_owned(),
            certificate: "/etc/nginx/madang/fullchain.pem".to_owned(),
            key: "/etc/nginx/madang/privkey.pem".to_owned(),
            port: None,
        });
        let listen = "80".to_owned();
        Template { profile: self, place: Place::System, nodes: &nodes, workers: None, listen, tls }
            .to_string()
    }
}

/// Where a configuration is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// As `/etc/nginx/nginx.conf` of Debian's package, started by systemd.
    System,
    /// In a directory of its own, started in the foreground by this program. All paths are relative:
    /// nginx would take a `$` in a directory's name for a variable.
    Directory,
}

/// Certificate and key, and where TLS is listened for.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub listen: String,
    pub certificate: String,
    pub key: String,
    /// The port that clients are redirected to; none when it is 443.
    pub port: Option<u16>,
}

/// A configuration to be written with [`fmt::Display`].
#[derive(Debug, Clone)]
pub(super) struct Template<'t> {
    pub profile: Profile,
    pub place: Place,
    pub nodes: &'t [SocketAddr],
    /// Worker processes; `None`: as many as there are CPUs.
    pub workers: Option<u16>,
    /// Address or port of plain HTTP.
    pub listen: String,
    pub tls: Option<Tls>,
}

impl fmt::Display for Template<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.profile {
            Profile::Stock => STOCK_TITLE,
            Profile::Tuned => TUNED_TITLE,
        })?;
        f.write_str(GENERATED)?;
        self.process(f)?;
        f.write_str("http {\n")?;
        self.files(f)?;
        match self.profile {
            Profile::Stock => f.write_str(STOCK_HTTP)?,
            Profile::Tuned => f.write_str(TUNED_HTTP)?,
        }
        self.upstream(f)?;
        self.servers(f)?;
        f.write_str("}\n")
    }
}

impl Template<'_> {
    fn process(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::System => {
                f.write_str("user www-data;\npid /run/nginx.pid;\n")?;
                f.write_str("error_log /var/log/nginx/error.log;\n")?;
            }
            Place::Directory => {
                // As root, nginx would drop to an account that may not read the caller's files.
                if rustix::process::geteuid().is_root() {
                    f.write_str("user root;\n")?;
                }
                f.write_str("daemon off;\npid nginx.pid;\nerror_log stderr;\n")?;
            }
        }
        match self.workers {
            Some(workers) => writeln!(f, "worker_processes {workers};")?,
            None => f.write_str("worker_processes auto;\n")?,
        }
        f.write_str(match self.profile {
            Profile::Stock => STOCK_PROCESS,
            Profile::Tuned => TUNED_PROCESS,
        })
    }

    fn files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = match self.place {
            Place::System => "/var/log/nginx/access.log",
            Place::Directory => {
                for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
                    writeln!(f, "    {name}_temp_path {name};")?;
                }
                "access.log"
            }
        };
        let buffer = match self.profile {
            Profile::Stock => "",
            // A write for every request costs more than the request's own log line.
            Profile::Tuned => " combined buffer=64k flush=1s",
        };
        writeln!(f, "    access_log {log}{buffer};\n")
    }

    fn upstream(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("    upstream madang {\n")?;
        let failures = match self.profile {
            Profile::Stock => "",
            Profile::Tuned => {
                f.write_str(TUNED_UPSTREAM)?;
                " max_fails=3 fail_timeout=1s"
            }
        };
        for node in self.nodes {
            writeln!(f, "        server {node}{failures};")?;
        }
        if self.profile == Profile::Tuned {
            f.write_str(TUNED_KEEPALIVE)?;
        }
        f.write_str("    }\n\n")
    }

    fn servers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only one of several servers on an address may say how it is listened on.
        let socket = match self.profile {
            Profile::Stock => "",
            Profile::Tuned => " reuseport backlog=4096",
        };
        let plain = format!("        listen {}{socket};\n", self.listen);
        let Some(Tls { listen, certificate, key, port }) = &self.tls else {
            write!(f, "    server {{\n{plain}")?;
            self.location(f)?;
            return f.write_str("    }\n");
        };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        write!(
            f,
            "    server {{\n{plain}        # 308 keeps the method and the body.\n        \
             return 308 https://$host{port}$request_uri;\n    }}\n\n"
        )?;
        let mut server = String::new();
        let http2 = if self.profile == Profile::Tuned { " http2" } else { "" };
        writeln!(server, "        listen {listen} ssl{http2}{socket};")?;
        writeln!(server, "        ssl_certificate {certificate};")?;
        writeln!(server, "        ssl_certificate_key {key};")?;
        if self.profile == Profile::Tuned {
            server.push_str(TUNED_TLS);
        }
        write!(f, "    server {{\n{server}")?;
        self.location(f)?;
        f.write_str("    }\n")
    }

    fn location(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.profile {
            Profile::Stock => STOCK_LOCATION,
            Profile::Tuned => TUNED_LOCATION,
        })
    }
}

const GENERATED: &str = "\
#
# Generated by crates/stack/src/nginx/template.rs; `BLESS=1 cargo test -p madang-stack --lib nginx`
# writes it again.

";

const STOCK_TITLE: &str = "\
# Two nodes of Madang behind nginx as Debian 12 installs it: an upstream, a proxy_pass, and defaults.
# For comparison with tuned.conf. A connection to a node is HTTP/1.0 and serves one request; a worker
# has 768 connections, of which each request takes two; nodes take turns, whatever each has to do.
";

const STOCK_PROCESS: &str = "\
events {
    worker_connections 768;
}

";

const STOCK_HTTP: &str = "    \
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    types_hash_max_size 2048;
    gzip on;

";

const STOCK_LOCATION: &str = "
        location / {
            proxy_pass http://madang;
            # The four lines of Debian's /etc/nginx/proxy_params.
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
        }
";

const TUNED_TITLE: &str = "\
# Two nodes of Madang behind nginx 1.22 (Debian 12), as /etc/nginx/nginx.conf.
#
# Change: the addresses of the nodes, and the certificate. On the nodes set
#   server.trusted_proxies   to the address that nginx connects from (127.0.0.1 here); otherwise all
#                            clients share one address, and its limits
#   server.drain_delay       to 1s or more, so that a node that stops lets nginx's connections end
# Metrics are not behind nginx: each node serves them at an address of its own
# (server.metrics_listen).
";

const TUNED_PROCESS: &str = "\
# A request takes two connections, that of the client and that to a node. So one worker alone has
# room for 4,000 clients twice over.
worker_rlimit_nofile 65536;
events {
    worker_connections 16384;
    # A worker takes all connections that wait at once. With `reuseport` they are its own.
    multi_accept on;
}

";

const TUNED_HTTP: &str = "    \
    default_type application/octet-stream;
    server_tokens off;
    tcp_nodelay on;
    # Nodes compress, once for all who ask (http.compression).
    gzip off;

    # Clients. The nodes have the same limits (server.header_timeout and others), but see only nginx.
    client_header_timeout 10s;
    client_body_timeout 10s;
    send_timeout 15s;
    keepalive_timeout 65s;
    keepalive_requests 10000;
    reset_timedout_connection on;
    # Twice server.max_body (1 MiB), so that it is a node that refuses a large body, as a problem
    # document. A body is read whole before a node is asked: a slow upload holds none up.
    client_max_body_size 2m;
    client_body_buffer_size 64k;

";

const TUNED_UPSTREAM: &str = "        \
        # One view of the nodes for all workers: connections in use, and failures.
        zone madang 128k;
        least_conn;
        # A node that refused three connections or answers is left out for a second; it is then tried
        # again with one request. With one node alone this does nothing.
";

const TUNED_KEEPALIVE: &str = "        \
        # Idle connections that each worker keeps to all nodes together.
        keepalive 64;
        # Shorter than the nodes' server.idle_timeout (75 s): nginx closes first, so it never sends a
        # request on a connection that a node is just closing.
        keepalive_timeout 60s;
        keepalive_requests 10000;
";

const TUNED_TLS: &str = "        \
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_prefer_server_ciphers off;
        ssl_session_cache shared:tls:10m;
        ssl_session_timeout 1d;
        ssl_session_tickets off;
        # Small records let a browser begin to read sooner; most answers fit into one.
        ssl_buffer_size 8k;
";

const TUNED_LOCATION: &str = "
        location / {
            proxy_pass http://madang;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header Host $host;
            # Set, not appended: what a client claims goes no further. Behind another balancer use
            # the realip module, so that $remote_addr is the client there, too.
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header Forwarded \"\";
            proxy_set_header X-Real-IP \"\";

            # A node answers within server.request_timeout (10 s), so it is the node that says 503 or
            # 504, and whether something may have been written.
            proxy_connect_timeout 1s;
            proxy_send_timeout 15s;
            proxy_read_timeout 15s;

            # What failed on one node is tried on one other, within 10 s. Never `non_idempotent`: a
            # POST that was sent may have been carried out although no answer came, so nginx answers
            # 502, and the client may send it again with the same Idempotency-Key. A POST that was not
            # sent, because the node refused the connection, is tried on the other.
            # Not `http_503`: a node under overload answers 503 with Retry-After, to many requests a
            # second. Tried again they would double the load, and since each would count as a failure
            # (max_fails) nginx would soon leave out all nodes and answer 502.
            proxy_next_upstream error timeout;
            proxy_next_upstream_tries 2;
            proxy_next_upstream_timeout 10s;

            # An answer is read from the node as fast as it comes, up to half a megabyte in memory,
            # the rest in a file: a slow reader does not hold a node's buffers.
            proxy_buffering on;
            proxy_buffer_size 8k;
            proxy_buffers 8 64k;
            proxy_busy_buffers_size 128k;
            proxy_max_temp_file_size 64m;
        }
";
