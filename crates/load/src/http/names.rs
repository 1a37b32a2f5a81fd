//! Resolution rules: the options `hosts`, `blockHostnames`, `blacklistIPs` and `dns`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

/// Rules for host names and their addresses; the defaults are k6's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameRules {
    /// Addresses of names, or of names with a port.
    pub hosts: Patterns<Target>,
    /// Names that requests may not use.
    pub blocked: Patterns<()>,
    /// Addresses that requests may not use.
    pub blacklist: Vec<AddressRange>,
    /// Look-up of names.
    pub dns: Dns,
}

/// A target of the option `hosts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The address.
    pub address: IpAddr,
    /// Port; `None` keeps that of the request.
    pub port: Option<u16>,
}

/// An invalid value of these options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum NameError {
    #[error("`{0}` is not an address such as 127.0.0.1 or 127.0.0.1:8080")]
    Address(String),
    #[error("`{0}` is not a range of addresses such as 10.0.0.0/8")]
    Range(String),
    #[error("`{0}` is no host name such as test.example or *.example")]
    Host(String),
}

impl FromStr for Target {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if let Ok(address) = text.parse() {
            return Ok(Self { address, port: None });
        }
        match text.parse::<std::net::SocketAddr>() {
            Ok(both) => Ok(Self { address: both.ip(), port: Some(both.port()) }),
            Err(_) => Err(NameError::Address(text.to_owned())),
        }
    }
}

/// Values by host name, in lower case. A name that begins with `*` matches all names with this ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patterns<T>(Vec<(String, T)>);

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Patterns<T> {
    /// Checks the patterns.
    ///
    /// # Errors
    /// The first invalid pattern.
    pub fn new(entries: impl IntoIterator<Item = (String, T)>) -> Result<Self, NameError> {
        let entries = entries.into_iter().map(|(pattern, value)| match is_pattern(&pattern) {
            true => Ok((pattern.to_lowercase(), value)),
            false => Err(NameError::Host(pattern)),
        });
        entries.collect::<Result<_, _>>().map(Self)
    }

    /// The value of this name, or else of its longest ending.
    pub(super) fn find(&self, name: &str) -> Option<&T> {
        if self.0.is_empty() {
            return None;
        }
        let name = name.to_lowercase();
        let matches = self.0.iter().filter(|(pattern, _)| match pattern.strip_prefix('*') {
            Some(ending) => name.ends_with(ending),
            None => *pattern == name,
        });
        let rank = |pattern: &str| (!pattern.starts_with('*'), pattern.len());
        matches.max_by_key(|(pattern, _)| rank(pattern)).map(|(_, value)| value)
    }
}

/// A name with an optional prefix `*` or `*.` and an optional port; k6's `validHostPattern`.
fn is_pattern(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let is_port = |port: &str| {
        (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
    };
    let rest = host.strip_prefix('*').map_or(host, |rest| rest.strip_prefix('.').unwrap_or(rest));
    port.is_none_or(is_port) && (rest.is_empty() || rest.split('.').all(is_label))
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// A range of addresses such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    bits: u8,
}

impl AddressRange {
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        // An IPv4 address in the upper bits.
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
            IpAddr::V6(address) => address.to_bits(),
        };
        let differs = bits(self.first) ^ bits(address);
        self.first.is_ipv4() == address.is_ipv4()
            && differs.checked_shr(128 - u32::from(self.bits)).unwrap_or(0) == 0
    }
}

impl FromStr for AddressRange {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let parsed = text.split_once('/').and_then(|(address, bits)| {
            let first: IpAddr = address.parse().ok()?;
            let bits: u8 = bits.parse().ok()?;
            (bits <= if first.is_ipv4() { 32 } else { 128 }).then_some(Self { first, bits })
        });
        parsed.ok_or_else(|| NameError::Range(text.to_owned()))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// Look-up of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dns {
    /// Lifetime of a look-up; `None` is the whole run.
    pub ttl: Option<Duration>,
    /// Choice among several addresses.
    pub select: Select,
    /// Choice of the address family.
    pub policy: Policy,
}

impl Default for Dns {
    fn default() -> Self {
        let ttl = Some(Duration::from_secs(300));
        Self { ttl, select: Select::Random, policy: Policy::PreferIPv4 }
    }
}

/// Choice among several addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// The first.
    First,
    /// One per connection, in turn.
    RoundRobin,
    /// Any.
    Random,
    /// All in order, until one is reachable; not available to scripts.
    Each,
}

/// Choice of the address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// IPv4, or IPv6 without any.
    PreferIPv4,
    /// IPv6, or IPv4 without any.
    PreferIPv6,
    /// IPv4 or none.
    OnlyIPv4,
    /// IPv6 or none.
    OnlyIPv6,
    /// Both alike.
    Any,
}

impl Policy {
    pub(super) fn choose(self, addresses: &[IpAddr]) -> Vec<IpAddr> {
        let kind = |v4: bool| -> Vec<IpAddr> {
            addresses.iter().copied().filter(|address| address.is_ipv4() == v4).collect()
        };
        let prefer = |v4| match kind(v4) {
            none if none.is_empty() => kind(!v4),
            some => some,
        };
        match self {
            Self::PreferIPv4 => prefer(true),
            Self::PreferIPv6 => prefer(false),
            Self::OnlyIPv4 => kind(true),
            Self::OnlyIPv6 => kind(false),
            Self::Any => addresses.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_itself_wins_over_the_longest_ending() {
        let entries = [("*", 1), ("*.b.example", 2), ("a.b.example", 3), ("c.example:80", 4)];
        let entries = entries.map(|(pattern, value)| (pattern.to_owned(), value));
        let patterns = Patterns::new(entries).unwrap();
        for (name, value) in [
            ("A.b.example", 3),
            ("x.b.example", 2),
            ("x.y.B.example", 2),
            ("b.example", 1),
            ("c.example:80", 4),
            ("c.example:81", 1),
        ] {
            assert_eq!(patterns.find(name), Some(&value), "{name}");
        }
        assert_eq!(Patterns::<u8>::default().find("a"), None);
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        for good in ["", "*", "*.a", "*a", "a-b.c", "a:8080", "1.2.3.4"] {
            assert!(is_pattern(good), "{good}");
        }
        for bad in ["a.*", "a..b", "-a", "a-", "a b", "a:", "a:123456", "a:b", "**"] {
            let refused = Err(NameError::Host(bad.to_owned()));
            assert_eq!(Patterns::new([(bad.to_owned(), ())]), refused);
        }
    }

    #[test]
    fn networks_have_their_addresses_and_no_others() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("127.0.0.1/32", "127.0.0.1", "127.0.0.2"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::"),
            ("::/0", "::1", "127.0.0.1"),
        ] {
            let parsed: AddressRange = network.parse().unwrap();
            assert_eq!(parsed.to_string(), network);
            assert!(parsed.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network} {outside}");
        }
        for bad in ["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0/8", "a/8", "10.0.0.0/-1"] {
            assert!(bad.parse::<AddressRange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_policy_takes_one_kind_of_address() {
        let both: Vec<IpAddr> = ["::1", "127.0.0.1"].map(|text| text.parse().unwrap()).to_vec();
        let taken = |policy: Policy, from: &[IpAddr]| {
            policy.choose(from).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(taken(Policy::PreferIPv4, &both), "127.0.0.1");
        assert_eq!(taken(Policy::PreferIPv6, &both), "::1");
        assert_eq!(taken(Policy::PreferIPv4, &both[..1]), "::1");
        assert_eq!(taken(Policy::OnlyIPv4, &both[..1]), "");
        assert_eq!(taken(Policy::OnlyIPv6, &both), "::1");
        assert_eq!(taken(Policy::Any, &both), "::1 127.0.0.1");
    }
}
