//! Invariants over all rounds.

use serde::Serialize;

use super::Language;
use crate::file::experiment::{Experiment, Invariant};
use crate::journal::record::{Checked, RoundRecord};

/// An invariant over all measured rounds, also those that do not count: a lost row is lost.
#[derive(Debug, Clone, Serialize)]
pub struct InvariantSummary {
    pub name: String,
    /// Rounds in which it was checked.
    pub rounds: u32,
    /// Its formulas use counters of the whole load, from `setup()` to `teardown()`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counts_whole_load: bool,
    pub broken: Vec<Broken>,
}

/// A round that broke an invariant.
#[derive(Debug, Clone, Serialize)]
pub struct Broken {
    pub block: u32,
    pub attempt: u32,
    pub variant: String,
    /// Value and limits in words.
    pub values: String,
}

pub(crate) fn summarise(
    experiment: &Experiment,
    rounds: &[RoundRecord],
    lang: Language,
) -> Vec<InvariantSummary> {
    let summary = |invariant: &Invariant| {
        let name = &invariant.name;
        let counts_whole_load = invariant.counts_load();
        let mut summary = InvariantSummary {
            name: name.clone(),
            rounds: 0,
            counts_whole_load,
            broken: Vec::new(),
        };
        for round in rounds {
            let Some(measured) = round.measured() else { continue };
            let Some(checked) = measured.invariants.iter().find(|one| one.name == *name) else {
                continue;
            };
            summary.rounds += 1;
            if !checked.holds {
                summary.broken.push(Broken {
                    block: round.block,
                    attempt: round.attempt,
                    variant: round.variant.clone(),
                    values: in_words(checked, lang),
                });
            }
        }
        summary
    };
    experiment.invariants.iter().map(summary).collect()
}

/// `34 (before: 0), must be at most 30 = max(0, 30 - before)`.
fn in_words(checked: &Checked, lang: Language) -> String {
    let (label, must) = (lang.pick("before", "이전"), lang.pick("must be", "조건:"));
    let before = checked.before.map_or_else(String::new, |before| format!(" ({label}: {before})"));
    let limits: Vec<String> = checked.limits.iter().map(|limit| lang.limit(limit)).collect();
    let limits = limits.join(lang.pick(" and ", ", "));
    format!("{}{before}, {must} {limits}", checked.value)
}

/// Lines about broken invariants and their rounds, and a sentence about the others.
pub(crate) fn lines(
    invariants: &[InvariantSummary],
    lang: Language,
) -> (Vec<String>, Option<String>) {
    let mut broken = Vec::new();
    for invariant in invariants.iter().filter(|invariant| !invariant.broken.is_empty()) {
        let (failed, all, name) = (invariant.broken.len(), invariant.rounds, &invariant.name);
        broken.push(lang.pick(
            format!("invariant in {failed} of {all} rounds: {name}"),
            format!("불변 조건, {all}라운드 중 {failed}라운드: {name}"),
        ));
        let block = lang.pick("block", "블록");
        broken.extend(invariant.broken.iter().map(|round| {
            let Broken { block: number, variant, values, .. } = round;
            format!("  {block} {number}, {variant}: {values}")
        }));
        if invariant.counts_whole_load {
            broken.push(format!("  ({})", lang.whole_load()));
        }
    }
    let held = invariants.iter().filter(|one| one.broken.is_empty() && one.rounds > 0).count();
    let held = (held > 0).then(|| match (lang, held, invariants.len()) {
        (Language::En, 1, 1) => "The invariant held in every round.".to_owned(),
        (Language::En, held, all) if held == all => {
            format!("All {all} invariants held in every round.")
        }
        (Language::En, held, all) => format!("{held} of {all} invariants held in every round."),
        (Language::Ko, held, all) if held == all => {
            format!("불변 조건 {all}개가 모든 라운드에서 지켜졌습니다.")
        }
        (Language::Ko, held, all) => {
            format!("불변 조건 {all}개 중 {held}개가 모든 라운드에서 지켜졌습니다.")
        }
    });
    let counted = invariants.iter().any(|one| one.counts_whole_load && one.broken.is_empty());
    let held = held.map(|held| match counted {
        true => format!("{held} ({})", lang.whole_load()),
        false => held,
    });
    (broken, held)
}

impl Language {
    fn whole_load(self) -> &'static str {
        self.pick(
            "counters of the load include setup() and the warm-up",
            "부하의 카운터에는 준비 단계와 예열도 들어 있습니다",
        )
    }
}
