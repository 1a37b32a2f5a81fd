//! Sends what was measured to a server, from the writing thread. The engine's own client belongs to its event loops.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::http::{RequestError, TlsSettings, Url, basic, client_config};

/// How long a server may take to be reached, and for each part of an exchange.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Of an answer so much is read.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// An HTTP server that takes values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) host: String,
    port: u16,
    authority: String,
    pub(super) secure: bool,
    authorization: Option<String>,
    pub(super) tls: TlsSettings,
}

impl Server {
    /// From `http://user:password@host:port`.
    pub(super) fn parse(address: &str) -> Result<Self, RequestError> {
        Ok(Self::at(&Url::parse(address)?))
    }

    /// The one that this address leads to.
    pub(super) fn at(url: &Url) -> Self {
        let mut server = Self {
            host: url.host.to_string(),
            port: url.port,
            authority: url.authority.to_string(),
            secure: url.secure,
            authorization: None,
            tls: TlsSettings::default(),
        };
        if let Some(user_info) = &url.user_info {
            let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
            server.log_in(user, password);
        }
        server
    }

    pub(super) fn log_in(&mut self, user: &str, password: &str) {
        self.authorization.get_or_insert(basic(&format!("{user}:{password}")));
    }

    /// Without a password.
    pub(super) fn address(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.authority)
    }

    /// Sends a body and waits for the answer, which has to be one of success.
    pub(super) fn post(
        &self,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut head = format!(
            "POST {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: madang\r\nContent-Length: {}\r\nConnection: close\r\n",
            self.authority,
            body.len()
        );
        let authorization =
            self.authorization.iter().map(|authorization| ("Authorization", &**authorization));
        for (name, value) in authorization.chain(headers.iter().copied()) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let message = [head.as_bytes(), body].concat();
        let stream = self.connect()?;
        if !self.secure {
            return exchange(stream, &message);
        }
        let config = client_config(&self.tls).map_err(io::Error::other)?;
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        exchange(StreamOwned::new(session, stream), &message)
    }

    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        let mut failed = io::Error::other("the name of the server has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(stream);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

fn exchange(mut stream: impl Read + Write, message: &[u8]) -> io::Result<()> {
    stream.write_all(message)?;
    stream.flush()?;
    let answer = answer(&mut stream)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    match status {
        Some(200..=299) => Ok(()),
        Some(status) => {
            let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
            Err(io::Error::other(format!("the server answers {status} {body}")))
        }
        None => Err(io::Error::other("the server gives no answer of HTTP")),
    }
}

/// The head of an answer, and of its body what its length says.
fn answer(stream: &mut impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return Ok(text.into_owned());
            }
        }
        if bytes.len() >= MAX_ANSWER_BYTES {
            return Ok(text.into_owned());
        }
        match stream.read(&mut part)? {
            0 => return Ok(text.into_owned()),
            read => bytes.extend_from_slice(&part[..read]),
        }
    }
}
