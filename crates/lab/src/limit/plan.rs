//! Plan of a search, fixed before its first try.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::goal::{Bottleneck, Goal, Reason};
use super::search::{Bounds, Length, Next, Search};
use super::steering::Steering;
use crate::file::experiment::Experiment;
use crate::journal::record::Warning;
use crate::load::generator::Arrivals;
use crate::plan::{NoQuick, Options, Plan, Settings};
use crate::report::Language;
use crate::time;

/// Duration of a long try: the minimum, and the factor for the longest response time of the goal. In this time a
/// server that is 1 % too slow increases response times by a fifth of the goal.
const CONFIRM: Duration = Duration::from_secs(30);
const CONFIRM_TIMES: f64 = 20.0;
/// Duration of a short try: the divisor of a long one, and the minimum.
const SHORT_SHARE: u32 = 6;
const SHORTEST: Duration = Duration::from_secs(1);
/// Range of the first rates of different searches, in multiples of the resolution, so that they share no grid.
const SPREAD: f64 = 2.0;
/// Seconds that an iteration may take before virtual users run out, if the goal has no response time.
const HOLD_SECONDS: f64 = 1.0;
/// The same as a multiple of the goal's longest response time, if it has one.
const HOLD_TIMES: f64 = 2.0;
/// Fewer virtual users save nothing, more take seconds to create.
const VUS: std::ops::RangeInclusive<f64> = 20.0..=2_000.0;
/// Graceful stop after the last start: a multiple of the expected duration of an iteration, the minimum and the
/// maximum; the latter is k6's default, which also applies to scripts without one.
const GRACE_TIMES: f64 = 10.0;
const SHORT_GRACE: Duration = Duration::from_secs(5);
const LONG_GRACE: Duration = Duration::from_secs(30);
/// Rough time for start, copy of data and stop, only for estimates.
const TRY_OVERHEAD: Duration = Duration::from_millis(1500);
/// Variables for the script, which only the search sets.
const VARIABLES: [&str; 3] = ["RATE", "DURATION", "VUS"];

/// Options of a capacity search.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LimitOptions {
    pub goal: Goal,
    /// Names of variants; all if empty.
    pub variants: Vec<String>,
    pub blocks: u32,
    /// Rate near which to start, in iterations per second.
    pub from: u32,
    pub max_rate: u32,
    /// Relative precision at which a search ends.
    pub resolution: f64,
    /// Measured time of a long try; `None`: fitted to the goal.
    pub duration: Option<Duration>,
    /// Warm-up of each try; `None`: that of the experiment.
    pub warm_up: Option<Duration>,
    /// Virtual users; `None`: fitted to rate and goal.
    pub vus: Option<u32>,
    pub quick: bool,
    /// Seed of orders and first rates, below 2^53; `None`: a new one.
    pub seed: Option<u64>,
    /// Disturbances to accept, in addition to those of the file.
    pub accept: Vec<Warning>,
    #[serde(default)]
    pub language: Language,
}

/// Error of planning a search.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    NoQuick(#[from] NoQuick),
    #[error("no variant `{name}`: the experiment has {}", .known.join(", "))]
    Variant { name: String, known: Vec<String> },
    #[error("`limit` sets the rate of `madang load`, which `generator` in [load] replaces")]
    Generator,
}

/// Settings in the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitSettings {
    pub blocks: u32,
    /// Rate near which the first searches started.
    pub from: u32,
    pub max_rate: u32,
    /// Relative precision at which a search ended.
    pub resolution: f64,
    /// Measured time of a long try.
    pub duration_seconds: f64,
    /// Measured time of a short try.
    pub short_seconds: f64,
    /// Warm-up of each try.
    pub warm_up_seconds: f64,
    /// Virtual users; `None` when fitted to rate and goal.
    pub vus: Option<u32>,
    pub steering: Steering,
}

/// Plan of a capacity search.
#[derive(Debug, Clone)]
pub struct LimitPlan {
    /// Variants, seed and settings, except those of a single try.
    pub plan: Plan,
    pub options: LimitOptions,
    pub steering: Steering,
}

impl LimitPlan {
    /// Plans a search. [`check_script`](Self::check_script) completes the plan.
    ///
    /// # Errors
    /// When the options do not fit the experiment.
    pub fn new(experiment: &Experiment, options: LimitOptions) -> Result<Self, PlanError> {
        let known: Vec<String> = experiment.variants.iter().map(|one| one.name.clone()).collect();
        if let Some(name) = options.variants.iter().find(|name| !known.contains(name)) {
            return Err(PlanError::Variant { name: name.clone(), known });
        }
        if !experiment.load.generator.is_empty() {
            return Err(PlanError::Generator);
        }
        let general = Options {
            quick: options.quick,
            blocks: Some(options.blocks),
            seed: options.seed,
            language: options.language,
            ..Options::default()
        };
        let mut plan = Plan::new(experiment, &general)?;
        if !options.variants.is_empty() {
            plan.variants.retain(|variant| options.variants.contains(&variant.name));
        }
        if let Some(first) = plan.variants.first()
            && plan.variants.iter().all(|variant| variant.name != plan.reference)
        {
            plan.reference.clone_from(&first.name);
        }
        plan.settings.warm_up = options.warm_up.unwrap_or(plan.settings.warm_up);
        for warning in &options.accept {
            if !plan.settings.accept.contains(warning) {
                plan.settings.accept.push(*warning);
            }
        }
        let set_by_us = |(name, _): &(String, String)| VARIABLES.contains(&name.as_str());
        plan.settings.env.retain(|pair| !set_by_us(pair));
        for variant in &mut plan.variants {
            variant.load_env.retain(|pair| !set_by_us(pair));
        }
        Ok(Self { plan, steering: Steering::Generator, options })
    }

    /// Options that reproduce this plan, with its seed.
    pub(super) fn options(&self) -> LimitOptions {
        LimitOptions { seed: Some(self.plan.seed), ..self.options.clone() }
    }

    /// The same plan with reports in another language.
    #[must_use]
    pub fn in_language(mut self, language: Language) -> Self {
        (self.options.language, self.plan.language) = (language, language);
        self
    }

    pub fn settings(&self) -> LimitSettings {
        let options = &self.options;
        LimitSettings {
            blocks: options.blocks,
            from: options.from,
            max_rate: options.max_rate,
            resolution: options.resolution,
            duration_seconds: self.lasts(Length::Long).as_secs_f64(),
            short_seconds: self.lasts(Length::Short).as_secs_f64(),
            warm_up_seconds: self.plan.settings.warm_up.as_secs_f64(),
            vus: options.vus,
            steering: self.steering,
        }
    }

    /// The search of one variant in one block. `last`: rate confirmed by its previous search.
    pub(super) fn search(&self, block: u32, index: usize, last: Option<u32>) -> Search {
        let LimitOptions { max_rate, resolution, from, .. } = self.options;
        let bounds = Bounds { ceiling: max_rate, resolution };
        let draw = self.draw(block, index);
        match last {
            None => Search::seeking(bounds, f64::from(from) * 2.0_f64.powf(1.0 - draw)),
            Some(last) => {
                let away = (1.0 + SPREAD * resolution).powf(draw - 0.5);
                Search::confirming(bounds, f64::from(last) * away)
            }
        }
    }

    pub(super) fn lasts(&self, length: Length) -> Duration {
        let long = self.options.duration.unwrap_or_else(|| self.enough());
        match length {
            Length::Long => long,
            Length::Short => whole_milliseconds(long / SHORT_SHARE).max(SHORTEST).min(long),
        }
    }

    /// Duration of a try that can confirm a rate.
    pub(super) fn enough(&self) -> Duration {
        let times = self.longest_ms().unwrap_or(0.0) / 1000.0 * CONFIRM_TIMES;
        Duration::from_secs_f64(times).max(CONFIRM)
    }

    /// A random number from 0 to 1 for each search.
    fn draw(&self, block: u32, index: usize) -> f64 {
        let mut rng = fastrand::Rng::with_seed(self.plan.seed);
        let searches = block as usize * self.plan.variants.len() + index;
        for _ in 0..searches {
            rng.f64();
        }
        rng.f64()
    }

    pub(super) fn round(&self, next: Next) -> Settings {
        let mut settings = self.plan.settings.clone();
        let (vus, lasts) = (self.vus(next.rate), self.lasts(next.length));
        let values = [next.rate.to_string(), time::milliseconds(lasts), vus.to_string()];
        settings.env.extend(VARIABLES.map(str::to_owned).into_iter().zip(values));
        let by_flags = self.steering == Steering::Generator;
        settings.vus = by_flags.then_some(vus);
        settings.duration = by_flags.then_some(lasts);
        settings
    }

    /// Arrivals for the generator; `None` if the script sets the rate. `unhurried_ms`: duration of an
    /// iteration at a rate that met the goal.
    pub(super) fn arrivals(&self, rate: u32, unhurried_ms: Option<f64>) -> Option<Arrivals> {
        let graceful_stop = self.grace(unhurried_ms);
        (self.steering == Steering::Generator).then_some(Arrivals { rate, graceful_stop })
    }

    /// Time for iterations to end after the last start. A hanging server would make every try beyond its limit half a
    /// minute longer, although iterations that take this much longer than expected have missed the goal anyway. The
    /// expectation needs a response time in the goal, and the script's own duration at a rate that met the goal.
    fn grace(&self, unhurried_ms: Option<f64>) -> Duration {
        let Some((goal, unhurried)) = self.longest_ms().zip(unhurried_ms) else {
            return LONG_GRACE;
        };
        let enough = goal.max(unhurried) / 1000.0 * GRACE_TIMES;
        Duration::from_secs_f64(enough.min(LONG_GRACE.as_secs_f64())).max(SHORT_GRACE)
    }

    /// The longest response time of the goal.
    fn longest_ms(&self) -> Option<f64> {
        let Goal { p95_ms, p99_ms, .. } = self.options.goal;
        p95_ms.into_iter().chain(p99_ms).max_by(f64::total_cmp)
    }

    fn vus(&self, rate: u32) -> u32 {
        let hold = self.longest_ms().map_or(HOLD_SECONDS, |ms| ms / 1000.0 * HOLD_TIMES);
        let fitted = (f64::from(rate) * hold).ceil().clamp(*VUS.start(), *VUS.end());
        self.options.vus.unwrap_or(fitted as u32)
    }

    /// Rough total duration: a search takes about as long for a limit near the first rate as for one far above it.
    pub fn estimate(&self) -> Duration {
        self.estimate_with(Duration::ZERO)
    }

    /// The same for a server that stops responding beyond its limit, for which the generator waits.
    pub fn estimate_of_hanging(&self) -> Duration {
        self.estimate_with(match self.steering {
            Steering::Generator => self.grace(Some(0.0)),
            Steering::Script => LONG_GRACE,
        })
    }

    /// Estimate if each try beyond the limit takes `longer`.
    fn estimate_with(&self, longer: Duration) -> Duration {
        let LimitOptions { from, max_rate, blocks, .. } = self.options;
        let total = |limit: u32| {
            let first = self.takes(self.search(1, 0, None), limit, longer);
            let later = self.takes(self.search(2, 0, Some(limit)), limit, longer);
            first.saturating_add(later.saturating_mul(blocks - 1))
        };
        let variants = u32::try_from(self.plan.variants.len()).unwrap_or(u32::MAX);
        total(from.saturating_mul(2)).max(total((max_rate / 2).max(1))).saturating_mul(variants)
    }

    /// Duration of a search against a server with this limit.
    fn takes(&self, mut search: Search, limit: u32, longer: Duration) -> Duration {
        let mut takes = Duration::ZERO;
        while let Some(next) = search.next() {
            takes += self.plan.settings.warm_up + self.lasts(next.length) + TRY_OVERHEAD;
            let has_missed = next.rate > limit;
            takes += if has_missed { longer } else { Duration::ZERO };
            search.record(
                has_missed.then(|| Reason { bottleneck: Bottleneck::Server, breaches: Vec::new() }),
            );
        }
        takes
    }
}

/// Rounds down to milliseconds, for readable reports.
fn whole_milliseconds(time: Duration) -> Duration {
    Duration::new(time.as_secs(), time.subsec_millis() * 1_000_000)
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    pub(crate) fn options() -> LimitOptions {
        LimitOptions {
            goal: Goal { p95_ms: Some(250.0), p99_ms: None, errors: 0.0, max_dropped: 0.0 },
            variants: Vec::new(),
            blocks: 3,
            from: 10,
            max_rate: 1000,
            resolution: 0.025,
            duration: None,
            warm_up: Some(Duration::ZERO),
            vus: None,
            quick: false,
            seed: Some(7),
            accept: Vec::new(),
            language: Language::En,
        }
    }

    /// One variant, `server`.
    fn experiment() -> Experiment {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("script.js"), "").unwrap();
        let text = "name = \"one\"\nload.script = \"script.js\"\n\
                    [variants.server]\nurl = \"http://127.0.0.1:1\"";
        Experiment::of_command_line(text, dir.path()).unwrap()
    }

    pub(crate) fn plan(options: LimitOptions) -> LimitPlan {
        LimitPlan::new(&experiment(), options).unwrap()
    }

    fn with_script() -> LimitPlan {
        LimitPlan { steering: Steering::Script, ..plan(options()) }
    }

    const LONG: Length = Length::Long;

    #[test]
    fn a_script_that_reads_the_rate_gets_it_and_the_generator_otherwise() {
        let next = Next { rate: 50, length: LONG };
        let reads = with_script();
        let settings = reads.round(next);
        assert_eq!((reads.arrivals(50, None), settings.vus, settings.duration), (None, None, None));
        let expected = [("RATE", "50"), ("DURATION", "30000ms"), ("VUS", "25")];
        assert_eq!(settings.env, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let driven = plan(options());
        assert_eq!(driven.round(next).vus, Some(25));
        assert_eq!(driven.arrivals(50, None).map(|arrivals| arrivals.rate), Some(50));
    }

    #[test]
    fn tries_are_as_long_as_the_goal_needs() {
        let seconds = |p95_ms, duration| {
            let goal = Goal { p95_ms, ..options().goal };
            let plan = plan(LimitOptions { goal, duration, ..options() });
            [Length::Short, LONG].map(|length| plan.lasts(length).as_secs())
        };
        assert_eq!(seconds(None, None), [5, 30]);
        assert_eq!(seconds(Some(250.0), None), [5, 30]);
        assert_eq!(seconds(Some(6000.0), None), [20, 120]);
        assert_eq!(seconds(Some(6000.0), Some(Duration::from_secs(4))), [1, 4]);
    }

    #[test]
    fn virtual_users_are_enough_for_twice_the_longest_response_time() {
        let vus = |rate, options| plan(options).round(Next { rate, length: LONG }).vus;
        assert_eq!(vus(1000, options()), Some(500));
        assert_eq!(vus(1, options()), Some(20));
        assert_eq!(vus(100_000, options()), Some(2000));
        assert_eq!(vus(1000, LimitOptions { vus: Some(7), ..options() }), Some(7));
    }

    #[test]
    fn every_search_begins_elsewhere_and_the_seed_repeats_it() {
        let plan = plan(options());
        let first = |block, index| plan.search(block, index, None).next().unwrap().rate;
        let starts: Vec<u32> = (1..=4).map(|block| first(block, 0)).collect();
        assert!(starts.iter().all(|rate| (10..=20).contains(rate)), "{starts:?}");
        assert!(starts.iter().any(|rate| *rate != starts[0]), "{starts:?}");
        assert_eq!(starts[2], first(3, 0));
        let later = plan.search(2, 0, Some(1000)).next().unwrap();
        assert!((975..=1025).contains(&later.rate) && later.length == LONG, "{later:?}");
    }

    #[test]
    fn the_time_is_estimated_by_searching_a_known_limit() {
        let estimate = |options| plan(options).estimate();
        // Nothing but the lowest rate can be tried: a short try and three long ones, then three long ones a block.
        let one = LimitOptions { max_rate: 1, from: 1, ..options() };
        let (short, long) = (Duration::from_millis(6500), Duration::from_millis(31_500));
        assert_eq!(estimate(one), short + long * 9);
        assert!(estimate(LimitOptions { max_rate: 100_000, ..options() }) > estimate(options()));
        assert!(estimate(LimitOptions { blocks: 5, ..options() }) > estimate(options()));
    }

    #[test]
    fn a_server_that_hangs_takes_longer_by_what_is_waited_for_it() {
        let extra = |plan: LimitPlan| plan.estimate_of_hanging() - plan.estimate();
        assert_eq!(extra(with_script()), extra(plan(options())) * 6);
        assert!(extra(plan(options())) >= Duration::from_secs(5) * 6);
    }

    #[test]
    fn what_hangs_is_waited_for_ten_times_as_long_as_it_should_take() {
        let grace = |goal: Option<f64>, unhurried| {
            let goal = Goal { p95_ms: goal, ..options().goal };
            let plan = plan(LimitOptions { goal, ..options() });
            plan.arrivals(1, unhurried).unwrap().graceful_stop
        };
        let seconds = Duration::from_secs;
        assert_eq!(grace(Some(250.0), Some(20.0)), seconds(5));
        assert_eq!(grace(Some(1000.0), Some(20.0)), seconds(10));
        assert_eq!(grace(Some(9000.0), Some(20.0)), seconds(30));
        // The script itself takes its time, or perhaps so.
        assert_eq!(grace(Some(250.0), Some(2000.0)), seconds(20));
        assert_eq!(grace(Some(250.0), None), seconds(30));
        assert_eq!(grace(None, Some(20.0)), seconds(30));
    }

    #[test]
    fn a_variant_that_is_not_there_is_named() {
        let wrong = LimitOptions { variants: vec!["other".to_owned()], ..options() };
        let error = LimitPlan::new(&experiment(), wrong).unwrap_err().to_string();
        assert_eq!(error, "no variant `other`: the experiment has server");
    }
}
