//! Sends values to a server from the writing thread, with the client of virtual users.

use std::cell::OnceCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::http::{
    Client, ClientConfig, Dns, NameRules, Network, Policy, Request, RequestError, Select,
    TlsSettings, Url, basic, block_on,
};

/// Time limit of an exchange, as in k6.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// Tries all addresses: an unreachable one must not cost a push.
const DNS: Dns = Dns { ttl: None, select: Select::Each, policy: Policy::Any };

/// Limit of an error response in a message.
const MAX_SHOWN_BYTES: usize = 64 << 10;

pub(super) const USER_AGENT: &str = "madang";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// Scheme, host and port.
    pub(super) address: String,
    authorization: Option<String>,
    pub(super) tls: TlsSettings,
}

impl Server {
    /// Parses `http://user:password@host:port`.
    pub(super) fn parse(address: &str) -> Result<Self, RequestError> {
        Ok(Self::at(&Url::parse(address)?))
    }

    pub(super) fn at(url: &Url) -> Self {
        let address = format!("{}://{}", url.scheme(), url.authority);
        let authorization = url.user_info.as_deref().map(basic);
        Self { address, authorization, tls: TlsSettings::default() }
    }

    /// Sets credentials, unless the URL had some.
    pub(super) fn log_in(&mut self, user: &str, password: &str) {
        self.authorization.get_or_insert(basic(&format!("{user}:{password}")));
    }

    pub(super) fn url(&self, target: &str) -> io::Result<Url> {
        Url::parse(&format!("{}{target}", self.address)).map_err(io::Error::other)
    }

    pub(super) fn network(&self) -> Rc<Network> {
        let config = ClientConfig {
            user_agent: USER_AGENT.to_owned(),
            no_connection_reuse: true,
            tls: self.tls.clone(),
            names: NameRules { dns: DNS, ..NameRules::default() },
            skips_success: true,
            ..ClientConfig::default()
        };
        Rc::new(Network::new(config, |_, _| {}))
    }

    /// Sends a body and waits for a response with a status of 200–299.
    pub(super) fn post(
        &self,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let authorization = self.authorization.iter().map(|text| ("Authorization", &**text));
        let headers = authorization.chain(headers.iter().copied());
        let request = Request {
            method: "POST".into(),
            url: Rc::new(self.url(target)?),
            headers: headers.map(|(name, value)| (name.into(), value.into())).collect(),
            body: (!body.is_empty()).then(|| body.into()),
            timeout: TIMEOUT,
            max_redirects: 0,
            discard_body: false,
            cookies: Vec::new(),
            jar: Rc::default(),
            sent_cookies: OnceCell::new(),
        };
        let client = Client::new(self.network());
        let exchange = block_on(client.send(&request, |_| {}))?;
        let response = exchange.outcome.map_err(io::Error::other)?;
        let shown = &response.body[..response.body.len().min(MAX_SHOWN_BYTES)];
        match response.head.status {
            200..=299 => Ok(()),
            status => Err(io::Error::other(format!(
                "the server answers {status} {}",
                String::from_utf8_lossy(shown).trim()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn a_body_of_success_without_an_end_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let collector = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nfine").unwrap();
            // Open until the client closes.
            while stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {}
        });
        let begin = std::time::Instant::now();
        Server::parse(&address).unwrap().post("/", &[], b"values").unwrap();
        assert!(begin.elapsed() < TIMEOUT);
        collector.join().unwrap();
    }
}
