//! TLS, with OpenSSL's server and an untrusted certificate.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use madang_stack::http::{Url, get};

use crate::help::{DEADLINE, certificate};

#[test]
fn a_server_on_loopback_may_have_signed_its_own_certificate() {
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path());
    let mut server = Command::new("openssl")
        .args([
            "s_server", "-accept", "127.0.0.1:0", "-cert", "cert.pem", "-key", "key.pem", "-www",
        ])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    // `ACCEPT 127.0.0.1:PORT`
    let watch = madang_testing::Watch::over(&server);
    let output = BufReader::new(server.stdout.take().unwrap());
    let line = output.lines().map_while(Result::ok).find(|line| line.starts_with("ACCEPT"));
    let port = line.and_then(|line| line.rsplit(':').next().map(|port| port.trim().to_owned()));
    let ask = |scheme: &str| {
        let port = port.as_deref().unwrap();
        get(&Url::parse(&format!("{scheme}://127.0.0.1:{port}/")).unwrap(), DEADLINE)
    };
    let secure = ask("https");
    let plain = ask("http");
    drop(watch);
    let ended = server.kill().and_then(|()| server.wait());
    let answer = secure.unwrap();
    let body = String::from_utf8_lossy(&answer.body);
    assert!(answer.is_ready() && body.contains("TLSv1.3"), "{body}");
    assert!(plain.is_err(), "without TLS it is no HTTP: {plain:?}");
    ended.unwrap();
}
