//! Connections that break, and what comes after.

use std::io::Write as _;
use std::net::TcpListener;

use crate::support::{Script, Server, ok, response, variable};

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

#[test]
fn credentials_follow_a_redirect_to_another_port_but_not_to_another_host() {
    let shown = |request: &crate::support::Request| {
        let header = |name| request.header(name).unwrap_or("none").to_owned();
        ok(&format!("{} {}", header("authorization"), header("host")))
    };
    let other = Server::start(shown);
    let (near, port) = (other.url("/"), other.address.port());
    let far = format!("http://localhost:{port}/");
    let named = format!("http://v:w@localhost:{port}/");
    let server = Server::start(move |request| {
        let to = |location: &str| response("302 Found", &format!("Location: {location}\r\n"), "");
        match request.path() {
            "/near" => to(&near),
            "/far" => to(&far),
            "/named" => to(&named),
            "/here" => to("/shown"),
            _ => shown(request),
        }
    });
    let body = format!(
        "const first = (path, headers) => http.get(URL + path, {{ headers }}).body.split(' ')[0];
         const secret = {{ Authorization: 'secret' }};
         check(1, {{
            'another port': () => first('/near', secret) === 'secret',
            'another host': () => first('/far', secret) === 'none',
            'another user': () => http.get(URL + '/named', {{ headers: secret }}).body.startsWith('Basic djp3 '),
            'a Host header stays here': () => http.get(URL + '/here', {{ headers: {{ Host: 'h' }} }}).body === 'none h',
            'and does not go there': () => http.get(URL + '/near', {{ headers: {{ Host: 'h' }} }}).body.endsWith(':{port}'),
            'the user stays here': () => http.get(URL.replace('//', '//u:p@') + '/here').body.startsWith('Basic dTpw '),
            'and does not go there either': () => http.get(URL.replace('//', '//u:p@') + '/near').body.startsWith('none '),
         }});"
    );
    Script::body(&body).against(&server).run().assert_all_checks_passed();
}
