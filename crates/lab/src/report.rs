//! Reports of runs: JSON, HTML, Markdown, JUnit, and text for a terminal.

mod answers;
mod broken;
mod columns;
pub(crate) mod document;
mod doubts;
mod experiment;
pub(crate) mod figures;
mod invariants;
mod junit;
mod means;
mod method;
pub(crate) mod plot;
mod plots;
mod predictions;
mod sections;
mod summary;
mod table;
mod text;
mod trends;
mod words;
mod zeros;

use madang_stack::machine::Description;
use serde::{Deserialize, Serialize};

use crate::file::experiment::{Experiment, Sources};
use crate::journal::record::{FailureKind, Measured, RoundRecord};
use crate::journal::stored;
use crate::judge::answer::Answer;
use crate::judge::conclusion::Conclusion;
use crate::judge::verdict::{Undecided, Verdict};
use crate::plan::{Plan, Settings};

pub(crate) use answers::{Figure, Further, Headline};
pub(crate) use experiment::{ExperimentPart, TargetPart};
pub(crate) use invariants::InvariantSummary;
pub(crate) use predictions::PredictionPart;
pub(crate) use summary::{Comparison, Row, VariantSummary};
pub(crate) use summary::{Sides, ratio};
pub(crate) use text::{align, head};
pub use words::Language;

/// Pages in the style of reports, for other measurements.
pub mod page {
    pub use super::document::{Document, Part, Plot, Section, Table};
    pub use super::plot::{Line, lines};
}

/// Version of `report.json`; grows with incompatible changes.
pub const FORMAT: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum RunEnd {
    Complete,
    Interrupted,
    /// A block stayed broken.
    Broken {
        block: u32,
        attempts: u32,
    },
}

/// Fields are those of `report.json`, documented in `experiments/REFERENCE.md`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub format: u32,
    /// `comparison` or `calibration`.
    pub kind: &'static str,
    /// Broken things: crashes, exceptions of the script, failed checks, invariants.
    pub broken: Vec<String>,
    /// The most serious answer about the figures in question.
    pub answer: Answer,
    /// Variant of `answer` and `metrics`.
    pub variant: Option<String>,
    #[serde(serialize_with = "answers::as_map")]
    pub metrics: Vec<(String, Figure)>,
    pub headlines: Vec<Headline>,
    /// Further figures that are worse, after Holm's adjustment.
    pub also_worse: Vec<Further>,
    /// `null` without predictions.
    pub verdict: Option<Verdict>,
    /// `null` unless undecided.
    pub undecided_because: Option<&'static str>,
    /// In the order of the file.
    pub predictions: Vec<PredictionPart>,
    /// In the order of the file.
    pub invariants: Vec<InvariantSummary>,
    /// Memory that rises as if it leaked.
    pub caveats: Vec<String>,
    /// Number of disturbed rounds behind the verdict; `null` without any.
    pub noise: Option<String>,
    /// Variation of the speed of the server's cores; `null` on a steady machine.
    pub pace: Option<String>,
    pub ended: RunEnd,
    pub experiment: ExperimentPart,
    pub settings: Settings,
    /// Seed of the order of rounds.
    pub seed: u64,
    #[serde(flatten)]
    pub origin: Origin,
    pub sources: Sources,
    pub complete_blocks: u32,
    /// In the order of the file.
    pub variants: Vec<VariantSummary>,
    pub warnings: Vec<String>,
    /// In the order of their runs, broken ones included.
    pub rounds: Vec<RoundRecord>,
    pub language: Language,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachinePart {
    pub cpu: Option<String>,
    pub cpus: Option<usize>,
    pub memory_bytes: Option<u64>,
    pub kernel: Option<String>,
    pub system: Option<String>,
}

#[derive(Debug)]
pub struct Course {
    /// In the order of their runs.
    pub rounds: Vec<RoundRecord>,
    pub ended: RunEnd,
    /// More rounds were disturbed than the run may repeat.
    pub noisy: bool,
}

/// Time, machine and versions of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Origin {
    /// RFC 3339 in UTC.
    pub started: String,
    /// Times of resumption, RFC 3339 in UTC.
    pub resumed: Vec<String>,
    /// `null` for a killed run.
    pub finished: Option<String>,
    pub machine: MachinePart,
    pub versions: Vec<(String, String)>,
}

impl Origin {
    pub(crate) fn lines(&self, language: Language) -> Vec<String> {
        let mut lines = vec![language.time(&self.started, self.finished.as_deref())];
        lines.extend(self.resumed.iter().map(|moment| language.resumed(moment)));
        lines.push(self.machine.line());
        lines.extend(self.versions.iter().map(|(name, version)| format!("{name} {version}")));
        lines
    }
}

impl Report {
    pub(crate) fn new(
        experiment: &Experiment,
        plan: &Plan,
        origin: Origin,
        course: Course,
    ) -> Self {
        let Course { rounds, ended, noisy } = course;
        let mut variants = summary::summarise(plan, &rounds);
        let undecided = Undecided::of_run(ended, noisy);
        answers::judge(&mut variants, plan, &rounds, undecided);
        let complete_blocks = stored::complete_blocks(&rounds);
        let predictions = predictions::judge(plan, &variants, &rounds, undecided, complete_blocks);
        let verdict = Verdict::worst(predictions.iter().map(|one| one.verdict));
        let headlines = answers::headlines(plan, &variants, &rounds);
        let answer = Answer::overall(headlines.iter().map(|headline| headline.answer));
        let first = headlines.iter().find(|headline| headline.answer == answer);
        let variant = first.map(|headline| headline.variant.clone());
        let mut warnings = doubts::warnings(plan, &rounds, ended);
        warnings.extend(doubts::unknown_builds(plan, &origin.resumed));
        let invariants = invariants::summarise(experiment, &rounds, plan.language);
        let broken = broken::lines(
            plan,
            &rounds,
            ended,
            origin.resumed.last().map(String::as_str),
            &invariants,
        );
        Self {
            format: FORMAT,
            kind: if plan.calibration { "calibration" } else { "comparison" },
            broken,
            answer,
            metrics: answers::figures(&variants, variant.as_deref()),
            variant,
            also_worse: answers::also_worse(plan, &variants, &headlines),
            headlines,
            verdict,
            undecided_because: verdict.and_then(|verdict| plan.language.reason(verdict)),
            predictions,
            invariants,
            caveats: trends::leaks(plan, &rounds),
            noise: doubts::noise(plan, &rounds),
            pace: doubts::pace(plan, &rounds),
            ended,
            experiment: ExperimentPart::new(experiment, plan),
            settings: plan.settings.clone(),
            seed: plan.seed,
            origin,
            sources: experiment.sources.clone(),
            complete_blocks,
            warnings,
            variants,
            rounds,
            language: plan.language,
        }
    }

    /// True if something is broken, or a prediction is open because a round had no good request.
    fn is_broken(&self) -> bool {
        !self.broken.is_empty() || self.is_because(&[Undecided::NothingGood])
    }

    /// True if an answer or a verdict is open for one of these reasons.
    fn is_because(&self, reasons: &[Undecided]) -> bool {
        let mut headlines = self.headlines.iter().filter_map(|headline| headline.doubt);
        let predicted = |one: &PredictionPart| match one.verdict {
            Verdict::Undecided(why) => reasons.contains(&why),
            _ => false,
        };
        headlines.any(|why| reasons.contains(&why)) || self.predictions.iter().any(predicted)
    }

    /// True if a variant is worse by more than a share in a figure in question or in `also_worse`; `None` if undecided.
    pub fn is_worse_by(&self, share: f64) -> Option<bool> {
        let row = |headline: &Headline| {
            let variant = self.variants.iter().find(|one| one.name == headline.variant)?;
            variant.metrics.iter().find(|row| row.metric == headline.metric)
        };
        let asked: Vec<Option<bool>> = self
            .headlines
            .iter()
            .map(|headline| row(headline).and_then(|row| row.is_worse_by(share)))
            .collect();
        let further = self.also_worse.iter().any(|further| further.least > share);
        if further || asked.contains(&Some(true)) {
            return Some(true);
        }
        if asked.contains(&None) { None } else { Some(false) }
    }

    /// Labels and sentences of all findings: answers, caveats, further worse figures, predictions.
    pub fn found(&self) -> Vec<(&'static str, &str)> {
        let answers = self.headlines.iter().map(|one| (one.answer.word(), one.sentence.as_str()));
        let caveats = self.caveats.iter().chain(&self.noise);
        let further = self.also_worse.iter().map(|one| ("worse", one.sentence.as_str()));
        let predictions = self.predictions.iter();
        let predictions = predictions.map(|one| (one.verdict.word(), one.sentence.as_str()));
        answers
            .chain(caveats.map(|line| ("undecided", line.as_str())))
            .chain(further)
            .chain(predictions)
            .collect()
    }

    /// The sentences of [`found`](Self::found), one per line.
    pub fn sentence(&self) -> String {
        self.found().into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
    }

    /// Kind of the last failure.
    pub fn last_failure(&self) -> Option<FailureKind> {
        self.rounds.iter().rev().find_map(|round| Some(round.failure()?.kind))
    }

    pub fn conclusion(&self) -> Conclusion {
        let cannot_tell =
            self.is_because(&[Undecided::MachineTooNoisy, Undecided::GeneratorLimited]);
        match self.ended {
            RunEnd::Interrupted => Conclusion::Interrupted,
            RunEnd::Broken { .. } => match self.last_failure() {
                Some(kind) if kind.is_of_the_system() => Conclusion::SystemBroken,
                _ => Conclusion::Failed,
            },
            RunEnd::Complete if self.is_broken() => Conclusion::SystemBroken,
            RunEnd::Complete if cannot_tell => Conclusion::CannotTell,
            RunEnd::Complete => Conclusion::Done,
        }
    }

    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("every key of the report is a string and every number finite") + "\n"
    }

    /// A self-contained page.
    pub fn to_html(&self) -> String {
        let raw = serde_json::to_string(self).unwrap_or_default();
        sections::document(self).to_html(&raw)
    }

    pub fn to_markdown(&self) -> String {
        sections::document(self).to_markdown()
    }

    pub fn to_junit(&self) -> String {
        junit::render(self)
    }

    /// A short report for a terminal.
    pub fn to_text(&self) -> String {
        text::render(self, false)
    }

    /// The short report, and the columns of other tools.
    pub fn to_full_text(&self) -> String {
        text::render(self, true)
    }
}

impl MachinePart {
    pub(crate) fn line(&self) -> String {
        let unknown = || "?".to_owned();
        format!(
            "{} × {}, {}, Linux {}, {}",
            self.cpus.map_or_else(unknown, |cpus| cpus.to_string()),
            self.cpu.clone().unwrap_or_else(unknown),
            self.memory_bytes.map_or_else(unknown, |bytes| format!("{} MiB", bytes >> 20)),
            self.kernel.clone().unwrap_or_else(unknown),
            self.system.clone().unwrap_or_else(unknown),
        )
    }

    pub(crate) fn read() -> Self {
        let Description { cpu, cpus, memory_bytes, kernel, system } = Description::read();
        Self { cpu, cpus, memory_bytes, kernel, system }
    }
}

/// Counted rounds of a variant alone, by block.
pub(crate) fn counted<'r>(
    rounds: &'r [RoundRecord],
    variant: &'r str,
) -> impl Iterator<Item = (u32, &'r Measured)> {
    all(rounds, variant)
        .filter_map(|(round, measured)| round.beside.is_none().then_some((round.block, measured)))
}

/// Counted rounds of a variant, including pairs.
pub(crate) fn all<'r>(
    rounds: &'r [RoundRecord],
    variant: &'r str,
) -> impl Iterator<Item = (&'r RoundRecord, &'r Measured)> {
    let own = rounds.iter().filter(move |round| round.counted && round.variant == variant);
    own.filter_map(|round| Some((round, round.measured()?)))
}
