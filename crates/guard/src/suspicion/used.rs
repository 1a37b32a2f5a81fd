//! Used proofs, so that none admits two attempts.
//!
//! A fixed table of sets of eight. An evicted proof, expired or not, raises the floor of its set: no proof that
//! expires at or before the floor is accepted there again. So a proof is never accepted twice, not even when the date
//! leaps back and an expired proof looks valid again. When a set is full of unexpired proofs, unused proofs as old as
//! the oldest of them are rejected, and their clients get a new challenge. At the default capacity that takes more
//! admitted proofs within five minutes than a machine of this size hashes passwords.

use crate::sets::{Sets, WAYS};

#[derive(Default)]
struct Set {
    /// Identity and expiry in Unix seconds; expiry zero: free.
    used: [(u64, u64); WAYS],
    floor: u64,
}

impl Set {
    fn contains(&self, proof: u64, expires: u64) -> bool {
        expires <= self.floor || self.used.contains(&(proof, expires))
    }
}

pub(crate) struct UsedProofs(Sets<Set>);

impl UsedProofs {
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Sets::new(capacity))
    }

    /// Returns true for a proof that was used, or might have been.
    pub(crate) fn contains(&self, proof: u64, expires: u64) -> bool {
        self.0.lock(proof).contains(proof, expires)
    }

    /// Marks the proof as used; returns false if it was before, or might have been.
    pub(crate) fn insert(&self, proof: u64, expires: u64) -> bool {
        let mut set = self.0.lock(proof);
        if set.contains(proof, expires) {
            return false;
        }
        let soonest = set.used.iter_mut().min_by_key(|(_, expires)| *expires);
        let evicted = soonest.map(|place| std::mem::replace(place, (proof, expires)).1);
        // The proof itself may be the one that expires soonest: then the floor is above it.
        set.floor = set.floor.max(evicted.unwrap_or(0));
        true
    }

    /// Marks the proof as unused again, unless it was evicted.
    pub(crate) fn remove(&self, proof: u64, expires: u64) {
        let mut set = self.0.lock(proof);
        if let Some(place) = set.used.iter_mut().find(|used| **used == (proof, expires)) {
            *place = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_taken_once() {
        let used = UsedProofs::new(64);
        assert!(!used.contains(7, 100));
        assert!(used.insert(7, 100));
        assert!(used.contains(7, 100) && !used.insert(7, 100));
    }

    #[test]
    fn a_proof_that_is_given_back_is_taken_once_more_unless_it_was_forgotten() {
        let used = UsedProofs::new(8);
        assert!(used.insert(7, 100));
        used.remove(7, 100);
        assert!(used.insert(7, 100));
        for proof in 0..8 {
            used.insert(50 + proof, 200);
        }
        used.remove(7, 100);
        assert!(!used.insert(7, 100));
    }

    #[test]
    fn what_is_forgotten_is_never_taken_again() {
        let used = UsedProofs::new(8);
        for proof in 0..1_000 {
            used.insert(proof, 100 + proof % 50);
        }
        for proof in 0..1_000 {
            assert!(!used.insert(proof, 100 + proof % 50));
        }
    }

    #[test]
    fn a_full_set_turns_away_old_proofs_and_takes_new_ones() {
        let used = UsedProofs::new(8);
        for proof in 0..9 {
            assert!(used.insert(proof, 100 + proof));
        }
        assert!(!used.insert(50, 100), "as old as the forgotten one");
        assert!(used.insert(51, 101));
        assert!(used.insert(52, 200));
    }
}
