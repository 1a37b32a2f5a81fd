//! Student's t distribution.

use super::ratio::CONFIDENCE;

/// ln Γ(x) for x > 0 (Lanczos, "A precision approximation of the gamma function", 1964), with g = 7 and the nine
/// coefficients in general use (GNU Scientific Library, `specfunc/gamma.c`).
fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9, 676.520_368_121_885_1, -1_259.139_216_722_402_8,
        771.323_428_777_653_1, -176.615_029_162_140_6, 12.507_343_278_686_905,
        -0.138_571_095_265_720_12, 9.984_369_578_019_572e-6, 1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let base = x + G + 0.5;
    let mut sum = TERMS[0];
    for (place, term) in TERMS.iter().enumerate().skip(1) {
        sum += term / (x + place as f64);
    }
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

/// Regularised incomplete beta function I_x(a, b) by its continued fraction (DLMF 8.17.22), evaluated with the modified
/// Lentz algorithm (Thompson and Barnett 1986).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // Above this point, only the symmetric fraction converges fast (DLMF 8.17.4).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = a * x.ln() + b * (1.0 - x).ln() - ln_beta(a, b);
    front.exp() / a / continued_fraction(x, a, b)
}

fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// 1 + d₁/(1 + d₂/(1 + …)) with the coefficients of DLMF 8.17.23.
fn continued_fraction(x: f64, a: f64, b: f64) -> f64 {
    /// Keeps Lentz's denominators from zero.
    const TINY: f64 = 1e-300;
    /// Convergence takes about the square root of the larger parameter.
    const STEPS: u32 = 10_000;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut fraction = 1.0;
    let mut c = 1.0;
    let mut d = 0.0;
    for step in 1..=STEPS {
        let m = f64::from(step / 2);
        let coefficient = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / guard(1.0 + coefficient * d);
        c = guard(1.0 + coefficient / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// P(T ≤ t) for `degrees` > 0 degrees of freedom (Abramowitz and Stegun 26.7.1 by way of 26.5.27).
pub(crate) fn cumulative(t: f64, degrees: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(degrees / (degrees + t * t), degrees / 2.0, 0.5);
    if t >= 0.0 { 1.0 - tail } else { tail }
}

/// Probability of a mean at least so far from zero on either side if the truth is zero. Without an error, a mean of
/// zero is certain and any other impossible.
pub(crate) fn two_sided(mean: f64, standard_error: f64, degrees: f64) -> f64 {
    if standard_error == 0.0 {
        return f64::from(u8::from(mean == 0.0));
    }
    // The lower tail keeps its digits, unlike 1 − P.
    2.0 * cumulative(-(mean / standard_error).abs(), degrees)
}

/// The t of a 95 % interval.
pub(crate) fn critical(degrees: f64) -> f64 {
    quantile(0.5 + CONFIDENCE / 2.0, degrees)
}

/// The t with P(T ≤ t) = `probability`, strictly between 0 and 1. By bisection: called a few times per report, so
/// certainty is worth more than speed.
pub(crate) fn quantile(probability: f64, degrees: f64) -> f64 {
    if probability < 0.5 {
        return -quantile(1.0 - probability, degrees);
    }
    let mut high = 1.0;
    while cumulative(high, degrees) < probability && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    loop {
        let middle = f64::midpoint(low, high);
        // No float is left between the two.
        if middle <= low || middle >= high {
            break;
        }
        if cumulative(middle, degrees) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upper critical values as printed in every table, e.g. NIST/SEMATECH e-Handbook 1.3.6.7.2.
    #[test]
    fn quantiles_agree_with_the_printed_table() {
        let table = [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 3.0, 3.182),
            (0.975, 4.0, 2.776),
            (0.975, 9.0, 2.262),
            (0.975, 19.0, 2.093),
            (0.975, 30.0, 2.042),
            (0.975, 100.0, 1.984),
            (0.95, 9.0, 1.833),
            (0.995, 5.0, 4.032),
            (0.999, 10.0, 4.144),
            (0.90, 1.0, 3.078),
        ];
        for (probability, degrees, expected) in table {
            let t = quantile(probability, degrees);
            assert!((t - expected).abs() < 6e-4, "p {probability} df {degrees}: {t}");
        }
    }

    /// With one degree of freedom it is Cauchy's: tan(π(p − ½)); with two, (2p−1)/√(2p(1−p)).
    #[test]
    fn quantiles_agree_with_the_closed_forms() {
        for probability in [0.6, 0.9, 0.975, 0.999] {
            let cauchy = (std::f64::consts::PI * (probability - 0.5)).tan();
            let one = quantile(probability, 1.0);
            assert!((one / cauchy - 1.0).abs() < 1e-9, "{one} {cauchy}");
            let p: f64 = probability;
            let closed = (2.0 * p - 1.0) / (2.0 * p * (1.0 - p)).sqrt();
            let two = quantile(probability, 2.0);
            assert!((two / closed - 1.0).abs() < 1e-9, "{two} {closed}");
        }
    }

    #[test]
    fn many_degrees_of_freedom_approach_the_normal_distribution() {
        assert!((quantile(0.975, 1e6) - 1.959_966).abs() < 1e-5);
    }

    #[test]
    fn the_distribution_is_symmetric_and_inverts() {
        for degrees in [1.0, 2.5, 7.0, 300.0] {
            assert!((cumulative(0.0, degrees) - 0.5).abs() < 1e-12);
            for probability in [0.001, 0.2, 0.5, 0.8, 0.999] {
                let t = quantile(probability, degrees);
                assert!((cumulative(t, degrees) - probability).abs() < 1e-9);
            }
        }
    }
}
