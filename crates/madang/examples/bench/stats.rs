//! Medians and ranges of a few rounds, which are kept for whoever wants to look behind them.

use serde::Serialize;
use std::sync::Mutex;

/// A median that was asked for, and the rounds it is of, in the order of the page.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub median: f64,
    pub rounds: Vec<f64>,
}

static FIGURES: Mutex<Vec<Figure>> = Mutex::new(Vec::new());

/// All figures since the last call.
pub fn taken() -> Vec<Figure> {
    std::mem::take(&mut *FIGURES.lock().expect("nobody panics with it"))
}

/// Median of at least one value.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    };
    let figure = Figure { median, rounds: values.to_vec() };
    FIGURES.lock().expect("nobody panics with it").push(figure);
    median
}

/// `median (lowest–highest)`.
pub fn spread(values: &[f64], decimals: usize) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.decimals$} ({low:.decimals$}–{high:.decimals$})", median(values))
}

/// Ratios of two series, round by round.
pub fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(a, b)| a / b).collect()
}
