//! Which keys were loaded a moment ago.
//!
//! Whoever may choose keys freely (searches, positions, page sizes) can make up ones that nobody will ask
//! for again. If each took a place, a flood of them would drive out what everybody reads. So a part of the
//! cache may ask for more ([`Admission`](crate::Admission)): a key is let in when it is loaded for the second
//! time within a while. That is the doorkeeper of TinyLFU (Einziger, Friedman, Manes 2017, section 3.4.2), of
//! a fixed size, and without its filter: a newer key takes the place of an older one, so nothing has to be
//! reset.
//!
//! It is no defence against somebody who asks for each of many keys twice. Then SIEVE decides, which drives
//! out what was not read since it came in before what was.

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

    /// Whether the key of this hash was noted a moment ago; it is from now on. Two keys are taken for one when
    /// 48 bits of their keyed hashes agree: then one of them is let in early, which is harmless.
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

    /// Hashes as good as those of the store.
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
