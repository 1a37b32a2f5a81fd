//! Mode `ip`: the way of the reproduced system, kept to be measured against.
//!
//! Attempts of an address, right or wrong, are counted in a window that begins with the first; the
//! one that is too many starts a block. Everybody behind the address shares its fate. The counter
//! and its expiry are one step here, and memory is bounded; the rest is as documented.

use std::time::Duration;

use super::Id;
use crate::clock::nanos;
use crate::config::IpLimit;
use crate::sets::{Sets, WAYS};

#[derive(Clone, Copy, Default)]
struct Entry {
    id: Option<Id>,
    attempts: u32,
    /// End of the window, or of the block; nanoseconds on the clock.
    until: u64,
    blocked: bool,
}

pub(crate) struct IpBlock {
    limit: IpLimit,
    sets: Sets<[Entry; WAYS]>,
}

impl IpBlock {
    pub(crate) fn new(limit: IpLimit, capacity: usize) -> Self {
        Self { limit, sets: Sets::new(capacity) }
    }

    /// Counts an attempt; if it may not go on, says for how long.
    pub(crate) fn count(&self, address: Id, now: Duration) -> Option<Duration> {
        let now = nanos(now);
        let mut set = self.sets.lock(address.0);
        let known = set.iter().position(|e| e.id == Some(address) && e.until > now);
        let entry = if let Some(way) = known {
            &mut set[way]
        } else {
            // What has run out first, then what runs out soonest; blocks last.
            let order = |e: &&mut Entry| (e.until > now, e.blocked, e.until);
            let oldest = set.iter_mut().min_by_key(order)?;
            let until = now.saturating_add(nanos(self.limit.window));
            *oldest = Entry { id: Some(address), attempts: 0, until, blocked: false };
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
