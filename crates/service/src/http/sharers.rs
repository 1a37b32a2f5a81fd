//! Who has a share of what all clients use together, and under which address it is counted.

use crate::config::Settings;
use madang_guard::net::{Cidr, counted};
use std::net::IpAddr;
use std::sync::Arc;

/// Who has a share. Proxies speak for many clients, and whoever is exempt was made so for load tests.
#[derive(Clone, Debug)]
pub(super) struct Sharers {
    without: Arc<[Cidr]>,
}

impl Sharers {
    pub(super) fn new(settings: &Settings) -> Self {
        let proxies = &settings.server.trusted_proxies;
        Self { without: proxies.iter().chain(&settings.guard.exempt).copied().collect() }
    }

    /// The address under which a client's share is counted (IPv6: its /64); `None` = it has no limit.
    pub(super) fn counted(&self, address: IpAddr) -> Option<IpAddr> {
        let limited = !self.without.iter().any(|range| range.contains(address));
        limited.then(|| counted(address))
    }
}
