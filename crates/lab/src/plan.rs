//! Plan of a run: the experiment after quick mode and flags, and the order of its rounds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::file::experiment::{Experiment, Prediction, Target, Variant};
use crate::journal::record::Warning;
use crate::judge::metric::{Metric, Statistic};
use crate::observe::database::Figure;
use crate::report::Language;
use crate::time::as_seconds;

/// Flags of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    pub quick: bool,
    pub blocks: Option<u32>,
    #[serde(default)]
    pub warm_up: Option<Duration>,
    pub calibration: bool,
    /// Seed of the order of rounds; `None` for a new one. Below 2^53, for JSON readers that use doubles.
    pub seed: Option<u64>,
    #[serde(default)]
    pub language: Language,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the file has no quick settings: add [load.quick] (`env`, `vus`, `duration`) or \
     [rounds.quick] (`blocks`, `warm_up`), or run without --quick"
)]
pub struct NoQuick;

/// Suffix of the second copy of the reference in a calibration.
const AGAIN: &str = "again";
/// Guess for starting, copying data and stopping, for the estimate before the first round.
const ROUND_OVERHEAD: Duration = Duration::from_secs(2);

/// Long enough for connections, caches and compilers of most servers.
const USUAL_WARM_UP: Duration = Duration::from_secs(2);

/// In one of so many blocks, each variant also runs alone, to measure the interference within pairs.
const ALONE_EVERY: u32 = 4;

/// Kind of rounds in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// Pairs: a variant and the reference are loaded at the same time on the same cores. For CPU and memory, because a
    /// disturbance affects both.
    Duet,
    /// One variant at a time. For response times and throughput, which pairs would affect.
    Rounds,
    Both,
}

impl Design {
    /// Designs by their names in files.
    pub const ALL: [(&'static str, Self); 3] =
        [("duet", Self::Duet), ("rounds", Self::Rounds), ("both", Self::Both)];

    pub fn has_pairs(self) -> bool {
        self != Self::Rounds
    }

    /// Default design: pairs for predictions about costs or without predictions, otherwise rounds, or both for a
    /// mixture. Rounds if the variants cannot run at the same time.
    fn fitting(experiment: &Experiment) -> Self {
        let may_pair = experiment.why_no_pairs().is_none();
        let about_cost =
            |prediction: &Prediction| prediction.metric.is_cost() && prediction.bound.is_ratio();
        let costs = experiment.predictions.iter().filter(|one| about_cost(one)).count();
        match (may_pair, costs, experiment.predictions.len()) {
            (false, ..) => Self::Rounds,
            (true, costs, all) if costs == all => Self::Duet,
            (true, 0, _) => Self::Rounds,
            (true, ..) => Self::Both,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockStep {
    /// Index of the variant.
    Alone(usize),
    /// Indices of the variants in the order of their start.
    Pair([usize; 2]),
}

#[derive(Debug, Clone)]
pub struct Plan {
    /// In the order of the tables.
    pub variants: Vec<Variant>,
    /// Name of the variant that the others are compared with.
    pub reference: String,
    /// Empty in a calibration.
    pub predictions: Vec<Prediction>,
    /// Figures in question and their variants: those of predictions, otherwise the default of the design.
    pub asked: Vec<(Metric, String)>,
    /// Rows of the report: the usual ones, observed ones, and those of predictions.
    pub metrics: Vec<Metric>,
    /// See [`Experiment::band`].
    pub band: f64,
    pub calibration: bool,
    pub settings: Settings,
    /// Seed of the order of rounds.
    pub seed: u64,
    /// Length of the window by the options of the script, if known.
    pub script_time: Option<Duration>,
    pub language: Language,
}

/// Settings after quick mode and flags.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    pub quick: bool,
    pub design: Design,
    pub blocks: u32,
    #[serde(rename = "warm_up_seconds", serialize_with = "as_seconds")]
    pub warm_up: Duration,
    /// `None` for the script's own.
    pub vus: Option<u32>,
    /// `None` for the script's own.
    #[serde(rename = "duration_seconds", serialize_with = "as_optional_seconds")]
    pub duration: Option<Duration>,
    pub env: Vec<(String, String)>,
    /// Repeats of a broken block.
    pub retries: u32,
    /// Server and generator get CPUs of their own.
    pub pin_cpus: bool,
    pub accept: Vec<Warning>,
}

fn as_optional_seconds<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}

impl Plan {
    /// # Errors
    /// If the experiment has no settings for quick mode.
    pub fn new(experiment: &Experiment, options: &Options) -> Result<Self, NoQuick> {
        if options.quick && !experiment.has_quick() {
            return Err(NoQuick);
        }
        let mut variants = experiment.variants.clone();
        let mut predictions = experiment.predictions.clone();
        if options.calibration {
            let again = format!("{}-{AGAIN}", experiment.reference);
            variants.retain(|variant| variant.name == experiment.reference);
            variants.extend(variants.first().cloned());
            variants.iter_mut().skip(1).for_each(|variant| variant.name.clone_from(&again));
            predictions.iter_mut().for_each(|prediction| prediction.variant.clone_from(&again));
        }
        let settings = settings(experiment, options);
        let asked = asked(&variants, &experiment.reference, &predictions, settings.design);
        if options.calibration {
            predictions.clear();
        }
        Ok(Self {
            variants,
            reference: experiment.reference.clone(),
            asked,
            metrics: metrics(experiment),
            predictions,
            band: experiment.band,
            calibration: options.calibration,
            settings,
            seed: options.seed.unwrap_or_else(|| fastrand::u64(..1 << 53)),
            script_time: None,
            language: options.language,
        })
    }

    /// Options that recreate this plan, with its seed.
    pub fn options(&self) -> Options {
        Options {
            quick: self.settings.quick,
            blocks: Some(self.settings.blocks),
            warm_up: Some(self.settings.warm_up),
            calibration: self.calibration,
            seed: Some(self.seed),
            language: self.language,
        }
    }

    /// Order of a block's rounds, as indices of variants. It depends only on the seed and the block's number, so
    /// repeating a block does not change later ones.
    pub fn order(&self, block: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.variants.len()).collect();
        let mut rng = fastrand::Rng::with_seed(self.seed);
        for _ in 0..block {
            rng.shuffle(&mut order);
        }
        order
    }

    /// Steps of a block: each variant alone, if the block has such rounds, then a pair of the reference with each other
    /// variant. The first side of a pair alternates between blocks.
    pub fn steps(&self, block: u32) -> Vec<BlockStep> {
        let order = self.order(block);
        let design = self.settings.design;
        let is_alone = design != Design::Duet || block % ALONE_EVERY == 1;
        let mut steps = Vec::new();
        if is_alone {
            steps.extend(order.iter().copied().map(BlockStep::Alone));
        }
        let place = |name: &String| self.variants.iter().position(|one| one.name == *name);
        if let Some(reference) = place(&self.reference).filter(|_| design.has_pairs()) {
            let pair = |other: usize| match (u64::from(block) + self.seed).is_multiple_of(2) {
                true => BlockStep::Pair([reference, other]),
                false => BlockStep::Pair([other, reference]),
            };
            steps.extend(order.into_iter().filter(|one| *one != reference).map(pair));
        }
        steps
    }

    /// Rounds of a block: each variant and its partner.
    pub fn expected(&self, block: u32) -> Vec<(&str, Option<&str>)> {
        let name = |index: usize| self.variants[index].name.as_str();
        let of = |step: BlockStep| match step {
            BlockStep::Alone(one) => vec![(name(one), None)],
            BlockStep::Pair([one, other]) => {
                vec![(name(one), Some(name(other))), (name(other), Some(name(one)))]
            }
        };
        self.steps(block).into_iter().flat_map(of).collect()
    }

    /// Rounds of all blocks, without repeats.
    pub fn rounds(&self) -> u32 {
        let rounds = (1..=self.settings.blocks).map(|block| self.expected(block).len());
        u32::try_from(rounds.sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// True if ratios of a metric come from pairs.
    pub fn is_paired(&self, metric: &Metric) -> bool {
        self.settings.design.has_pairs() && metric.is_cost()
    }

    /// Limit of refused and repeated rounds before the machine counts as too noisy.
    pub fn repeats(&self) -> u32 {
        (self.rounds() / 2).max(1)
    }

    /// Estimated length of the run; `None` if only the script knows the length of a round.
    pub fn estimate(&self) -> Option<Duration> {
        let measured = self.settings.duration.or(self.script_time)?;
        let round = self.settings.warm_up + measured + ROUND_OVERHEAD;
        let steps = (1..=self.settings.blocks).map(|block| self.steps(block).len());
        round.checked_mul(u32::try_from(steps.sum::<usize>()).ok()?)
    }

    pub fn has_containers(&self) -> bool {
        self.variants.iter().any(|variant| matches!(variant.target, Target::Container(_)))
    }

    /// True if the lab starts a variant, and can give it fresh data.
    pub fn starts_servers(&self) -> bool {
        self.variants.iter().any(|variant| !matches!(variant.target, Target::Url(_)))
    }
}

/// Figures of predictions about ratios, each once; for variants without one, the default of the design.
fn asked(
    variants: &[Variant],
    reference: &str,
    predictions: &[Prediction],
    design: Design,
) -> Vec<(Metric, String)> {
    let usual = match design {
        Design::Rounds => Metric::Response(Statistic::P95),
        Design::Duet | Design::Both => Metric::CpuPerGoodRequest,
    };
    let mut asked = Vec::new();
    for variant in variants.iter().filter(|variant| variant.name != reference) {
        let own = predictions.iter().filter(|one| one.variant == variant.name);
        let own = own.filter(|one| one.bound.is_ratio());
        let mut metrics: Vec<Metric> = own.map(|one| one.metric.clone()).collect();
        if metrics.is_empty() {
            metrics.push(usual.clone());
        }
        for metric in metrics {
            let one = (metric, variant.name.clone());
            if !asked.contains(&one) {
                asked.push(one);
            }
        }
    }
    asked
}

fn metrics(experiment: &Experiment) -> Vec<Metric> {
    let observe = &experiment.observe;
    let load = observe.load.iter().cloned().map(Metric::Load);
    let server = observe.metrics.iter().cloned().map(Metric::Server);
    let is_observed = |figure: &Figure| {
        let mut variants = experiment.variants.iter();
        variants.any(|variant| {
            variant.has_stack() || experiment.databases(variant).get(figure.engine).is_some()
        })
    };
    let databases = Figure::ALL.into_iter().filter(is_observed).map(Metric::Database);
    let predicted = experiment.predictions.iter().map(|prediction| prediction.metric.clone());
    let mut metrics = Metric::ALL.to_vec();
    for metric in predicted.chain(load).chain(server).chain(databases) {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    metrics
}

fn settings(experiment: &Experiment, options: &Options) -> Settings {
    let (load, rounds) = (&experiment.load, &experiment.rounds);
    let quick_load = load.quick.clone().filter(|_| options.quick).unwrap_or_default();
    let quick_rounds = rounds.quick.clone().filter(|_| options.quick).unwrap_or_default();
    let mut env = load.env.clone();
    env.retain(|(name, _)| !quick_load.env.iter().any(|(quick, _)| quick == name));
    env.extend(quick_load.env);
    Settings {
        quick: options.quick,
        design: experiment.design.unwrap_or_else(|| Design::fitting(experiment)),
        blocks: options.blocks.or(quick_rounds.blocks).unwrap_or(rounds.blocks),
        warm_up: options
            .warm_up
            .or(quick_rounds.warm_up)
            .or(rounds.warm_up)
            .unwrap_or(USUAL_WARM_UP),
        vus: quick_load.vus.or(load.vus),
        duration: quick_load.duration.or(load.duration),
        env,
        retries: rounds.retries,
        pin_cpus: rounds.pin_cpus,
        accept: rounds.accept.clone(),
    }
}
