//! The opening handshake (RFC 6455 §4.1), as gorilla/websocket does it.

use std::rc::Rc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest as _, Sha1};
use thiserror::Error;

use super::Connection;
use crate::http::cookies::{Jar, cookie_header, unix_now};
use crate::http::{
    Client, Head, Peer, RequestError, Traffic, Url, canonical, is_valid_header, trimmed,
};

/// k6's time limit from the look-up to the answer.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Suffix of the key in a server's proof (RFC 6455 §1.3).
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const DEFLATE: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// A connection to open.
pub(crate) struct Dial {
    /// With scheme `ws` or `wss`.
    pub(crate) url: String,
    /// As given; of several with the same name the last one counts.
    pub(crate) headers: Vec<(Rc<str>, Rc<str>)>,
    pub(crate) protocols: Vec<String>,
    /// Offer to compress messages.
    pub(crate) deflates: bool,
    /// Source and target of cookies.
    pub(crate) jar: Rc<Jar>,
}

pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) head: Head,
    pub(crate) peer: Peer,
}

#[derive(Debug, Error)]
pub(crate) enum DialError {
    #[error("malformed ws or wss URL")]
    MalformedUrl,
    #[error("websocket: duplicate header not allowed: {0}")]
    DuplicateHeader(String),
    /// The server sent another response; with the beginning of its body.
    #[error("websocket: bad handshake")]
    Refused { head: Box<Head>, body: Vec<u8> },
    #[error("websocket: invalid compression negotiation")]
    Compression(Box<Head>),
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl DialError {
    /// The server's response, if any, with the beginning of its body.
    pub(crate) fn answer(&self) -> Option<(&Head, &[u8])> {
        match self {
            Self::Refused { head, body } => Some((head, body)),
            Self::Compression(head) => Some((head, &[])),
            Self::MalformedUrl | Self::DuplicateHeader(_) | Self::Request(_) => None,
        }
    }
}

impl Dial {
    /// Connects and performs the handshake. `traffic` becomes that of a failed attempt.
    pub(crate) async fn open(
        &self,
        client: &Client,
        traffic: &mut Traffic,
    ) -> Result<Opened, DialError> {
        let opening = self.shake_hands(client, traffic);
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, opening).await {
            Ok(result) => result,
            Err(_) => Err(RequestError::Timeout.into()),
        }
    }

    async fn shake_hands(
        &self,
        client: &Client,
        traffic: &mut Traffic,
    ) -> Result<Opened, DialError> {
        let url = http_url(&self.url)?;
        let mut nonce = [0; 16];
        fastrand::fill(&mut nonce);
        let key = BASE64_STANDARD.encode(nonce);
        let request = self.request(&url, &key, client.user_agent())?;
        let answer = client.upgrade(&url, &request, traffic).await?;
        self.jar.store(&url, &answer.head);
        if !is_accepted(&answer.head, &key) {
            let (head, body) = (Box::new(answer.head), answer.body);
            return Err(DialError::Refused { head, body });
        }
        let Some(deflates) = agreed_on_deflate(&answer.head) else {
            return Err(DialError::Compression(Box::new(answer.head)));
        };
        let traffic = std::mem::take(traffic);
        let connection = Connection::new(answer.stream, &answer.rest, traffic, deflates);
        Ok(Opened { connection, head: answer.head, peer: answer.peer })
    }

    fn request(&self, url: &Url, key: &str, user_agent: &str) -> Result<Vec<u8>, DialError> {
        let given = self.given()?;
        let find = |name: &str| {
            let found = given.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| *value)
        };
        let host = find("Host").unwrap_or(&url.authority);
        let user_agent = find("User-Agent").unwrap_or(user_agent);
        let protocols = self.protocols.join(", ");
        let kept = cookie_header(None, &self.jar.matching(url, unix_now()), &[]);
        let mut headers = vec![
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", key),
            ("Sec-WebSocket-Version", "13"),
        ];
        let cookie = find("Cookie").unwrap_or(&kept);
        let protocol = find("Sec-Websocket-Protocol").unwrap_or(&protocols);
        let deflate = if self.deflates { DEFLATE } else { "" };
        let optional = [
            ("Cookie", cookie),
            ("Sec-WebSocket-Protocol", protocol),
            ("Sec-WebSocket-Extensions", deflate),
        ];
        headers.extend(optional.into_iter().filter(|(_, value)| !value.is_empty()));
        let apart = ["Host", "User-Agent", "Cookie", "Sec-Websocket-Protocol"];
        let others = given.iter().filter(|(name, _)| !apart.contains(&name.as_str()));
        headers.extend(others.map(|(name, value)| (name.as_str(), *value)));
        // Go keeps headers in a map and writes them by name.
        headers.sort_by_key(|(name, _)| *name);
        let mut wire = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n", url.target);
        let user_agent = Some(("User-Agent", user_agent)).filter(|(_, value)| !value.is_empty());
        for (name, value) in user_agent.into_iter().chain(headers) {
            wire.push_str(&format!("{name}: {}\r\n", trimmed(value)));
        }
        wire.push_str("\r\n");
        Ok(wire.into_bytes())
    }

    /// The script's headers by their canonical names.
    fn given(&self) -> Result<Vec<(String, &str)>, DialError> {
        let mut given: Vec<(String, &str)> = Vec::new();
        for (name, value) in &self.headers {
            if !is_valid_header(name, value) {
                return Err(RequestError::InvalidHeader(name.to_string()).into());
            }
            let name = canonical(name);
            let is_ours = match name.as_str() {
                "Upgrade"
                | "Connection"
                | "Sec-Websocket-Key"
                | "Sec-Websocket-Version"
                | "Sec-Websocket-Extensions" => true,
                "Sec-Websocket-Protocol" => !self.protocols.is_empty(),
                _ => false,
            };
            if is_ours {
                return Err(DialError::DuplicateHeader(name));
            }
            given.retain(|(known, _)| *known != name);
            given.push((name, value));
        }
        Ok(given)
    }
}

/// The address with an HTTP scheme.
fn http_url(text: &str) -> Result<Url, DialError> {
    let (scheme, rest) = text.trim().split_once("://").ok_or(DialError::MalformedUrl)?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "ws" => "http",
        "wss" => "https",
        _ => return Err(DialError::MalformedUrl),
    };
    let url = Url::parse(&format!("{scheme}://{rest}"))?;
    if url.user_info.is_some() { Err(DialError::MalformedUrl) } else { Ok(url) }
}

/// True if the response proves that the server has read the request.
fn is_accepted(head: &Head, key: &str) -> bool {
    let proof = BASE64_STANDARD.encode(Sha1::digest(format!("{key}{ACCEPT_SUFFIX}")));
    head.status == 101
        && head.has_item("upgrade", "websocket")
        && head.has_item("connection", "upgrade")
        && head.values("sec-websocket-accept").next() == Some(proof.as_bytes())
}

/// True if messages may be compressed; `None` if the server demands a mode that was not offered.
fn agreed_on_deflate(head: &Head) -> Option<bool> {
    let extensions = head.values("sec-websocket-extensions").map(String::from_utf8_lossy);
    for value in extensions {
        for extension in value.split(',') {
            let mut parts = extension.split(';').map(str::trim);
            if parts.next() != Some("permessage-deflate") {
                continue;
            }
            let parameters: Vec<&str> = parts.collect();
            let has = |wanted| parameters.contains(&wanted);
            let both = has("server_no_context_takeover") && has("client_no_context_takeover");
            return both.then_some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(dial: &Dial) -> Result<String, DialError> {
        let url = http_url(&dial.url)?;
        dial.request(&url, "KEY", "agent").map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn dial(url: &str, headers: &[(&str, &str)]) -> Dial {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let (url, headers) = (url.to_owned(), headers.collect());
        Dial { url, headers, protocols: Vec::new(), deflates: false, jar: Rc::default() }
    }

    #[test]
    fn the_request_is_that_of_go() {
        let mut all = dial("ws://host:8080/path?a=1", &[("x-one", "1"), ("cookie", "a=b")]);
        all.protocols = vec!["v12.stomp".to_owned(), "v11.stomp".to_owned()];
        all.deflates = true;
        let expected = "GET /path?a=1 HTTP/1.1\r\nHost: host:8080\r\nUser-Agent: agent\r\n\
             Connection: Upgrade\r\nCookie: a=b\r\nSec-WebSocket-Extensions: permessage-deflate; \
             server_no_context_takeover; client_no_context_takeover\r\nSec-WebSocket-Key: KEY\r\n\
             Sec-WebSocket-Protocol: v12.stomp, v11.stomp\r\nSec-WebSocket-Version: 13\r\n\
             Upgrade: websocket\r\nX-One: 1\r\n\r\n";
        assert_eq!(request(&all).unwrap(), expected);
    }

    #[test]
    fn unusable_addresses_and_headers_are_refused() {
        for (url, headers, message) in [
            ("http://host", &[][..], "malformed ws or wss URL"),
            ("ws://user:secret@host", &[], "malformed ws or wss URL"),
            (
                "ws://host",
                &[("upgrade", "h2c")],
                "websocket: duplicate header not allowed: Upgrade",
            ),
        ] {
            assert_eq!(request(&dial(url, headers)).unwrap_err().to_string(), message);
        }
        assert!(request(&dial("ws://host", &[("a", "b\r\nc: d")])).is_err());
    }
}
