//! From rounds to rows: one value and one ratio per variant and metric.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    Language, counted,
    figures::{self, Figures},
    findings::Judgement,
};
use crate::{
    experiment::{Documented, Variant},
    metric::{Absent, Metric},
    plan::Plan,
    record::{Measured, RoundRecord},
    stats::{self, Estimate},
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
    /// The columns that other tools' reports have; `None` without a round that counts.
    pub figures: Option<Figures>,
    /// Figures of others that are none of our metrics, as they were written.
    pub documented: Vec<(String, String)>,
}

/// One metric of one variant.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Which.
    pub metric: Metric,
    /// Its unit: `1/s`, `ms`, `us`, `bytes`, or empty for a count, a share, or a figure of a
    /// script's own, whose unit only the script knows.
    pub unit: &'static str,
    /// Geometric mean over the rounds, or arithmetic if any is zero; `null` when any round has
    /// none.
    pub value: Option<f64>,
    /// Against the reference.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Two-sided p-value of a sign-flip test of the ratio, which assumes no distribution; `null`
    /// where there is no ratio, and with fewer than two blocks.
    pub permutation_p_value: Option<f64>,
    /// What the rounds say about it when no prediction does; `null` of a predicted ratio, and
    /// where there is no interval.
    pub finding: Option<Judgement>,
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
    let summary = |variant: &Variant| {
        let name = variant.name.as_str();
        let known = documented
            .iter()
            .find(|documented| documented.variant == name)
            .map_or(&[][..], |documented| &documented.figures);
        let is_reference = name == plan.reference;
        let own: Vec<(u32, &Measured)> = counted(rounds, name).collect();
        let rows = plan.metrics.iter().map(|metric| {
            let (comparison, permutation_p_value) = if is_reference {
                (Comparison::Reference, None)
            } else {
                compare(metric, &reference, &own, (&plan.reference, name), plan.language)
            };
            Row {
                metric: metric.clone(),
                unit: metric.unit(),
                value: mean(metric, &own),
                comparison,
                permutation_p_value,
                finding: None,
                documented: figure(known, &metric.id()),
            }
        });
        let is_row = |name: &str| plan.metrics.iter().any(|metric| metric.id() == name);
        let others = known.iter().filter(|(name, _)| !is_row(name));
        VariantSummary {
            name: name.to_owned(),
            is_reference,
            metrics: rows.collect(),
            figures: figures::figures(rounds, variant),
            documented: others.cloned().collect(),
        }
    };
    plan.variants.iter().map(summary).collect()
}

fn figure(figures: &[(String, String)], id: &str) -> Option<String> {
    figures.iter().find(|(name, _)| name == id).map(|(_, value)| value.clone())
}

/// The geometric mean, so that two variants' values stand in the ratio that is printed.
fn mean(metric: &Metric, rounds: &[(u32, &Measured)]) -> Option<f64> {
    let values: Result<Vec<f64>, Absent> =
        rounds.iter().map(|(_, round)| metric.level(round)).collect();
    let values = values.ok().filter(|values| !values.is_empty())?;
    let n = values.len() as f64;
    if values.iter().all(|value| *value > 0.0) {
        Some((values.iter().map(|value| value.ln()).sum::<f64>() / n).exp())
    } else {
        Some(values.iter().sum::<f64>() / n)
    }
}

/// A metric that is absent in any round has no ratio at all: leaving such rounds out would
/// compare only those in which the variant did well. Beside a ratio, the p-value of
/// a permutation test.
fn compare(
    metric: &Metric,
    reference: &BTreeMap<u32, &Measured>,
    own: &[(u32, &Measured)],
    names: (&str, &str),
    lang: Language,
) -> (Comparison, Option<f64>) {
    let mut pairs = Vec::new();
    let mut absent: BTreeMap<(&str, Absent), u32> = BTreeMap::new();
    for (block, round) in own {
        let Some(paired) = reference.get(block) else { continue };
        let values = (metric.of(paired), metric.of(round));
        match values {
            (Ok(left), Ok(right)) => pairs.push((left, right)),
            (left, right) => {
                for (name, side) in [(names.0, left), (names.1, right)] {
                    if let Err(why) = side {
                        *absent.entry((name, why)).or_default() += 1;
                    }
                }
            }
        }
    }
    if let Some(((name, why), rounds)) = absent.first_key_value() {
        let why = lang.absent(*why, name, *rounds, own.len());
        return (Comparison::NoRatio(why), None);
    }
    match stats::estimate(&pairs) {
        Some(estimate) => {
            let logs = stats::log_ratios(&pairs);
            let paces = if metric.goes_with_pace() { paces(reference, own) } else { None };
            let adjusted = paces.and_then(|paces| {
                let adjusted = stats::adjusted(&estimate, &logs, &paces)?;
                let p_value = stats::sign_flip_at_equal_pace(&logs, &paces);
                Some((Comparison::Ratio(adjusted), p_value))
            });
            adjusted.unwrap_or_else(|| (Comparison::Ratio(estimate), stats::sign_flip(&logs)))
        }
        None => {
            let why = lang.pick("no block is complete", "완료된 블록이 없습니다");
            (Comparison::NoRatio(why.to_owned()), None)
        }
    }
}

/// The logarithms of the blocks' ratios of how fast the server's cores ran; `None` when any round
/// does not have it.
pub fn paces(reference: &BTreeMap<u32, &Measured>, own: &[(u32, &Measured)]) -> Option<Vec<f64>> {
    let pairs = own.iter().filter_map(|(block, round)| Some((*reference.get(block)?, *round)));
    let pairs: Option<Vec<(f64, f64)>> =
        pairs.map(|(paired, round)| Some((paired.pace()?, round.pace()?))).collect();
    Some(stats::log_ratios(&pairs?))
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
