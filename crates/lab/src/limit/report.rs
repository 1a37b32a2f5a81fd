//! What came of a search, and the run that makes it.

use std::{path::Path, time::SystemTime};

use serde::Serialize;

use super::{
    course::{Course, Ended, Outcomes, Place, Try},
    goal::Goal,
    markdown,
    plan::{LimitPlan, LimitSettings},
    progress::Progress,
    summary::{self, Capacity, Obstacle, VariantLimit, Versus},
    text,
};
use crate::{
    cancel::Cancel,
    experiment::Experiment,
    host::Host,
    progress::Silent,
    report::MachinePart,
    run::{self, Out, RunError},
    time, words,
};

/// Version of the report's shape; grows when a reader has to change.
const FORMAT: u32 = 1;
const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_NOISY: u8 = 3;
const EXIT_INTERRUPTED: u8 = 130;

/// A search's report. Its fields are those of its `report.json`.
#[derive(Debug, Clone, Serialize)]
pub struct LimitReport {
    /// 1.
    pub format: u32,
    /// `limit`.
    pub kind: &'static str,
    /// The answer in words, a line for each variant.
    pub sentence: String,
    /// Whether the run was complete.
    pub ended: Ended,
    /// Disturbed tries were taken as they came, because too many were.
    pub too_noisy: bool,
    /// Name of the experiment, or of the script.
    pub name: String,
    /// What it is about.
    pub question: String,
    /// The experiment's file, or the script.
    pub file: String,
    /// The script.
    pub script: String,
    /// What had to be reached.
    pub goal: Goal,
    /// The values used.
    pub settings: LimitSettings,
    /// Seed of orders and first rates.
    pub seed: u64,
    /// One entry per variant, in the order of the file.
    pub variants: Vec<VariantLimit>,
    /// Invariants that did not hold, by name, and at how many tries.
    pub broken_invariants: Vec<(String, usize)>,
    /// What makes the numbers doubtful.
    pub warnings: Vec<String>,
    /// Every try, in the order they were run.
    pub tries: Vec<Try>,
    /// When it began and ended, RFC 3339 in UTC.
    pub started: String,
    /// See `started`.
    pub finished: String,
    /// The machine it ran on.
    pub machine: MachinePart,
    /// Names and versions of the programs.
    pub versions: Vec<(String, String)>,
}

/// What came of a search that began.
#[derive(Debug)]
pub struct LimitFinished {
    /// The report, complete even if it could not be written.
    pub report: LimitReport,
    /// Whether `report.json` and `report.md` are in the results' directory.
    pub written: Result<(), RunError>,
}

/// Searches, and writes `rounds.jsonl` (try by try), `report.json` and `report.md` into `out`,
/// which is made if it is not there. When `cancel` is set, or a try breaks again and again, the
/// report is written from the searches that are complete.
///
/// # Errors
/// Why no try was made. `out` is then as it was. What fails later is in [`LimitFinished`].
pub fn run(
    experiment: &Experiment,
    plan: &LimitPlan,
    host: &dyn Host,
    out: &Path,
    cancel: &Cancel,
    progress: &mut dyn Progress,
) -> Result<LimitFinished, RunError> {
    let started = SystemTime::now();
    let out = Out::create(out)?;
    progress.begin(plan);
    let begun = out.journal().and_then(|journal| {
        let template = run::prepare(experiment, &plan.plan, host, &out, cancel, &mut Silent)?;
        Ok((journal, template))
    });
    let (mut journal, template) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            out.abandon();
            return Err(error);
        }
    };
    let template = template.as_deref();
    let place = Place { experiment, plan, host, template, out: &out, cancel };
    let outcomes = Course::new(place, &mut journal).run(progress);
    let mut report = LimitReport::new(experiment, plan, host, outcomes, started);
    report.warnings.extend(journal.trouble);
    if let Err(error) = out.clean() {
        report.warnings.push(words::chain(&error));
    }
    let json = out.write("report.json", &report.to_json());
    let written = out.write("report.md", &report.to_markdown()).and(json);
    Ok(LimitFinished { report, written })
}

impl LimitReport {
    fn new(
        experiment: &Experiment,
        plan: &LimitPlan,
        host: &dyn Host,
        outcomes: Outcomes,
        started: SystemTime,
    ) -> Self {
        let variants = summary::summarise(plan, &outcomes);
        let sentence: Vec<String> = variants.iter().map(text::sentence).collect();
        Self {
            format: FORMAT,
            kind: "limit",
            sentence: sentence.join("\n"),
            warnings: warnings(&outcomes, &variants),
            broken_invariants: broken(&outcomes.tries),
            ended: outcomes.ended,
            too_noisy: outcomes.noisy,
            name: experiment.name.clone(),
            question: experiment.question.clone(),
            file: experiment.file.display().to_string(),
            script: experiment.load.script.display().to_string(),
            goal: *plan.goal(),
            settings: plan.settings(),
            seed: plan.plan.seed,
            variants,
            tries: outcomes.tries,
            started: time::rfc3339(started),
            finished: time::rfc3339(SystemTime::now()),
            machine: MachinePart::read(),
            versions: host.versions(),
        }
    }

    /// The exit code of the command: 0 it ran, whatever the limits; 1 an invariant was broken or a
    /// try stayed broken; 2 the script does not follow the rate; 3 the machine was too noisy, or
    /// generator or virtual users gave way before a server; 130 interrupted.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let hidden = |variant: &VariantLimit| match &variant.capacity {
            Capacity::AtLeast { because, .. } => *because != Obstacle::MaxRate,
            _ => false,
        };
        match self.ended {
            Ended::Interrupted => EXIT_INTERRUPTED,
            Ended::Broken { .. } => EXIT_FAILED,
            Ended::Unsteered { .. } => EXIT_USAGE,
            Ended::Complete if !self.broken_invariants.is_empty() => EXIT_FAILED,
            Ended::Complete if self.too_noisy || self.variants.iter().any(hidden) => EXIT_NOISY,
            Ended::Complete => 0,
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

fn broken(tries: &[Try]) -> Vec<(String, usize)> {
    let mut broken: Vec<(String, usize)> = Vec::new();
    for name in tries.iter().flat_map(|tried| &tried.broken_invariants) {
        match broken.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => broken.push((name.clone(), 1)),
        }
    }
    broken
}

fn warnings(outcomes: &Outcomes, variants: &[VariantLimit]) -> Vec<String> {
    let mut lines = Vec::new();
    match &outcomes.ended {
        Ended::Complete => {}
        Ended::Interrupted => lines.push("the run was interrupted".to_owned()),
        Ended::Broken { block, why } => {
            lines.push(format!(
                "block {block} broke again and again, so the run was given up: {why}"
            ));
        }
        Ended::Unsteered { rate, arrivals_per_second } => lines.push(format!(
            "the script was told RATE={rate} and started {} iterations per second: give its \
             scenario `rate: Number(__ENV.RATE), timeUnit: '1s'`, or remove __ENV.RATE from it to \
             have its default function driven",
            super::goal::number(*arrivals_per_second)
        )),
    }
    if outcomes.noisy {
        let noisy = "the machine was too noisy: disturbed tries were taken as they came";
        lines.push(noisy.to_owned());
    }
    for (name, count) in broken(&outcomes.tries) {
        lines.push(format!("broken invariant at {count} tries: {name}"));
    }
    let void = outcomes.tries.iter().filter(|tried| tried.void.is_some()).count();
    if void > 0 {
        lines.push(format!(
            "{void} of {} tries did not count and were repeated; report.json says why",
            outcomes.tries.len()
        ));
    }
    if variants.iter().any(|variant| matches!(variant.versus, Versus::Ratio(_)))
        && variants.iter().any(|variant| variant.searches.len() < 2)
    {
        lines.push("a single block gives no interval".to_owned());
    }
    lines
}
