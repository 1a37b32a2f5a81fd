//! Samples the server's metrics page once a second under load.

use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use madang_stack::http::Url;

use crate::observe;
use crate::observe::prometheus::Selector;
use crate::round::values;

/// As long as a step of the load's series.
const INTERVAL: Duration = Duration::from_secs(1);
/// Later pages are skipped: a server under load may be slow.
const ANSWER_TIME: Duration = Duration::from_millis(800);

struct PageSample {
    /// Seconds since 1970.
    at: f64,
    /// By series; `None` if the page does not have it.
    values: Vec<Option<f64>>,
}

pub(crate) struct Sampler {
    /// Dropping it stops the thread.
    stop: Sender<()>,
    thread: JoinHandle<Vec<PageSample>>,
}

pub(crate) struct Samples(Vec<PageSample>);

impl Sampler {
    /// `None` without series or pages, or without a thread.
    pub(crate) fn begin(pages: &[Url], series: &[Selector]) -> Option<Self> {
        let (pages, series) = (pages.to_vec(), series.to_vec());
        if series.is_empty() || pages.is_empty() {
            return None;
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let look = move || {
            let mut samples = Vec::new();
            loop {
                let begun = Instant::now();
                if let Ok(text) = values::pages(&pages, ANSWER_TIME) {
                    let values = series.iter().map(|series| series.sum(&text)).collect();
                    samples.push(PageSample { at: observe::seconds(SystemTime::now()), values });
                }
                let rest = INTERVAL.saturating_sub(begun.elapsed());
                if stopped.recv_timeout(rest) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return samples;
                }
            }
        };
        let thread = std::thread::Builder::new().name("sampler".to_owned()).spawn(look).ok()?;
        Some(Self { stop, thread })
    }

    pub(crate) fn end(self) -> Samples {
        let Self { stop, thread } = self;
        drop(stop);
        Samples(thread.join().unwrap_or_default())
    }
}

impl Samples {
    /// Interpolated values of a series at the end of each step of a window. Empty if the page does not have it, or
    /// without samples on both sides of every step.
    pub(crate) fn steps(&self, series: usize, start: f64, end: f64, step: f64) -> Vec<f64> {
        let value = |sample: &PageSample| Some((sample.at, (*sample.values.get(series)?)?));
        let points: Vec<(f64, f64)> = self.0.iter().filter_map(value).collect();
        let (Some((first, _)), Some((last, _))) = (points.first(), points.last()) else {
            return Vec::new();
        };
        let whole = ((end - start) / step + 1e-6).floor() as usize;
        let moments = (1..=whole).map(|place| start + place as f64 * step);
        // The last sample may be an interval before the end.
        let near = INTERVAL.as_secs_f64() * 1.5;
        let seen = moments.take_while(|at| first - near <= *at && *at <= last + near);
        seen.map(|at| observe::at(&points, at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(samples: &[(f64, Option<f64>)]) -> Samples {
        Samples(
            samples
                .iter()
                .map(|(at, value)| PageSample { at: *at, values: vec![*value] })
                .collect(),
        )
    }

    #[test]
    fn values_are_taken_at_the_ends_of_steps() {
        let seen = samples(&[(9.5, Some(0.0)), (10.5, Some(10.0)), (11.5, Some(20.0))]);
        assert_eq!(seen.steps(0, 10.0, 12.0, 1.0), [15.0, 20.0]);
        assert_eq!(seen.steps(0, 10.0, 12.9, 1.0).len(), 2, "whole steps only");
        assert_eq!(seen.steps(0, 10.0, 20.0, 1.0).len(), 3, "nobody looked after that");
        assert_eq!(seen.steps(1, 10.0, 12.0, 1.0), [0.0; 0]);
    }

    #[test]
    fn a_look_that_did_not_see_a_series_is_none_at_zero() {
        let seen = samples(&[(10.0, Some(4.0)), (11.0, None), (12.0, Some(8.0))]);
        assert_eq!(seen.steps(0, 10.0, 12.0, 1.0), [6.0, 8.0]);
        assert_eq!(samples(&[(10.0, None)]).steps(0, 9.0, 11.0, 1.0), [0.0; 0]);
    }
}
