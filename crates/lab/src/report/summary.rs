//! From rounds to rows: one value and one ratio per variant and metric.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Ended, counted};
use crate::{
    experiment::{Bound, Documented},
    metric::{Absent, Metric},
    plan::Plan,
    record::{Measured, Outcome, RoundRecord, Warning},
    stats::{self, Estimate},
    verdict::Verdict,
};

/// One variant over all complete blocks.
#[derive(Debug, Clone, Serialize)]
pub struct VariantSummary {
    /// Its name.
    pub name: String,
    /// Whether the others are compared with it.
    pub is_reference: bool,
    /// One row per metric.
    pub metrics: Vec<Row>,
    /// Figures of others that are none of our metrics, as they were written.
    pub documented: Vec<(String, String)>,
}

/// One metric of one variant.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Which.
    pub metric: Metric,
    /// Its unit: `1/s`, `ms`, `us` or `bytes`.
    pub unit: &'static str,
    /// Geometric mean over the rounds; `null` when any round has none.
    pub value: Option<f64>,
    /// Against the reference.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// What others published for it, as they wrote it.
    pub documented: Option<String>,
}

/// A variant's metric against that of the reference.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// It is the reference.
    #[serde(rename = "is_reference")]
    Reference,
    /// The ratio over all complete blocks.
    Ratio(Estimate),
    /// There is no ratio, and why.
    NoRatio(String),
}

impl Comparison {
    /// The estimate, if there is one.
    #[must_use]
    pub fn estimate(&self) -> Option<&Estimate> {
        match self {
            Self::Ratio(estimate) => Some(estimate),
            Self::Reference | Self::NoRatio(_) => None,
        }
    }
}

pub fn summarise(
    plan: &Plan,
    rounds: &[RoundRecord],
    documented: &[Documented],
) -> Vec<VariantSummary> {
    let reference: BTreeMap<u32, &Measured> = counted(rounds, &plan.reference).collect();
    let summary = |name: &str| {
        let figures = documented
            .iter()
            .find(|documented| documented.variant == name)
            .map_or(&[][..], |documented| &documented.figures);
        let is_reference = name == plan.reference;
        let own: Vec<(u32, &Measured)> = counted(rounds, name).collect();
        let rows = Metric::ALL.into_iter().map(|metric| Row {
            metric,
            unit: metric.unit(),
            value: mean(metric, &own),
            comparison: if is_reference {
                Comparison::Reference
            } else {
                compare(metric, &reference, &own, (&plan.reference, name))
            },
            documented: figure(figures, metric.id()),
        });
        let others = figures.iter().filter(|(name, _)| Metric::from_id(name).is_none());
        VariantSummary {
            name: name.to_owned(),
            is_reference,
            metrics: rows.collect(),
            documented: others.cloned().collect(),
        }
    };
    plan.variants.iter().map(|variant| summary(&variant.name)).collect()
}

fn figure(figures: &[(String, String)], id: &str) -> Option<String> {
    figures.iter().find(|(name, _)| name == id).map(|(_, value)| value.clone())
}

/// The geometric mean, so that two variants' values stand in the ratio that is printed.
fn mean(metric: Metric, rounds: &[(u32, &Measured)]) -> Option<f64> {
    let logs: Result<Vec<f64>, Absent> =
        rounds.iter().map(|(_, round)| metric.of(round).map(f64::ln)).collect();
    let logs = logs.ok().filter(|logs| !logs.is_empty())?;
    Some((logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// A metric that is absent in any round has no ratio at all: leaving such rounds out would
/// compare only those in which the variant did well.
fn compare(
    metric: Metric,
    reference: &BTreeMap<u32, &Measured>,
    own: &[(u32, &Measured)],
    names: (&str, &str),
) -> Comparison {
    let mut pairs = Vec::new();
    let mut absent: BTreeMap<(&str, &'static str), u32> = BTreeMap::new();
    for (block, round) in own {
        let Some(paired) = reference.get(block) else { continue };
        let values = (metric.of(paired), metric.of(round));
        match values {
            (Ok(left), Ok(right)) => pairs.push((left, right)),
            (left, right) => {
                for (name, side) in [(names.0, left), (names.1, right)] {
                    if let Err(why) = side {
                        *absent.entry((name, why.reason())).or_default() += 1;
                    }
                }
            }
        }
    }
    if let Some(((name, why), rounds)) = absent.first_key_value() {
        let all = own.len();
        return Comparison::NoRatio(format!("{why} ({name}, {rounds} of {all} rounds)"));
    }
    match stats::estimate(&pairs) {
        Some(estimate) => Comparison::Ratio(estimate),
        None => Comparison::NoRatio("no block is complete".to_owned()),
    }
}

/// The answer as a person would say it.
pub fn sentence(plan: &Plan, variants: &[VariantSummary], verdict: Verdict, blocks: u32) -> String {
    let prediction = &plan.prediction;
    let metric = prediction.metric.label();
    let row = variants
        .iter()
        .find(|variant| variant.name == prediction.variant)
        .and_then(|variant| variant.metrics.iter().find(|row| row.metric == prediction.metric));
    let measured = match row.map(|row| &row.comparison) {
        Some(Comparison::Ratio(estimate)) => format!("measured {}", show(estimate)),
        Some(Comparison::NoRatio(why)) => format!("no ratio: {why}"),
        _ => "nothing was measured".to_owned(),
    };
    if plan.calibration {
        return calibration(verdict, metric, &measured, variants, blocks);
    }
    let (words, ratio) = match prediction.bound {
        Bound::RatioAtMost(ratio) => ("at most", ratio),
        Bound::RatioAtLeast(ratio) => ("at least", ratio),
    };
    let why = verdict.reason().map_or_else(String::new, |why| format!(" Why: {why}."));
    format!(
        "{}: {metric} of `{}` was predicted to be {words} ×{ratio} that of `{}`; {measured} in \
         {}.{why}",
        capital(verdict.word()),
        prediction.variant,
        plan.reference,
        plural(blocks),
    )
}

/// What an A/A run says: how far apart two equal things appear here.
fn calibration(
    verdict: Verdict,
    metric: &str,
    measured: &str,
    variants: &[VariantSummary],
    blocks: u32,
) -> String {
    let widest = variants
        .iter()
        .flat_map(|variant| &variant.metrics)
        .filter_map(|row| Some((row.comparison.estimate()?.half_width()?, row.metric)))
        .max_by(|left, right| left.0.total_cmp(&right.0));
    let spread = widest.map_or_else(String::new, |(width, metric)| {
        format!(
            " Widest interval: ± {} % ({}).",
            crate::metric::digits(width * 100.0),
            metric.label()
        )
    });
    let told = match verdict {
        Verdict::Supported => "cannot be told from itself, as it should be",
        Verdict::Refuted => "appears to differ from itself: distrust comparisons made here",
        Verdict::Undecided(_) => "was not measured often enough",
    };
    format!(
        "Calibration: the reference {told}; {metric}: {measured} in {}.{spread}",
        plural(blocks)
    )
}

fn plural(blocks: u32) -> String {
    if blocks == 1 { "1 block".to_owned() } else { format!("{blocks} blocks") }
}

/// `×0.52 (95 % interval 0.48 to 0.57)`.
pub fn show(estimate: &Estimate) -> String {
    match estimate.interval {
        Some((low, high)) => {
            format!("×{} (95 % interval {} to {})", ratio(estimate.ratio), ratio(low), ratio(high))
        }
        None => format!("×{} (one block: no interval)", ratio(estimate.ratio)),
    }
}

/// Enough digits to tell small ratios and ratios near one apart.
pub fn ratio(value: f64) -> String {
    match value {
        v if v < 0.1 => format!("{v:.4}"),
        v if v < 2.0 => format!("{v:.3}"),
        v if v < 10.0 => format!("{v:.2}"),
        v => crate::metric::digits(v),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

/// What makes the numbers doubtful, most telling first.
pub fn warnings(plan: &Plan, rounds: &[RoundRecord], ended: Ended) -> Vec<String> {
    let mut lines = Vec::new();
    let failed = rounds.iter().filter_map(|round| match &round.outcome {
        Outcome::Failed(failure) => Some((round, failure)),
        Outcome::Measured(_) => None,
    });
    for (round, failure) in failed {
        lines.push(format!(
            "block {}, attempt {}: the round of `{}` broke: {}",
            round.block, round.attempt, round.variant, failure.message
        ));
    }
    match ended {
        Ended::Complete => {}
        Ended::Interrupted => lines.push("the run was interrupted".to_owned()),
        Ended::Broken { block, attempts } => {
            lines.push(format!("block {block} broke {attempts} times, so the run was given up"));
        }
    }
    lines.extend(doubts(plan, rounds));
    lines
}

/// How much of what the verdict rests on others disturbed: said beside the verdict, because it is
/// the first thing to doubt.
pub fn noise(plan: &Plan, rounds: &[RoundRecord]) -> Option<String> {
    let names = [&plan.reference, &plan.prediction.variant];
    let about = names.iter().flat_map(|name| counted(rounds, name)).map(|(_, measured)| measured);
    let (disturbed, all) = about.fold((0, 0), |(disturbed, all), measured| {
        (disturbed + usize::from(measured.was_disturbed()), all + 1)
    });
    let most =
        if disturbed * 2 > all { ", more than half: repeat it on a quieter machine" } else { "" };
    (disturbed > 0).then(|| {
        format!(
            "Noise: other processes or the hypervisor disturbed {disturbed} of the {all} rounds \
             this rests on{most}."
        )
    })
}

/// One line for each kind of doubt, with the variants it concerns.
fn doubts(plan: &Plan, rounds: &[RoundRecord]) -> Vec<String> {
    let mut seen: BTreeMap<Warning, Vec<String>> = BTreeMap::new();
    for variant in &plan.variants {
        let own: Vec<&Measured> =
            counted(rounds, &variant.name).map(|(_, measured)| measured).collect();
        let mut counts: BTreeMap<Warning, usize> = BTreeMap::new();
        for warning in own.iter().flat_map(|measured| &measured.warnings) {
            *counts.entry(*warning).or_default() += 1;
        }
        for (warning, count) in counts {
            let share = format!("`{}` {count} of {}", variant.name, own.len());
            seen.entry(warning).or_default().push(share);
        }
    }
    let line = |(warning, shares): (Warning, Vec<String>)| {
        format!("{} (rounds of {})", warning.text(), shares.join(", "))
    };
    seen.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        experiment::{Prediction, Target, Variant},
        plan::Settings,
    };

    fn round(variant: &str, counted: bool, warnings: &[&str]) -> RoundRecord {
        let load = json!({
            "version": 1, "started_at_seconds": 0.0, "ended_at_seconds": 1.0,
            "duration_seconds": 1.0, "aborted": false,
            "requests": {"total": 1, "good": 1, "failed": 0},
            "bytes": {"sent": 0, "received": 0}, "status_codes": {}, "trends": {},
            "iterations": {"complete": 1, "interrupted": 0, "dropped": 0},
            "generator": {"cpu_seconds": 0.0, "cores": 1, "lag_p99_ms": 0.0, "limited": false},
        });
        let record = json!({
            "block": 1, "attempt": 1, "position": 1, "variant": variant, "started": "",
            "took_seconds": 1.0, "counted": counted,
            "measured": {"load": load, "server": null, "machine": null, "cpus": null,
                         "warnings": warnings},
        });
        serde_json::from_value(record).unwrap()
    }

    fn plan() -> Plan {
        let variant =
            |name: &str| Variant { name: name.to_owned(), target: Target::Url(String::new()) };
        Plan {
            variants: ["a", "b", "c"].map(variant).into(),
            reference: "a".to_owned(),
            prediction: Prediction {
                metric: Metric::Goodput,
                variant: "b".to_owned(),
                bound: Bound::RatioAtLeast(1.0),
            },
            calibration: false,
            settings: Settings {
                quick: false,
                blocks: 1,
                warm_up: std::time::Duration::ZERO,
                vus: None,
                duration: None,
                env: Vec::new(),
                retries: 0,
                pin_cpus: false,
            },
            seed: 0,
        }
    }

    #[test]
    fn noise_is_counted_over_the_rounds_the_verdict_rests_on() {
        let said = |rounds: &[RoundRecord]| noise(&plan(), rounds);
        let (quiet, loud) = (round("a", true, &["thresholds"]), round("b", true, &["steal"]));
        let half = said(&[quiet.clone(), loud.clone()]).unwrap();
        assert!(half.contains("1 of the 2 rounds") && !half.contains("more than half"), "{half}");
        let most = said(&[loud, round("a", true, &["foreign_cpu"]), quiet.clone()]).unwrap();
        assert!(most.contains("2 of the 3 rounds") && most.contains("more than half"), "{most}");
        let elsewhere = [round("c", true, &["steal"]), round("a", false, &["steal"]), quiet];
        assert_eq!(said(&elsewhere), None);
    }
}
