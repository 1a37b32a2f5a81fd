//! Recently loaded keys.
//!
//! Clients that choose keys freely (searches, positions, page sizes) can invent keys that are never requested again.
//! If each were stored, a flood of them would evict what everybody reads. So a part of the cache may require more
//! ([`Admission`](crate::Admission)): a key is admitted when it is loaded for the second time within a while. That is
//! the doorkeeper of TinyLFU (Einziger, Friedman, Manes 2017, section 3.4.2), of a fixed size, and without its
//! filter: a newer key takes the place of an older one, so nothing has to be reset.
//!
//! It is no defence against a client that requests each of many keys twice. Then SIEVE decides, which evicts entries
//! that were never read before those that were.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Keys remembered: 256 KiB.
const PLACES: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Doorkeeper {
    places: Box<[AtomicU32]>,
}

impl Doorkeeper {
    pub(crate) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Notes the key of this hash; returns whether it was noted a moment ago. Two keys whose keyed hashes agree in 48
    /// bits are taken for one: then one of them is admitted early, which is harmless.
    #[expect(clippy::cast_possible_truncation, reason = "one part of the hash each")]
    pub(crate) fn note(&self, hash: u64) -> bool {
        let place = &self.places[hash as usize % PLACES];
        let mark = (hash >> 32) as u32;
        place.swap(mark, Relaxed) == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
        BuildHasherDefault::<DefaultHasher>::new().hash_one(n)
    }

    #[test]
    fn a_key_is_known_when_it_comes_again_and_forgotten_in_a_flood() {
        let door = Doorkeeper::new();
        assert!(!door.note(hash(0)));
        assert!(door.note(hash(0)));
        let known = (1..20 * PLACES as u64).filter(|n| door.note(hash(*n))).count();
        assert!(known <= 1, "nothing is known that came once: {known}");
        assert!(!door.note(hash(0)));
    }
}
