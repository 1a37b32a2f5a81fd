//! Noise on both ports: the server lives on.

use crate::harness::client::head;
use crate::harness::{Connection, PASSWORD, Person, Server, Setup, eventually};
use crate::schedules::plan;
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const IN_FLIGHT: &str = "madang_http_server_requests_in_flight";

/// Xorshift (Marsaglia, 2003): the same noise in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[3]
    }

    /// Nothing but noise.
    fn bytes(&mut self) -> Vec<u8> {
        let length = self.below(3000);
        (0..length).map(|_| self.byte()).collect()
    }

    /// A request with a few bytes replaced, left out or doubled.
    fn request(&mut self) -> Vec<u8> {
        const REQUESTS: [&str; 6] = [
            "GET /v1/tracks?near=37.5,127.0&limit=5&cursor=00 HTTP/1.1\r\nHost: test\r\nAccept: application/geo+json;q=0.5, */*\r\n\r\n",
            "GET /v1/tracks/1?detail=full&encoding=polyline HTTP/1.1\r\nHost: test\r\nAccept-Encoding: gzip;q=0.1, br\r\nIf-None-Match: W/\"abc\", *\r\n\r\n",
            "POST /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 12\r\nContent-Type: application/json\r\n\r\n{\"name\":\"x\"}",
            "GET /metrics HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "HEAD /docs/%2e%2e/index.html HTTP/1.0\r\nConnection: keep-alive\r\nX-Request-Id: a\r\n\r\n",
            "CONNECT example.org:443 HTTP/1.1\r\nHost: test\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n",
        ];
        let mut bytes = REQUESTS[self.below(REQUESTS.len())].as_bytes().to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            match self.below(3) {
                0 => bytes[at] = self.byte(),
                1 => drop(bytes.remove(at)),
                _ => bytes.extend_from_within(at..),
            }
        }
        bytes
    }
}

fn abuse(address: SocketAddr, noise: &mut Noise) {
    let mut connection = Connection::open(address);
    let bytes = if noise.below(3) == 0 { noise.bytes() } else { noise.request() };
    connection.try_send(bytes);
    if noise.below(4) == 0 {
        return;
    }
    connection.finish_sending().rest();
}

#[test]
fn noise_on_either_port_is_survived() {
    let server = Setup::new().start();
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    for _ in 0..600 {
        abuse(server.api, &mut noise);
        abuse(server.metrics, &mut noise);
    }
    server.is_well();
    assert!(!server.log().contains("ERROR"), "{}", server.log());
    server.until_metric("madang_http_server_connections", &[], 0.0);
    server.until_metric("madang_http_server_requests_in_flight", &[], 0.0);
}

#[test]
fn requests_that_name_no_path_are_answered() {
    // Without a page at `/`, which the last of them would name.
    let server = Setup::new().set("home.page", "off").start();
    for line in ["OPTIONS * HTTP/1.1", "CONNECT example.org:443 HTTP/1.1", "GET http://h HTTP/1.1"]
    {
        let mut connection = server.connect();
        connection.send(format!("{line}\r\nHost: test\r\nConnection: close\r\n\r\n"));
        let answer = connection.answer().unwrap();
        assert!((400..500).contains(&answer.status), "{line}: {}", answer.status);
    }
    server.is_well();
}

/// The head of an upload of `length` bytes.
fn upload(by: Option<&Person>, length: usize) -> String {
    let bearer = by.map(Person::bearer);
    let length = length.to_string();
    let mut headers = vec![("Content-Type", "application/json"), ("Content-Length", &length)];
    headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
    head("POST", "/v1/tracks", &headers)
}

/// A track of this name as JSON of so many bytes.
fn track(name: &str, bytes: usize) -> Vec<u8> {
    let track = json!({"name": name, "segments": [[[37.5, 127], [37.51, 127.01]]]}).to_string();
    let blanks = " ".repeat(bytes - track.len());
    [track.as_bytes(), blanks.as_bytes()].concat()
}

/// Uploads a track of this size from 127.0.0.`host`; answers the status.
fn uploads(server: &Server, host: u8, by: &Person, name: &str, bytes: usize) -> u16 {
    let mut connection = server.connect_from(host);
    connection.try_send(upload(Some(by), bytes));
    connection.try_send(track(name, bytes));
    connection.answer().expect("an answer").status
}

/// Logs in and writes from 127.0.0.`host`, with small bodies that come in one piece and in two.
fn lives_on(server: &Server, host: u8, by: &Person) {
    for hour in 0..5 {
        let log_in = json!({"nickname": by.nickname, "password": PASSWORD});
        let mut connection = server.connect_from(host);
        assert_eq!(connection.json("POST", "/v1/auth/user/login", None, &log_in).status, 200);
        let (bearer, body) = (by.bearer(), plan("walk", 5 * u32::from(host) + hour).to_string());
        let length = body.len().to_string();
        let headers = [
            ("Content-Type", "application/json"),
            ("Authorization", bearer.as_str()),
            ("Content-Length", length.as_str()),
            ("Expect", "100-continue"),
        ];
        // Its body comes after its head in any case.
        connection.send(head("POST", "/v1/schedules", &headers));
        assert_eq!(connection.answer().expect("it may be sent").status, 100);
        let (begin, rest) = body.split_at(body.len() / 2);
        let answer = connection.send(begin).send(rest).answer().expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
}

#[test]
fn two_hundred_half_uploads_of_one_address_keep_nobody_out() {
    let setup = Setup::new().cheap_hash().set("server.body_timeout", "10min");
    let server = setup.set("schedules.limit", "off").start();
    let mina = server.somebody("mina");
    let mut half = Vec::new();
    for by in [None, Some(&mina)] {
        for _ in 0..100 {
            let mut connection = server.connect();
            connection.try_send(upload(by, 1 << 20));
            connection.try_send(vec![b' '; 1_000_000]);
            half.push(connection);
        }
    }
    server.until_metric(IN_FLIGHT, &[], 8.0);
    for host in [1, 2] {
        lives_on(&server, host, &mina);
    }
    assert_eq!(uploads(&server, 2, &mina, "other address", 1 << 20), 201);
    server.until_metric(IN_FLIGHT, &[], 8.0);
    // Those that are slow give way to a later one of the same address.
    eventually("an upload from there", || {
        (uploads(&server, 1, &mina, "same address", 1 << 20) == 201).then_some(())
    });
    let answered: Vec<_> = half[..100].iter_mut().filter_map(Connection::answer).collect();
    assert!(answered.iter().all(|answer| answer.status == 401));
    assert!(!answered.is_empty(), "refused before it was read");
    drop(half);
    server.until_metric(IN_FLIGHT, &[], 0.0);
    server.until_metric("madang_http_server_request_bodies_bytes", &[], 0.0);
    server.is_well();
}

#[test]
fn a_room_that_four_addresses_have_filled_is_open_to_a_fifth() {
    let setup = Setup::new().cheap_hash().set("server.body_timeout", "10min");
    let server = setup.set("schedules.limit", "off").start();
    let mina = server.somebody("mina");
    // 32 MiB for all large bodies, all but their last bytes. Whoever announces one and sends little takes little.
    let mut half: Vec<_> =
        (2..6).flat_map(|host| [host; 8]).map(|h| server.connect_from(h)).collect();
    for connection in &mut half {
        connection.send(upload(Some(&mina), 1 << 20));
    }
    server.until_metric(IN_FLIGHT, &[], 32.0);
    assert_eq!(uploads(&server, 2, &mina, "little is there", 1 << 20), 201);
    for connection in &mut half {
        connection.send(vec![b' '; (1 << 20) - 1]);
    }
    eventually("no other fits", || {
        let taken = server.metric("madang_http_server_request_bodies_bytes", &["\"large\""]);
        (taken >= f64::from((32 << 20) - 32)).then_some(())
    });
    for host in [2, 6] {
        lives_on(&server, host, &mina);
    }
    assert_eq!(server.get("/v1/tracks").status, 200, "reading needs no room");
    // The slowest of whoever holds most gives way.
    let mut count = 0;
    eventually("an upload from elsewhere in the place of a slow one", || {
        count += 1;
        let status = uploads(&server, 6, &mina, &format!("elsewhere {count}"), 1 << 20);
        (status == 201 && server.metric(IN_FLIGHT, &[]) < 32.0).then_some(())
    });
    drop(half);
    server.until_metric(IN_FLIGHT, &[], 0.0);
    server.until_metric("madang_http_server_request_bodies_bytes", &[], 0.0);
    server.is_well();
}

#[test]
fn only_an_upload_with_a_token_may_be_large_and_others_are_refused_before_they_are_read() {
    let server = Setup::new().cheap_hash().set("server.max_body", "2MiB").start();
    let mina = server.somebody("mina");
    let refused = |head: String, status: u16| {
        let mut connection = server.connect();
        let answer = connection.send(head).answer().expect("an answer");
        answer.problem(status);
        assert_eq!(answer.header("connection"), Some("close"));
        answer
    };
    let length = ("Content-Length", "65537");
    for (method, path) in [("POST", "/v1/auth/user/login"), ("GET", "/v1/tracks"), ("PUT", "/x")] {
        refused(head(method, path, &[length]), 413);
    }
    refused(upload(None, 65_537), 401);
    let nobody = Person { token: "x.y.z".to_owned(), ..mina.clone() };
    refused(upload(Some(&nobody), 65_537), 401);
    refused(upload(Some(&mina), (2 << 20) + 1), 413);
    let bearer = mina.bearer();
    let token = ("Authorization", bearer.as_str());
    refused(head("POST", "/v1/posts", &[token, ("Content-Length", "262145")]), 413);
    // In chunks: when there is too much.
    let chunked = ("Transfer-Encoding", "chunked");
    let chunks = format!("10001\r\n{}\r\n0\r\n\r\n", " ".repeat(0x10001));
    refused(head("POST", "/v1/auth/user/login", &[chunked]) + &chunks, 413);
    refused(head("POST", "/v1/tracks", &[chunked]), 401);
    let json = ("Content-Type", "application/json");
    let track = String::from_utf8(track("in chunks", 1 << 20)).unwrap();
    let (first, rest) = track.split_at(40_000);
    let mut connection = server.connect();
    connection.send(head("POST", "/v1/tracks", &[token, json, chunked]));
    for part in [first, rest] {
        connection.send(format!("{:x}\r\n{part}\r\n", part.len()));
    }
    assert_eq!(connection.send("0\r\n\r\n").answer().expect("an answer").status, 201);
    server.is_well();
}

#[test]
fn an_upload_may_be_as_large_as_the_setting_says() {
    let server = Setup::new().cheap_hash().set("server.max_body", "8MiB").start();
    let mina = server.somebody("mina");
    assert_eq!(uploads(&server, 1, &mina, "three", 3 << 20), 201);
    assert_eq!(uploads(&server, 1, &mina, "eight", 8 << 20), 201);
    // Sent to its end, whatever is answered meanwhile: what comes within a second is passed over.
    let nine = [upload(Some(&mina), 9 << 20).as_bytes(), &*track("nine", 9 << 20)].concat();
    let answer = eventually("it is sent in time", || {
        let (mut connection, began) = (server.connect(), Instant::now());
        connection.try_send(&nine);
        let answer = connection.answer();
        (began.elapsed() < Duration::from_secs(1)).then_some(answer)
    });
    let problem = answer.expect("an answer, not a reset").problem(413);
    assert!(problem["detail"].as_str().unwrap().contains("8388608"), "{problem}");
    server.is_well();
}
