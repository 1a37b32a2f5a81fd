//! The share of one client address in connections and in the memory of bodies and responses.
//!
//! The table has an entry only for an address that holds something now, so clients cannot fill it.

use crate::config::Settings;
use madang_guard::net::{Cidr, counted};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

/// One address may hold a quarter of the connections, bodies and responses, unless a setting changes it.
pub(super) const SHARE: usize = 4;

/// The clients with a share. Proxies, which speak for many clients, and exempt addresses have no limit.
#[derive(Clone, Debug)]
pub(super) struct Sharers {
    without: Arc<[Cidr]>,
}

impl Sharers {
    pub(super) fn new(settings: &Settings) -> Self {
        let proxies = &settings.server.trusted_proxies;
        Self { without: proxies.iter().chain(&settings.guard.exempt).copied().collect() }
    }

    /// The address to which a client's share is counted (IPv6: its /64); `None` = no limit.
    pub(super) fn counted(&self, address: IpAddr) -> Option<IpAddr> {
        let limited = !self.without.iter().any(|range| range.contains(address));
        limited.then(|| counted(address))
    }
}

/// Open connections of each address.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    most_of_one: usize,
    pub(super) sharers: Sharers,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// The slot of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    address: Option<IpAddr>,
}

impl ConnectionSlots {
    pub(super) fn new(settings: &Settings) -> Self {
        let server = &settings.server;
        Self {
            most_of_one: server
                .max_connections_per_address
                .unwrap_or_else(|| server.max_connections.div_ceil(SHARE)),
            sharers: Sharers::new(settings),
            open: Mutex::default(),
        }
    }

    /// A slot for a connection from `peer`, unless its address has its share and `beyond` more.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr, beyond: usize) -> Option<ConnectionSlot> {
        let address = self.sharers.counted(peer);
        if let Some(address) = address {
            let mut open = self.open.lock();
            let count = open.entry(address).or_default();
            if *count >= self.most_of_one.saturating_add(beyond) {
                return None;
            }
            *count += 1;
        }
        Some(ConnectionSlot { slots: Arc::clone(self), address })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        give_back(&mut self.slots.open.lock(), address, 1);
    }
}

/// Subtracts from what `who` holds; true, and the entry is gone, when that was all.
pub(super) fn give_back<K: Hash + Eq>(held: &mut HashMap<K, usize>, who: K, amount: usize) -> bool {
    let Entry::Occupied(mut left) = held.entry(who) else { return false };
    *left.get_mut() -= amount;
    let is_all = *left.get() == 0;
    if is_all {
        left.remove();
    }
    is_all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, value::ranges};

    fn settings() -> Settings {
        let mut settings = Sources::new().resolve().unwrap();
        settings.server.max_connections = 8;
        settings.server.trusted_proxies = ranges("10.0.0.0/8").unwrap();
        settings.guard.exempt = ranges("192.0.2.1, 2001:db8:f::/48").unwrap();
        settings
    }

    fn at(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn an_address_has_a_quarter_and_gets_it_back() {
        let places = Arc::new(ConnectionSlots::new(&settings()));
        let held = [places.take(at("9.9.9.9"), 0).unwrap(), places.take(at("9.9.9.9"), 0).unwrap()];
        assert!(places.take(at("9.9.9.9"), 0).is_none());
        assert!(places.take(at("::ffff:9.9.9.9"), 0).is_none(), "the same address");
        assert!(places.take(at("9.9.9.8"), 0).is_some(), "another");
        let one_more = places.take(at("9.9.9.9"), 1).unwrap();
        assert!(places.take(at("9.9.9.9"), 1).is_none());
        drop(one_more);
        drop(held);
        assert!(places.open.lock().is_empty(), "nothing is remembered of who holds nothing");
        assert!(places.take(at("9.9.9.9"), 0).is_some());
    }

    #[test]
    fn addresses_of_one_64_bit_network_share_one_share() {
        let places = Arc::new(ConnectionSlots::new(&settings()));
        let held = ["2001:db8::1", "2001:db8::ffff:1"].map(|a| places.take(at(a), 0).unwrap());
        assert!(places.take(at("2001:db8::2"), 0).is_none());
        assert!(places.take(at("2001:db8:0:1::1"), 0).is_some(), "the next network");
        drop(held);
    }

    #[test]
    fn proxies_and_the_exempt_have_no_limit() {
        let places = Arc::new(ConnectionSlots::new(&settings()));
        for peer in ["10.1.2.3", "::ffff:10.1.2.3", "192.0.2.1", "2001:db8:f:7::1"] {
            let held: Vec<_> = (0..100).filter_map(|_| places.take(at(peer), 0)).collect();
            assert_eq!(held.len(), 100, "{peer}");
        }
        assert!(places.open.lock().is_empty());
    }

    #[test]
    fn a_setting_takes_the_place_of_the_quarter() {
        let mut settings = settings();
        settings.server.max_connections_per_address = Some(1);
        let places = Arc::new(ConnectionSlots::new(&settings));
        let _held = places.take(at("9.9.9.9"), 0).unwrap();
        assert!(places.take(at("9.9.9.9"), 0).is_none());
    }
}
