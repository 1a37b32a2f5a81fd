//! What a search for limits will do, fixed before its first try.

use std::{fs, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    goal::Goal,
    search::{Bounds, Search},
    steering::Steering,
    trust,
};
use crate::{
    experiment::{Experiment, Variant},
    generator::Arrivals,
    plan::{NoQuick, Options, Plan, Settings},
    record::Warning,
    report::Language,
    time,
};

/// Warm-up where neither flags nor file say one: connections are open and caches filled.
const WARM_UP: Duration = Duration::from_secs(1);
/// The factor while rising in a first search, of which nothing is known.
const FIRST_GROWTH: f64 = 2.0;
/// The factor in later searches, which begin not far below the limit that the last one found.
const LATER_GROWTH: f64 = std::f64::consts::SQRT_2;
/// How far below it they begin, at most: one bad search must not keep the next from rising.
const LATER_START: f64 = 0.85;
/// Virtual users for a second of rate: an iteration may take so long before they run out, if the
/// goal has no response time.
const HOLD_SECONDS: f64 = 1.0;
/// And how many times the longest response time of the goal, if it has one.
const HOLD_TIMES: f64 = 2.0;
/// Fewer virtual users are not worth sparing, more take seconds to make.
const VUS: std::ops::RangeInclusive<f64> = 20.0..=2_000.0;
/// Iterations may go on for so many times as long as they should after the last start, but for these
/// times at least and at most; the latter is k6's default and what scripts have that say nothing.
const GRACE_TIMES: f64 = 10.0;
const SHORT_GRACE: Duration = Duration::from_secs(5);
const LONG_GRACE: Duration = Duration::from_secs(30);
/// Starting, copying data and stopping: a guess, for the estimate before the first try only.
const TRY_OVERHEAD: Duration = Duration::from_millis(1500);
/// The variables a script may read. The search sets them, whatever else does.
const VARIABLES: [&str; 3] = ["RATE", "DURATION", "VUS"];

/// What the person who runs a search wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LimitOptions {
    /// What has to be reached.
    pub goal: Goal,
    /// Names of the variants to be searched; all when empty.
    pub variants: Vec<String>,
    /// Searches for each variant.
    pub blocks: u32,
    /// The rate to begin near.
    pub from: u32,
    /// The highest rate to be tried.
    pub max_rate: u32,
    /// When a search is precise enough, as a share.
    pub resolution: f64,
    /// Measured time of a try.
    pub duration: Duration,
    /// Load before it; the experiment's when `None`.
    pub warm_up: Option<Duration>,
    /// Virtual users; fitted to rate and goal when `None`.
    pub vus: Option<u32>,
    /// Use the file's quick settings.
    pub quick: bool,
    /// Seed of orders and first rates; a new one when there is none. Below 2^53.
    pub seed: Option<u64>,
    /// Disturbances that are taken as they come, beside those of the file.
    pub accept: Vec<Warning>,
    /// Language of the reports.
    #[serde(default)]
    pub language: Language,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Quick mode without quick settings.
    #[error(transparent)]
    NoQuick(#[from] NoQuick),
    /// No such variant.
    #[error("no variant `{name}`: the experiment has {}", .known.join(", "))]
    Variant {
        /// The name.
        name: String,
        /// Those there are.
        known: Vec<String>,
    },
}

/// The values a search uses, for its report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitSettings {
    /// Searches for each variant.
    pub blocks: u32,
    /// The rate the first ones began near.
    pub from: u32,
    /// The highest rate that was allowed.
    pub max_rate: u32,
    /// When a search was precise enough, as a share.
    pub resolution: f64,
    /// Measured time of a try.
    pub duration_seconds: f64,
    /// Load before it.
    pub warm_up_seconds: f64,
    /// Virtual users; `None` when fitted to rate and goal.
    pub vus: Option<u32>,
    /// How the rate got to the load.
    pub steering: Steering,
}

/// A search of limits, fixed.
#[derive(Debug, Clone)]
pub struct LimitPlan {
    pub(super) plan: Plan,
    pub(super) options: LimitOptions,
    pub(super) steering: Steering,
}

impl LimitPlan {
    /// Fixes a search.
    ///
    /// # Errors
    /// When the experiment does not have what is asked for.
    pub fn new(experiment: &Experiment, options: LimitOptions) -> Result<Self, PlanError> {
        let known: Vec<String> =
            experiment.variants.iter().map(|variant| variant.name.clone()).collect();
        if let Some(name) = options.variants.iter().find(|name| !known.contains(name)) {
            return Err(PlanError::Variant { name: name.clone(), known });
        }
        let asked = Options {
            quick: options.quick,
            blocks: Some(options.blocks),
            seed: options.seed,
            language: options.language,
            ..Options::default()
        };
        let mut plan = Plan::new(experiment, &asked)?;
        if !options.variants.is_empty() {
            plan.variants.retain(|variant| options.variants.contains(&variant.name));
        }
        if let Some(first) = plan.variants.first()
            && plan.variants.iter().all(|variant| variant.name != plan.reference)
        {
            plan.reference.clone_from(&first.name);
        }
        let given = options.warm_up.or(Some(plan.settings.warm_up).filter(|time| !time.is_zero()));
        plan.settings.warm_up = given.unwrap_or(WARM_UP);
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
        let script = fs::read_to_string(&experiment.load.script).unwrap_or_default();
        Ok(Self { plan, steering: Steering::of(&script), options })
    }

    /// Options that make this plan again, with its seed.
    pub(super) fn options(&self) -> LimitOptions {
        LimitOptions { seed: Some(self.plan.seed), ..self.options.clone() }
    }

    /// The same with its reports in another language.
    #[must_use]
    pub fn in_language(mut self, language: Language) -> Self {
        (self.options.language, self.plan.language) = (language, language);
        self
    }

    /// What is searched, the reference among them.
    #[must_use]
    pub fn variants(&self) -> &[Variant] {
        &self.plan.variants
    }

    /// The one the others are compared with.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.plan.reference
    }

    /// How the rate gets to the load.
    #[must_use]
    pub fn steering(&self) -> Steering {
        self.steering
    }

    /// The goal.
    #[must_use]
    pub fn goal(&self) -> &Goal {
        &self.options.goal
    }

    /// The values for the report.
    #[must_use]
    pub fn settings(&self) -> LimitSettings {
        let options = &self.options;
        LimitSettings {
            blocks: options.blocks,
            from: options.from,
            max_rate: options.max_rate,
            resolution: options.resolution,
            duration_seconds: options.duration.as_secs_f64(),
            warm_up_seconds: self.plan.settings.warm_up.as_secs_f64(),
            vus: options.vus,
            steering: self.steering,
        }
    }

    /// The search of one variant in one block. `last` is the limit that its last search found.
    pub(super) fn search(&self, block: u32, index: usize, last: Option<f64>) -> Search {
        let growth = if last.is_some() { LATER_GROWTH } else { FIRST_GROWTH };
        let highest = last.map_or(f64::from(self.options.from) * growth, |last| last * LATER_START);
        Search::new(self.bounds(growth), highest / growth.powf(self.draw(block, index)))
    }

    fn bounds(&self, growth: f64) -> Bounds {
        let LimitOptions { max_rate, resolution, .. } = self.options;
        Bounds { floor: 1, ceiling: max_rate, growth, resolution }
    }

    /// From 0 to 1, another for every search.
    fn draw(&self, block: u32, index: usize) -> f64 {
        let mut rng = fastrand::Rng::with_seed(self.plan.seed);
        let searches = block as usize * self.plan.variants.len() + index;
        for _ in 0..searches {
            rng.f64();
        }
        rng.f64()
    }

    /// The settings of a try at a rate.
    /// `at_length` until it has requests enough to tell errors, the variant's warm-up having been
    /// lengthened so many times.
    pub(super) fn round(&self, rate: u32, at_length: bool, lengthened: u32) -> Settings {
        let mut settings = self.plan.settings.clone();
        settings.warm_up = self.warm_up(lengthened);
        let vus = self.vus(rate);
        let usual = self.options.duration;
        let lasts = if at_length {
            trust::long_enough(self.options.goal.errors, rate, usual)
        } else {
            usual
        };
        let duration = time::milliseconds(lasts);
        let values = [rate.to_string(), duration, vus.to_string()];
        settings.env.extend(VARIABLES.map(str::to_owned).into_iter().zip(values));
        let by_flags = self.steering == Steering::Generator;
        settings.vus = by_flags.then_some(vus);
        settings.duration = by_flags.then_some(lasts);
        settings
    }

    /// The load before each try of a variant whose warm-up was lengthened so many times.
    pub(super) fn warm_up(&self, lengthened: u32) -> Duration {
        self.plan.settings.warm_up.saturating_mul(trust::LONGER.pow(lengthened))
    }

    /// What the generator is told, if the script does not do it. `unhurried_ms` is how long an iteration
    /// took at a rate that held.
    pub(super) fn arrivals(&self, rate: u32, unhurried_ms: Option<f64>) -> Option<Arrivals> {
        let graceful_stop = self.grace(unhurried_ms);
        (self.steering == Steering::Generator).then_some(Arrivals { rate, graceful_stop })
    }

    /// How long iterations may go on after the last start. Those of a server that hangs would make
    /// every try beyond its limit half a minute longer, and whatever takes so many times as long as
    /// it should has missed the goal all the same. Only a goal says what it should take, and only
    /// what held says how long the script itself takes.
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

    /// How long all of it will take, roughly: a search takes about as many tries for a limit near
    /// the first rate, where it is narrowed down in small steps, as for one far above it.
    #[must_use]
    pub fn estimate(&self) -> Duration {
        self.estimate_with(Duration::ZERO)
    }

    /// The same for a server that stops answering beyond its limit: the generator waits for it.
    #[must_use]
    pub fn estimate_of_hanging(&self) -> Duration {
        self.estimate_with(match self.steering {
            Steering::Generator => self.grace(Some(0.0)),
            Steering::Script => LONG_GRACE,
        })
    }

    /// When a try beyond the limit takes so much longer.
    fn estimate_with(&self, longer: Duration) -> Duration {
        let LimitOptions { from, max_rate, blocks, .. } = self.options;
        let one = self.plan.settings.warm_up + self.options.duration + TRY_OVERHEAD;
        let variants = u32::try_from(self.plan.variants.len()).unwrap_or(u32::MAX);
        let total = |limit: f64| {
            let search = |growth, start| {
                let (tries, broke) = tries(self.bounds(growth), start, limit);
                one.saturating_mul(tries).saturating_add(longer.saturating_mul(broke))
            };
            let first = search(FIRST_GROWTH, f64::from(from));
            let later = search(LATER_GROWTH, limit * LATER_START).saturating_mul(blocks - 1);
            first.saturating_add(later).saturating_mul(variants)
        };
        total(f64::from(from) * FIRST_GROWTH).max(total(f64::from(max_rate) / FIRST_GROWTH))
    }
}

/// How many tries a search takes against a server with this limit, and how many of them miss the goal.
fn tries(bounds: Bounds, start: f64, limit: f64) -> (u32, u32) {
    use super::{
        goal::{Reason, Whose},
        search::Answer,
    };
    let mut search = Search::new(bounds, start);
    let (mut tries, mut broke) = (0, 0);
    while let Some(rate) = search.next() {
        tries += 1;
        search.tell(if f64::from(rate) <= limit {
            Answer::Held { surely: true }
        } else {
            broke += 1;
            Answer::Broke(Reason { whose: Whose::Server, breaches: Vec::new() })
        });
    }
    (tries, broke)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::bare;

    fn options() -> LimitOptions {
        LimitOptions {
            goal: Goal { p95_ms: Some(250.0), p99_ms: None, errors: 0.0, max_dropped: 0.0 },
            variants: Vec::new(),
            blocks: 3,
            from: 10,
            max_rate: 1000,
            resolution: 0.05,
            duration: Duration::from_secs(2),
            warm_up: None,
            vus: None,
            quick: false,
            seed: Some(7),
            accept: Vec::new(),
            language: Language::En,
        }
    }

    fn plan(script: &str, options: LimitOptions) -> LimitPlan {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("script.js");
        fs::write(&file, script).unwrap();
        LimitPlan::new(&bare(&file, "http://127.0.0.1:1", &[]).unwrap(), options).unwrap()
    }

    #[test]
    fn a_script_that_reads_the_rate_is_told_it_and_the_generator_otherwise() {
        let told = plan("__ENV.RATE", options());
        assert_eq!(
            (
                told.arrivals(50, None),
                told.round(50, false, 0).vus,
                told.round(50, false, 0).duration
            ),
            (None, None, None)
        );
        let env = told.round(50, false, 0).env;
        let expected = [("RATE", "50"), ("DURATION", "2000ms"), ("VUS", "25")];
        assert_eq!(env, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let driven = plan("", options());
        assert_eq!(driven.round(50, false, 0).vus, Some(25));
        assert_eq!(driven.arrivals(50, None).map(|arrivals| arrivals.rate), Some(50));
    }

    #[test]
    fn tries_get_longer_where_errors_have_to_be_told_and_warm_ups_where_they_were_too_short() {
        let mut options = options();
        options.goal.errors = 0.01;
        let plan = plan("", options);
        let seconds = |errors, lengthened| {
            let settings = plan.round(100, errors, lengthened);
            (settings.duration.unwrap().as_secs(), settings.warm_up.as_secs())
        };
        assert_eq!(
            [seconds(false, 0), seconds(true, 0), seconds(true, 2)],
            [(2, 1), (3, 1), (3, 9)]
        );
    }

    #[test]
    fn virtual_users_are_enough_for_twice_the_longest_response_time() {
        let vus = |rate, options| plan("", options).round(rate, false, 0).vus;
        assert_eq!(vus(1000, options()), Some(500));
        assert_eq!(vus(1, options()), Some(20));
        assert_eq!(vus(100_000, options()), Some(2000));
        assert_eq!(vus(1000, LimitOptions { vus: Some(7), ..options() }), Some(7));
    }

    #[test]
    fn every_search_begins_elsewhere_and_the_seed_repeats_it() {
        let plan = plan("", options());
        let first = |block, index| plan.search(block, index, None).next().unwrap();
        let starts: Vec<u32> = (1..=4).map(|block| first(block, 0)).collect();
        assert!(starts.iter().all(|rate| (10..=20).contains(rate)), "{starts:?}");
        assert!(starts.iter().any(|rate| *rate != starts[0]), "{starts:?}");
        assert_eq!(starts[2], first(3, 0));
        let later = plan.search(2, 0, Some(1000.0)).next().unwrap();
        assert!((601..=850).contains(&later), "{later}");
    }

    /// Limit 20: 10, 20, 40 twice, 28 twice, 24 twice, 22 twice, 21 twice are 12 tries; the two
    /// later searches from 17: 17, 24 twice, 20, 22 twice, 21 twice are 8 each. As many as for 500.
    #[test]
    fn the_time_is_estimated_by_searching_a_known_limit() {
        let estimate = |options| plan("", options).estimate();
        assert_eq!(estimate(options()), Duration::from_millis(4500) * (12 + 8 + 8));
        assert!(estimate(LimitOptions { max_rate: 100_000, ..options() }) > estimate(options()));
    }

    /// Of the 12 and twice 8 tries above, 10 and twice 6 miss the goal.
    #[test]
    fn a_server_that_hangs_takes_longer_by_what_is_waited_for_it() {
        let extra = |script: &str, options: LimitOptions| {
            let plan = plan(script, options);
            plan.estimate_of_hanging() - plan.estimate()
        };
        assert_eq!(extra("", options()), Duration::from_secs(5) * (10 + 6 + 6));
        assert_eq!(extra("__ENV.RATE", options()), Duration::from_secs(30) * (10 + 6 + 6));
    }

    #[test]
    fn what_hangs_is_waited_for_ten_times_as_long_as_it_should_take() {
        let grace = |goal: Option<f64>, unhurried| {
            let goal = Goal { p95_ms: goal, ..options().goal };
            let plan = plan("", LimitOptions { goal, ..options() });
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
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("script.js");
        fs::write(&file, "").unwrap();
        let experiment = bare(&file, "http://127.0.0.1:1", &[]).unwrap();
        let wrong = LimitOptions { variants: vec!["other".to_owned()], ..options() };
        let error = LimitPlan::new(&experiment, wrong).unwrap_err().to_string();
        assert_eq!(error, "no variant `other`: the experiment has server");
    }
}
