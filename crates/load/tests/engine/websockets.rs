//! WebSockets against servers that do what they should not; what k6 does with better ones is in the parity tests.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest as _, Sha1};

use crate::support::{Answer, Ran, Script, Server};

/// The answer to a handshake with this key, with these bytes after it.
pub(crate) fn switched(key: &str, headers: &str, frames: &[u8]) -> Vec<u8> {
    let accept = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    let accept = BASE64_STANDARD.encode(accept);
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n{headers}\r\n"
    );
    [head.as_bytes(), frames].concat()
}

/// A server that sends these frames at once and reads nothing but the handshake.
fn server(headers: &'static str, frames: Vec<u8>) -> Server {
    Server::start(move |request| {
        let key = request.header("sec-websocket-key").unwrap_or_default();
        Answer::Send(switched(key, headers, &frames))
    })
}

/// The body of a default function, run once.
fn run(server: &Server, options: &str, body: &str) -> Ran {
    Script::new(&format!(
        "import ws from 'k6/ws';
         import {{ WebSocket }} from 'k6/websockets';
         import {{ check }} from 'k6';
         const URL = __ENV.URL.replace('http', 'ws');
         export const options = {{ {options} }};
         export default function () {{ {body} }}"
    ))
    .against(server)
    .run()
}

#[test]
fn an_endless_session_ends_with_its_scenario() {
    for body in ["ws.connect(URL, () => {});", "new WebSocket(URL);"] {
        let start = Instant::now();
        let options = "scenarios: { endless: { executor: 'constant-vus', vus: 3, duration: '1s', \
                       gracefulStop: '500ms' } }";
        let ran = run(&server("", Vec::new()), options, body);
        assert!(start.elapsed() < Duration::from_secs(10), "{body}");
        let export = ran.export.as_ref().unwrap();
        assert_eq!(export["metrics"]["ws_sessions"]["count"], 3, "{body} {:?}", ran.messages);
        // Handshakes and close frames, although no session came to its end.
        assert!(export["metrics"]["data_sent"]["count"].as_f64().unwrap() > 300.0, "{body}");
        assert!(export["metrics"]["ws_session_duration"].is_null(), "{body}");
    }
}

#[test]
fn a_flood_does_not_keep_timers_from_their_turn() {
    // A million pings and as many messages.
    let flood = [0x89, 0, 0x81, 1, b'x'].repeat(1_000_000);
    let server = server("", flood);
    let blocking = "let seen = 0;
         ws.connect(URL, (socket) => {
            socket.on('message', () => {
               if (seen === 0) socket.setTimeout(() => socket.close(), 20);
               seen += 1;
            });
         });
         check(seen, { some: (n) => n > 0, 'not all': (n) => n < 1e6 });";
    run(&server, "", blocking).assert_all_checks_passed();
    let beside = "let seen = 0;
         const socket = new WebSocket(URL);
         const enough = () => {
            check(seen, { some: (n) => n > 0, 'not all': (n) => n < 1e6 });
            throw new Error('enough');
         };
         socket.onmessage = () => {
            if (seen === 0) setTimeout(enough, 50);
            seen += 1;
         };";
    run(&server, "", beside).assert_all_checks_passed();
}

#[test]
fn a_message_that_is_too_large_is_an_error() {
    let header = [&[0x82, 127][..], &u64::MAX.to_be_bytes()].concat();
    let body = "let text;
         ws.connect(URL, (socket) => socket.on('error', (e) => { text ??= e.error(); }));
         const socket = new WebSocket(URL);
         socket.onerror = (e) => check(e.error === text && text,
            { refused: (t) => t === 'websocket: read limit exceeded' });";
    run(&server("", header), "", body).assert_all_checks_passed();
}

/// One ping after the other, from a server that never reads their answers: these may fill the buffers of the
/// sockets and 64 KiB, then they stop, and memory with them.
#[test]
fn pings_of_a_server_that_reads_nothing_are_answered_within_bounds() {
    let pings = [&[0x89, 125][..], &[b'p'; 125]].concat().repeat(200_000);
    let body = "let seen = 0;
         ws.connect(URL, (socket) => {
            socket.on('ping', () => { seen += 1; });
            socket.on('message', () => socket.close());
         });
         check(seen, { all: (n) => n === 200000 });";
    let frames = [&pings[..], &[0x81, 1, b'x']].concat();
    run(&server("", frames), "", body).assert_all_checks_passed();
}

#[test]
fn compressed_messages_are_read() {
    let extension = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; \
                     client_no_context_takeover\r\n";
    // RFC 7692 §7.2.3.1.
    let hello = vec![0xc1, 7, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    let body = "let text;
         ws.connect(URL, { compression: 'deflate' }, (socket) => {
            socket.on('message', (data) => { text = data; socket.close(); });
         });
         check(text, { read: (t) => t === 'Hello' });";
    run(&server(extension, hello), "", body).assert_all_checks_passed();
}

#[test]
fn names_lead_where_the_options_say() {
    let server = server("", vec![0x88, 0]);
    let port = server.address.port();
    let options = format!(
        "hosts: {{ 'app.test': '127.0.0.1:{port}' }}, blockHostnames: ['*.blocked'], \
         blacklistIPs: ['10.0.0.0/8']"
    );
    let body = "const error = (url) => ws.connect(url, (socket) => socket.close()).error;
         check(null, {
            hosts: () => error('ws://app.test/') === '',
            blocked: () => error('ws://a.blocked/').includes('blocked'),
            blacklisted: () => error('wss://10.0.0.1/').includes('blacklisted'),
         });";
    run(&server, &options, body).assert_all_checks_passed();
    let host = server.requests()[0].header("host").map(str::to_owned);
    assert_eq!(host.as_deref(), Some("app.test"));
}
