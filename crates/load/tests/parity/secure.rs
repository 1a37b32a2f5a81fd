//! Servers over TLS that keep their requests: with HTTP/2 or without it, and of one version of TLS.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use crate::stapled::openssl;

type Log = Arc<Mutex<Vec<String>>>;

type Versions = &'static [&'static SupportedProtocolVersion];

type Protocols = &'static [&'static [u8]];

/// By name: the versions of TLS and the protocols a server offers, and for whom its certificate is.
const SERVERS: [(&str, Versions, Protocols, &str); 6] = [
    ("H2", &[&version::TLS13, &version::TLS12], &[b"h2", b"http/1.1"], "localhost"),
    ("H2_TLS12", &[&version::TLS12], &[b"h2"], "localhost"),
    ("H1", &[&version::TLS13], &[b"http/1.1"], "localhost"),
    ("H1_TLS12", &[&version::TLS12], &[], "localhost"),
    ("OTHER", &[&version::TLS13], &[b"h2", b"http/1.1"], "other.example"),
    ("EXPIRED", &[&version::TLS13], &[b"h2", b"http/1.1"], EXPIRED),
];

/// For this host a certificate is of the year 2020.
const EXPIRED: &str = "expired.example";

/// Starts the servers; gives their addresses by name. They end with the test's process.
pub fn start(log: &Log) -> Vec<(String, String)> {
    let addresses = SERVERS.map(|(name, versions, protocols, host)| {
        (name.to_owned(), listen(name, config(versions, protocols, host), log.clone()))
    });
    addresses.into()
}

/// With a new, self-signed certificate for that host.
pub fn config(versions: Versions, protocols: Protocols, host: &str) -> Arc<ServerConfig> {
    let directory = tempfile::tempdir().unwrap();
    openssl(
        directory.path(),
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem \
             -out cert.pem -days 2 -subj /CN={host} -addext subjectAltName=DNS:{host} \
             -addext basicConstraints=critical,CA:FALSE"
        ),
    );
    if host == EXPIRED {
        expire(directory.path());
    }
    let file = |name: &str| directory.path().join(name);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(file("cert.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(file("key.pem")).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// Signs the certificate again, with dates that only a certificate authority can set in all versions of OpenSSL.
fn expire(directory: &Path) {
    const AUTHORITY: &str = "[ca]\ndefault_ca = d\n[d]\ndatabase = index.txt\nnew_certs_dir = .\n\
        rand_serial = yes\ndefault_md = sha256\npolicy = p\nx509_extensions = e\n\
        [p]\ncommonName = supplied\n\
        [e]\nsubjectAltName = DNS:expired.example\nbasicConstraints = critical,CA:FALSE\n";
    std::fs::write(directory.join("index.txt"), "").unwrap();
    std::fs::write(directory.join("authority"), AUTHORITY).unwrap();
    openssl(directory, "x509 -x509toreq -in cert.pem -signkey key.pem -out request.pem");
    openssl(
        directory,
        "ca -batch -notext -config authority -selfsign -keyfile key.pem -in request.pem \
         -out cert.pem -startdate 20200101000000Z -enddate 20200201000000Z",
    );
}

fn listen(name: &'static str, config: Arc<ServerConfig>, log: Log) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let acceptor = TlsAcceptor::from(config);
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (acceptor, log) = (acceptor.clone(), log.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    if tls.get_ref().1.alpn_protocol() == Some(b"h2") {
                        serve_2(tls, name, &log).await;
                    } else {
                        serve_1(tls, name, &log).await;
                    }
                });
            }
        });
    });
    format!("https://localhost:{port}")
}

type Tls = tokio_rustls::server::TlsStream<tokio::net::TcpStream>;

/// One request after the other: what is sent is small.
async fn serve_2(tls: Tls, server: &str, log: &Log) {
    let Ok(mut requests) = h2::server::handshake(tls).await else { return };
    while let Some(Ok((request, mut respond))) = requests.accept().await {
        let (head, mut body) = request.into_parts();
        let port = format!(":{}", head.uri.port().unwrap());
        let mut headers: Vec<_> = head
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .map(|line| line.replace(&port, ":PORT"))
            .collect();
        // Go sends them in no order.
        headers.sort();
        let target = head.uri.path_and_query().unwrap().to_string();
        let host = head.uri.host().unwrap();
        let scheme = head.uri.scheme_str().unwrap();
        let line = format!("HTTP/2 {} {scheme}://{host} {target}", head.method);
        let text = async {
            let mut text = Vec::new();
            while let Some(Ok(data)) = body.data().await {
                body.flow_control().release_capacity(data.len()).unwrap();
                text.extend_from_slice(&data);
            }
            text
        };
        // The connection has to be driven meanwhile.
        let text = tokio::select! {
            text = text => text,
            _ = std::future::poll_fn(|context| requests.poll_closed(context)) => return,
        };
        let text = String::from_utf8(text).unwrap();
        let record = format!("{server} {line}\n{}\n\n{text}", headers.join("\n"));
        log.lock().unwrap().push(record);
        let mut answer = http::Response::builder().status(status(&target));
        if target == "/moved" {
            answer = answer.header("location", "/arrived");
        }
        let answer = answer
            .header("x-custom", "one")
            .header("x-custom", "two")
            .header("set-cookie", "kept=here")
            .header("content-type", "text/plain");
        let is_empty = head.method == http::Method::HEAD || target == "/status/204";
        let Ok(mut sender) = respond.send_response(answer.body(()).unwrap(), is_empty) else {
            return;
        };
        if !is_empty {
            sender.send_data(Bytes::from(format!("{target} {text}")), true).unwrap();
        }
    }
}

async fn serve_1(mut tls: Tls, server: &str, log: &Log) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = tls.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        tls.read_exact(&mut body).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        let port = head.lines().find_map(|line| line.strip_prefix("Host: localhost:")).unwrap();
        let record = head.replace(port, "PORT");
        log.lock().unwrap().push(format!("{server} {record}{body}"));
        let target = head.split(' ').nth(1).unwrap();
        let (content, code) = (format!("{target} {body}"), status(target));
        let answer = format!(
            "HTTP/1.1 {code} Said\r\nX-Custom: one\r\nX-Custom: two\r\nSet-Cookie: kept=here\r\n\
             Location: /arrived\r\nContent-Length: {}\r\n\r\n{}",
            content.len(),
            if head.starts_with("HEAD ") { "" } else { &content },
        );
        if tls.write_all(answer.as_bytes()).await.is_err() || tls.flush().await.is_err() {
            return;
        }
    }
}

fn status(target: &str) -> u16 {
    match target.strip_prefix("/status/") {
        Some(code) => code.parse().unwrap(),
        None if target == "/moved" => 302,
        None => 200,
    }
}
