//! Sign test, for values without logarithms.

use super::CONFIDENCE;

/// 95 % interval of the median by the sign test, which assumes no distribution: from the `k`-th smallest to the `k`-th
/// largest value, where fewer than `k` of as many fair coins show heads with a probability of at most 2.5 % (Dixon and
/// Mood, "The statistical sign test", 1946). `None` with fewer than six values. Infinite values are the largest.
pub(crate) fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // Probability of exactly `heads` heads among n coins, and of at most so many.
    let n = sorted.len() as f64;
    let (mut exactly, mut at_most) = (0.5_f64.powf(n), 0.0);
    let mut outside = 0;
    for heads in 0..sorted.len() / 2 {
        at_most += exactly;
        if at_most > (1.0 - CONFIDENCE) / 2.0 {
            break;
        }
        outside = heads + 1;
        exactly *= (n - heads as f64) / (heads as f64 + 1.0);
    }
    let place = outside.checked_sub(1)?;
    Some((*sorted.get(place)?, *sorted.get(sorted.len() - 1 - place)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six coins show no head with a probability of 1/64 = 1.6 %, five with 3.1 %. Nine show at most one with 10/512 =
    /// 2.0 %, eight with 9/256 = 3.5 %.
    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        let of = |n: i32| median_interval(&(1..=n).rev().map(f64::from).collect::<Vec<_>>());
        assert_eq!(of(5), None);
        assert_eq!(of(6), Some((1.0, 6.0)));
        assert_eq!(of(8), Some((1.0, 8.0)));
        assert_eq!(of(9), Some((2.0, 8.0)));
        // At most five of 20: 21 700 / 1 048 576 = 2.07 %; at most six, 5.8 %.
        assert_eq!(of(20), Some((6.0, 15.0)));
    }

    #[test]
    fn equal_values_need_as_many_as_others() {
        assert_eq!(median_interval(&[0.0; 6]), Some((0.0, 0.0)));
        assert_eq!(median_interval(&[f64::INFINITY; 6]), Some((f64::INFINITY, f64::INFINITY)));
        assert_eq!(median_interval(&[0.0; 5]), None);
        assert_eq!(median_interval(&[]), None);
    }
}
