//! Logs requests and responses as they are on the wire (`httpDebug`).

use super::head::Head;
use super::outgoing::OutgoingHead;

/// Logged parts of each request and response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpDebug {
    /// The start line and the headers.
    Headers,
    /// The bodies as well.
    Full,
}

/// Logs a message about the request with an id.
type WriteMessage = Box<dyn Fn(&str, &str)>;

pub(super) struct Debug {
    pub(super) shows: HttpDebug,
    pub(super) write: WriteMessage,
}

impl Debug {
    /// Logs a request in the form of HTTP/1.1, whatever the protocol. Returns its id.
    pub(super) fn request(&self, head: &OutgoingHead<'_>, body: &[u8]) -> String {
        let id = format!("{:032x}", fastrand::u128(..));
        let mut bytes = Vec::new();
        head.write_http1(&mut bytes);
        self.show("Request", bytes, body, &id);
        id
    }

    /// Logs a response with its body as received, which may be compressed.
    pub(super) fn response(&self, head: &Head, body: &[u8], id: &str) {
        let mut bytes =
            format!("{} {} {}\r\n", head.version.name(), head.status, head.reason()).into_bytes();
        for (name, value) in head.headers() {
            bytes.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"\r\n");
        self.show("Response", bytes, body, id);
    }

    fn show(&self, what: &str, mut bytes: Vec<u8>, body: &[u8], id: &str) {
        if self.shows == HttpDebug::Full {
            bytes.extend_from_slice(body);
        }
        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
        (self.write)(&format!("{what}:\n{text}\n"), id);
    }
}
