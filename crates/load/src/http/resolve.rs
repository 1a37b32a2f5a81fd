//! Cached look-ups of host names by the system's resolver, off the event loop.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::rc::Rc;
use std::time::Instant;

use tokio::sync::OnceCell;

use super::{Dns, NameRules, RequestError, Result, Select};

/// Limit of cached names; beyond it the cache is cleared.
const MAX_NAMES: usize = 4096;

#[derive(Debug)]
struct Entry {
    created: Instant,
    addresses: Rc<OnceCell<Vec<IpAddr>>>,
}

/// The resolver of one event loop. Concurrent look-ups of a name share one result.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    rules: NameRules,
    names: RefCell<HashMap<Rc<str>, Entry>>,
    turn: Cell<usize>,
}

impl Resolver {
    pub(super) fn new(rules: NameRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Addresses for `host` and `port`, at least one, and whether a look-up was needed. More than one only with
    /// [`Select::Each`].
    pub(super) async fn resolve(&self, host: &str, port: u16) -> Result<(Vec<SocketAddr>, bool)> {
        let literal: Option<IpAddr> = host.parse().ok();
        if literal.is_none() && self.rules.blocked.find(host).is_some() {
            return Err(RequestError::BlockedHostname);
        }
        let hosts = &self.rules.hosts;
        let target = hosts.find(&format!("{host}:{port}")).or_else(|| hosts.find(host));
        let (addresses, port, looked_up) = match (target, literal) {
            (Some(target), _) => (vec![target.address], target.port.unwrap_or(port), false),
            (None, Some(literal)) => (vec![literal], port, false),
            (None, None) => {
                let (addresses, looked_up) = self.addresses_of(host).await?;
                (addresses, port, looked_up)
            }
        };
        let mut blacklist = self.rules.blacklist.iter();
        if blacklist.any(|range| addresses.iter().any(|address| range.contains(*address))) {
            return Err(RequestError::BlacklistedIp);
        }
        let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, port));
        Ok((addresses.collect(), looked_up))
    }

    async fn addresses_of(&self, host: &str) -> Result<(Vec<IpAddr>, bool)> {
        let cell = self.cell(host);
        let cached = cell.initialized();
        let addresses = cell.get_or_try_init(|| look_up(host.to_owned())).await?;
        let Dns { select, policy, .. } = self.rules.dns;
        let addresses = policy.choose(addresses);
        let at = match select {
            Select::Each if !addresses.is_empty() => return Ok((addresses, !cached)),
            Select::First | Select::Each => 0,
            Select::Random => fastrand::usize(..addresses.len().max(1)),
            Select::RoundRobin => {
                let turn = self.turn.get();
                self.turn.set(turn.wrapping_add(1));
                turn % addresses.len().max(1)
            }
        };
        let address = addresses.get(at).ok_or(RequestError::NoSuchHost)?;
        Ok((vec![*address], !cached))
    }

    fn cell(&self, host: &str) -> Rc<OnceCell<Vec<IpAddr>>> {
        let mut names = self.names.borrow_mut();
        if let Some(entry) = names.get(host)
            && self.rules.dns.ttl.is_none_or(|ttl| entry.created.elapsed() < ttl)
        {
            return entry.addresses.clone();
        }
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        let entry = Entry { created: Instant::now(), addresses: Rc::default() };
        let cell = entry.addresses.clone();
        names.insert(host.into(), entry);
        cell
    }
}

async fn look_up(name: String) -> Result<Vec<IpAddr>> {
    let answer = tokio::task::spawn_blocking(move || (name.as_str(), 0).to_socket_addrs()).await;
    match answer {
        Ok(Ok(addresses)) => Ok(addresses.map(|address: SocketAddr| address.ip()).collect()),
        // The standard library reports getaddrinfo's own errors without a kind or errno.
        Ok(Err(error)) if error.raw_os_error().is_none() => Err(RequestError::NoSuchHost),
        Ok(Err(error)) => Err(RequestError::Lookup(error)),
        Err(join) => Err(RequestError::Lookup(std::io::Error::other(join))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Patterns, Policy};

    fn by(rules: NameRules, host: &str, port: u16) -> Result<(String, bool)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(Resolver::new(rules).resolve(host, port));
        found.map(|(addresses, looked_up)| (addresses[0].to_string(), looked_up))
    }

    fn resolve(host: &str) -> Result<(String, bool)> {
        by(NameRules::default(), host, 80)
    }

    fn hosts(entries: &[(&str, &str)]) -> NameRules {
        let entries = entries.iter().map(|(name, to)| ((*name).to_owned(), to.parse().unwrap()));
        NameRules { hosts: Patterns::new(entries).unwrap(), ..NameRules::default() }
    }

    #[test]
    fn configured_hosts_need_no_look_up_and_a_port_is_theirs_if_they_have_one() {
        let rules = hosts(&[
            ("*.example", "127.0.0.2"),
            ("a.example:81", "127.0.0.3:8081"),
            ("127.0.0.9", "[::1]:9"),
        ]);
        for (host, port, address) in [
            ("a.example", 80, "127.0.0.2:80"),
            ("A.EXAMPLE", 81, "127.0.0.3:8081"),
            ("127.0.0.9", 80, "[::1]:9"),
            ("127.0.0.8", 80, "127.0.0.8:80"),
        ] {
            assert_eq!(by(rules.clone(), host, port).unwrap(), (address.to_owned(), false));
        }
    }

    #[test]
    fn blocked_names_and_addresses_are_refused_also_when_configured() {
        let blocked = Patterns::new([("*.example".to_owned(), ())]).unwrap();
        let blacklist = vec!["127.0.0.0/30".parse().unwrap()];
        let rules = NameRules { blocked, blacklist, ..hosts(&[("b.org", "127.0.0.2")]) };
        for (host, code) in [("a.example", 1111), ("127.0.0.1", 1110), ("b.org", 1110)] {
            assert_eq!(by(rules.clone(), host, 80).unwrap_err().code().0, code, "{host}");
        }
        assert!(by(rules, "127.0.0.4", 80).is_ok());
    }

    #[test]
    fn a_policy_without_addresses_finds_no_host() {
        let dns = Dns { policy: Policy::OnlyIPv6, ..Dns::default() };
        // A name that has only an IPv4 address everywhere.
        let found = by(NameRules { dns, ..NameRules::default() }, "127.1", 80);
        assert_eq!(found.unwrap_err().code().0, 1101);
    }

    #[test]
    fn literals_need_no_look_up() {
        assert_eq!(resolve("127.0.0.1").unwrap(), ("127.0.0.1:80".to_owned(), false));
        assert_eq!(resolve("::1").unwrap(), ("[::1]:80".to_owned(), false));
    }

    #[tokio::test]
    async fn localhost_is_found_and_cached() {
        let resolver = Resolver::default();
        let first = resolver.resolve("localhost", 80).await.unwrap();
        let second = resolver.resolve("localhost", 80).await.unwrap();
        assert!(first.0[0].ip().is_loopback() && first.1);
        assert!(second.0[0].ip().is_loopback() && !second.1);
    }

    #[tokio::test]
    async fn all_addresses_of_a_name_are_given_only_when_each_is_to_be_tried() {
        let found = async |select| {
            let dns = Dns { select, policy: Policy::Any, ..Dns::default() };
            let resolver = Resolver::new(NameRules { dns, ..NameRules::default() });
            let both = ["::1", "127.0.0.1"].map(|text| text.parse().unwrap()).to_vec();
            resolver.cell("a.example").set(both).unwrap();
            let (addresses, _) = resolver.resolve("a.example", 80).await.unwrap();
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(Select::Each).await, ["[::1]:80", "127.0.0.1:80"]);
        assert_eq!(found(Select::First).await, ["[::1]:80"]);
    }

    #[test]
    fn a_name_that_cannot_exist_is_no_such_host() {
        // A label of more than 63 bytes: the resolver refuses it without a query.
        assert_eq!(resolve(&"a".repeat(70)).unwrap_err().code().0, 1101);
    }
}
