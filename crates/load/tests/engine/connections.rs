//! Connections that break, and what comes after.

use std::io::Write as _;
use std::net::TcpListener;

use crate::support::{Script, variable};

/// Reads a head. What `keep_unread` leaves of it in the socket turns the close into a reset.
fn read_head(stream: &mut impl std::io::Read, keep_unread: bool) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
        if keep_unread {
            return;
        }
    }
}

#[test]
fn an_answer_that_breaks_off_in_the_middle_is_a_failure_and_not_asked_for_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            read_head(&mut stream, false);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").unwrap();
            read_head(&mut stream, true);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
        }
    });
    let mut script = Script::body(
        "http.get(`${URL}/first`);
         check(http.get(`${URL}/breaks`), {
            failed: (r) => r.status === 0 && r.error_code === 1220 && r.timings.waiting > 0,
         });",
    );
    script.config.environment = variable("URL", &format!("http://{address}"));
    let ran = script.run();
    ran.assert_all_checks_passed();
    assert_eq!(ran.report().requests.failed, 1);
}
