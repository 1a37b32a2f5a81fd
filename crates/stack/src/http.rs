//! The smallest HTTP/1.1 client that can ask a server whether it is there.
//!
//! One connection per request, with or without TLS. It exists so that this crate needs no HTTP
//! library; it is not meant for load or for reading large answers.

mod tls;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// More than this of head and body together is not read: pages of metrics have a megabyte or two.
const ANSWER_BYTES: usize = 8 << 20;
/// A head longer than this is none: servers stop at 8 to 128 KiB of what clients send them.
const HEAD_BYTES: usize = 256 << 10;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Where a request goes: `http://HOST[:PORT][/PATH]`, or `https` likewise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    is_secure: bool,
    /// Host and port as written, for the `Host` header.
    authority: String,
    /// Host name or address, brackets of an IPv6 address removed.
    host: String,
    port: u16,
    /// Path and query, at least `/`.
    target: String,
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address such as `http://127.0.0.1:8080/path`")]
pub struct UrlError(String);

impl Url {
    /// Port of the address, that of the scheme where none is written.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let refusal = || UrlError(text.to_owned());
        let (is_secure, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(refusal()),
        };
        if rest.contains(|c: char| c.is_ascii_control() || c == ' ') {
            return Err(refusal());
        }
        let rest = rest.split('#').next().unwrap_or(rest);
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(cut);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| refusal())?)
            }
            _ => (authority, if is_secure { 443 } else { 80 }),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('@') {
            return Err(refusal());
        }
        Ok(Self {
            is_secure,
            authority: authority.to_owned(),
            host: host.to_owned(),
            port,
            target: if target.starts_with('/') { target.to_owned() } else { format!("/{target}") },
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.target)
    }
}

/// An answer: its status and what came of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body, at most 8 MiB.
    pub body: Vec<u8>,
    /// Whether that is all of it; if not, it was cut off by time, size, or the server.
    pub is_whole: bool,
}

impl Answer {
    /// Whether a server that answers so is ready: 200 to 399.
    pub fn is_ready(&self) -> bool {
        (200..400).contains(&self.status)
    }
}

/// Sends one GET and reads the answer until its announced length or the end of the connection.
///
/// Of a server on a loopback address any certificate will do: nobody is in between, and one under test has
/// mostly signed its own. Of any other, those that the system trusts.
///
/// # Errors
/// When no HTTP answer came within `timeout`, or its head does not end within 256 KiB. An answer whose
/// head is complete counts even if its body was cut off by the time or the size limit.
pub fn get(url: &Url, timeout: Duration) -> io::Result<Answer> {
    let deadline = Instant::now() + timeout;
    let tcp = connect(url, timeout)?;
    tcp.set_write_timeout(Some(timeout))?;
    tcp.set_read_timeout(Some(timeout))?;
    let mut stream: Box<dyn Stream> =
        if url.is_secure { Box::new(tls::session(&url.host, tcp)?) } else { Box::new(tcp) };
    let Url { authority, target, .. } = url;
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: madang-stack\r\n\
         Accept: */*\r\nConnection: close\r\n\r\n"
    );
    let mut received = Received::default();
    let sent = stream.write_all(request.as_bytes()).and_then(|()| stream.flush());
    let read = sent.and_then(|()| received.read(&mut *stream, deadline));
    let read = read.map_err(|error| match error.kind() {
        // The kernel calls it a resource that is temporarily unavailable.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let text =
                format!("the connection was accepted, but no answer came within {timeout:?}");
            io::Error::new(io::ErrorKind::TimedOut, text)
        }
        _ => error,
    });
    match received.into_answer(matches!(read, Ok(End::Closed))) {
        Some(answer) => Ok(answer),
        None => Err(read.err().unwrap_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "what came is no HTTP answer")
        })),
    }
}

/// A connection, plain or not.
trait Stream: Read + Write {
    fn tcp(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

/// Why no more was read.
enum End {
    /// All that was announced is there, or as much as may be.
    Enough,
    /// The server closed the connection.
    Closed,
}

/// What has come of an answer.
#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    head: Option<Head>,
    /// No head ends before this byte: what was looked through is not looked through again.
    scanned: usize,
}

/// A head that is complete.
#[derive(Clone, Copy)]
struct Head {
    /// Where the body begins.
    end: usize,
    length: Length,
}

impl Received {
    /// Reads to the end, the size limits or the deadline: a per-read timeout alone would let a server
    /// that sends one byte now and then hold its reader for hours.
    fn read(&mut self, stream: &mut dyn Stream, deadline: Instant) -> io::Result<End> {
        let mut chunk = [0; 8192];
        while self.bytes.len() < ANSWER_BYTES && !self.is_complete() {
            if self.head.is_none() && self.bytes.len() >= HEAD_BYTES {
                let text = format!("its headers do not end within {} KiB", HEAD_BYTES >> 10);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.tcp().set_read_timeout(Some(left))?;
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(End::Closed),
                Ok(count) => self.take(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // TLS that ends without a word of goodbye, as many servers do.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(End::Closed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(End::Enough)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.head.is_some() {
            return;
        }
        let new = &self.bytes[self.scanned..];
        match new.windows(HEAD_END.len()).position(|window| window == HEAD_END) {
            Some(at) => {
                let end = self.scanned + at + HEAD_END.len();
                self.head = Some(Head { end, length: announced(&self.bytes[..end]) });
            }
            // The first bytes of an end may be the last that came.
            None => self.scanned = self.bytes.len().saturating_sub(HEAD_END.len() - 1),
        }
    }

    /// Whether the body is as long as the head says, so that nobody has to wait for the end of a
    /// connection that a server keeps open although it was asked to close it.
    fn is_complete(&self) -> bool {
        let Some(Head { end, length }) = self.head else { return false };
        let body = &self.bytes[end..];
        match length {
            Length::Bytes(length) => body.len() >= length,
            // The last chunk may have an extension, and fields after it; and data may end like that.
            Length::Chunks => body.ends_with(b"\r\n\r\n") && joined(body).1,
            Length::UntilClosed => false,
        }
    }

    /// `closed` says whether the server closed the connection after the last byte.
    fn into_answer(mut self, closed: bool) -> Option<Answer> {
        let Head { end, length } = self.head?;
        let line = std::str::from_utf8(self.bytes.get(..12)?).ok()?;
        let code = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "))?;
        let status = code.parse().ok()?;
        let is_complete = self.is_complete();
        let body = self.bytes.split_off(end);
        let (body, is_whole) = match length {
            Length::Bytes(_) => (body, is_complete),
            Length::Chunks => joined(&body),
            Length::UntilClosed => (body, closed),
        };
        Some(Answer { status, body, is_whole })
    }
}

/// How long a body is.
#[derive(Clone, Copy)]
enum Length {
    Bytes(usize),
    Chunks,
    UntilClosed,
}

fn announced(head: &[u8]) -> Length {
    let head = String::from_utf8_lossy(head);
    let value = |wanted: &str| {
        head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
        })
    };
    // Chunks win over a length (RFC 9112, section 6.3), and these two have no body.
    let status = head.get(9..12).unwrap_or_default();
    if ["204", "304"].contains(&status) {
        return Length::Bytes(0);
    }
    if value("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Length::Chunks;
    }
    let length = value("content-length").and_then(|length| length.parse().ok());
    length.map_or(Length::UntilClosed, Length::Bytes)
}

/// The chunks of a body (RFC 9112, section 7.1), and whether the empty one was reached that ends them.
fn joined(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let size = str::from_utf8(&rest[..end]).unwrap_or_default().split(';').next();
        let Ok(size) = usize::from_str_radix(size.unwrap_or_default().trim(), 16) else { break };
        if size == 0 {
            return (body, true);
        }
        let chunk = &rest[end + 2..];
        body.extend_from_slice(&chunk[..size.min(chunk.len())]);
        let after = chunk.get(size..).and_then(|after| after.strip_prefix(b"\r\n"));
        rest = after.unwrap_or_default();
    }
    (body, false)
}

fn connect(url: &Url, timeout: Duration) -> io::Result<TcpStream> {
    let addresses = (url.host.as_str(), url.port).to_socket_addrs()?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) if !is_own_echo(&stream, address) => return Ok(stream),
            Ok(_) => last = io::ErrorKind::ConnectionRefused.into(),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// TCP lets a socket connect to itself when the kernel happens to give an outgoing connection the
/// very port it is calling while nobody listens there. Polling a server that is not up yet does
/// exactly that sooner or later.
fn is_own_echo(stream: &TcpStream, peer: SocketAddr) -> bool {
    stream.local_addr().is_ok_and(|own| own == peer)
}

/// What is made of an answer that came in these parts before the server closed.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn answer_of(parts: &[&[u8]]) -> Option<Answer> {
    let mut received = Received::default();
    parts.iter().for_each(|part| received.take(part));
    received.into_answer(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let parts = |text: &str| {
            let url = Url::parse(text).unwrap();
            (url.host, url.port, url.target)
        };
        let expected = |host: &str, port, target: &str| (host.to_owned(), port, target.to_owned());
        assert_eq!(parts("http://127.0.0.1:81/a?b=c"), expected("127.0.0.1", 81, "/a?b=c"));
        assert_eq!(parts("http://localhost"), expected("localhost", 80, "/"));
        assert_eq!(parts("http://[::1]:82?x#frag"), expected("::1", 82, "/?x"));
        assert_eq!(parts("http://[::1]/"), expected("::1", 80, "/"));
        assert_eq!(parts("https://localhost/a"), expected("localhost", 443, "/a"));
        assert_eq!(Url::parse("https://h:1/a").unwrap().to_string(), "https://h:1/a");
        assert_eq!(Url::parse("http://[::1]:8/a?b#c").unwrap().to_string(), "http://[::1]:8/a?b");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let texts = [
            "", "localhost:80", "ftp://a", "http://", "http://:80", "http://a:b", "http://u@h/",
            "http://a/\r\nX: y", "http://a/b c",
        ];
        for text in texts {
            assert!(Url::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    fn received(parts: &[&[u8]]) -> Received {
        let mut received = Received::default();
        parts.iter().for_each(|part| received.take(part));
        received
    }

    fn is_complete(bytes: &[u8]) -> bool {
        received(&[bytes]).is_complete()
    }

    fn parse(bytes: &[u8], closed: bool) -> Option<Answer> {
        received(&[bytes]).into_answer(closed)
    }

    #[test]
    fn a_head_is_found_wherever_it_was_cut() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        for at in 0..text.len() {
            let (first, rest) = text.split_at(at);
            assert!(received(&[first, rest]).is_complete(), "cut at {at}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert!(received(&bytes).is_complete());
    }

    /// A server that never gets to the end of its head must not cost more than a glance.
    #[test]
    fn an_endless_head_is_given_up_and_told() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
            let line = "X-Line: and so on\r\n".repeat(400);
            while stream.write_all(line.as_bytes()).is_ok() {}
        });
        let error = get(&url, Duration::from_secs(60)).unwrap_err().to_string();
        assert_eq!(error, "its headers do not end within 256 KiB");
        server.join().unwrap();
    }

    #[test]
    fn an_answer_is_complete_when_its_body_is_as_long_as_announced() {
        let head = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 3\r\n\r\n";
        assert!(!is_complete(&head.as_bytes()[..head.len() - 1]));
        assert!(!is_complete(format!("{head}ab").as_bytes()));
        assert!(is_complete(format!("{head}abc").as_bytes()));
        assert!(!is_complete(b"HTTP/1.1 200 OK\r\n\r\nabc"), "it lasts until the end");
    }

    #[test]
    fn a_body_that_was_cut_off_is_not_whole() {
        let is_whole = |head: &str, body: &str, closed: bool| {
            let text = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}");
            parse(text.as_bytes(), closed).unwrap().is_whole
        };
        assert!(is_whole("Content-Length: 3\r\n", "abc", false));
        assert!(!is_whole("Content-Length: 4\r\n", "abc", true));
        let chunked = "Transfer-Encoding: chunked\r\n";
        assert!(is_whole(chunked, "3\r\nabc\r\n0\r\n\r\n", false));
        assert!(!is_whole(chunked, "3\r\nabc\r\n", true));
        // An extension, fields after the last chunk, and data that looks like an end.
        assert!(is_whole(chunked, "3\r\nabc\r\n0;x=y\r\nsum: 1\r\n\r\n", false));
        assert!(!is_whole(chunked, "9\r\nab\r\n0\r\n\r\n", false));
        assert!(is_whole("", "abc", true) && !is_whole("", "abc", false));
    }

    #[test]
    fn chunks_are_joined_and_only_theirs_are() {
        let read = |head: &str, body: &str| {
            let text = format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}");
            let answer = parse(text.as_bytes(), true).unwrap();
            (String::from_utf8(answer.body).unwrap(), answer.is_whole)
        };
        let chunked = "Transfer-Encoding: chunked\r\n";
        let two = "3\r\n[1,\r\n2;x=y\r\n2]\r\n0\r\n\r\n";
        assert_eq!(read(chunked, two), ("[1,2]".to_owned(), true));
        assert_eq!(read("", two), (two.to_owned(), true), "its marks are its own");
        for (body, before) in [
            ("", ""),
            ("12", ""),
            ("[1]\r\n0\r\n\r\n", ""),
            ("5\r\nabc", "abc"),
            ("1\r\nabc\r\n0\r\n\r\n", "a"),
            ("ffffffffffffffff\r\nabc\r\n", "abc\r\n"),
        ] {
            assert_eq!(read(chunked, body), (before.to_owned(), false), "{body:?}");
        }
    }

    #[test]
    fn an_answer_needs_a_status_line_and_a_complete_head() {
        let answer = parse(b"HTTP/1.1 204 No Content\r\nA: b\r\n\r\n", false).unwrap();
        assert_eq!((answer.status, answer.body.len(), answer.is_whole), (204, 0, true));
        for text in ["", "HTTP/1.1 200 OK\r\n", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"] {
            assert_eq!(parse(text.as_bytes(), true), None, "{text:?}");
        }
    }
}
