//! Runs a search and reports it.

use std::path::Path;

use serde::Serialize;

use super::blocks::{Outcomes, RoundSpec, SearchEnd, SearchRun, Try};
use super::document::document;
use super::goal::Goal;
use super::plan::{LimitPlan, LimitSettings};
use super::progress::Console;
use super::search::Length;
use super::stored::{Asked, KIND, StoredLimit};
use super::summary::{self, Capacity, Obstacle, VariantLimit, Versus};
use super::text;
use crate::file::experiment::Experiment;
use crate::journal::record::RoundRecord;
use crate::journal::stored::{Description, JOURNAL, StoredError};
use crate::judge::conclusion::Conclusion;
use crate::report::{Language, Origin};
use crate::round::Bench;
use crate::round::host::Host;
use crate::run::cancel::Cancel;
use crate::run::progress::Silent;
use crate::run::{self, Begun, Out, RunContext, RunError};
use crate::words;

/// Version of the report's format, incremented when readers have to change.
const FORMAT: u32 = 2;

/// Report of a search. Its fields are those of `report.json`.
#[derive(Debug, Clone, Serialize)]
pub struct LimitReport {
    /// 2.
    pub format: u32,
    /// `limit`.
    pub kind: &'static str,
    pub sentence: String,
    pub ended: SearchEnd,
    /// Too many tries were disturbed, so some were accepted.
    pub too_noisy: bool,
    pub name: String,
    pub question: String,
    pub file: String,
    pub script: String,
    pub goal: Goal,
    pub settings: LimitSettings,
    /// Seed of orders and first rates.
    pub seed: u64,
    /// One entry per variant, in the order of the file.
    pub variants: Vec<VariantLimit>,
    /// Violated invariants by name, with numbers of tries.
    pub broken_invariants: Vec<(String, usize)>,
    pub warnings: Vec<String>,
    /// All tries in chronological order.
    pub tries: Vec<Try>,
    #[serde(flatten)]
    pub origin: Origin,
    pub language: Language,
}

/// A search that began.
#[derive(Debug)]
pub struct LimitFinished {
    pub report: LimitReport,
    /// Result of writing the report's files.
    pub written: Result<(), RunError>,
}

/// Searches, and writes `run.json` (options), `rounds.jsonl` (tries), `report.json`, `report.md` and
/// `report.html` into `out`, which is created if missing. When `cancel` is set, or a try fails
/// repeatedly, the report covers the complete searches.
///
/// # Errors
/// When no try could be made; `out` is then unchanged. Later errors are in [`LimitFinished`].
pub fn run(
    experiment: &Experiment,
    plan: &LimitPlan,
    host: &dyn Host,
    out: &Path,
    cancel: &Cancel,
    progress: &mut Console,
) -> Result<LimitFinished, RunError> {
    let out = Out::create(out)?;
    let mut description = Description::new(experiment, &plan.plan, host, Asked::new(plan));
    progress.begin(plan);
    let context = RunContext { experiment, plan: &plan.plan, host, cancel };
    let begun = context.begin(out, &mut description, &mut Silent)?;
    Ok(go(context, plan, begun, &mut description, Vec::new(), progress))
}

/// Resumes a search that was interrupted, killed, or given up because a try failed, in its directory. Earlier tries
/// count.
///
/// # Errors
/// When it cannot be resumed; its directory is then unchanged.
pub fn resume(
    stored: StoredLimit,
    host: &dyn Host,
    cancel: &Cancel,
    progress: &mut Console,
) -> Result<LimitFinished, RunError> {
    stored.description.check_unchanged(&stored.experiment, &stored.plan.plan, host)?;
    // Before anything is written: tries that this version would not make cannot be resumed.
    stored.report_in(stored.plan.plan.language)?;
    let StoredLimit { dir, experiment, plan, mut description, rounds, journal_bytes } = stored;
    let reopened = Out::reopen(&dir, journal_bytes)?;
    progress.begin(&plan);
    progress.resumed(rounds.len());
    let context = RunContext { experiment: &experiment, plan: &plan.plan, host, cancel };
    let begun = context.go_on(reopened, &mut description, &mut Silent)?;
    Ok(go(context, &plan, begun, &mut description, rounds, progress))
}

impl StoredLimit {
    /// Fails if this version would not make the stored tries.
    fn report_in(&self, language: Language) -> Result<LimitReport, StoredError> {
        let plan = self.plan.clone().in_language(language);
        let outcomes = SearchRun::new(&plan, None, self.rounds.clone()).run(&mut Console::silent());
        if !outcomes.is_replayed {
            return Err(StoredError::NotReplayed(self.dir.join(JOURNAL)));
        }
        Ok(LimitReport::new(&self.experiment, &plan, self.description.origin(), outcomes))
    }

    /// Writes the reports again, by default in their language.
    ///
    /// # Errors
    /// When this version would not make the stored tries, or the reports cannot be written.
    pub fn report_again(&self, language: Option<Language>) -> Result<LimitReport, RunError> {
        run::check_unused(&self.dir)?;
        let report = self.report_in(language.unwrap_or(self.plan.plan.language))?;
        report.write(|name, text| run::write(&self.dir, name, text))?;
        Ok(report)
    }
}

fn go(
    context: RunContext<'_>,
    plan: &LimitPlan,
    begun: Begun,
    description: &mut Description<Asked>,
    earlier: Vec<RoundRecord>,
    progress: &mut Console,
) -> LimitFinished {
    let Begun { out, mut journal, made } = begun;
    let mut runner = |order: &RoundSpec| {
        if context.cancel.is_cancelled() {
            return None;
        }
        let bench = context.bench(&out, &made, &order.settings);
        let bench = Bench { arrivals: order.arrivals, ..bench };
        let record = bench.round(order.place, &plan.plan.variants[order.index]);
        journal.append(&record);
        Some(record)
    };
    let outcomes = SearchRun::new(plan, Some(&mut runner), earlier).run(progress);
    description.end();
    let described = out.describe(description.to_json());
    let mut report = LimitReport::new(context.experiment, plan, description.origin(), outcomes);
    report.warnings.extend(journal.trouble.clone());
    report.warnings.extend(described.err().map(|error| words::chain(&error)));
    if let Err(error) = out.clean() {
        report.warnings.push(words::chain(&error));
    }
    let written = report.write(|name, text| out.write(name, text));
    LimitFinished { report, written }
}

impl LimitReport {
    fn new(experiment: &Experiment, plan: &LimitPlan, origin: Origin, outcomes: Outcomes) -> Self {
        let language = plan.plan.language;
        let variants = summary::summarise(plan, &outcomes);
        let sentence: Vec<String> =
            variants.iter().map(|variant| language.limit_of(variant)).collect();
        Self {
            format: FORMAT,
            kind: KIND,
            sentence: sentence.join("\n"),
            warnings: warnings(plan, &outcomes, &variants),
            broken_invariants: broken(&outcomes.tries),
            ended: outcomes.ended,
            too_noisy: outcomes.noisy,
            name: experiment.name.clone(),
            question: experiment.question.clone(),
            file: experiment.file.display().to_string(),
            script: experiment.load.script.display().to_string(),
            goal: plan.options.goal,
            settings: plan.settings(),
            seed: plan.plan.seed,
            variants,
            tries: outcomes.tries,
            origin,
            language,
        }
    }

    /// Writes all files, even if one fails.
    fn write(&self, write: impl Fn(&str, &str) -> Result<(), RunError>) -> Result<(), RunError> {
        let page = document(self);
        let raw = serde_json::to_string(self).unwrap_or_default();
        let written = [
            write("report.json", &self.to_json()),
            write("report.md", &page.to_markdown()),
            write("report.html", &page.to_html(&raw)),
        ];
        written.into_iter().collect()
    }

    /// Conclusion for the exit code. A variant that misses the goal even at one iteration per second is broken.
    pub fn conclusion(&self) -> Conclusion {
        let hidden = |variant: &VariantLimit| matches!(variant.capacity, Capacity::AtLeast { because, .. } if because != Obstacle::MaxRate);
        let takes_nothing =
            |variant: &VariantLimit| matches!(variant.capacity, Capacity::Nothing { .. });
        let is_broken =
            !self.broken_invariants.is_empty() || self.variants.iter().any(takes_nothing);
        match self.ended {
            SearchEnd::Interrupted => Conclusion::Interrupted,
            SearchEnd::Broken { kind, .. } if kind.is_of_the_system() => Conclusion::SystemBroken,
            SearchEnd::Broken { .. } => Conclusion::Failed,
            SearchEnd::Complete if is_broken => Conclusion::SystemBroken,
            SearchEnd::Complete if self.too_noisy || self.variants.iter().any(hidden) => {
                Conclusion::CannotTell
            }
            SearchEnd::Complete => Conclusion::Done,
        }
    }

    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("every key of the report is a string and every number finite") + "\n"
    }

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

fn warnings(plan: &LimitPlan, outcomes: &Outcomes, variants: &[VariantLimit]) -> Vec<String> {
    let lang = plan.plan.language;
    let mut lines = Vec::from_iter(lang.search_ended(&outcomes.ended));
    let mut warn = |en: String, ko: String| lines.push(lang.pick(en, ko));
    let (lasts, enough) = (plan.lasts(Length::Long), plan.enough());
    if lasts < enough {
        warn(
            format!(
                "rates were confirmed by tries of {lasts:?}; only tries of {enough:?} (the default) show a queue that \
                 grows slowly, so the true limit may be lower"
            ),
            format!(
                "{lasts:?} 동안의 시도로 속도를 확인했습니다. 천천히 늘어나는 대기열은 {enough:?}(기본값) 동안 \
                 시도해야 보이므로 실제 한계는 더 낮을 수 있습니다"
            ),
        );
    }
    if outcomes.noisy {
        warn(
            "the machine was too noisy: disturbed tries were taken as they came".to_owned(),
            "장비가 너무 시끄러워 방해받은 시도도 그대로 받아들였습니다".to_owned(),
        );
    }
    for (name, count) in broken(&outcomes.tries) {
        warn(
            format!("broken invariant at {count} tries: {name}"),
            format!("불변 조건 위반, 시도 {count}번: {name}"),
        );
    }
    let void = outcomes.tries.iter().filter(|tried| tried.void.is_some()).count();
    let all = outcomes.tries.len();
    if void > 0 {
        warn(
            format!("{void} of {all} tries did not count and were repeated; report.json says why"),
            format!(
                "시도 {all}번 중 {void}번은 세지 않고 다시 했습니다. 이유는 report.json에 있습니다"
            ),
        );
    }
    if variants.iter().any(|variant| matches!(variant.versus, Versus::Ratio(_)))
        && variants.iter().any(|variant| variant.searches.len() < 2)
    {
        warn(
            "a single block gives no interval".to_owned(),
            "블록이 하나라 신뢰구간이 없습니다".to_owned(),
        );
    }
    lines
}
