//! What came of a run: for a machine, for a page, for a terminal.

mod markdown;
mod summary;
mod text;

use std::time::SystemTime;

use madang_stack::machine::Description;
use serde::Serialize;

use crate::{
    experiment::{Documented, Experiment, Prediction, Target},
    host::Host,
    metric::Metric,
    plan::{Plan, Settings},
    record::{Outcome, RoundRecord},
    time,
    verdict::{Undecided, Verdict},
};

pub use summary::{Comparison, Row, VariantSummary};

/// Version of `report.json`'s shape; grows when a reader has to change.
pub const FORMAT: u32 = 1;
/// The run was interrupted, as a shell reports SIGINT.
const EXIT_INTERRUPTED: u8 = 130;
/// A round stayed broken.
const EXIT_FAILED: u8 = 1;
/// The machine was too noisy to tell.
const EXIT_NOISY: u8 = 3;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Ended {
    /// All blocks are complete.
    Complete,
    /// Somebody stopped it.
    Interrupted,
    /// A block stayed broken.
    Broken {
        /// Which.
        block: u32,
        /// How often it was run.
        attempts: u32,
    },
}

/// A run's report. Its fields are those of `report.json`, which `experiments/README.md` documents.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// `comparison` or `calibration`.
    pub kind: &'static str,
    /// The answer.
    pub verdict: Verdict,
    /// Why it is undecided; `null` otherwise.
    pub undecided_because: Option<&'static str>,
    /// The answer in one sentence.
    pub sentence: String,
    /// How many of the rounds behind the verdict others on this machine disturbed; `null` when
    /// none.
    pub noise: Option<String>,
    /// Whether the run was complete.
    pub ended: Ended,
    /// What was asked.
    pub experiment: ExperimentPart,
    /// The values used.
    pub settings: Settings,
    /// Seed of the order of rounds.
    pub seed: u64,
    /// When it began and ended, RFC 3339 in UTC.
    pub started: String,
    /// See `started`.
    pub finished: String,
    /// The machine it ran on.
    pub machine: MachinePart,
    /// Names and versions of the programs.
    pub versions: Vec<(String, String)>,
    /// Blocks all of whose rounds were good.
    pub complete_blocks: u32,
    /// One entry per variant, in the order of the file.
    pub variants: Vec<VariantSummary>,
    /// What makes the numbers doubtful, one sentence each.
    pub warnings: Vec<String>,
    /// Every round, also broken ones, in the order they were run.
    pub rounds: Vec<RoundRecord>,
}

/// The experiment as its file says.
#[derive(Debug, Clone, Serialize)]
pub struct ExperimentPart {
    /// Its name.
    pub name: String,
    /// Its question.
    pub question: String,
    /// The file.
    pub file: String,
    /// The script.
    pub script: String,
    /// The variant the others are compared with.
    pub reference: String,
    /// What was expected; `null` in a calibration.
    pub prediction: Option<Prediction>,
    /// The host's data.
    pub data: toml::Table,
    /// Each variant's name and how it is started.
    pub variants: Vec<VariantPart>,
    /// Figures of others.
    pub documented: Vec<Documented>,
}

/// A variant as the file says.
#[derive(Debug, Clone, Serialize)]
pub struct VariantPart {
    /// Its name.
    pub name: String,
    /// How it is started.
    #[serde(flatten)]
    pub target: TargetPart,
}

/// How a variant is started.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetPart {
    /// With these settings of the host's own server.
    Serve(toml::Table),
    /// By this command.
    Command(Vec<String>),
    /// It runs already.
    Url(String),
}

/// The machine, for a reader who has another.
#[derive(Debug, Clone, Serialize)]
pub struct MachinePart {
    /// The CPU's model name.
    pub cpu: Option<String>,
    /// CPUs online.
    pub cpus: Option<usize>,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Distribution.
    pub system: Option<String>,
}

impl Report {
    /// Draws the conclusions from a run's rounds.
    #[must_use]
    pub fn new(
        experiment: &Experiment,
        plan: &Plan,
        host: &dyn Host,
        rounds: Vec<RoundRecord>,
        ended: Ended,
        started: SystemTime,
    ) -> Self {
        let variants = summary::summarise(plan, &rounds, &experiment.documented);
        let verdict = verdict(plan, &variants, &rounds, ended);
        let largest = rounds.iter().filter(|round| round.counted).map(|round| round.block);
        let complete_blocks = largest.max().unwrap_or(0);
        Self {
            format: FORMAT,
            kind: if plan.calibration { "calibration" } else { "comparison" },
            verdict,
            undecided_because: verdict.reason(),
            sentence: summary::sentence(plan, &variants, verdict, complete_blocks),
            noise: summary::noise(plan, &rounds),
            ended,
            experiment: ExperimentPart::new(experiment, plan),
            settings: plan.settings.clone(),
            seed: plan.seed,
            started: time::rfc3339(started),
            finished: time::rfc3339(SystemTime::now()),
            machine: MachinePart::read(),
            versions: host.versions(),
            complete_blocks,
            warnings: summary::warnings(plan, &rounds, ended),
            variants,
            rounds,
        }
    }

    /// The exit code of the command: 0 ran, whatever the verdict; 1 a block stayed broken; 3 the
    /// machine was too noisy, a verdict that is not given yet; 130 interrupted.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match (self.ended, self.verdict) {
            (Ended::Interrupted, _) => EXIT_INTERRUPTED,
            (Ended::Broken { .. }, _) => EXIT_FAILED,
            (_, Verdict::Undecided(Undecided::MachineTooNoisy)) => EXIT_NOISY,
            (Ended::Complete, _) => 0,
        }
    }

    /// The report for a machine.
    #[must_use]
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("every key of the report is a string and every number finite") + "\n"
    }

    /// The report for a page.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        markdown::render(self)
    }

    /// The report for a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::render(self)
    }
}

fn verdict(
    plan: &Plan,
    variants: &[VariantSummary],
    rounds: &[RoundRecord],
    ended: Ended,
) -> Verdict {
    if ended != Ended::Complete {
        return Verdict::Undecided(Undecided::Unfinished);
    }
    let about = variants.iter().find(|variant| variant.name == plan.prediction.variant);
    let row = about.and_then(|variant| {
        variant.metrics.iter().find(|row| row.metric == plan.prediction.metric)
    });
    let estimate = row.and_then(|row| row.comparison.estimate());
    let is_refused =
        |name: &str| counted(rounds, name).any(|(_, measured)| measured.has_bad_requests());
    // Only with a ratio: without one, the reason for that tells more.
    if matches!(plan.prediction.metric, Metric::Latency(_))
        && estimate.is_some()
        && (is_refused(&plan.reference) || is_refused(&plan.prediction.variant))
    {
        return Verdict::Undecided(Undecided::BadRequests);
    }
    if !plan.calibration {
        return Verdict::of(plan.prediction.bound, estimate);
    }
    // A calibration predicts no difference.
    match estimate {
        None => Verdict::Undecided(Undecided::NoRatio),
        Some(estimate) if estimate.interval.is_none() => {
            Verdict::Undecided(Undecided::TooFewBlocks)
        }
        Some(estimate) if estimate.includes_no_difference() => Verdict::Supported,
        Some(_) => Verdict::Refuted,
    }
}

impl ExperimentPart {
    fn new(experiment: &Experiment, plan: &Plan) -> Self {
        let variants = plan.variants.iter().map(|variant| VariantPart {
            name: variant.name.clone(),
            target: match &variant.target {
                Target::Serve(settings) => TargetPart::Serve(settings.clone()),
                Target::Command { argv, .. } => TargetPart::Command(argv.clone()),
                Target::Url(url) => TargetPart::Url(url.clone()),
            },
        });
        Self {
            name: experiment.name.clone(),
            question: experiment.question.clone(),
            file: experiment.file.display().to_string(),
            script: experiment.load.script.display().to_string(),
            reference: plan.reference.clone(),
            prediction: (!plan.calibration).then(|| plan.prediction.clone()),
            data: experiment.data.clone(),
            variants: variants.collect(),
            documented: experiment.documented.clone(),
        }
    }
}

impl MachinePart {
    fn read() -> Self {
        let Description { cpu, cpus, memory_bytes, kernel, system } = Description::read();
        Self { cpu, cpus, memory_bytes, kernel, system }
    }
}

/// The measured rounds that count, of one variant, by block.
fn counted<'r>(
    rounds: &'r [RoundRecord],
    variant: &'r str,
) -> impl Iterator<Item = (u32, &'r crate::record::Measured)> {
    rounds.iter().filter_map(move |round| match &round.outcome {
        Outcome::Measured(measured) if round.counted && round.variant == variant => {
            Some((round.block, measured.as_ref()))
        }
        _ => None,
    })
}
