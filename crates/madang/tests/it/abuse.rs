//! Noise on both ports: the server lives on.

use crate::harness::{Connection, Setup, eventually};
use std::net::SocketAddr;

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

#[test]
fn all_bodies_together_take_bounded_memory() {
    let server = Setup::new().demo().start();
    let small = "POST /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\nx";
    // 32 MiB for all bodies. Whoever announces 1 MiB and sends little of it takes little.
    let begun = "POST /v1/tracks HTTP/1.1\r\nHost: test\r\nContent-Length: 1048576\r\n\r\nx";
    let mut holders: Vec<_> = (0..32).map(|_| server.connect()).collect();
    for holder in &mut holders {
        holder.send(begun);
    }
    server.until_metric("madang_http_server_requests_in_flight", &[], 32.0);
    assert_eq!(server.connect().send(small).answer().expect("an answer").status, 401);
    // All but their last bytes: 32 fit.
    for holder in &mut holders {
        holder.send(vec![b'x'; (1 << 20) - 2]);
    }
    let late = eventually("all room is taken", || {
        let answer = server.connect().send(small).answer().expect("an answer");
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(late.header("retry-after"), Some("1"));
    late.problem(503);
    // Reading needs no room.
    assert_eq!(server.get("/v1/tracks").status, 200);
    drop(holders);
    server.until_metric("madang_http_server_requests_in_flight", &[], 0.0);
    let mut again = server.connect();
    assert_eq!(
        again
            .send(&begun[..begun.len() - 1])
            .send(vec![b'x'; 1 << 20])
            .answer()
            .expect("an answer")
            .status,
        401,
        "read to its end, and nobody's"
    );
    server.is_well();
}
