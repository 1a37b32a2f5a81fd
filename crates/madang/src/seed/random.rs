//! Random numbers that depend only on a seed and a place.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): implemented
//! here because the rows of a seeded store must not change with the version of a library. Only for test data.

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

/// 2^64 divided by the golden ratio, odd: the increment of SplitMix64.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The sequence for a seed and a place: a kind of row, and two numbers that identify the row.
    pub(super) fn at(seed: u64, kind: &str, a: u32, b: u32) -> Random {
        let mut random = Random(seed);
        for byte in kind.bytes() {
            random = Random(random.next() ^ u64::from(byte));
        }
        random = Random(random.next() ^ (u64::from(a) << 32 | u64::from(b)));
        Random(random.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is above 0: the high half of a product (Lemire, "Fast random
    /// integer generation in an interval", 2019), without its correction of a bias below 2^-32.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        let high = (u64::from(bound) * (self.next() >> 32)) >> 32;
        u32::try_from(high).unwrap_or(0)
    }

    /// An element of a slice, which is not empty.
    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(u32::try_from(all.len()).unwrap_or(u32::MAX)) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_reference() {
        // First outputs of splitmix64.c (Vigna, public domain) for the seed 1234567.
        let mut random = Random(1_234_567);
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn every_place_has_a_sequence_of_its_own_and_always_the_same() {
        let draw = |seed, kind, a, b| {
            let mut random = Random::at(seed, kind, a, b);
            [random.below(u32::MAX), random.below(u32::MAX)]
        };
        let one = draw(7, "schedules", 1, 2);
        assert_eq!(one, draw(7, "schedules", 1, 2));
        for other in [(8, "schedules", 1, 2), (7, "users", 1, 2), (7, "schedules", 2, 1)] {
            assert_ne!(one, draw(other.0, other.1, other.2, other.3));
        }
    }

    #[test]
    fn every_number_below_the_bound_comes_and_none_beyond() {
        let mut random = Random::at(0, "test", 0, 0);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            seen[random.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
        assert_eq!(random.below(1), 0);
    }
}
