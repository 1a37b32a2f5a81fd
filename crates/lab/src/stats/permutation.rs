//! A test that assumes no distribution.

/// Up to so many blocks all patterns are tried: 2^19 sums, a millisecond or two.
const EXACT: usize = 20;
/// Patterns drawn when there are more: the standard error of a p-value of 0.05 is then 0.0015.
const DRAWS: u32 = 20_000;
/// Any fixed number: the same rounds must give the same report.
const SEED: u64 = 1935;

/// Two-sided p-value of "both variants are the same" from the logarithms of the blocks' ratios, by
/// flipping their signs (Fisher, "The Design of Experiments", 1935, section 21). If the variants
/// were the same, each block's logarithm could as well have had the other sign: the order within a
/// block is random. It assumes nothing else. All 2^n patterns up to 20 blocks; beyond that 20,000
/// random ones, with the observed one counted among them so that no p-value is zero (Phipson and
/// Smyth, "Permutation p-values should never be zero", 2010).
///
/// The smallest p-value is 2/2^n: below 6 blocks it cannot reach 0.05. `None` below two blocks.
#[must_use]
pub fn sign_flip(logs: &[f64]) -> Option<f64> {
    if logs.len() < 2 {
        return None;
    }
    let observed = logs.iter().sum::<f64>().abs();
    // Sums that are equal on paper differ by what the order of adding rounds away.
    let tolerance = 1e-12 * logs.iter().map(|log| log.abs()).sum::<f64>();
    let pairs: Vec<(f64, f64)> = logs.iter().map(|log| (*log, 0.0)).collect();
    Some(p_value(&pairs, |sum, _| sum.abs() >= observed - tolerance))
}

/// The same at equal pace, from the logarithms of the blocks' ratios of the metric and of the pace: a
/// block in the other order would have had the other sign of both. What is compared is the value of
/// the line at pace 0 in units of its standard error, as [`adjusted`](super::adjusted) has it, anew for
/// each pattern; a statistic of the flipped rounds alone, so the test is as exact as without a pace.
#[must_use]
pub fn sign_flip_at_equal_pace(logs: &[f64], paces: &[f64]) -> Option<f64> {
    if logs.len() < 2 || logs.len() != paces.len() {
        return None;
    }
    let pairs: Vec<(f64, f64)> = logs.iter().copied().zip(paces.iter().copied()).collect();
    let line = Line::of(&pairs);
    let sum = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
    let observed = line.distance(sum(|pair| pair.0), sum(|pair| pair.1));
    Some(p_value(&pairs, |log, pace| line.distance(log, pace) >= observed * (1.0 - 1e-9)))
}

/// The sums over blocks that no flip changes.
struct Line {
    blocks: f64,
    logs: f64,
    paces: f64,
    products: f64,
}

impl Line {
    fn of(pairs: &[(f64, f64)]) -> Self {
        let sum = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>();
        Self {
            blocks: pairs.len() as f64,
            logs: sum(|(log, _)| log * log),
            paces: sum(|(_, pace)| pace * pace),
            products: sum(|(log, pace)| log * pace),
        }
    }

    /// How far the line's value at pace 0 is from 0, in units of its standard error but for a constant,
    /// from the sums of logarithms and of paces. Without any line it is as far as can be: a pattern
    /// that tells nothing speaks against a difference.
    fn distance(&self, logs: f64, paces: f64) -> f64 {
        let (y, x) = (logs / self.blocks, paces / self.blocks);
        let sxx = self.paces - paces * x;
        if sxx <= 1e-12 * self.paces {
            return f64::INFINITY;
        }
        let sxy = self.products - paces * y;
        let slope = sxy / sxx;
        let rest = (self.logs - logs * y - slope * sxy).max(1e-12 * self.logs);
        let error = (rest * (1.0 / self.blocks + x * x / sxx)).sqrt();
        if error > 0.0 { (y - slope * x).abs() / error } else { 0.0 }
    }
}

/// The share of the patterns whose sums reach what was observed.
fn p_value(pairs: &[(f64, f64)], reaches: impl Fn(f64, f64) -> bool) -> f64 {
    if pairs.len() <= EXACT { exact(pairs, reaches) } else { drawn(pairs, reaches) }
}

/// A pattern and its opposite have the same absolute sums, so the first sign stays. Gray's code
/// changes one sign from each pattern to the next.
fn exact(pairs: &[(f64, f64)], reaches: impl Fn(f64, f64) -> bool) -> f64 {
    let mut signed = pairs.to_vec();
    let (mut log, mut pace) =
        signed.iter().fold((0.0, 0.0), |(log, pace), pair| (log + pair.0, pace + pair.1));
    let patterns = 1_u32 << (pairs.len() - 1);
    let mut extreme = u32::from(reaches(log, pace));
    for pattern in 1..patterns {
        let place = pattern.trailing_zeros() as usize + 1;
        let (flipped_log, flipped_pace) = signed[place];
        log -= 2.0 * flipped_log;
        pace -= 2.0 * flipped_pace;
        signed[place] = (-flipped_log, -flipped_pace);
        extreme += u32::from(reaches(log, pace));
    }
    f64::from(extreme) / f64::from(patterns)
}

fn drawn(pairs: &[(f64, f64)], reaches: impl Fn(f64, f64) -> bool) -> f64 {
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut extreme = 1_u32;
    for _ in 0..DRAWS {
        let (mut log, mut pace) = (0.0, 0.0);
        for signs in pairs.chunks(64) {
            let bits = rng.u64(..);
            for (at, pair) in signs.iter().enumerate() {
                let sign = if bits >> at & 1 == 0 { 1.0 } else { -1.0 };
                log += sign * pair.0;
                pace += sign * pair.1;
            }
        }
        extreme += u32::from(reaches(log, pace));
    }
    f64::from(extreme) / f64::from(DRAWS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1, 2, 3, −1 sum to 5. With ±1 ±2 ±3 ±1 the sums of 5 or more are 7 (all plus), 5 (one of
    /// the ones minus, twice); with the opposite signs as many again: 6 of 16.
    #[test]
    fn four_blocks_worked_out_by_hand() {
        assert_eq!(sign_flip(&[1.0, 2.0, 3.0, -1.0]), Some(6.0 / 16.0));
    }

    #[test]
    fn all_on_one_side_is_as_rare_as_a_coin_says() {
        assert_eq!(sign_flip(&[0.1, 0.3, 0.2, 0.7, 0.11, 0.5]), Some(2.0 / 64.0));
        assert_eq!(sign_flip(&[-0.1; 10]), Some(2.0 / 1024.0));
        assert_eq!(sign_flip(&[0.0; 5]), Some(1.0));
        assert_eq!(sign_flip(&[0.3]), None);
    }

    /// At the border between the two ways both are possible, and agree.
    #[test]
    fn drawing_agrees_with_trying_all() {
        let mut rng = fastrand::Rng::with_seed(7);
        let logs: Vec<f64> = (0..12).map(|_| rng.f64() - 0.35).collect();
        let observed = logs.iter().sum::<f64>().abs();
        let reaches = |sum: f64, _: f64| sum.abs() >= observed - 1e-12;
        let pairs: Vec<(f64, f64)> = logs.iter().map(|log| (*log, 0.0)).collect();
        let (all, some) = (exact(&pairs, reaches), drawn(&pairs, reaches));
        assert!(all > 0.01 && (all - some).abs() < 0.012, "{all} {some}");
        let many = sign_flip(&[0.1; 30]).unwrap();
        assert!(many > 0.0 && many < 1e-4, "{many}");
    }

    /// Three blocks: y = 2, 1, 3 and x = 1, 0, −1. Sums of squares 14 and 2, of products −1.
    /// As they are, x̄ = 0: slope −1/2, value 2, rest 14 − 12 − 1/2 = 3/2, error² = 3/2 · 1/3: 2/√½ = 2.83.
    /// The third flipped: y = 2, 1, −3 and x = 1, 0, 1: value 0 − slope · 2/3, slope −1/(2/3) = −3/2, so 1;
    /// rest 14 − 3/2 = 25/2, error² = 25/2 · (1/3 + 4/9 / (2/3)) = 25/2: 0.28. The second flipped: x̄ = 0, y = 2, −1,
    /// 3: slope −1/2, value 4/3, rest 14 − 16/3 − 1/2 = 49/6, error² = 49/18: 0.81. Both: y = 2, −1, −3, x = 1,
    /// 0, 1: ȳ = −2/3, sxy = −1 + 4/3 = 1/3, slope 1/2, value −1, rest 14 − 4/3 − 1/6 = 25/2: 0.28. So 1 of 4.
    #[test]
    fn three_blocks_with_a_pace_worked_out_by_hand() {
        let (logs, paces) = ([2.0, 1.0, 3.0], [1.0, 0.0, -1.0]);
        assert_eq!(sign_flip_at_equal_pace(&logs, &paces), Some(0.25));
        let line = Line::of(&logs.into_iter().zip(paces).collect::<Vec<_>>());
        for (sums, expected) in [
            ((6.0, 0.0), 2.0 / 0.5_f64.sqrt()),
            ((0.0, 2.0), 1.0 / 12.5_f64.sqrt()),
            ((4.0, 0.0), 4.0 / 3.0 / (49.0_f64 / 18.0).sqrt()),
            ((-2.0, 2.0), 1.0 / 12.5_f64.sqrt()),
        ] {
            assert!((line.distance(sums.0, sums.1) - expected).abs() < 1e-12, "{sums:?}");
        }
    }

    /// A large difference is seen however the pace happened to be spread over the variants.
    #[test]
    fn a_pace_that_was_on_one_side_hides_no_large_difference() {
        let paces = [0.1, 0.15, 0.05, 0.2, 0.12, 0.08];
        let noise = [0.02, -0.03, 0.01, 0.0, -0.01, 0.02];
        let logs: Vec<f64> =
            paces.iter().zip(noise).map(|(pace, noise)| -3.8 + 0.7 * pace + noise).collect();
        assert_eq!(sign_flip_at_equal_pace(&logs, &paces), Some(1.0 / 32.0));
        let small = [0.3, -0.1, 0.2, 0.1, 0.0, 0.4];
        let found = sign_flip_at_equal_pace(&small, &paces);
        assert!(found.unwrap() > 0.05, "{found:?}");
        // Which of the two is called the reference changes nothing.
        let turned = |values: &[f64]| values.iter().map(|value| -value).collect::<Vec<f64>>();
        assert_eq!(sign_flip_at_equal_pace(&turned(&small), &turned(&paces)), found);
        assert_eq!(sign_flip_at_equal_pace(&logs, &paces[..5]), None);
    }

    #[test]
    fn blocks_without_a_line_tell_nothing() {
        assert_eq!(sign_flip_at_equal_pace(&[0.5; 6], &[0.0; 6]), Some(1.0));
        assert_eq!(sign_flip_at_equal_pace(&[0.0; 6], &[0.1, -0.1, 0.2, 0.1, 0.0, 0.1]), Some(1.0));
    }
}
