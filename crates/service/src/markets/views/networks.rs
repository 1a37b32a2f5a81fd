//! Networks, as views count them, and how many views each has on a day and in the queue.

use super::View;
use madang_guard::net::counted;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Places in which the views of networks are counted: 32 KiB. Each holds the views of a share at most, so
/// they bound the rows of a day.
pub(super) const PLACES: usize = 16_384;

/// The place of a network, which it may share with others.
fn place_of(view: &View) -> usize {
    usize::try_from(view.network % PLACES as u64).unwrap_or(0)
}

/// The network of an address, as views count it.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match counted(address) {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 72))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// How many views each network has on a day, in a fixed number of places. Networks that share one share
/// its bound; which ones do depends on the key. A restart begins anew.
pub(super) struct Networks {
    places: Box<[u16]>,
    most: u16,
}

impl Networks {
    /// Of which each may have `most` views.
    pub(super) fn new(most: u16) -> Self {
        Self { places: vec![0; PLACES].into(), most }
    }

    /// Counts a view if its network has not too many.
    pub(super) fn take(&mut self, view: &View) -> bool {
        let most = self.most;
        let place = &mut self.places[place_of(view)];
        let is_free = *place < most;
        *place += u16::from(is_free);
        is_free
    }

    /// Takes back that a view was counted.
    pub(super) fn give_back(&mut self, view: &View) {
        let place = &mut self.places[place_of(view)];
        *place = place.saturating_sub(1);
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.places.fill(0);
    }
}

/// How many views of each network wait in the queue. Unlike [`Networks`] it is asked by whoever answers.
#[derive(Debug)]
pub(super) struct Waiting {
    places: Box<[AtomicU16]>,
    most: u16,
}

impl Waiting {
    /// Of which each may have `most` there.
    pub(super) fn new(most: u16) -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU16::new(0)).collect(), most }
    }

    /// Counts a view if its network has not too many there.
    pub(super) fn joins(&self, view: &View) -> bool {
        let more = |waiting| (waiting < self.most).then_some(waiting + 1);
        self.places[place_of(view)].fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Takes back that a view was counted.
    pub(super) fn leaves(&self, view: &View) {
        self.places[place_of(view)].fetch_sub(1, Relaxed);
    }
}
