//! The address of a request's client, also behind proxies (docs/decisions/0013-client-address.md).
//!
//! Only the entry of `X-Forwarded-For` that a trusted proxy appended is reliable, and only when that proxy is the
//! peer of this connection. So the list is read from the right: the first address outside `server.trusted_proxies` is
//! the client's. It is determined when a handler needs it ([`ClientAddress`]), which a cached read does not.

use super::Problem;
use crate::app::App;
use crate::ops::quiet_log::QuietLog;
use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;
use madang_guard::net::Cidr;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Any client can cause the warning.
static WARNINGS: QuietLog = QuietLog::every_seconds(600);

/// The other end of the request's connection: the client, or a proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// The client's address, IPv4-mapped IPv6 as IPv4. An extractor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl FromRequestParts<Arc<App>> for ClientAddress {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        match parts.extensions.get() {
            Some(Peer(peer)) => Ok(ClientAddress(app.proxies.client(*peer, &parts.headers))),
            None => Err(Problem::internal("a request without the address of its peer")),
        }
    }
}

/// True if the client used TLS, according to a trusted proxy (`X-Forwarded-Proto`). An extractor. It decides only
/// whether a cookie is `Secure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverTls(pub(crate) bool);

impl FromRequestParts<Arc<App>> for OverTls {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &Arc<App>,
    ) -> Result<Self, Self::Rejection> {
        let peer = parts.extensions.get();
        Ok(Self(peer.is_some_and(|Peer(peer)| app.proxies.over_tls(*peer, &parts.headers))))
    }
}

/// The proxies whose forwarding headers are used.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    trusted: Box<[Cidr]>,
    ignored: AtomicU64,
}

impl Proxies {
    pub(crate) fn new(trusted: &[Cidr]) -> Self {
        Self { trusted: trusted.into(), ..Self::default() }
    }

    /// Requests whose `X-Forwarded-For` or `Forwarded` was ignored, among those whose client's address was needed.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored.load(Relaxed)
    }

    /// The address of the client that sent this request over a connection with `peer`; counts an ignored claim.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let claims = headers.contains_key(FORWARDED_FOR) || headers.contains_key("forwarded");
        if claims && !self.is_trusted(peer.to_canonical()) {
            self.ignore(peer.to_canonical());
        }
        self.last_hop(peer, headers)
    }

    /// [`client`](Self::client) without counting.
    ///
    /// An entry that is no address (`unknown`, an obfuscated name) ends the search: the client is then the last known
    /// proxy. When every hop is trusted, it is the first one.
    pub(crate) fn last_hop(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.is_trusted(peer) {
            return peer;
        }
        let mut client = peer;
        let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
        for hop in lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')) {
            let hop = hop.trim_ascii();
            // Empty list elements are ignored (RFC 9110, 5.6.1.2).
            if hop.is_empty() {
                continue;
            }
            let Some(address) = address(hop) else { return client };
            client = address;
            if !self.is_trusted(client) {
                return client;
            }
        }
        client
    }

    /// True if a trusted peer reports that the request came to it, or to an earlier proxy, over TLS.
    pub(crate) fn over_tls(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        let mut said = headers.get_all("x-forwarded-proto").into_iter();
        self.is_trusted(peer.to_canonical())
            && said.any(|line| {
                let mut hops = line.as_bytes().split(|byte| *byte == b',');
                hops.any(|hop| hop.trim_ascii().eq_ignore_ascii_case(b"https"))
            })
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|range| range.contains(address))
    }

    /// The usual cause is a proxy that is not configured: all clients behind it then share its address, and one that
    /// guesses passwords locks out the others.
    #[cold]
    fn ignore(&self, peer: IpAddr) {
        self.ignored.fetch_add(1, Relaxed);
        if WARNINGS.admit().is_some() {
            tracing::warn!(
                %peer,
                "ignored a forwarding header from a peer that is not a trusted proxy; if the peer is your proxy, set server.trusted_proxies = \"{peer}\""
            );
        }
    }
}

/// An address as proxies write it: bare, with a port, IPv6 in brackets, in quotes.
fn address(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?;
    let hop = hop.strip_prefix('"').and_then(|hop| hop.strip_suffix('"')).unwrap_or(hop);
    let bracketed = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let address = hop
        .parse()
        .ok()
        .or_else(|| hop.parse::<SocketAddr>().ok().map(|with_port| with_port.ip()))
        .or_else(bracketed)?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn client(trusted: &str, peer: &str, lines: &[&str]) -> String {
        let trusted: Vec<Cidr> = trusted.split_whitespace().map(|r| r.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        Proxies::new(&trusted).client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn an_unknown_peer_is_the_client_whatever_it_claims() {
        assert_eq!(client("", "9.9.9.9", &["1.2.3.4"]), "9.9.9.9");
        assert_eq!(client("10.0.0.0/8", "9.9.9.9", &["1.2.3.4", "10.0.0.1"]), "9.9.9.9");
        assert_eq!(client("", "::ffff:9.9.9.9", &[]), "9.9.9.9");
    }

    #[test]
    fn the_right_most_hop_that_is_not_trusted_is_the_client() {
        let behind = |lines: &[&str]| client("10.0.0.0/8 fd00::/8", "10.0.0.1", lines);
        assert_eq!(behind(&[]), "10.0.0.1");
        assert_eq!(behind(&["1.2.3.4"]), "1.2.3.4");
        assert_eq!(behind(&["6.6.6.6, 1.2.3.4"]), "1.2.3.4", "the left is the client's own claim");
        assert_eq!(behind(&["6.6.6.6, 1.2.3.4, 10.0.0.7"]), "1.2.3.4");
        assert_eq!(behind(&["6.6.6.6", "1.2.3.4 , 10.0.0.7", "fd00::5"]), "1.2.3.4");
        assert_eq!(behind(&["10.0.0.9, 10.0.0.8"]), "10.0.0.9", "all trusted: the first");
        assert_eq!(behind(&[" , 1.2.3.4,, ", ","]), "1.2.3.4", "empty elements mean nothing");
        assert_eq!(client("10.0.0.0/8", "::ffff:10.0.0.1", &["1.2.3.4"]), "1.2.3.4");
    }

    #[test]
    fn addresses_are_read_as_proxies_write_them() {
        for (written, read) in [
            ("1.2.3.4:5678", "1.2.3.4"),
            ("\"1.2.3.4\"", "1.2.3.4"),
            ("2001:DB8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("\"[2001:db8::1]:443\"", "2001:db8::1"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("[::ffff:1.2.3.4]:80", "1.2.3.4"),
        ] {
            assert_eq!(client("10.0.0.1", "10.0.0.1", &[written]), read, "{written}");
        }
    }

    #[test]
    fn nonsense_ends_the_search_at_the_last_known_hop() {
        for nonsense in [
            "unknown", "_hidden", "1.2.3", "1.2.3.4.5", "1.2.3.4:", "1.2.3.4:99999", "01.2.3.4",
            "[1.2.3.4]", "[::1", "::1]", "fe80::1%eth0", "1.2.3.4 5.6.7.8", "가", "\"",
        ] {
            let lines = [&format!("6.6.6.6, {nonsense}")[..], "10.0.0.2"];
            assert_eq!(client("10.0.0.0/8", "10.0.0.1", &lines), "10.0.0.2", "{nonsense}");
        }
    }

    #[test]
    fn ignored_claims_are_counted() {
        let mut headers = HeaderMap::new();
        let proxies = Proxies::default();
        let peer = IpAddr::from([9, 9, 9, 9]);
        proxies.client(peer, &headers);
        assert_eq!(proxies.ignored(), 0);
        headers.insert("forwarded", HeaderValue::from_static("for=1.2.3.4"));
        proxies.client(peer, &headers);
        headers.insert(FORWARDED_FOR, HeaderValue::from_static("1.2.3.4"));
        proxies.client(peer, &headers);
        assert_eq!(proxies.ignored(), 2);
    }

    proptest! {
        #[test]
        fn nothing_a_client_sends_changes_what_the_proxy_says(claims in prop::collection::vec("[ -~]{0,40}", 0..4), real: [u8; 4]) {
            let real = IpAddr::from(real);
            prop_assume!(!"10.0.0.0/8".parse::<Cidr>().unwrap().contains(real));
            let said = real.to_string();
            let mut lines: Vec<&str> = claims.iter().map(String::as_str).collect();
            lines.push(&said);
            prop_assert_eq!(client("10.0.0.0/8", "10.0.0.1", &lines), said.clone());
            let joined = lines.join(", ");
            prop_assert_eq!(client("10.0.0.0/8", "10.0.0.1", &[&joined]), said);
        }
    }
}
