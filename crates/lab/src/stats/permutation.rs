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
    let reaches = |sum: f64| sum.abs() >= observed - tolerance;
    Some(if logs.len() <= EXACT { exact(logs, reaches) } else { drawn(logs, reaches) })
}

/// A pattern and its opposite have the same absolute sum, so the first sign stays. Gray's code
/// changes one sign from each pattern to the next.
fn exact(logs: &[f64], reaches: impl Fn(f64) -> bool) -> f64 {
    let mut signed = logs.to_vec();
    let mut sum: f64 = signed.iter().sum();
    let patterns = 1_u32 << (logs.len() - 1);
    let mut extreme = u32::from(reaches(sum));
    for pattern in 1..patterns {
        let place = pattern.trailing_zeros() as usize + 1;
        sum -= 2.0 * signed[place];
        signed[place] = -signed[place];
        extreme += u32::from(reaches(sum));
    }
    f64::from(extreme) / f64::from(patterns)
}

fn drawn(logs: &[f64], reaches: impl Fn(f64) -> bool) -> f64 {
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut extreme = 1_u32;
    for _ in 0..DRAWS {
        let mut sum = 0.0;
        for signs in logs.chunks(64) {
            let bits = rng.u64(..);
            let signed = signs.iter().enumerate();
            sum +=
                signed.map(|(at, log)| if bits >> at & 1 == 0 { *log } else { -log }).sum::<f64>();
        }
        extreme += u32::from(reaches(sum));
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
        let reaches = |sum: f64| sum.abs() >= observed - 1e-12;
        let (all, some) = (exact(&logs, reaches), drawn(&logs, reaches));
        assert!(all > 0.01 && (all - some).abs() < 0.012, "{all} {some}");
        let many = sign_flip(&[0.1; 30]).unwrap();
        assert!(many > 0.0 && many < 1e-4, "{many}");
    }
}
