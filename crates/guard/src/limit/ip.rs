//! Mode `ip`: the limiter of the reproduced system, kept as a reference for measurements.
//!
//! Attempts of an address, right or wrong, are counted in a window that begins with the first; one attempt beyond the
//! limit starts a block, which affects everybody behind the address. Unlike there, the counter and its expiry are one
//! step, and memory is bounded.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Hashing, Id};
use crate::clock::{Clock, nanos};
use crate::config::{ADDRESSES, IpLimit};
use crate::sets::{Sets, WAYS};

#[derive(Clone, Copy, Default)]
struct Entry {
    id: Option<Id>,
    attempts: u32,
    /// End of the window, or of the block; nanoseconds on the clock.
    until: u64,
    blocked: bool,
}

pub(crate) struct IpLimiter {
    limit: IpLimit,
    sets: Sets<[Entry; WAYS]>,
    ids: Hashing,
    clock: Arc<dyn Clock>,
}

impl IpLimiter {
    pub(crate) fn new(limit: IpLimit, clock: Arc<dyn Clock>) -> Result<Self, getrandom::Error> {
        Ok(Self { limit, sets: Sets::new(ADDRESSES), ids: Hashing::random()?, clock })
    }

    /// Counts an attempt. Returns the time until the end of the block if the address is blocked.
    pub(crate) fn count(&self, address: IpAddr) -> Option<Duration> {
        let (id, now) = (self.ids.address(address), nanos(self.clock.now()));
        let mut set = self.sets.lock(id.0);
        let known = set.iter().position(|e| e.id == Some(id) && e.until > now);
        let entry = if let Some(way) = known {
            &mut set[way]
        } else {
            // Expired entries go first, then those that expire soonest; blocks go last.
            let order = |e: &&mut Entry| (e.until > now, e.blocked, e.until);
            let oldest = set.iter_mut().min_by_key(order)?;
            let until = now.saturating_add(nanos(self.limit.window));
            *oldest = Entry { id: Some(id), attempts: 0, until, blocked: false };
            oldest
        };
        if !entry.blocked {
            entry.attempts += 1;
            if entry.attempts <= self.limit.attempts {
                return None;
            }
            entry.blocked = true;
            entry.until = now.saturating_add(nanos(self.limit.block));
        }
        Some(Duration::from_nanos(entry.until - now))
    }
}
