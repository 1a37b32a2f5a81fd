//! What must hold, over all rounds.

use serde::Serialize;

use crate::{
    experiment::Experiment,
    record::{Checked, LimitKind, Outcome, RoundRecord},
};

/// One invariant over all measured rounds, also those that do not count: a lost row is lost on a
/// busy machine, too.
#[derive(Debug, Clone, Serialize)]
pub struct InvariantSummary {
    /// Its name.
    pub name: String,
    /// Rounds in which it was asked.
    pub rounds: u32,
    /// Those in which it did not hold.
    pub broken: Vec<Broken>,
}

/// A round in which an invariant did not hold.
#[derive(Debug, Clone, Serialize)]
pub struct Broken {
    /// The round's block.
    pub block: u32,
    /// Which run of that block.
    pub attempt: u32,
    /// The round's variant.
    pub variant: String,
    /// The value and what it was compared with, in words.
    pub values: String,
}

pub fn summarise(experiment: &Experiment, rounds: &[RoundRecord]) -> Vec<InvariantSummary> {
    let summary = |name: &String| {
        let mut summary = InvariantSummary { name: name.clone(), rounds: 0, broken: Vec::new() };
        for round in rounds {
            let Outcome::Measured(measured) = &round.outcome else { continue };
            let Some(checked) = measured.invariants.iter().find(|one| one.name == *name) else {
                continue;
            };
            summary.rounds += 1;
            if !checked.holds {
                summary.broken.push(Broken {
                    block: round.block,
                    attempt: round.attempt,
                    variant: round.variant.clone(),
                    values: in_words(checked),
                });
            }
        }
        summary
    };
    experiment.invariants.iter().map(|invariant| summary(&invariant.name)).collect()
}

/// `34 (before: 0), must be at most 30 = max(0, 30 - before)`.
fn in_words(checked: &Checked) -> String {
    let before = checked.before.map_or_else(String::new, |before| format!(" (before: {before})"));
    let limits = checked.limits.iter().map(|limit| {
        let word = match limit.bound {
            LimitKind::Equals => "equal to",
            LimitKind::AtMost => "at most",
            LimitKind::AtLeast => "at least",
        };
        let number = limit.limit.to_string();
        if number == limit.formula {
            format!("{word} {number}")
        } else {
            format!("{word} {number} = {}", limit.formula)
        }
    });
    let limits: Vec<String> = limits.collect();
    format!("{}{before}, must be {}", checked.value, limits.join(" and "))
}

/// The lines for a terminal or a page: broken ones and each of their rounds, then how many held.
pub fn lines(invariants: &[InvariantSummary]) -> (Vec<String>, Option<String>) {
    let mut broken = Vec::new();
    for invariant in invariants.iter().filter(|invariant| !invariant.broken.is_empty()) {
        let (failed, all) = (invariant.broken.len(), invariant.rounds);
        broken.push(format!("Broken invariant in {failed} of {all} rounds: {}", invariant.name));
        broken.extend(invariant.broken.iter().map(|round| {
            let Broken { block, variant, values, .. } = round;
            format!("  block {block}, {variant}: {values}")
        }));
    }
    let held = invariants.iter().filter(|one| one.broken.is_empty() && one.rounds > 0).count();
    let held = match (held, invariants.len()) {
        (0, _) => None,
        (1, 1) => Some("The invariant held in every round.".to_owned()),
        (held, all) if held == all => Some(format!("All {all} invariants held in every round.")),
        (held, all) => Some(format!("{held} of {all} invariants held in every round.")),
    };
    (broken, held)
}
