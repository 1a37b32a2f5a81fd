//! The word beside each ratio that nobody predicted.

use serde::Serialize;

use super::{
    Row, VariantSummary,
    predictions::{has_short_tail, tells_about_refusals, threw, were_apart},
};
use crate::{
    finding::{self, Evidence, Finding},
    plan::Plan,
    record::RoundRecord,
    verdict::Undecided,
};

/// What the rounds say about a secondary metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Judgement {
    /// The word.
    pub word: Finding,
    /// The p-value of the ratio, adjusted by Holm over all secondary metrics of the run.
    pub adjusted_p_value: f64,
    /// Of an undecided one: with how many blocks a difference or its absence would show with a
    /// chance of 80 %; `null` if more than 1,000 or never, as of a refused response time.
    pub blocks_needed: Option<u32>,
}

/// Judges every row that no prediction is about. What leaves predictions `undecided` leaves these, too.
pub fn judge(
    variants: &mut [VariantSummary],
    plan: &Plan,
    rounds: &[RoundRecord],
    undecided: Option<Undecided>,
) {
    let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
    let is_secondary = |&(variant, row): &(usize, usize), variants: &[VariantSummary]| {
        let metric = &variants[variant].metrics[row].metric;
        !plan.predictions.iter().any(|prediction| {
            prediction.bound.is_ratio()
                && prediction.variant == names[variant]
                && prediction.metric == *metric
        })
    };
    let secondary: Vec<(usize, usize)> =
        places(variants).into_iter().filter(|place| is_secondary(place, variants)).collect();
    let evidence = |&(variant, row): &(usize, usize)| {
        let row: &Row = &variants[variant].metrics[row];
        let is_paired = plan.is_paired(&row.metric);
        let is_noise = |why: &Undecided| {
            matches!(why, Undecided::MachineTooNoisy | Undecided::GeneratorLimited)
        };
        let is_doubtful = undecided.is_some_and(|why| !(is_paired && is_noise(&why)))
            || (is_paired && were_apart(rounds, &names[variant]))
            || threw(plan, rounds, &names[variant])
            || tells_about_refusals(plan, rounds, &row.metric, &names[variant])
            || [&plan.reference, &names[variant]]
                .iter()
                .any(|name| has_short_tail(rounds, &row.metric, name));
        Evidence { estimate: row.comparison.estimate().copied(), is_doubtful }
    };
    let evidence: Vec<Evidence> = secondary.iter().map(evidence).collect();
    let findings = Finding::all(&evidence, plan.band);
    for (((variant, row), evidence), found) in secondary.into_iter().zip(evidence).zip(findings) {
        variants[variant].metrics[row].finding = found.map(|(word, adjusted_p_value)| {
            let is_open = word == Finding::Undecided && !evidence.is_doubtful;
            let estimate = evidence.estimate.filter(|_| is_open);
            let blocks_needed = estimate.and_then(|one| finding::blocks_needed(&one, plan.band));
            Judgement { word, adjusted_p_value, blocks_needed }
        });
    }
}

/// Every row by the place of its variant and its own.
fn places(variants: &[VariantSummary]) -> Vec<(usize, usize)> {
    let of = |(place, variant): (usize, &VariantSummary)| {
        (0..variant.metrics.len()).map(move |row| (place, row)).collect::<Vec<_>>()
    };
    variants.iter().enumerate().flat_map(of).collect()
}
