//! TLS against OpenSSL's own server, with a certificate nobody trusts.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::{Script, Server, response};

/// `openssl s_server` on a free port; ends with the test.
struct TlsServer {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn certificate(directory: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .current_dir(directory)
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

impl TlsServer {
    fn start(version: &str) -> Self {
        Self::start_with(&[version])
    }

    fn start_with(flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        certificate(directory.path());
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-cert", "cert.pem", "-key", "key.pem"])
            .arg("-www")
            .args(flags)
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        // `ACCEPT 127.0.0.1:PORT`
        let output = BufReader::new(child.stdout.take().unwrap());
        let line = output.lines().map_while(Result::ok).find(|line| line.starts_with("ACCEPT"));
        let port = line.unwrap().rsplit(':').next().unwrap().trim().parse().unwrap();
        Self { child, port, directory }
    }

    fn script(&self, options: &str, body: &str) -> Script {
        Script::new(&format!(
            "import http from 'k6/http'; import {{ check }} from 'k6';
             export const options = {options};
             export default function () {{ const URL = 'https://localhost:{}/'; {body} }}",
            self.port
        ))
    }
}

#[test]
fn both_versions_are_spoken_and_told() {
    for (flag, version) in [("-tls1_2", "tls1.2"), ("-tls1_3", "tls1.3")] {
        let server = TlsServer::start(flag);
        let body = format!(
            "const r = http.get(URL);
             check(r, {{
                 status: (r) => r.status === 200 && r.body.includes('s_server'),
                 version: (r) => r.tls_version === '{version}' && r.tls_version === http.{},
                 suite: (r) => r.tls_cipher_suite.startsWith('TLS_'),
                 handshake: (r) => r.timings.tls_handshaking > 0 && r.timings.blocked >= r.timings.tls_handshaking,
                 peer: (r) => r.remote_ip === '127.0.0.1' && r.remote_port === {},
             }});",
            version.replace("tls1.", "TLS_1_"),
            server.port
        );
        server.script("{ insecureSkipTLSVerify: true }", &body).run().assert_all_checks_passed();
    }
}

#[test]
fn a_certificate_nobody_trusts_fails_the_request() {
    let server = TlsServer::start("-tls1_3");
    let body = "check(http.get(URL), { refused: (r) => r.status === 0 && r.error_code === 1310 && r.error.includes('x509') });";
    server.script("{}", body).run().assert_all_checks_passed();
}

#[test]
fn a_server_without_the_wanted_version_fails_the_request() {
    let server = TlsServer::start("-tls1_2");
    let options = "{ insecureSkipTLSVerify: true, tlsVersion: { min: 'tls1.3' } }";
    let body = "check(http.get(URL), { refused: (r) => r.status === 0 && r.error_code === 1010 });";
    server.script(options, body).run().assert_all_checks_passed();
}

#[test]
fn a_server_that_asks_for_a_certificate_is_shown_one() {
    let wants = ["-Verify", "1", "-verify_return_error", "-CAfile", "cert.pem"];
    for version in ["-tls1_2", "-tls1_3"] {
        let server = TlsServer::start_with(&[&wants[..], &[version]].concat());
        let read = |name| std::fs::read_to_string(server.directory.path().join(name)).unwrap();
        let (cert, key) = (read("cert.pem"), read("key.pem"));
        // Of an authority that the server does not name.
        let other = tempfile::tempdir().unwrap();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other"])
            .args(["-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(other.path())
            .output();
        assert!(made.unwrap().status.success());
        let read = |name| std::fs::read_to_string(other.path().join(name)).unwrap();
        let (other_cert, other_key) = (read("cert.pem"), read("key.pem"));
        let both = format!(
            "{{ insecureSkipTLSVerify: true, tlsAuth: [
                {{ cert: {other_cert:?}, key: {other_key:?} }}, {{ domains: ['localhost'], cert: {cert:?}, key: {key:?} }}] }}"
        );
        let body = "check(http.get(URL), { shown: (r) => r.status === 200 && /Client certificate/.test(r.body) && /CN *= *localhost/.test(r.body) });";
        server.script(&both, body).run().assert_all_checks_passed();
        for cipher in ["-aes128", "-aes256", "-des3"] {
            let made = Command::new("openssl")
                .args(["ec", "-in", "key.pem", "-out", "locked.pem", cipher, "-passout", "pass:s3"])
                .current_dir(server.directory.path())
                .output();
            assert!(made.unwrap().status.success());
            let locked =
                std::fs::read_to_string(server.directory.path().join("locked.pem")).unwrap();
            let with = |password: &str| {
                format!(
                    "{{ insecureSkipTLSVerify: true, tlsAuth: [
                        {{ cert: {cert:?}, key: {locked:?}, password: '{password}' }}] }}"
                )
            };
            let body = "check(http.get(URL), { shown: (r) => /CN *= *localhost/.test(r.body) });";
            server.script(&with("s3"), body).run().assert_all_checks_passed();
            let ran = server.script(&with("s4"), body).run();
            assert_eq!(ran.status, madang_load::ExitStatus::InvalidConfig, "{:?}", ran.messages);
        }
        let body =
            "check(http.get(URL), { refused: (r) => r.status === 0 && r.error_code === 1010 });";
        server.script("{ insecureSkipTLSVerify: true }", body).run().assert_all_checks_passed();
        let mixed = format!("{{ tlsAuth: [{{ cert: {cert:?}, key: {other_key:?} }}] }}");
        let ran = server.script(&mixed, "").run();
        assert!(ran.said("invalid option `tlsAuth`") || ran.said("tlsAuth"), "{:?}", ran.messages);
        assert_eq!(ran.status, madang_load::ExitStatus::InvalidConfig);
    }
}

#[test]
fn the_suites_of_tls_1_2_can_be_chosen() {
    let server = TlsServer::start("-tls1_2");
    for suite in
        ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]
    {
        let options = format!("{{ insecureSkipTLSVerify: true, tlsCipherSuites: ['{suite}'] }}");
        let body =
            format!("check(http.get(URL), {{ suite: (r) => r.tls_cipher_suite === '{suite}' }});");
        server.script(&options, &body).run().assert_all_checks_passed();
    }
    let options = "{ tlsCipherSuites: ['TLS_RSA_WITH_AES_128_CBC_SHA'] }";
    let ran = server.script(options, "").run();
    let told = "option `tlsCipherSuites` with `TLS_RSA_WITH_AES_128_CBC_SHA` is not supported yet";
    assert!(ran.said(told), "{:?}", ran.messages);
}

#[test]
fn a_redirect_may_lead_to_tls() {
    let tls = TlsServer::start("-tls1_3");
    let location = format!("Location: https://localhost:{}/\r\n", tls.port);
    let plain = Server::start(move |_| response("302 Found", &location, ""));
    let script = "const r = http.get(URL + '/to-tls');
         check(r, { led: (r) => r.status === 200 && r.url.startsWith('https://') });";
    let mut script = Script::body(script);
    script.config.overrides.insecure_skip_tls_verify = Some(true);
    script.against(&plain).run().assert_all_checks_passed();
}

/// A server with such a certificate that speaks the given protocols, by their names for ALPN.
pub fn server_config(protocols: &[&[u8]]) -> Arc<rustls::ServerConfig> {
    let directory = tempfile::tempdir().unwrap();
    certificate(directory.path());
    let file = |name: &str| directory.path().join(name);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
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

/// What a request is answered, and whether the connection is closed after it; `None` only closes.
type Reply = Option<(Vec<u8>, bool)>;

/// A server that closes connections without TLS's own farewell. The answer to every request is given
/// by its head and the serial number of its connection.
fn without_farewell(protocols: &[&[u8]], answer: fn(&str, usize) -> Reply) -> u16 {
    let config = server_config(protocols);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (connection, tcp) in listener.incoming().enumerate() {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = BufReader::new(rustls::StreamOwned::new(session, tcp.unwrap()));
            loop {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    assert!(stream.read_until(b'\n', &mut head).unwrap() > 0);
                }
                let head = String::from_utf8(head).unwrap();
                let Some((answer, close)) = answer(&head, connection) else { break };
                stream.get_mut().write_all(&answer).unwrap();
                stream.get_mut().flush().unwrap();
                if close {
                    break;
                }
            }
        }
    });
    port
}

#[test]
fn a_server_that_closes_without_a_farewell_has_closed() {
    let port = without_farewell(&[], |head, connection| {
        let path = head.split(' ').nth(1).unwrap();
        let (answer, close) = match (path, connection) {
            ("/to-the-end", _) => ("HTTP/1.1 200 OK\r\n\r\nwhole", true),
            ("/short", _) => ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", true),
            ("/kept", _) => ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", false),
            ("/again", 2) => return None,
            _ => ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond", true),
        };
        Some((answer.into(), close))
    });
    let mut script = Script::body(
        "check(http.get(`${URL}/to-the-end`), { whole: (r) => r.status === 200 && r.body === 'whole' });
         check(http.get(`${URL}/short`), { short: (r) => r.status === 0 && r.error.includes('unexpected EOF') });
         check(http.get(`${URL}/kept`), { kept: (r) => r.status === 200 });
         check(http.get(`${URL}/again`), { again: (r) => r.body === 'second' });",
    );
    trusting(&mut script, port);
    script.run().assert_all_checks_passed();
}

/// Makes `URL` the server at this port, whose certificate nobody trusts.
fn trusting(script: &mut Script, port: u16) {
    script.config.overrides.insecure_skip_tls_verify = Some(true);
    script.config.environment =
        crate::support::variable("URL", &format!("https://localhost:{port}"));
}

#[test]
fn websockets_are_spoken_over_tls() {
    // It would rather speak HTTP/2, which is not to be offered here.
    let port = without_farewell(&[b"h2", b"http/1.1"], |head, _| {
        let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
        // A text, and a close frame with code 1000.
        let frames = [&[0x81, 8][..], b"over TLS", &[0x88, 2, 0x03, 0xe8]].concat();
        Some((crate::websockets::switched(key.unwrap(), "", &frames), true))
    });
    let mut script = Script::new(
        "import ws from 'k6/ws'; import { WebSocket } from 'k6/websockets'; import { check } from 'k6';
         const URL = __ENV.URL.replace('https', 'wss');
         export default function () {
            const seen = [];
            ws.connect(URL, (socket) => {
                for (const name of ['message', 'error', 'close']) socket.on(name, (data) => seen.push(data));
            });
            check(seen.join(), { blocking: (s) => s === 'over TLS,1000' });
            const socket = new WebSocket(URL);
            socket.onmessage = (event) => seen.push(event.data);
            socket.onclose = (event) => check([...seen, event.code].join(),
                { beside: (s) => s === 'over TLS,1000,over TLS,1000' });
         }",
    );
    trusting(&mut script, port);
    script.run().assert_all_checks_passed();
}

/// A proxy that connects whoever asks for `shop.example` with this port of the machine.
fn tunnel_to(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut client = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            assert!(head.starts_with(b"CONNECT shop.example:443 HTTP/1.1\r\n"), "{head:?}");
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
    address.port()
}

/// As in k6, whose error is then empty too.
#[test]
fn a_refusal_of_a_proxy_without_a_reason_is_thrown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut client = stream.unwrap();
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 407 \r\ncontent-length: 0\r\n\r\n");
        }
    });
    let mut script = Script::body(
        "let thrown;
         try { http.get('https://shop.example/a', { throw: true }); } catch (error) { thrown = error.message; }
         check(thrown, { thrown: (text) => text === 'Get \"https://shop.example/a\": ' });",
    );
    let given = |name: &str| (name == "https_proxy").then(|| proxy.clone());
    script.config.overrides = madang_load::Layer::from_environment(given).unwrap();
    script.run().assert_all_checks_passed();
}

#[test]
fn a_proxy_passes_tls_on_as_it_is() {
    let server = TlsServer::start("-tls1_3");
    let newer = crate::http2_servers::Http2Server::start(10);
    for (port, proto) in [(server.port, "HTTP/1.0"), (newer.port, "HTTP/2.0")] {
        let proxy = format!("http://127.0.0.1:{}", tunnel_to(port));
        let mut script = Script::body(&format!(
            "const r = http.get('https://shop.example/a');
             check(r, {{
                answered: (r) => r.status === 200,
                proto: (r) => r.proto === '{proto}',
                'the time of the tunnel is none of the request': (r) => r.timings.tls_handshaking > 0,
             }});"
        ));
        let given = |name: &str| (name == "https_proxy").then(|| proxy.clone());
        script.config.overrides = madang_load::Layer::from_environment(given).unwrap();
        script.config.overrides.insecure_skip_tls_verify = Some(true);
        let ran = script.run();
        ran.assert_all_checks_passed();
        assert_eq!(ran.check("answered"), (1, 0), "{:?}", ran.messages);
    }
}
