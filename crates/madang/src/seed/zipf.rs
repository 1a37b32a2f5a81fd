//! Popularity by Zipf's law, using only integers and division, so that rows do not change with the version of a
//! library.
//!
//! Of `n` elements, that of rank r (0 = most popular) has the weight 1/(r + 1) (Zipf 1949; Breslau et al., "Web
//! caching and Zipf-like distributions", INFOCOM 1999, for the web). **Rank r is number `1 + (r * 999999937) mod
//! n`**: the factor is a prime above the largest n, so every number occurs once, and neighbours in rank are far apart
//! in number.

use super::random::Random;

const FACTOR: u64 = 999_999_937;

pub(super) struct Zipf {
    /// Sums of the weights up to each rank.
    sums: Vec<f64>,
}

impl Zipf {
    /// For `n` elements, at least one.
    pub(super) fn new(n: u32) -> Zipf {
        let mut sum = 0.0;
        let weight = |rank: u32| {
            sum += 1.0 / f64::from(rank + 1);
            sum
        };
        Zipf { sums: (0..n.max(1)).map(weight).collect() }
    }

    fn count(&self) -> u64 {
        self.sums.len() as u64
    }

    /// Number of a rank, from 1.
    pub(super) fn number(&self, rank: usize) -> u32 {
        u32::try_from(1 + (rank as u64 * FACTOR) % self.count()).unwrap_or(1)
    }

    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        let whole = self.sums.last().copied().unwrap_or(1.0);
        let at = whole * f64::from(random.below(u32::MAX)) / f64::from(u32::MAX);
        self.number(self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1))
    }

    /// Shares of `whole` in proportion to the weights, at index number - 1: each at most `most`, and in sum `whole`
    /// if possible.
    pub(super) fn shares(&self, whole: u64, most: u64) -> Vec<u64> {
        let mut shares = vec![0; self.sums.len()];
        let (mut given, weight) = (0, self.sums.last().copied().unwrap_or(1.0));
        for (rank, sum) in self.sums.iter().enumerate() {
            // Rounded sum up to this rank: an excess over `most` passes to the next.
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "counts of rows, far below 2^53"
            )]
            let due = (whole as f64 * (sum / weight)).round() as u64;
            let share = due.saturating_sub(given).min(most);
            shares[self.number(rank) as usize - 1] = share;
            given += share;
        }
        for share in &mut shares {
            let more = (whole - given.min(whole)).min(most - *share);
            *share += more;
            given += more;
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_rank() {
        for n in [1, 2, 3, 10, 1000, 4096] {
            let zipf = Zipf::new(n);
            let mut numbers: Vec<_> = (0..n as usize).map(|rank| zipf.number(rank)).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn shares_follow_the_law_and_are_the_whole() {
        let zipf = Zipf::new(1000);
        let shares = zipf.shares(100_000, u64::MAX);
        assert_eq!(shares.iter().sum::<u64>(), 100_000);
        let of_rank = |rank| shares[zipf.number(rank) as usize - 1];
        // The harmonic number of 1000 is 7.485.
        assert_eq!((of_rank(0), of_rank(1), of_rank(9)), (13_359, 6_680, 1_336));
        let capped = zipf.shares(100_000, 120);
        assert_eq!((capped.iter().sum::<u64>(), capped.iter().max()), (100_000, Some(&120)));
        assert_eq!(zipf.shares(1_000_000, 3).iter().sum::<u64>(), 3000);
        assert_eq!(zipf.shares(3, 9).iter().sum::<u64>(), 3);
    }

    #[test]
    fn draws_follow_the_law() {
        let (zipf, mut random) = (Zipf::new(100), Random::at(0, "test", 0, 0));
        let mut drawn = [0u32; 100];
        for _ in 0..100_000 {
            drawn[zipf.draw(&mut random) as usize - 1] += 1;
        }
        // The harmonic number of 100 is 5.187: a fifth and a tenth.
        let of_rank = |rank| drawn[zipf.number(rank) as usize - 1];
        assert!((18_500..20_000).contains(&of_rank(0)), "{}", of_rank(0));
        assert!((9_200..10_100).contains(&of_rank(1)), "{}", of_rank(1));
        assert!(drawn.iter().all(|n| *n > 0));
    }
}
