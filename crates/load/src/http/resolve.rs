//! Host names to addresses: the system's resolver, off the event loop, cached.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use super::RequestError;

/// How long an answer is used; k6's default.
const TIME_TO_LIVE: Duration = Duration::from_secs(300);

/// Names remembered at once; beyond it the cache starts anew.
const MAX_NAMES: usize = 4096;

#[derive(Debug)]
struct Entry {
    created: Instant,
    addresses: Rc<OnceCell<Vec<IpAddr>>>,
}

/// The resolver of one event loop. Look-ups of the same name at the same time share one answer.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    names: RefCell<HashMap<Rc<str>, Entry>>,
}

impl Resolver {
    /// An address of `host`: IPv4 before IPv6, one at random when there are several (k6's
    /// defaults). The flag says whether a look-up was needed.
    ///
    /// # Errors
    /// `NoSuchHost` or `Lookup`.
    pub(super) async fn resolve(&self, host: &Rc<str>) -> Result<(IpAddr, bool), RequestError> {
        if let Ok(literal) = host.parse() {
            return Ok((literal, false));
        }
        let cell = self.cell(host);
        let cached = cell.initialized();
        let addresses = cell.get_or_try_init(|| look_up(host.clone())).await?;
        let preferred: Vec<&IpAddr> = match addresses.iter().filter(|a| a.is_ipv4()).collect() {
            v4 if !Vec::is_empty(&v4) => v4,
            _ => addresses.iter().collect(),
        };
        let chosen = preferred.get(fastrand::usize(..preferred.len().max(1)));
        chosen.map(|address| (**address, !cached)).ok_or(RequestError::NoSuchHost)
    }

    fn cell(&self, host: &Rc<str>) -> Rc<OnceCell<Vec<IpAddr>>> {
        let mut names = self.names.borrow_mut();
        if let Some(entry) = names.get(host)
            && entry.created.elapsed() < TIME_TO_LIVE
        {
            return entry.addresses.clone();
        }
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        let entry = Entry { created: Instant::now(), addresses: Rc::default() };
        let cell = entry.addresses.clone();
        names.insert(host.clone(), entry);
        cell
    }
}

async fn look_up(host: Rc<str>) -> Result<Vec<IpAddr>, RequestError> {
    let name = host.to_string();
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

    fn resolve(host: &str) -> Result<(IpAddr, bool), RequestError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Resolver::default().resolve(&host.into()))
    }

    #[test]
    fn literals_need_no_look_up() {
        assert_eq!(resolve("127.0.0.1").unwrap(), ("127.0.0.1".parse().unwrap(), false));
        assert_eq!(resolve("::1").unwrap(), ("::1".parse().unwrap(), false));
    }

    #[test]
    fn localhost_is_found_and_cached() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let resolver = Resolver::default();
        let host: Rc<str> = "localhost".into();
        let first = runtime.block_on(resolver.resolve(&host)).unwrap();
        let second = runtime.block_on(resolver.resolve(&host)).unwrap();
        assert!(first.0.is_loopback() && first.1);
        assert!(second.0.is_loopback() && !second.1);
    }

    #[test]
    fn a_name_that_cannot_exist_is_no_such_host() {
        // A label of more than 63 bytes: the resolver refuses it without asking anybody.
        assert_eq!(resolve(&"a".repeat(70)).unwrap_err().code().0, 1101);
    }
}
