//! The share that one client address may take of what all clients share.
//!
//! A table by address would itself be something that clients fill. This one has an entry for each
//! address that holds something now, so it is bounded by what is held.

use super::sharers::Sharers;
use crate::config::Settings;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

/// One address may hold one part in so many of the connections, the bodies and the answers, unless a setting says
/// otherwise.
pub(super) const SHARE: usize = 4;

/// Open connections of each address.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    most_of_one: usize,
    pub(super) sharers: Sharers,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// The place of one connection; given back when dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
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

    /// A place for a connection from `peer`, unless that has its share, and so many `beyond` it, already.
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
        Some(ConnectionSlot { places: Arc::clone(self), address })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        give_back(&mut self.places.open.lock(), address, 1);
    }
}

/// Takes from what somebody holds; answers whether that was all. Nothing is remembered of who holds nothing.
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
