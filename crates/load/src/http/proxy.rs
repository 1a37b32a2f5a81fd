//! Proxies of the environment variables `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, in upper or lower case, chosen as
//! Go does (`golang.org/x/net/http/httpproxy`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpStream;

use super::connection::{Connection, Peer, Progress, Traffic};
use super::outgoing::basic;
use super::stream::Stream;
use super::timings::Trace;
use super::url::split_port;
use super::{AddressRange, RequestError, Url};

/// An HTTP proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
    /// Value of `Proxy-Authorization`; `None` when the address has no user.
    pub(super) authorization: Option<String>,
}

/// Proxies by scheme, and the hosts reached without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Result<Proxy, ProxyError>>,
    https: Option<Result<Proxy, ProxyError>>,
    exceptions: Vec<Exception>,
}

/// Invalid address in a variable; only requests that would go through this proxy fail. Never shows the address, which
/// may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum ProxyError {
    #[error("{0}: proxies other than http://… are not supported yet")]
    Scheme(&'static str),
    #[error("{0}: no address of a proxy such as http://proxy.example:3128")]
    Address(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Exception {
    All,
    Range(AddressRange),
    Address(IpAddr, Option<u16>),
    /// `suffix` begins with a dot; `itself` includes the domain without it.
    Domain {
        suffix: String,
        itself: bool,
        port: Option<u16>,
    },
}

impl Proxies {
    /// Reads the variables; an empty one counts as unset.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| {
                variable(name).filter(|value| !value.is_empty()).map(|value| (name, value))
            })
        };
        let proxy = |names| read(names).map(|(name, value)| Proxy::parse(name, &value));
        let exceptions = read(["NO_PROXY", "no_proxy"]).map(|(_, value)| value);
        Self {
            http: proxy(["HTTP_PROXY", "http_proxy"]),
            https: proxy(["HTTPS_PROXY", "https_proxy"]),
            exceptions: exceptions
                .iter()
                .flat_map(|list| list.split(','))
                .filter_map(|entry| Exception::parse(entry.trim()))
                .collect(),
        }
    }

    /// The proxy for requests to `url`; `None` for this machine and for exceptions.
    pub(super) fn for_url(&self, url: &Url) -> Result<Option<&Proxy>, RequestError> {
        let named = if url.secure { &self.https } else { &self.http };
        let Some(named) = named else { return Ok(None) };
        let address: Option<IpAddr> = url.host.parse().ok();
        let is_local = &*url.host == "localhost" || address.is_some_and(|ip| ip.is_loopback());
        let excepted =
            self.exceptions.iter().any(|entry| entry.covers(&url.host, address, url.port));
        if is_local || excepted {
            return Ok(None);
        }
        named.as_ref().map(Some).map_err(|problem| RequestError::Proxy(problem.to_string()))
    }
}

impl Exception {
    /// `None` for an invalid entry, which Go ignores.
    fn parse(entry: &str) -> Option<Self> {
        let entry = entry.to_ascii_lowercase();
        if entry == "*" {
            return Some(Self::All);
        }
        if let Ok(range) = entry.parse() {
            return Some(Self::Range(range));
        }
        if let Ok(address) = entry.parse() {
            return Some(Self::Address(address, None));
        }
        let (host, port) = split_port(&entry).ok()?;
        if let Ok(address) = host.parse() {
            return Some(Self::Address(address, port));
        }
        let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
        match host.strip_prefix('.') {
            _ if host.is_empty() => None,
            Some(_) => Some(Self::Domain { suffix: host.to_owned(), itself: false, port }),
            None => Some(Self::Domain { suffix: format!(".{host}"), itself: true, port }),
        }
    }

    fn covers(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        let is_port = |wanted: &Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        match self {
            Self::All => true,
            Self::Range(range) => address.is_some_and(|address| range.contains(address)),
            Self::Address(known, wanted) => address == Some(*known) && is_port(wanted),
            Self::Domain { suffix, itself, port } => {
                (host.ends_with(suffix.as_str()) || (*itself && host == &suffix[1..]))
                    && is_port(port)
            }
        }
    }
}

impl Proxy {
    fn parse(variable: &'static str, text: &str) -> Result<Self, ProxyError> {
        let url = match text.split_once("://") {
            None => Url::parse(&format!("http://{text}")),
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => Url::parse(text),
            Some(_) => return Err(ProxyError::Scheme(variable)),
        };
        let url = url.ok().filter(|url| !url.host.is_empty());
        let url = url.ok_or(ProxyError::Address(variable))?;
        let authorization = url.user_info.as_deref().map(basic);
        Ok(Self { host: (&*url.host).into(), port: url.port, authorization })
    }

    /// Opens a tunnel to the server of `url` through the proxy at the other end of `stream`. Returns the stream to that
    /// server, and the bytes this took.
    pub(super) async fn tunnel(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        url: &Url,
        user_agent: &str,
    ) -> Result<(TcpStream, Traffic), RequestError> {
        let (open, close) = if url.host.contains(':') { ("[", "]") } else { ("", "") };
        let server = format!("{open}{}{close}:{}", url.host, url.port);
        let mut request = format!("CONNECT {server} HTTP/1.1\r\nHost: {server}\r\n");
        if !user_agent.is_empty() {
            request.push_str(&format!("User-Agent: {user_agent}\r\n"));
        }
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        let mut connection = Connection::new(Stream::Plain(stream), Peer { address, tls: None });
        let (mut trace, mut traffic) = (Trace::begin(), Traffic::default());
        let mut progress = Progress::new(&mut trace, &mut traffic);
        connection.write(request.as_bytes(), &[], progress.traffic).await?;
        let head = connection.read_head(&mut progress).await?;
        if head.status != 200 {
            return Err(RequestError::Proxy(head.reason()));
        }
        match connection.into_parts() {
            (Stream::Plain(stream), _, rest) if rest.is_empty() => Ok((stream, traffic)),
            _ => Err(RequestError::Malformed("a proxy sent data before the server could")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::from_environment(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn goes_through(proxies: &Proxies, url: &str) -> bool {
        proxies.for_url(&Url::parse(url).unwrap()).unwrap().is_some()
    }

    #[test]
    fn a_proxy_is_chosen_by_scheme_host_and_port() {
        let no = "10.0.0.0/8, .a.example,b.example:8080,*.c.example,192.0.2.1:81,,[2001:db8::1]";
        let chosen =
            proxies(&[("HTTP_PROXY", "p:1"), ("https_proxy", "http://q"), ("no_proxy", no)]);
        for through in [
            "http://a.example/", "https://c.example/", "http://b.example/", "http://192.0.2.1/",
            "http://xb.example:8080/",
        ] {
            assert!(goes_through(&chosen, through), "{through}");
        }
        for direct in [
            "http://localhost:9/", "https://127.1.2.3/", "http://[::1]/", "http://10.1.2.3/",
            "http://x.a.example/", "http://b.example:8080/", "http://x.b.example:8080/",
            "http://x.c.example/", "http://192.0.2.1:81/", "http://[2001:db8::1]/",
        ] {
            assert!(!goes_through(&chosen, direct), "{direct}");
        }
        let only_http = proxies(&[("http_proxy", "http://p"), ("HTTPS_PROXY", "")]);
        assert!(!goes_through(&only_http, "https://a.example/"));
        let none = proxies(&[("HTTP_PROXY", "p"), ("NO_PROXY", "*")]);
        assert!(!goes_through(&none, "http://a.example/"));
    }

    #[test]
    fn an_address_of_a_proxy_may_have_a_user() {
        let proxy = |text: &str| Proxy::parse("http_proxy", text).unwrap();
        assert_eq!((&*proxy("p.example:3128").host, proxy("http://p").port), ("p.example", 80));
        let authorization = proxy("http://me:s%3Acret@p").authorization;
        assert_eq!(authorization.as_deref(), Some("Basic bWU6czpjcmV0"));
        for (text, why) in [
            ("socks5://p", ProxyError::Scheme("p")),
            ("http://", ProxyError::Address("p")),
            ("p:x", ProxyError::Address("p")),
        ] {
            assert_eq!(Proxy::parse("p", text), Err(why), "{text}");
        }
        let named = proxies(&[("http_proxy", "socks5://p")]);
        let through = |url| named.for_url(&Url::parse(url).unwrap()).map(|proxy| proxy.is_some());
        let told = through("http://a.example/").unwrap_err().to_string();
        assert_eq!(told, "http_proxy: proxies other than http://… are not supported yet");
        assert!(!through("http://127.0.0.1/").unwrap());
    }
}
