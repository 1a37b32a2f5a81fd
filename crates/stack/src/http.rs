//! Minimal HTTP/1.1 client for readiness probes and pages of metrics.
//!
//! One connection per request, with or without TLS. It exists so that this crate needs no HTTP
//! library; it is not meant for load or large responses.

mod tls;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Maximum of head and body together; pages of metrics have a megabyte or two.
const ANSWER_BYTES: usize = 8 << 20;
/// Maximum of a head; servers accept 8 to 128 KiB from clients.
const HEAD_BYTES: usize = 256 << 10;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Address of a request: `http://HOST[:PORT][/PATH]` or `https://…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    is_secure: bool,
    /// Host and port as written, for the `Host` header.
    authority: String,
    /// Host name or address, without the brackets of IPv6.
    host: String,
    port: u16,
    /// Path and query, at least `/`.
    target: String,
}

/// A text that is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address such as `http://127.0.0.1:8080/path`")]
pub struct UrlError(String);

impl Url {
    /// Port of the address, by default that of the scheme.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Parses an address.
    ///
    /// # Errors
    /// When the text is not one.
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

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body, at most 8 MiB.
    pub body: Vec<u8>,
    /// Whether the body is complete, and not cut off by time, size or the server.
    pub is_whole: bool,
}

impl Answer {
    /// Whether the status means ready: 200 to 399.
    pub fn is_ready(&self) -> bool {
        (200..400).contains(&self.status)
    }
}

/// Sends a GET request and reads the response up to its announced length or the end of the connection.
///
/// On loopback addresses any certificate is accepted: nobody is in between, and a server under test usually has a
/// self-signed one. Elsewhere the system has to trust it.
///
/// # Errors
/// When no HTTP response arrives within `timeout`, or its head does not end within 256 KiB. A response with a
/// complete head is returned even if time or size limit cut off its body.
pub fn get(url: &Url, timeout: Duration) -> io::Result<Answer> {
    let deadline = Instant::now() + timeout;
    let tcp = connect(url, timeout)?;
    tcp.set_write_timeout(Some(timeout))?;
    tcp.set_read_timeout(Some(timeout))?;
    let mut received = Received::default();
    let closed = if url.is_secure {
        let session = tls::session(&url.host, tcp.try_clone()?)?;
        received.exchange(url, session, &tcp, deadline)
    } else {
        received.exchange(url, &tcp, &tcp, deadline)
    };
    let closed = closed.map_err(|error| match error.kind() {
        // The kernel's text would be "Resource temporarily unavailable".
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let text =
                format!("the connection was accepted, but no answer came within {timeout:?}");
            io::Error::new(io::ErrorKind::TimedOut, text)
        }
        _ => error,
    });
    match received.into_answer(matches!(closed, Ok(true))) {
        Some(answer) => Ok(answer),
        None => Err(closed.err().unwrap_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "what came is no HTTP answer")
        })),
    }
}

/// The bytes received so far.
#[derive(Default)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    head: Option<Head>,
    /// Bytes that were searched for the end of the head.
    scanned: usize,
}

/// A complete head.
#[derive(Clone, Copy)]
struct Head {
    /// Start of the body.
    end: usize,
    length: Length,
}

impl Received {
    /// Sends a request over `stream` and reads until the response is complete or a limit is reached. Returns whether
    /// the server closed the connection. The deadline is for all reads: with a timeout for each, a server that sends
    /// single bytes would hold its client for hours.
    fn exchange(
        &mut self,
        Url { authority, target, .. }: &Url,
        mut stream: impl Read + Write,
        tcp: &TcpStream,
        deadline: Instant,
    ) -> io::Result<bool> {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: madang-stack\r\n\
             Accept: */*\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        stream.flush()?;
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
            tcp.set_read_timeout(Some(left))?;
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(true),
                Ok(count) => self.take(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Many servers end TLS without close_notify.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
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
            // The last bytes may be the first of the end.
            None => self.scanned = self.bytes.len().saturating_sub(HEAD_END.len() - 1),
        }
    }

    /// Whether the body has its announced length: a server may keep the connection open although it
    /// was asked to close it.
    fn is_complete(&self) -> bool {
        let Some(Head { end, length }) = self.head else { return false };
        let body = &self.bytes[end..];
        match length {
            Length::Bytes(length) => body.len() >= length,
            // The last chunk may have an extension and trailers; and data may end like this.
            Length::Chunks => body.ends_with(b"\r\n\r\n") && joined(body).1,
            Length::UntilClosed => false,
        }
    }

    /// `None` without a complete head. `closed`: the server closed the connection after the last byte.
    pub(crate) fn into_answer(mut self, closed: bool) -> Option<Answer> {
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

/// Length of a body.
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
    // Chunks override a length (RFC 9112, section 6.3), and these two statuses have no body.
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

/// Joins the chunks of a body (RFC 9112, section 7.1); returns whether the last, empty one was reached.
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
            // A socket can connect to itself: while nobody listens, the kernel may give an outgoing connection
            // the very port that it calls. Polling a server that is starting does that sooner or later.
            Ok(stream) if stream.local_addr().is_ok_and(|own| own == address) => {
                last = io::ErrorKind::ConnectionRefused.into();
            }
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A response received in these parts.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn received(parts: &[&[u8]]) -> Received {
    let mut received = Received::default();
    parts.iter().for_each(|part| received.take(part));
    received
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
        // An extension, trailers, and data that looks like an end.
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
