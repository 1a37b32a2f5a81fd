//! Connections that requests go over, many at once, and what is counted.

use super::answers::{self, Answer};
use super::grammar::{self, Request};
use super::operations::Operations;
use crate::harness::{DEADLINE, Server};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

/// Connections of a client.
const CONNECTIONS: usize = 8;
/// Most requests that are sent before an answer is read.
const MOST_AT_ONCE: usize = 24;

/// The answer before the answer to `Expect: 100-continue`.
const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// How often which status was answered, and which operations were carried out.
#[derive(Debug, Default)]
pub struct Tally {
    requests: u64,
    rough: u64,
    statuses: BTreeMap<u16, u64>,
    done: BTreeMap<usize, u64>,
}

impl Tally {
    pub fn and(mut self, other: &Self) -> Self {
        self.requests += other.requests;
        self.rough += other.rough;
        other
            .statuses
            .iter()
            .for_each(|(status, count)| *self.statuses.entry(*status).or_default() += count);
        other.done.iter().for_each(|(at, count)| *self.done.entry(*at).or_default() += count);
        self
    }

    /// Operations that were never carried out. Those that end callers may have run out of them.
    pub fn missing<'o>(&self, operations: &'o Operations) -> Vec<&'o str> {
        let all = operations.all.iter().enumerate();
        let missing = all.filter(|(at, one)| !one.ends_callers && !self.done.contains_key(at));
        missing.map(|(_, one)| one.id.as_str()).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests, {} of them not sound as HTTP; statuses {:?}",
            self.requests, self.rough, self.statuses
        )
    }
}

/// A client that makes requests up.
pub struct Sender {
    address: SocketAddr,
    operations: Arc<Operations>,
    rng: Rng,
    connections: Vec<Option<TcpStream>>,
    buffer: Vec<u8>,
    pub tally: Tally,
}

impl Sender {
    pub fn new(server: &Server, operations: Arc<Operations>, seed: u64, client: u64) -> Self {
        Self {
            address: server.api,
            operations,
            rng: Rng::with_seed(seed.wrapping_mul(1000) + client),
            connections: std::iter::repeat_with(|| None).take(CONNECTIONS).collect(),
            buffer: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Sends a few requests over one connection and looks at all that is answered. Tells how many there were.
    ///
    /// # Panics
    /// When an answer is wrong or missing; the message has the bytes that were sent.
    pub fn exchange(&mut self) -> u64 {
        let count = if self.rng.u32(..8) == 0 { self.rough() } else { self.sound() };
        self.tally.requests += count;
        count
    }

    fn sound(&mut self) -> u64 {
        let at = self.rng.usize(..CONNECTIONS);
        let mut requests = Vec::new();
        for _ in 0..self.rng.usize(1..=MOST_AT_ONCE) {
            let request = grammar::request(&mut self.rng, &self.operations);
            let is_last = request.is_last;
            requests.push(request);
            if is_last {
                break;
            }
        }
        let sent: Vec<u8> = requests.iter().flat_map(|request| &request.bytes).copied().collect();
        let kept = self.connections[at].take();
        let is_kept = kept.is_some();
        let mut stream = kept.unwrap_or_else(|| self.connect());
        let written = stream.write_all(&sent);
        self.buffer.clear();
        let (mut answered, mut from) = (0, 0);
        for request in &requests {
            let answer = match self.answer(&mut stream, from, request.is_head) {
                Ok(Some(answer)) => answer,
                // Idle for too long between two exchanges, it may have been closed meanwhile.
                Ok(None) if answered == 0 && is_kept => return 0,
                Ok(None) => panic!(
                    "no answer ({written:?}, kept: {is_kept}) to {}, the one after {answered} of {}",
                    shown(&request.bytes),
                    shown(&sent)
                ),
                Err(why) => {
                    panic!("{why} answers {} after {}", shown(&request.bytes), shown(&sent))
                }
            };
            from += answer.length;
            answered += 1;
            self.judge(request, &answer);
            if answer.closes || request.is_last {
                return answered;
            }
        }
        assert_eq!(from, self.buffer.len(), "more than was asked for, after {}", shown(&sent));
        self.connections[at] = Some(stream);
        answered
    }

    fn judge(&mut self, request: &Request, answer: &Answer) {
        *self.tally.statuses.entry(answer.status).or_default() += 1;
        let operation = request.operation.map(|at| (at, &self.operations.all[at]));
        let is_documented =
            operation.is_some_and(|(_, operation)| operation.statuses.contains(&answer.status));
        // A server that has more to do than it can says so to every request.
        let is_edge = matches!(answer.status, 414 | 429 | 431 | 503 | 504);
        assert!(
            is_documented || is_edge || request.also.contains(&answer.status),
            "{} is not documented for {:?}: {}",
            answer.status,
            operation.map(|(_, operation)| &operation.id),
            shown(&request.bytes)
        );
        if let Some((at, _)) = operation.filter(|_| answer.status < 300) {
            *self.tally.done.entry(at).or_default() += 1;
        }
    }

    /// Bytes that need not be HTTP; then the end, and all that comes until the server closes.
    fn rough(&mut self) -> u64 {
        let sent = grammar::rough(&mut self.rng, &self.operations);
        let mut stream = self.connect();
        // It may close before it has read all.
        let _ = stream.write_all(&sent).and_then(|()| stream.shutdown(Shutdown::Write));
        self.buffer.clear();
        let is_reset = loop {
            match self.more(&mut stream) {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("neither an answer nor an end, after {}", shown(&sent))
                }
                Err(_) => break true,
            }
        };
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            // Nobody knows which request an answer is to: after one to HEAD the next begins where a body would.
            let to_head = sent.windows(5).any(|word| word == b"HEAD ") && !has_body(rest);
            match answers::read(rest, to_head, true) {
                Ok(Some(answer)) => {
                    *self.tally.statuses.entry(answer.status).or_default() += 1;
                    rest = &rest[answer.length..];
                }
                // Told to go on, a client that has closed its side is gone.
                Ok(None) if is_reset || rest == GO_ON => break,
                Ok(None) => {
                    panic!("{:?} is cut off, after {}", String::from_utf8_lossy(rest), shown(&sent))
                }
                Err(why) => panic!("{why} after {}", shown(&sent)),
            }
        }
        self.tally.rough += 1;
        1
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, DEADLINE).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// The answer that begins at this byte of the buffer; nothing when the server closed instead.
    fn answer(
        &mut self,
        stream: &mut TcpStream,
        from: usize,
        to_head: bool,
    ) -> Result<Option<Answer>, String> {
        let mut is_end = false;
        loop {
            match answers::read(&self.buffer[from..], to_head, is_end)? {
                Some(answer) => return Ok(Some(answer)),
                None if is_end => return Ok(None),
                None => {}
            }
            match self.more(stream) {
                Ok(0) => is_end = true,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Err("nothing by the deadline".to_owned());
                }
                Err(_) => is_end = true,
            }
        }
    }

    fn more(&mut self, stream: &mut TcpStream) -> std::io::Result<usize> {
        let mut bytes = [0; 32 * 1024];
        let count = stream.read(&mut bytes)?;
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}

/// Whether what follows the head of the first answer is no other head.
fn has_body(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(GO_ON).unwrap_or(bytes);
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
    let rest = &bytes[end.unwrap_or(bytes.len())..];
    !rest.is_empty() && !rest.starts_with(b"HTTP/1.")
}

/// Bytes as a text that `printf` turns into them again.
fn shown(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}
