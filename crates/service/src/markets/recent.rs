//! Which searches were asked for a moment ago.
//!
//! Anybody can make up searches that nobody will ask for again. If each took a place in the cache, a
//! flood of them would drive out what everybody reads, and each would be compressed as if it were to be
//! sent often. So a page is kept when it is asked for the second time within a while: a doorkeeper, as
//! in TinyLFU (Einziger, Friedman, Manes 2017, section 3.4.2), of a fixed size.

use siphasher::sip::SipHasher13;
use std::hash::Hasher as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Searches remembered: a newer one takes the place of an older one. 32 KiB.
const PLACES: usize = 4096;

/// A memory of the last few thousand searches.
pub(super) struct Recent {
    /// Chosen at start, so that nobody can say which searches share a place.
    key: [u8; 16],
    places: Box<[AtomicU64]>,
}

impl std::fmt::Debug for Recent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recent").finish_non_exhaustive()
    }
}

impl Recent {
    pub(super) fn new() -> Self {
        let mut key = [0; 16];
        // Without randomness searches could be made to share a place: they would be kept later.
        let _ = getrandom::fill(&mut key);
        Self { key, places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether this was asked for lately; it is from now on.
    pub(super) fn again(&self, search: &str) -> bool {
        let mut hash = SipHasher13::new_with_key(&self.key);
        hash.write(search.as_bytes());
        let hash = hash.finish();
        let place = &self.places[usize::try_from(hash % PLACES as u64).unwrap_or(0)];
        place.swap(hash, Relaxed) == hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_known_when_it_comes_again_and_forgotten_in_a_flood() {
        let recent = Recent::new();
        assert!(!recent.again("중앙시장"));
        assert!(recent.again("중앙시장"));
        let known = (0..100_000).filter(|i| recent.again(&format!("x{i}"))).count();
        assert_eq!(known, 0, "nothing is known that came once");
        assert!(!recent.again("중앙시장"));
    }
}
