//! Values that change during a round, as with a cold cache, a leak or a growing table. Results then depend on its length.

use super::{Language, all};
use crate::journal::record::{Measured, RoundRecord};
use crate::judge::stats;
use crate::load::report::{LoadReport, Step};
use crate::observe::ServerStep;
use crate::plan::Plan;

/// Least change from the first to the last third of a round.
const FACTOR: f64 = 1.5;
/// False positive rate per value.
const LEVEL: f64 = 0.01;
/// Share of a variant's rounds that must change in the same direction.
const NEARLY_ALL: f64 = 0.9;
const FEWEST_ROUNDS: usize = 3;
/// Largest change of a steady rate, and of a steady number of users.
const STEADY: f64 = 1.25;
const STEADY_USERS: f64 = 1.4;
/// Fewest requests of a 95th percentile.
const FEWEST_REQUESTS: u64 = 20;
/// Least CPU time of a third.
const LEAST_CPU_SECONDS: f64 = 0.05;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Changing {
    /// 95th percentile of response times.
    Times,
    /// Server CPU per request, good or not.
    Cpu,
    Memory,
}

/// A line for each value of a variant that rose or fell in nearly all rounds, by more than half and beyond chance.
/// Needs rounds of at least three steps with a steady load.
pub(crate) fn lines(plan: &Plan, rounds: &[RoundRecord]) -> Vec<String> {
    let mut lines = Vec::new();
    for variant in &plan.variants {
        let own: Vec<&Measured> = all(rounds, &variant.name).map(|(_, round)| round).collect();
        let thirds: Vec<Thirds<'_>> = own.iter().filter_map(|round| Thirds::split(round)).collect();
        for what in [Changing::Times, Changing::Cpu, Changing::Memory] {
            let logs: Vec<f64> = thirds.iter().filter_map(|thirds| thirds.change(what)).collect();
            if (logs.len() as f64) < NEARLY_ALL * own.len() as f64 {
                continue;
            }
            if let Some((factor, agreeing)) = trend(&logs) {
                let line = plan.language.trend(what, &variant.name, factor, agreeing, own.len());
                lines.push(line);
            }
        }
    }
    lines
}

const FEWEST_STEPS: usize = 6;
/// Least R² of a straight line.
const STRAIGHT: f64 = 0.95;
/// The second half rises at least by this part of the first: caches fill up.
const GOES_ON: f64 = 0.7;
/// Least rise over the load, in bytes and as a share.
const LEAST_RISE: f64 = 4e6;
const LEAST_SHARE: f64 = 0.05;

/// A line for each variant whose memory rose in a straight line over the load in nearly all rounds.
pub(crate) fn leaks(plan: &Plan, rounds: &[RoundRecord]) -> Vec<String> {
    let line = |variant: &crate::file::experiment::Variant| {
        let own: Vec<&Measured> = all(rounds, &variant.name).map(|(_, round)| round).collect();
        let rises: Vec<f64> = own.iter().filter_map(|round| rise(round)).collect();
        let is_leak = rises.len() > 1 && rises.len() as f64 >= NEARLY_ALL * own.len() as f64;
        let mean = rises.iter().sum::<f64>() / rises.len() as f64;
        is_leak.then(|| plan.language.leak(&variant.name, mean, rises.len(), own.len()))
    };
    plan.variants.iter().filter_map(line).collect()
}

/// Bytes per second by which memory rose in a straight line.
fn rise(round: &Measured) -> Option<f64> {
    let (step_seconds, whole) = round.load.whole_steps()?;
    let steps = round.server.as_ref()?.steps.get(..whole)?;
    let memory: Vec<f64> = steps.iter().map(|step| step.rss_bytes as f64).collect();
    straight_rise(&memory).map(|slope| slope / step_seconds)
}

/// Slope of values one step apart, if they rise in a straight line.
fn straight_rise(values: &[f64]) -> Option<f64> {
    let n = values.len();
    if n < FEWEST_STEPS {
        return None;
    }
    let line = stats::Line::through(values)?;
    let (first, middle, last) = (values[0], values[n / 2], values[n - 1]);
    let rises_on =
        (last - middle) / (n - 1 - n / 2) as f64 >= GOES_ON * (middle - first) / (n / 2) as f64;
    let is_straight = line.slope > 0.0 && line.fit >= STRAIGHT;
    let is_much = last - first >= LEAST_RISE.max(LEAST_SHARE * first);
    (is_straight && rises_on && is_much).then_some(line.slope)
}

/// Factor of a common change and number of rounds in its direction, from logarithms of the changes of rounds.
/// One-sample t over rounds.
fn trend(logs: &[f64]) -> Option<(f64, usize)> {
    if logs.len() < FEWEST_ROUNDS {
        return None;
    }
    let n = logs.len() as f64;
    let stats::Level { value: mean, spread, .. } = stats::level(logs)?;
    let error = spread? / n.sqrt();
    let agreeing = logs.iter().filter(|log| **log * mean > 0.0).count();
    let is_one = mean.abs() > FACTOR.ln()
        && agreeing as f64 >= NEARLY_ALL * n
        && stats::two_sided(mean, error, n - 1.0) <= LEVEL;
    is_one.then(|| (mean.exp(), agreeing))
}

/// First and last third of a round.
struct Thirds<'r> {
    load: [&'r [Step]; 2],
    /// Empty for an unobserved server.
    server: [&'r [ServerStep]; 2],
    step_seconds: f64,
}

impl<'r> Thirds<'r> {
    fn split(round: &'r Measured) -> Option<Self> {
        let series = round.load.series.as_ref()?;
        let (step_seconds, whole) = round.load.whole_steps()?;
        let server = round.server.as_ref().map_or(&[][..], |server| server.steps.as_slice());
        let thirds = Self {
            load: ends(&series.steps, whole)?,
            server: ends(server, whole).unwrap_or_default(),
            step_seconds,
        };
        thirds.is_steady(&round.load).then_some(thirds)
    }

    /// True for a steady load: the request rate of an open model, otherwise the number of waiting users, which is
    /// request rate times response time (Little 1961).
    fn is_steady(&self, load: &LoadReport) -> bool {
        let is_open = !load.scenarios.is_empty()
            && load.scenarios.values().all(|scenario| scenario.open_model.is_some());
        let [first, last] = self.load.map(requests);
        let rate = (last / first).ln().abs();
        if is_open {
            return rate <= STEADY.ln();
        }
        let times = self.change(Changing::Times).unwrap_or(f64::INFINITY);
        ((last / first).ln() + times).abs() <= STEADY_USERS.ln()
    }

    /// Logarithm of the last third's value divided by the first's.
    fn change(&self, what: Changing) -> Option<f64> {
        let [first, last] = match what {
            Changing::Times => self.load.map(p95),
            Changing::Cpu => {
                let cpu = |place: usize| {
                    let steps = self.server[place].iter();
                    let cores: f64 = steps.map(|step| step.cpu_cores).sum::<Option<f64>>()?;
                    let seconds = cores * self.step_seconds;
                    let is_enough = seconds >= LEAST_CPU_SECONDS;
                    is_enough.then(|| seconds / requests(self.load[place]))
                };
                [cpu(0), cpu(1)]
            }
            Changing::Memory => self.server.map(|steps| {
                steps.iter().map(|step| step.rss_bytes).max().map(|bytes| bytes as f64)
            }),
        };
        Some((last? / first?).ln()).filter(|log| log.is_finite())
    }
}

fn ends<T>(steps: &[T], whole: usize) -> Option<[&[T]; 2]> {
    let steps = steps.get(..whole)?;
    let third = steps.len() / 3;
    (third > 0).then(|| [&steps[..third], &steps[steps.len() - third..]])
}

fn requests(steps: &[Step]) -> f64 {
    steps.iter().map(|step| step.requests as f64).sum()
}

/// Geometric mean over the steps.
fn p95(steps: &[Step]) -> Option<f64> {
    let is_enough = steps.iter().all(|step| step.requests >= FEWEST_REQUESTS && step.p95_ms > 0.0);
    let sum: f64 = steps.iter().map(|step| step.p95_ms.ln()).sum();
    is_enough.then(|| (sum / steps.len() as f64).exp())
}

impl Language {
    /// A value changed by `factor` within the rounds.
    fn trend(
        self,
        what: Changing,
        variant: &str,
        factor: f64,
        agreeing: usize,
        all: usize,
    ) -> String {
        let (name, ratio) = (self.changing(what), super::ratio(factor));
        let (so, why) = if factor < 1.0 {
            let so = self.pick("still fell within the rounds", "계속 줄었습니다");
            let why = self.pick(
                "a longer `warm_up` would leave that out",
                "warm_up을 늘리면 그 영향을 뺄 수 있습니다",
            );
            (so, why)
        } else {
            let so = self.pick("rose within the rounds", "계속 늘었습니다");
            let why = self.pick(
                "the figures depend on how long a round is",
                "결과가 라운드의 길이에 따라 달라집니다",
            );
            (so, why)
        };
        self.pick(
            format!(
                "{name} of `{variant}` {so}, to ×{ratio} from the first to the last third \
                 ({agreeing} of {all} rounds): {why}"
            ),
            format!(
                "`{variant}`의 {name}: 라운드 안에서 {so}(첫 3분의 1에서 마지막 3분의 1까지 ×{ratio}, \
                 {all}라운드 중 {agreeing}라운드). {why}"
            ),
        )
    }

    /// The memory of a variant's server rose by `slope` bytes per second.
    fn leak(self, variant: &str, slope: f64, agreeing: usize, all: usize) -> String {
        let rise = crate::judge::metric::Metric::PeakMemory.show(slope);
        self.pick(
            format!(
                "Leak? Server memory of `{variant}` rose in a straight line over the whole load, by {rise} a second \
                 ({agreeing} of {all} rounds): a longer load shows whether it ends."
            ),
            format!(
                "메모리 누수? `{variant}`의 서버 메모리가 부하 내내 1초에 {rise}씩 일정하게 늘었습니다({all}라운드 중 \
                 {agreeing}라운드). 더 긴 부하로 확인해 보세요."
            ),
        )
    }

    fn changing(self, what: Changing) -> &'static str {
        match what {
            Changing::Times => self.pick("response times (p95)", "응답 시간(p95)"),
            Changing::Cpu => self.pick("server CPU per request", "요청당 서버 CPU"),
            Changing::Memory => self.pick("server memory", "서버 메모리"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::stats::normal;

    /// Noise of a factor of two each way is more than a p95 of some thousand requests has.
    #[test]
    fn noise_alone_is_hardly_ever_a_trend() {
        let mut rng = fastrand::Rng::with_seed(7);
        for rounds in [3, 5, 10] {
            let runs = 2000;
            let named = (0..runs).filter(|_| {
                let logs: Vec<f64> = (0..rounds).map(|_| normal(&mut rng) * 2.0_f64.ln()).collect();
                trend(&logs).is_some()
            });
            let named = named.count();
            assert!(named <= runs / 100, "{named} of {runs} runs of {rounds} rounds");
        }
    }

    #[test]
    fn only_what_rises_in_a_straight_line_to_the_end_is_a_leak() {
        let rising = |next: &dyn Fn(f64) -> f64| -> Vec<f64> {
            (0..10).map(|step| 100e6 + next(f64::from(step))).collect()
        };
        let slope = straight_rise(&rising(&|step| step * 5e6)).unwrap();
        assert!((slope - 5e6).abs() < 1.0, "{slope}");
        let bumpy = rising(&|step| step * 5e6 + (step * 7.0).sin() * 2e6);
        assert!(straight_rise(&bumpy).is_some());
        assert_eq!(
            straight_rise(&rising(&|step| 30e6 * (1.0 - (-step / 2.0).exp()))),
            None,
            "fills up"
        );
        assert_eq!(
            straight_rise(&rising(&|step| if step > 4.0 { 30e6 } else { 0.0 })),
            None,
            "a jump"
        );
        assert_eq!(straight_rise(&rising(&|step| step * 0.1e6)), None, "next to nothing");
        assert_eq!(straight_rise(&rising(&|step| step * -5e6)), None, "falls");
        assert_eq!(straight_rise(&[1e6, 2e6, 3e6]), None, "too short");
    }

    #[test]
    fn a_trend_is_large_in_nearly_all_rounds_and_beyond_chance() {
        let (factor, agreeing) = trend(&[-0.9, -1.0, -1.1, -0.95]).unwrap();
        assert!((factor - 0.3725).abs() < 1e-3 && agreeing == 4, "{factor} {agreeing}");
        assert_eq!(trend(&[-0.9, -1.0]), None, "two rounds");
        assert_eq!(trend(&[0.3, 0.31, 0.29, 0.3]), None, "less than by half");
        assert_eq!(trend(&[1.0, 1.0, 1.0, -0.1, 1.0, 1.0]), None, "one of six");
        assert_eq!(trend(&[0.1, 0.1, 3.0]), None, "one round alone");
    }
}
