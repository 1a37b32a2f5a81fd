//! Labels of all ratios, and the headlines of a report.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::summary::Sides;
use super::zeros::Zeros;
use super::{Row, VariantSummary};
use crate::journal::record::RoundRecord;
use crate::judge::answer::{self, Answer, Direction};
use crate::judge::metric::{Metric, Statistic};
use crate::judge::rules::{self, Restrictions};
use crate::judge::stats;
use crate::judge::verdict::Undecided;
use crate::plan::Plan;

/// Answer about a figure of a variant.
#[derive(Debug, Clone, Serialize)]
pub struct Headline {
    pub variant: String,
    pub metric: Metric,
    pub answer: Answer,
    pub sentence: String,
    /// Reason for an open answer in spite of an interval.
    #[serde(skip)]
    pub doubt: Option<Undecided>,
}

/// A worse figure that is not in question.
#[derive(Debug, Clone, Serialize)]
pub struct Further {
    pub variant: String,
    pub metric: Metric,
    /// Smallest difference in the interval, as a share.
    pub least: f64,
    pub sentence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// Variant divided by reference.
    pub ratio: f64,
    /// Lower end of the 95 % interval; `null` with fewer than two blocks.
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub answer: Answer,
}

/// Labels the rows of all variants but the reference. `undecided` is the reason why the run allows no answer.
pub(crate) fn judge(
    variants: &mut [VariantSummary],
    plan: &Plan,
    rounds: &[RoundRecord],
    undecided: Option<Undecided>,
) {
    for variant in variants.iter_mut().filter(|variant| !variant.is_reference) {
        for row in &mut variant.metrics {
            let restrictions = Restrictions::from_sides(
                plan,
                &Sides::select(plan, rounds, &row.metric, &variant.name),
                &row.metric,
                true,
            );
            let doubt = undecided.filter(|why| !rules::is_shared(plan, &row.metric, *why));
            let answer = answer_of(row, &variant.name, plan, rounds, restrictions, doubt);
            (row.answer, row.doubt) = (Some(answer.0), answer.1);
            row.is_bound = restrictions.is_bound();
        }
    }
}

fn answer_of(
    row: &Row,
    variant: &str,
    plan: &Plan,
    rounds: &[RoundRecord],
    restrictions: Restrictions,
    undecided: Option<Undecided>,
) -> (Answer, Option<Undecided>) {
    let metric = &row.metric;
    let estimate = row.comparison.estimate();
    let interval = match estimate {
        Some(estimate) => estimate.interval,
        None => Zeros::find(plan, rounds, metric, variant).and_then(|zeros| zeros.interval()),
    };
    let answer = Answer::judge(interval, metric.direction(), plan.band);
    let doubt = undecided
        .or(restrictions.nothing)
        .or_else(|| (estimate.is_none() && interval.is_none()).then_some(Undecided::NoRatio))
        .or_else(|| interval.is_none().then_some(Undecided::TooFewBlocks))
        .or_else(|| restrictions.hides(interval).filter(|_| answer != Answer::CannotTell))
        .or_else(|| {
            let distance = estimate?.ratio.ln();
            rules::interferes(row.interference, distance).then_some(Undecided::Interference)
        });
    (doubt.map_or(answer, |_| Answer::CannotTell), doubt)
}

/// Headlines of the figures in question.
pub(crate) fn headlines(
    plan: &Plan,
    variants: &[VariantSummary],
    rounds: &[RoundRecord],
) -> Vec<Headline> {
    let headline = |(metric, name): &(Metric, String)| {
        let variant = variants.iter().find(|variant| variant.name == *name)?;
        let row = variant.metrics.iter().find(|row| row.metric == *metric)?;
        let seconds = seconds(plan, rounds, name, plan.is_paired(metric));
        Some(Headline {
            variant: name.clone(),
            metric: metric.clone(),
            answer: row.answer?,
            sentence: plan.language.headline(plan, name, row, seconds),
            doubt: row.doubt,
        })
    };
    plan.asked.iter().filter_map(headline).collect()
}

/// Total duration of the rounds behind a figure; rounds of a pair run at the same time.
fn seconds(plan: &Plan, rounds: &[RoundRecord], name: &str, is_paired: bool) -> f64 {
    let is_own = |round: &&RoundRecord| {
        let is_reference = round.variant == plan.reference && !is_paired;
        round.counted
            && round.beside.is_some() == is_paired
            && (round.variant == name || is_reference)
    };
    rounds.iter().filter(is_own).map(|round| round.took_seconds).sum()
}

/// Figures with a ratio, by their names in files.
pub(crate) fn figures(variants: &[VariantSummary], name: Option<&str>) -> Vec<(String, Figure)> {
    let variant = variants.iter().find(|variant| Some(variant.name.as_str()) == name);
    let figure = |row: &Row| {
        let estimate = row.comparison.estimate()?;
        let figure = Figure {
            ratio: estimate.ratio,
            low: estimate.interval.map(|(low, _)| low),
            high: estimate.interval.map(|(_, high)| high),
            answer: row.answer?,
        };
        Some((row.metric.id(), figure))
    };
    variant.map_or_else(Vec::new, |one| one.metrics.iter().filter_map(figure).collect())
}

/// Serialises pairs as an object.
pub(crate) fn as_map<S: Serializer>(
    pairs: &[(String, Figure)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (name, figure) in pairs {
        map.serialize_entry(name, figure)?;
    }
    map.end()
}

/// Figures that are reported if they are worse. One percentile represents all.
const WATCHED: [Metric; 4] = [
    Metric::CpuPerGoodRequest,
    Metric::PeakMemory,
    Metric::Goodput,
    Metric::Response(Statistic::P95),
];

/// Worse figures that are not in question; p-values of all watched figures are adjusted (Holm).
pub(crate) fn also_worse(
    plan: &Plan,
    variants: &[VariantSummary],
    headlines: &[Headline],
) -> Vec<Further> {
    let is_asked = |name: &str, metric: &Metric| {
        headlines.iter().any(|one| one.variant == name && one.metric == *metric)
    };
    let others = variants.iter().filter(|variant| !variant.is_reference);
    let rows = others.flat_map(|variant| variant.metrics.iter().map(|row| (&variant.name, row)));
    let watched = rows.filter(|(name, row)| {
        WATCHED.contains(&row.metric) && !is_asked(name, &row.metric) && row.doubt.is_none()
    });
    let judged: Vec<(&String, &Row, f64)> = watched
        .filter_map(|(name, row)| Some((name, row, row.comparison.estimate()?.p_value?)))
        .collect();
    let p_values: Vec<f64> = judged.iter().map(|(.., p_value)| *p_value).collect();
    let further =
        judged.into_iter().zip(stats::holm(&p_values)).filter_map(|((name, row, _), adjusted)| {
            let estimate = row.comparison.estimate()?;
            let (low, high) = estimate.interval?;
            let is_worse = row.answer == Some(Answer::Worse) && adjusted <= answer::LEVEL;
            is_worse.then(|| Further {
                variant: name.clone(),
                metric: row.metric.clone(),
                least: low.max(1.0 / high) - 1.0,
                sentence: plan.language.also_worse(name, &row.metric, estimate.ratio, (low, high)),
            })
        });
    further.collect()
}

impl Row {
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        self.comparison.estimate()?.interval
    }

    /// `None` if undecided.
    pub fn is_worse_by(&self, share: f64) -> Option<bool> {
        let interval = self.interval();
        let (low, high) = interval.filter(|_| self.doubt.is_none())?;
        // Ends of the interval as factors towards worse.
        let (least, most) = match self.metric.direction() {
            Direction::Less => (low, high),
            Direction::More => (1.0 / high, 1.0 / low),
            Direction::Unknown => return Some(false),
        };
        let limit = 1.0 + share;
        let distance = (low * high).sqrt().ln().abs() - limit.ln();
        if rules::interferes(self.interference, distance) {
            return None;
        }
        if least > limit {
            Some(true)
        } else if most <= limit {
            // Beyond a bound, the true difference may be larger.
            (!(self.is_bound && self.answer == Some(Answer::Worse))).then_some(false)
        } else {
            // Without a threshold, an interval that includes 1 is either the same or undecided.
            (share == 0.0 && self.answer == Some(Answer::Same)).then_some(false)
        }
    }
}
