//! Rows of a report: a value and a ratio per variant and metric.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::{self, Figures};
use super::{Language, all, counted, means};
use crate::file::experiment::Variant;
use crate::journal::record::{Measured, RoundRecord};
use crate::judge::answer::Answer;
use crate::judge::metric::{Absent, Metric};
use crate::judge::part::StackPart;
use crate::judge::stats::{self, Estimate, Interference};
use crate::judge::verdict::Undecided;
use crate::plan::Plan;

/// A variant over all complete blocks.
#[derive(Debug, Clone, Serialize)]
pub struct VariantSummary {
    pub name: String,
    pub is_reference: bool,
    pub metrics: Vec<Row>,
    /// `None` without a counted round.
    pub figures: Option<Figures>,
}

/// A metric of a variant.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub metric: Metric,
    /// `1/s`, `ms`, `us`, `bytes`, or empty for counts, shares and metrics of the script.
    pub unit: &'static str,
    /// Geometric mean over the rounds, or arithmetic if one is zero; `null` if a round has no value.
    pub value: Option<f64>,
    /// Likewise, in the rounds of the reference.
    pub reference_value: Option<f64>,
    #[serde(flatten)]
    pub comparison: Comparison,
    /// `null` with fewer than two blocks of rounds alone.
    pub interference: Option<Interference>,
    /// `null` for the reference.
    pub answer: Option<Answer>,
    /// Reason for an open answer in spite of an interval.
    #[serde(skip)]
    pub doubt: Option<Undecided>,
    /// The measured ratio is only a bound.
    #[serde(skip)]
    pub is_bound: bool,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    #[serde(rename = "is_reference")]
    Reference,
    Ratio(Estimate),
    NoRatio(String),
}

impl Comparison {
    pub fn estimate(&self) -> Option<&Estimate> {
        match self {
            Self::Ratio(estimate) => Some(estimate),
            Self::Reference | Self::NoRatio(_) => None,
        }
    }
}

pub(crate) fn summarise(plan: &Plan, rounds: &[RoundRecord]) -> Vec<VariantSummary> {
    let metrics = metrics(plan, rounds);
    let summary = |variant: &Variant| {
        let name = variant.name.as_str();
        let is_reference = name == plan.reference;
        let rows = metrics.iter().map(|metric| {
            let sides = Sides::select(plan, rounds, metric, name);
            let (comparison, interference) = if is_reference {
                (Comparison::Reference, None)
            } else {
                let comparison = compare(metric, &sides, (&plan.reference, name), plan.language);
                let interference = comparison.estimate().and_then(|paired| {
                    let alone = Sides::alone(rounds, &plan.reference, name).pairs(metric)?;
                    stats::interference(paired, &stats::estimate(&alone)?)
                });
                (comparison, interference.filter(|_| plan.is_paired(metric)))
            };
            Row {
                metric: metric.clone(),
                unit: metric.unit(),
                value: mean(metric, sides.own()),
                reference_value: mean(metric, sides.reference()),
                comparison,
                interference,
                answer: None,
                doubt: None,
                is_bound: false,
            }
        });
        VariantSummary {
            name: name.to_owned(),
            is_reference,
            metrics: rows.collect(),
            figures: figures::figures(rounds, variant),
        }
    };
    plan.variants.iter().map(summary).collect()
}

/// Metrics of the plan and, for stacks, of their processes.
fn metrics(plan: &Plan, rounds: &[RoundRecord]) -> Vec<Metric> {
    let mut metrics = plan.metrics.clone();
    if !plan.variants.iter().any(Variant::has_stack) {
        return metrics;
    }
    let variants = plan.variants.iter().flat_map(|variant| all(rounds, &variant.name));
    let rounds: Vec<&Measured> = variants.map(|(_, round)| round).collect();
    let mut names: Vec<&String> = rounds.iter().flat_map(|round| round.processes.keys()).collect();
    // A part comes before its processes.
    names.sort_by_cached_key(|name| {
        let part = StackPart::of_process(name);
        (part, part.is_some_and(|part| part.name() != name.as_str()), *name)
    });
    names.dedup();
    for metric in
        Metric::OF_GROUPS.iter().flat_map(|whole| names.iter().map(|name| whole.of_group(name)))
    {
        let is_known = rounds.iter().any(|round| metric.level(round) != Err(Absent::NoPart));
        if is_known && !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    metrics
}

/// Geometric if possible, so that values of two variants have the printed ratio.
fn mean<'r>(metric: &Metric, rounds: impl Iterator<Item = &'r Measured>) -> Option<f64> {
    let values: Result<Vec<f64>, Absent> = rounds.map(|round| metric.level(round)).collect();
    Some(means::typical(&values.ok()?)?.0)
}

/// Rounds behind a ratio: those of the reference and of the variant, by block.
pub(crate) struct Sides<'r> {
    reference: BTreeMap<u32, &'r Measured>,
    own: Vec<(u32, &'r Measured)>,
}

impl<'r> Sides<'r> {
    /// Pairs for metrics that are compared in pairs, otherwise rounds alone. All pairs for the reference itself.
    pub(crate) fn select(
        plan: &'r Plan,
        rounds: &'r [RoundRecord],
        metric: &Metric,
        name: &'r str,
    ) -> Self {
        if !plan.is_paired(metric) {
            return Self::alone(rounds, &plan.reference, name);
        }
        let beside = |name: &'r str, other: Option<&'r str>| {
            let is_meant = move |round: &RoundRecord| {
                round.beside.is_some()
                    && other.is_none_or(|other| round.beside.as_deref() == Some(other))
            };
            let rounds = all(rounds, name).filter(move |(round, _)| is_meant(round));
            rounds.map(|(round, measured)| (round.block, measured))
        };
        let other = Some(plan.reference.as_str()).filter(|reference| *reference != name);
        Self {
            reference: beside(&plan.reference, Some(name)).collect(),
            own: beside(name, other).collect(),
        }
    }

    fn alone(rounds: &'r [RoundRecord], reference: &'r str, name: &'r str) -> Self {
        Self {
            reference: counted(rounds, reference).collect(),
            own: counted(rounds, name).collect(),
        }
    }

    pub(crate) fn own(&self) -> impl Iterator<Item = &'r Measured> + '_ {
        self.own.iter().map(|(_, round)| *round)
    }

    pub(crate) fn reference(&self) -> impl Iterator<Item = &'r Measured> + '_ {
        self.reference.values().copied()
    }

    /// Rounds of the reference and the variant, by block.
    pub(crate) fn both(&self) -> impl Iterator<Item = (&'r Measured, &'r Measured)> + '_ {
        self.own.iter().filter_map(|(block, own)| Some((*self.reference.get(block)?, *own)))
    }

    /// Values of each block; `None` if one is absent.
    fn pairs(&self, metric: &Metric) -> Option<Vec<(f64, f64)>> {
        let values = |(reference, own)| {
            Some((metric.value_for_ratio(reference).ok()?, metric.value_for_ratio(own).ok()?))
        };
        self.both().map(values).collect()
    }
}

/// A value that is missing in any round leaves no ratio: otherwise only the good rounds would be compared.
fn compare(metric: &Metric, sides: &Sides<'_>, names: (&str, &str), lang: Language) -> Comparison {
    let own = &sides.own;
    let mut pairs = Vec::new();
    let mut absent: BTreeMap<(&str, Absent), u32> = BTreeMap::new();
    for (paired, round) in sides.both() {
        let values = (metric.value_for_ratio(paired), metric.value_for_ratio(round));
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
        return Comparison::NoRatio(why);
    }
    match stats::estimate(&pairs) {
        Some(estimate) => Comparison::Ratio(estimate),
        None => {
            let why = lang.pick("no block is complete", "완료된 블록이 없습니다");
            Comparison::NoRatio(why.to_owned())
        }
    }
}

/// More digits for small ratios and ratios near 1.
pub(crate) fn ratio(value: f64) -> String {
    match value {
        v if v < 0.1 => format!("{v:.4}"),
        v if v < 2.0 => format!("{v:.3}"),
        v if v < 10.0 => format!("{v:.2}"),
        v => crate::judge::metric::digits(v),
    }
}
