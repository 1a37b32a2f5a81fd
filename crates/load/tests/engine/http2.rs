//! HTTP/2, which a server over TLS chooses. What is expected is what k6 does: a drill runs the scripts there too.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::http2_servers::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Http2Server, PING, SETTINGS, Say, frame,
    frames, go_away, ok, reset,
};
use crate::support::{Ran, Script, reserve_port};
use crate::tls::certificate;

/// One iteration against `url`.
fn script(url: &str, options: &str, body: &str) -> Script {
    Script::new(&format!(
        "import http from 'k6/http';
         import {{ check, sleep }} from 'k6';
         export const options = {{ insecureSkipTLSVerify: true, thresholds: {{ checks: ['rate==1'] }}, {options} }};
         const URL = '{url}';
         export default function () {{ {body} }}"
    ))
}

/// Runs the script, in a drill with k6 too.
fn run(url: &str, options: &str, body: &str) -> Ran {
    let mut script = script(url, options, body);
    let k6 = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/bin/k6"));
    if madang_testing::drill!() && k6.exists() {
        let ran = Command::new(k6).args(["run", "-q"]).arg(&script.config.script).output().unwrap();
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat())
        );
    }
    script.run_once()
}

fn assert_passes(url: &str, options: &str, body: &str) {
    run(url, options, body).assert_all_checks_passed();
}

#[test]
fn requests_have_the_headers_that_go_sends() {
    let server = Http2Server::start(100);
    let params = "{ headers: { 'X-Own': 'a', Host: 'other.example', 'Keep-Alive': '5', Connection: 'keep-alive' },
                    cookies: { one: '1', two: '2' } }";
    let ran = script(
        &server.url(),
        "userAgent: 'k6'",
        &format!(
            "check(http.post(`${{URL}}/a?b=c`, 'body', {params}), {{
                 proto: (r) => r.proto === 'HTTP/2.0' && r.status_text === '200 OK',
                 names: (r) => r.headers['X-Path'] === 'yes' && r.body === '/a',
             }});
             http.get(`${{URL}}/plain`);"
        ),
    )
    .run();
    ran.assert_all_checks_passed();
    let seen = server.requests();
    let headers: Vec<String> =
        seen[0].headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(
        headers,
        ["user-agent: k6", "cookie: one=1", "cookie: two=2", "x-own: a", "content-length: 4"]
    );
    assert_eq!((&*seen[0].method, &*seen[0].uri), ("POST", "https://other.example/a?b=c"));
    assert_eq!(seen[0].body_bytes, 4);
    assert_eq!(seen[1].headers, [("user-agent".to_owned(), "k6".to_owned())]);
    let tagged = ran.export.as_ref().unwrap()["metrics"]["http_reqs"]["count"].as_u64();
    assert_eq!(tagged, Some(2));
}

#[test]
fn requests_of_a_virtual_user_share_a_connection_and_run_at_the_same_time() {
    let server = Http2Server::start(100);
    let options = "vus: 2, iterations: 2, scenarios: undefined";
    let ran = script(
        &server.url(),
        options,
        "check(http.get(`${URL}/first`), { handshake: (r) => r.timings.tls_handshaking > 0 });
         const three = http.batch([1, 2, 3].map((i) => `${URL}/together/${i}`));
         three.forEach((r, i) => check(r, {
             own: (r) => r.body === `/together/${i + 1}`,
             reused: (r) => r.timings.tls_handshaking === 0 && r.timings.connecting === 0,
             timed: (r) => r.timings.waiting > 0 && r.timings.sending > 0 && r.timings.receiving >= 0,
         }));",
    )
    .run();
    ran.assert_all_checks_passed();
    let connections: Vec<usize> = server.requests().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections.len(), 8);
    assert_eq!(connections.iter().max(), Some(&1), "one of each user: {connections:?}");
}

#[test]
fn more_requests_than_a_server_allows_open_another_connection() {
    // With room for one request of the three that are to be open at once, the third may be given the second connection
    // before its server has said so, as in Go: it waits there.
    for (limit, path) in [(1, "one"), (2, "together")] {
        let server = Http2Server::start(limit);
        assert_passes(
            &server.url(),
            "",
            &format!(
                "http.get(`${{URL}}/first`);
                 http.batch([1, 2, 3].map((i) => `${{URL}}/{path}/${{i}}`)).forEach((r) => check(r, {{ ok: (r) => r.status === 200 }}));"
            ),
        );
        let first = server.requests();
        assert!(first.iter().any(|seen| seen.connection > 0), "{first:?}");
    }
}

#[test]
fn options_that_close_connections_do() {
    for (option, expected) in
        [("noConnectionReuse", [0, 1, 2, 3]), ("noVUConnectionReuse", [0, 0, 1, 1])]
    {
        let server = Http2Server::start(100);
        let options = format!("iterations: 2, {option}: true");
        let body = "for (const i of [1, 2]) check(http.get(`${URL}/${i}`), { ok: (r) => r.proto === 'HTTP/2.0' });";
        script(&server.url(), &options, body).run().assert_all_checks_passed();
        let connections: Vec<usize> =
            server.requests().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections, expected, "{option}");
    }
}

#[test]
fn large_bodies_go_both_ways_and_their_bytes_are_counted() {
    let server = Http2Server::start(100);
    let ran = run(
        &server.url(),
        "",
        "const sent = http.post(`${URL}/up`, 'y'.repeat(10 << 20));
         check(sent, { sent: (r) => r.status === 200 });
         check(http.get(`${URL}/loud`), { received: (r) => r.body.length === 10 << 20 });
         check(http.get(`${URL}/loud`, { responseType: 'none' }), { discarded: (r) => r.body === null && r.status === 200 });",
    );
    ran.assert_all_checks_passed();
    assert_eq!(server.requests().iter().map(|seen| seen.body_bytes).max(), Some(10 << 20));
    let count = |name: &str| {
        let export = ran.export.as_ref().unwrap();
        export["metrics"][name]["count"].as_u64().unwrap() >> 10
    };
    // With the frames, TLS and the handshake, in KiB.
    assert!((10_240..10_500).contains(&count("data_sent")), "{}", count("data_sent"));
    assert!((20_480..21_000).contains(&count("data_received")), "{}", count("data_received"));
}

#[test]
fn failures_have_the_numbers_of_k6() {
    type Case = (&'static str, fn(u32) -> Say, &'static str);
    let cases: [Case; 7] = [
        (
            "a reset",
            |s| Say::Write(reset(s, 8)),
            "1639 http2: stream error with http2 ErrCode CANCEL",
        ),
        (
            "an unknown reset",
            |s| Say::Write(reset(s, 99)),
            "1630 http2: stream error with http2 ErrCode unknown error code 0x63",
        ),
        (
            "a farewell inside the answer",
            |s| Say::WriteAndClose(go_away(s, 0)),
            "1611 http2: received GoAway with http2 ErrCode NO_ERROR",
        ),
        ("a complaint", |_| Say::WriteAndClose(go_away(0, 11)), "1000 "),
        ("a close", |_| Say::WriteAndClose(Vec::new()), "1000 unexpected EOF"),
        (
            "DATA of no stream",
            |_| Say::Write(frame(DATA, 0, 0, b"x")),
            "1652 http2: connection error with http2 ErrCode PROTOCOL_ERROR",
        ),
        (
            "a reset inside the body",
            |s| Say::Write([frame(HEADERS, END_HEADERS, s, &[0x88]), reset(s, 2)].concat()),
            "1633 http2: stream error with http2 ErrCode INTERNAL_ERROR",
        ),
    ];
    for (name, answer, expected) in cases {
        let url = frames(move |_, stream| answer(stream));
        let body = format!(
            "check(http.get(URL), {{ '{name}': (r) => `${{r.error_code}} ${{r.error}}`.startsWith('{expected}') && r.status === 0 && r.proto === '' }}) || console.error(http.get(URL).error_code, http.get(URL).error);"
        );
        assert_passes(&url, "", &body);
    }
}

#[test]
fn requests_a_server_has_not_looked_at_are_sent_again_whatever_they_are() {
    // The first is refused on its connection; the second on another, after a farewell.
    let refused =
        frames(|_, stream| Say::Write(if stream == 1 { reset(1, 7) } else { ok(stream) }));
    // To each client one; in a drill k6 is the first.
    let farewell = frames(|connection, stream| match (connection % 2, stream) {
        (0, 1) => Say::Write(ok(1)),
        (0, _) => Say::Write(go_away(1, 0)),
        _ => Say::Write(ok(stream)),
    });
    let body = "check(http.post(URL, 'body'), { first: (r) => r.status === 200 });
                check(http.post(URL, 'body'), { second: (r) => r.status === 200 });";
    assert_passes(&refused, "", body);
    assert_passes(&farewell, "", body);
}

#[test]
fn requests_a_server_may_have_seen_are_not_sent_again() {
    // Each client's first connection; in a drill k6 is a client, too.
    let url = frames(|connection, stream| match (connection % 2, stream) {
        (0, 1) => Say::Write(ok(1)),
        (0, _) => Say::WriteAndClose(Vec::new()),
        _ => Say::Write(ok(stream)),
    });
    let body = "check(http.get(URL), { first: (r) => r.status === 200 });
                check(http.get(URL), { closed: (r) => r.status === 0 && r.error_code === 1000 });
                check(http.get(URL), { anew: (r) => r.status === 200 && r.timings.connecting > 0 });";
    assert_passes(&url, "", body);
}

#[test]
fn an_answer_before_the_end_of_the_request_is_an_answer() {
    let refused = |s| {
        // :status 413 as a literal, and the rest of the request is not wanted.
        let head = frame(HEADERS, END_HEADERS, s, b"\x08\x03413");
        [head, frame(DATA, END_STREAM, s, b"no"), reset(s, 0)].concat()
    };
    let url = frames(move |_, stream| Say::Write(refused(stream)));
    let body = "check(http.post(URL, 'x'.repeat(1 << 20)), {
        refused: (r) => r.status === 413 && r.status_text === '413 Request Entity Too Large' && r.body === 'no' });";
    assert_passes(&url, "", body);
}

#[test]
fn a_timeout_ends_one_request_and_not_its_connection() {
    let url = frames(|_, stream| Say::Write(if stream == 1 { Vec::new() } else { ok(stream) }));
    // Long enough to connect on a busy machine: the second request is to be the second of its connection.
    let body = "check(http.get(URL, { timeout: 1000 }), { late: (r) => r.error_code === 1050 && r.tls_version === '' });
                check(http.get(URL), { next: (r) => r.status === 200 && r.timings.connecting === 0 });";
    assert_passes(&url, "", body);
}

/// What a flood must end in: the limit it breaks, as a connection error with ENHANCE_YOUR_CALM or PROTOCOL_ERROR, or the
/// request's timeout where its frames take no memory.
#[test]
fn floods_neither_hang_nor_grow() {
    let head = |flags| frame(HEADERS, flags, 1, &[0x88]);
    let header = [&b"\x00\x01a\x7f\x81\xff\x00"[..], &[b'v'; 16_510]].concat();
    let floods = [
        ("pings", Vec::new(), frame(PING, 0, 0, &[0; 8]), "1050"),
        ("settings", Vec::new(), frame(SETTINGS, 0, 0, &[]), "1050"),
        ("continuations", head(0), frame(CONTINUATION, 0, 1, &[]), "1662"),
        ("empty data", head(END_HEADERS), frame(DATA, 0, 1, &[]), "1662"),
        ("large headers", Vec::new(), frame(HEADERS, 0, 1, &header[..16_384]), "1652"),
        ("unknown frames", Vec::new(), frame(200, 0, 0, &[0; 1000]), "1050"),
    ];
    for (name, first, flood, code) in floods {
        let timeout = if code == "1050" { 300 } else { 10_000 };
        let flood = flood.repeat(50);
        let url = frames(move |_, _| Say::Forever(first.clone(), flood.clone()));
        let body = format!(
            "const r = http.get(URL, {{ timeout: {timeout} }});
             check(r, {{ '{name}': (r) => r.status === 0 && r.error_code === {code} }})
                 || console.error('{name}', r.error_code, r.error);"
        );
        let start = Instant::now();
        script(&url, "", &body).run().assert_all_checks_passed();
        assert!(start.elapsed() < Duration::from_secs(60), "{name}: {:?}", start.elapsed());
    }
}

#[test]
fn a_flood_between_requests_closes_the_connection() {
    // Frames of a kind nobody knows are to be ignored; pings would end where the socket is full of their answers.
    let unknown = frame(0xbe, 0, 0, &[0; 1000]).repeat(100);
    // The first request is answered; the flood follows the second, which is not.
    let url = frames(move |connection, stream| match (connection, stream) {
        (0, 3) => Say::Forever(Vec::new(), unknown.clone()),
        (0, _) => Say::Write(ok(stream)),
        // 204, from another connection.
        _ => Say::Write(frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x89])),
    });
    let body = "check(http.get(URL), { first: (r) => r.status === 200 });
                let next = http.get(URL, { timeout: 50 });
                // Longer each time: what is counted is what comes between two requests, and a slow machine reads less.
                for (let i = 0; i < 8 && !next.status; i++) { sleep(0.2 * 2 ** i); next = http.get(URL, { timeout: 1000 }); }
                check(next, { anew: (r) => r.status === 204 });";
    script(&url, "", body).run().assert_all_checks_passed();
}

#[test]
fn debian_s_nginx_is_a_peer() {
    let directory = tempfile::tempdir().unwrap();
    certificate(directory.path());
    // nginx cannot choose a port itself.
    let (_reserved, address) = reserve_port();
    let port = address.port();
    let config = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr; worker_processes 1; events {{}}
         http {{ access_log off; gzip on; gzip_min_length 1; gzip_types text/plain;
             client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
             server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate cert.pem; ssl_certificate_key key.pem;
                 location / {{ add_header Set-Cookie a=1; return 302 /to$request_uri; }}
                 location /to {{ return 200 $http_cookie; }} }} }}"
    );
    std::fs::write(directory.path().join("nginx.conf"), config).unwrap();
    struct Server(Child);
    impl Drop for Server {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let nginx = Command::new("nginx")
        .args(["-c", "nginx.conf", "-p"])
        .arg(format!("{}/", directory.path().display()))
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("nginx is installed");
    let mut nginx = Server(nginx);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(nginx.0.try_wait().unwrap().is_none(), "nginx has ended");
        std::thread::yield_now();
    }
    let body = "const r = http.get(`${URL}/x`, { headers: { 'Accept-Encoding': 'gzip' } });
                check(r, { led: (r) => r.url === `${URL}/to/x` && r.body === 'a=1' && r.proto === 'HTTP/2.0',
                           gzip: (r) => r.headers['Content-Encoding'] === 'gzip' });
                check(http.head(`${URL}/to`), { head: (r) => r.status === 200 && r.body === null || r.body === '' });";
    let ran = run(&format!("https://localhost:{port}"), "", body);
    drop(nginx);
    ran.assert_all_checks_passed();
}
