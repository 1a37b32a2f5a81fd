//! Servers over TLS that staple OCSP responses of OpenSSL to their certificates.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// What the authority knows of certificate 1, in the form of OpenSSL's list, and flags of `openssl ocsp`.
const RESPONSES: [(&str, &str, &[&str]); 6] = [
    ("GOOD", "V\t400101000000Z\t\t01\tunknown\t/CN=localhost\n", &["-ndays", "1"]),
    ("FOREVER", "V\t400101000000Z\t\t01\tunknown\t/CN=localhost\n", &[]),
    (
        "REVOKED",
        "R\t400101000000Z\t260101000000Z,superseded\t01\tunknown\t/CN=localhost\n",
        &["-ndays", "1"],
    ),
    (
        "WITHOUT_REASON",
        "R\t400101000000Z\t260102000000Z\t01\tunknown\t/CN=localhost\n",
        &["-ndays", "1", "-resp_no_certs", "-rmd", "sha384"],
    ),
    ("UNKNOWN", "V\t400101000000Z\t\t02\tunknown\t/CN=localhost\n", &["-ndays", "1"]),
    ("CHANGED", "V\t400101000000Z\t\t01\tunknown\t/CN=localhost\n", &["-ndays", "1"]),
];

/// Starts the servers; gives their addresses by name. They end with the test's process.
pub fn start() -> Vec<(String, String)> {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        at,
        &format!("req -x509 {new_key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"),
    );
    let signed = "-CA ca.pem -CAkey ca.key -set_serial 1 -days 2 -subj /CN=localhost";
    openssl(at, &format!("req -x509 {new_key} -keyout key.pem -out cert.pem {signed}"));
    let mut addresses = vec![("NOTHING".to_owned(), serve(at, Vec::new()))];
    for (name, known, flags) in RESPONSES {
        std::fs::write(at.join("index.txt"), known).unwrap();
        let asked = "ocsp -index index.txt -CA ca.pem -rsigner ca.pem -rkey ca.key -issuer ca.pem -cert cert.pem";
        openssl(at, &format!("{asked} -respout response.der {}", flags.join(" ")));
        let mut response = std::fs::read(at.join("response.der")).unwrap();
        if name == "CHANGED" {
            // The first time in it, so that the signature is that of another response.
            let year = response.windows(4).position(|window| window.starts_with(b"20")).unwrap();
            response[year + 3] ^= 1;
        }
        addresses.push((name.to_owned(), serve(at, response)));
    }
    addresses
}

pub fn openssl(directory: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ').filter(|word| !word.is_empty())).current_dir(directory);
    let ran = command.output().expect("openssl is installed");
    assert!(ran.status.success(), "{arguments}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// A server that staples this to its certificate, and answers one request of each connection.
fn serve(directory: &Path, response: Vec<u8>) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert_with_ocsp(
            vec![CertificateDer::from_pem_file(directory.join("cert.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(directory.join("key.pem")).unwrap(),
            response,
        );
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                head.extend(byte);
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            // A client may have gone away.
            let _ = stream.write_all(answer);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    format!("https://localhost:{port}")
}
