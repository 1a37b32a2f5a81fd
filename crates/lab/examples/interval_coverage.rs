//! Coverage and typical width of the 95 % intervals of three methods, on simulated experiments with a known ratio.
//! Prints the table of `tests/recorded/README.md`.
//!
//! `cargo run --release -p madang-lab --example interval_coverage [EXPERIMENTS]`

#[path = "../src/judge/stats/noise.rs"]
mod noise;

use madang_lab::stats;
use noise::Noise;

const NOISES: [Noise; 4] = [Noise::Normal, Noise::LogNormal, Noise::Drift, Noise::Stalls];
/// Resamples of each bootstrap.
const RESAMPLES: usize = 999;
const TRUTH: f64 = 0.8;
/// Half of the remainder of a 95 % interval.
const TAIL: f64 = 0.025;

/// An interval of the logarithm of the ratio.
type Method = fn(&[f64], &mut fastrand::Rng) -> (f64, f64);

const METHODS: [(&str, Method); 3] = [
    ("paired t", paired_t),
    ("studentised bootstrap", studentised_bootstrap),
    ("percentile bootstrap", percentile_bootstrap),
];

fn main() {
    let experiments = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(4000);
    println!("| noise | blocks | {} |", METHODS.map(|(name, _)| name).join(" | "));
    println!("|---|---|---|---|---|");
    for noise in NOISES {
        for blocks in [6, 10, 20] {
            let cells = METHODS.map(|(_, method)| cell(method, noise, blocks, experiments));
            println!("| {noise:?} | {blocks} | {} |", cells.join(" | "));
        }
    }
}

/// Coverage in percent, and half the median width as a factor.
fn cell(method: Method, noise: Noise, blocks: u32, experiments: u32) -> String {
    let (mut data, mut draws) = (fastrand::Rng::with_seed(1), fastrand::Rng::with_seed(2));
    let mut hits = 0;
    let mut widths = Vec::new();
    for _ in 0..experiments {
        let pairs = noise.pairs(blocks, TRUTH, &mut data);
        let (low, high) = method(&stats::log_ratios(&pairs), &mut draws);
        hits += u32::from((low..=high).contains(&TRUTH.ln()));
        widths.push(high - low);
    }
    widths.sort_by(f64::total_cmp);
    let width = (widths[widths.len() / 2] / 2.0).exp_m1();
    let coverage = f64::from(hits) / f64::from(experiments);
    format!("{:.1} % (± {:.1} %)", coverage * 100.0, width * 100.0)
}

fn paired_t(logs: &[f64], _: &mut fastrand::Rng) -> (f64, f64) {
    let pairs: Vec<(f64, f64)> = logs.iter().map(|log| (1.0, log.exp())).collect();
    let interval = stats::estimate(&pairs).and_then(|estimate| estimate.interval);
    interval.map_or((f64::NEG_INFINITY, f64::INFINITY), |(low, high)| (low.ln(), high.ln()))
}

/// Efron, "Nonparametric standard errors and confidence intervals", 1981: the bootstrap
/// distribution of (mean* − mean) / error* in place of Student's.
fn studentised_bootstrap(logs: &[f64], rng: &mut fastrand::Rng) -> (f64, f64) {
    let (mean, error) = moments(logs);
    let mut scores = resampled(logs, rng, |sample| {
        let (resampled, error) = moments(sample);
        // Without spread: as far away as possible, on its side.
        if error > 0.0 { (resampled - mean) / error } else { (resampled - mean) * f64::INFINITY }
    });
    let (low, high) = ends(&mut scores);
    (mean - high * error, mean - low * error)
}

/// Efron, "Bootstrap methods: another look at the jackknife", 1979.
fn percentile_bootstrap(logs: &[f64], rng: &mut fastrand::Rng) -> (f64, f64) {
    ends(&mut resampled(logs, rng, |sample| moments(sample).0))
}

fn resampled(logs: &[f64], rng: &mut fastrand::Rng, get: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut sample = vec![0.0; logs.len()];
    let draw = |_| {
        sample.iter_mut().for_each(|value| *value = logs[rng.usize(..logs.len())]);
        get(&sample)
    };
    (0..RESAMPLES).map(draw).collect()
}

/// Ends of the middle 95 %. A resample without spread and with the mean of the sample has no score, and sorts last.
fn ends(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let skip = ((RESAMPLES + 1) as f64 * TAIL) as usize - 1;
    (values[skip], values[values.len() - 1 - skip])
}

fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}
