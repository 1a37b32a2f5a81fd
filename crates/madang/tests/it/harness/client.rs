//! An HTTP/1.1 client that shows everything: it sends what it is told to and hides nothing of the answer.

use super::DEADLINE;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// One connection.
#[derive(Debug)]
pub struct Connection {
    pub stream: TcpStream,
    unread: Vec<u8>,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Connection {
        Self::try_open(address).unwrap()
    }

    pub fn try_open(address: SocketAddr) -> std::io::Result<Connection> {
        Self::prepare(TcpStream::connect_timeout(&address, DEADLINE)?)
    }

    /// From 127.0.0.`host`: all of 127.0.0.0/8 is this machine.
    pub fn open_from(host: u8, address: SocketAddr) -> Connection {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
        let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
        // Or a server that another test starts meanwhile would hold it open.
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
        connect(&socket, &address).unwrap();
        Self::over(socket.into())
    }

    /// Over a socket that is connected already.
    pub fn over(stream: TcpStream) -> Connection {
        Self::prepare(stream).unwrap()
    }

    fn prepare(stream: TcpStream) -> std::io::Result<Connection> {
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, unread: Vec::new() })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Sends bytes to a server that may close meanwhile.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a GET and reads its answer.
    pub fn get(&mut self, path: &str) -> Answer {
        self.request("GET", path, &[])
    }

    /// Sends a request without a body and reads its answer.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(head(method, path, headers));
        self.answer_to(method).unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    /// Reads the next answer to a request that may have a body in its answer.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answer_to("GET")
    }

    /// Reads the next answer; nothing when the server closed instead.
    pub fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.more() {
                return None;
            }
        };
        let head: Vec<u8> = self.unread.drain(..end).collect();
        let mut answer = parse_head(&head);
        answer.body = self.body(method, &answer);
        Some(answer)
    }

    fn body(&mut self, method: &str, answer: &Answer) -> Vec<u8> {
        let interim = (100..200).contains(&answer.status);
        if method == "HEAD" || interim || matches!(answer.status, 204 | 304) {
            return Vec::new();
        }
        if let Some(length) = answer.header("content-length") {
            return self.take(length.parse().unwrap());
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            return self.chunks();
        }
        while self.more() {}
        std::mem::take(&mut self.unread)
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line(), 16).unwrap();
            body.extend(self.take(length));
            assert_eq!(self.line(), "", "a chunk ends with a line end");
            if length == 0 {
                return body;
            }
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.unread.windows(2).position(|w| w == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..at + 2).collect();
                return String::from_utf8(line[..at].to_vec()).unwrap();
            }
            assert!(self.more(), "the server closed within a line");
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            assert!(self.more(), "the server closed after {} of {length} bytes", self.unread.len());
        }
        self.unread.drain(..length).collect()
    }

    /// Reads what there is; false when the server has closed or reset.
    ///
    /// # Panics
    /// When nothing comes by the deadline.
    fn more(&mut self) -> bool {
        let mut bytes = vec![0; 64 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.unread.extend_from_slice(&bytes[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the server said nothing by the deadline; it had said {:?}", self.text())
            }
            Err(_) => false,
        }
    }

    /// Takes so many bytes of whatever comes, and forgets them; false when the server has closed.
    pub fn takes(&mut self, bytes: usize) -> bool {
        self.stream.read_exact(&mut vec![0; bytes]).is_ok()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    /// Reads everything until the server closes.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.unread)
    }

    /// Whether the server closes now, without another byte.
    pub fn is_closed_by_the_server(&mut self) -> bool {
        self.rest().is_empty()
    }

    /// Says that nothing more will be sent.
    pub fn finish_sending(&mut self) -> &mut Self {
        // A server that has closed already needs no telling.
        let _ = self.stream.shutdown(Shutdown::Write);
        self
    }
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body, decoded as its `Content-Encoding` says.
    pub fn decoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.header("content-encoding") {
            None => return self.body.clone(),
            Some("gzip") => {
                flate2::read::GzDecoder::new(&self.body[..]).read_to_end(&mut out).map(drop)
            }
            Some("br") => brotli::BrotliDecompress(&mut &self.body[..], &mut out),
            Some("zstd") => zstd::stream::copy_decode(&self.body[..], &mut out),
            Some(other) => panic!("unknown encoding {other}"),
        }
        .unwrap();
        out
    }

    /// Asserts a problem of this status and gives its body.
    pub fn problem(&self, status: u16) -> serde_json::Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let body = self.json();
        assert_eq!(body["status"], status);
        for field in ["type", "title", "detail", "instance"] {
            assert!(body[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {body}");
        }
        if status == 503 || status == 429 {
            let wait: u32 = self.header("retry-after").expect("says when").parse().unwrap();
            assert!(wait > 0);
        }
        body
    }

    /// Asserts a 422 and gives the fields it names, in order.
    pub fn wrong_fields(&self) -> Vec<String> {
        let problem = self.problem(422);
        let errors = problem["errors"].as_array().expect("a list of errors");
        errors
            .iter()
            .map(|error| {
                assert!(error["detail"].as_str().is_some_and(|text| !text.is_empty()));
                error["field"].as_str().unwrap().to_owned()
            })
            .collect()
    }
}

/// The head of a request.
pub fn head(method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}

fn parse_head(head: &[u8]) -> Answer {
    let text = std::str::from_utf8(head).expect("a head is text");
    let mut lines = text.trim_end().split("\r\n");
    let line = lines.next().unwrap();
    let status = line.strip_prefix("HTTP/1.").unwrap_or_else(|| panic!("no status line: {line}"));
    let status = status.split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        })
        .collect();
    Answer { status, headers, body: Vec::new() }
}
