//! Whose request it is: the address of the client, also behind proxies.
//!
//! `X-Forwarded-For` is a claim. Anybody can send one; only the entry that a proxy of ours appended is
//! true, and only when that proxy is the peer of this very connection. So the list is read from the
//! right, as long as what wrote an entry is in `server.trusted_proxies`: the first address that is not
//! is the client's (the right-most untrusted hop). Taken from the left, as is common, a limiter of
//! attempts by address would be open to anybody who invents addresses.
//!
//! `Forwarded` (RFC 7239) and `X-Real-IP` are not read. A proxy that sets one of these headers passes a
//! forged other one through, so a server that reads two has to guess; every proxy writes this one.
//!
//! The address is worked out when a handler asks for it ([`ClientAddress`]). A cached read never does.

use super::Problem;
use crate::app::App;
use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;
use madang_guard::net::Cidr;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

const FORWARDED_FOR: &str = "x-forwarded-for";

/// At most one warning in so many seconds: any client can cause it.
const WARN_EVERY_SECONDS: u64 = 600;

/// The other end of the request's connection: the client, or a proxy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// The client's address, IPv4-mapped IPv6 as IPv4. An extractor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

impl FromRequestParts<Arc<App>> for ClientAddress {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        match parts.extensions.get() {
            Some(Peer(peer)) => Ok(ClientAddress(app.proxies.client(*peer, &parts.headers))),
            None => Err(Problem::internal("a request without the address of its peer")),
        }
    }
}

/// Whether the client spoke TLS, as far as a trusted proxy says so (`X-Forwarded-Proto`). An extractor.
/// It decides no more than whether a cookie asks to travel over TLS alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverTls(pub bool);

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

/// Which peers are believed when they say for whom they ask.
#[derive(Debug, Default)]
pub struct Proxies {
    trusted: Box<[Cidr]>,
    /// Requests whose claim was ignored because their peer is not trusted.
    ignored: AtomicU64,
    /// When that was last logged, in seconds since 1970.
    warned: AtomicU64,
}

impl Proxies {
    /// Believes the peers in these ranges.
    pub fn new(trusted: &[Cidr]) -> Self {
        Self { trusted: trusted.into(), ..Self::default() }
    }

    /// Requests so far whose `X-Forwarded-For` or `Forwarded` was ignored, of those whose client's
    /// address was asked for.
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Relaxed)
    }

    /// The address of the client that sent this request over a connection with `peer`; a claim that is
    /// ignored is counted.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let claims = headers.contains_key(FORWARDED_FOR) || headers.contains_key("forwarded");
        if claims && !self.is_trusted(peer.to_canonical()) {
            self.ignore(peer.to_canonical());
        }
        self.last_hop(peer, headers)
    }

    /// The same address, and nothing is counted.
    ///
    /// An entry that is no address (`unknown`, an obfuscated name, nonsense) ends the search: the
    /// client is then the last proxy that is known. When every hop is trusted, it is the first one.
    pub(crate) fn last_hop(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.is_trusted(peer) {
            return peer;
        }
        let mut client = peer;
        let lines = headers.get_all(FORWARDED_FOR).into_iter().rev();
        for hop in lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')) {
            let hop = hop.trim_ascii();
            // RFC 9110, 5.6.1.2: empty elements of a list mean nothing.
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

    /// Whether a trusted peer says that the request came to it, or to a proxy before it, over TLS.
    pub fn over_tls(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
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

    /// The usual cause is a proxy that nobody named: everybody behind it then shares its address,
    /// and the first to guess passwords locks out all others.
    #[cold]
    fn ignore(&self, peer: IpAddr) {
        self.ignored.fetch_add(1, Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let last = self.warned.load(Relaxed);
        let due = last == 0 || now.saturating_sub(last) >= WARN_EVERY_SECONDS;
        if due && self.warned.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
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
