//! Networks as views count them, and the number of views of each on a day and in the queue.

use super::View;
use madang_guard::net::counted;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Counters of networks: 32 KiB. Each counts up to the share of one network, so together they bound the rows of a
/// day.
pub(super) const COUNTERS: usize = 16_384;

/// The network of an address, as views count it.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match counted(address) {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 72))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The number of views of each network, in a fixed number of counters. Networks with the same counter share its bound;
/// the key decides which ones. A restart begins anew.
#[derive(Debug)]
pub(super) struct Networks {
    counters: Box<[AtomicU16]>,
    most: u16,
}

impl Networks {
    /// At most `most` views of each network.
    pub(super) fn new(most: u16) -> Self {
        Self { counters: (0..COUNTERS).map(|_| AtomicU16::new(0)).collect(), most }
    }

    fn counter(&self, view: &View) -> &AtomicU16 {
        &self.counters[usize::try_from(view.network % COUNTERS as u64).unwrap_or(0)]
    }

    /// Counts a view; returns false if its network has too many.
    pub(super) fn take(&self, view: &View) -> bool {
        let more = |count| (count < self.most).then_some(count + 1);
        self.counter(view).fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Uncounts a view.
    pub(super) fn give_back(&self, view: &View) {
        let less = |count: u16| count.checked_sub(1);
        let _ = self.counter(view).fetch_update(Relaxed, Relaxed, less);
    }

    pub(super) fn clear(&self) {
        self.counters.iter().for_each(|counter| counter.store(0, Relaxed));
    }
}
