//! Verdicts of predictions, and their sentences.

use serde::Serialize;

use super::summary::Sides;
use super::zeros::{self, Zeros};
use super::{Comparison, Row, VariantSummary};
use crate::file::experiment::{Bound, Prediction};
use crate::journal::record::RoundRecord;
use crate::judge::rules::{self, Restrictions};
use crate::judge::stats::{self, Estimate, Level};
use crate::judge::verdict::{Undecided, Verdict};
use crate::plan::Plan;

/// A prediction and its verdict.
#[derive(Debug, Clone, Serialize)]
pub struct PredictionPart {
    #[serde(flatten)]
    pub prediction: Prediction,
    pub verdict: Verdict,
    /// `null` unless undecided.
    pub undecided_because: Option<&'static str>,
    pub sentence: String,
    /// Blocks that would decide it with a chance of 80 % at the observed mean and spread. `null` unless the interval is
    /// too wide, and if more than 1,000.
    pub blocks_needed: Option<u32>,
    /// The measured value; `null` for a claim about a ratio, which has a row of its own.
    pub level: Option<Level>,
}

/// Judges the predictions of a plan. `undecided` is the reason why the run as a whole allows no verdict.
pub(crate) fn judge(
    plan: &Plan,
    variants: &[VariantSummary],
    rounds: &[RoundRecord],
    undecided: Option<Undecided>,
    blocks: u32,
) -> Vec<PredictionPart> {
    let judged = |prediction: &Prediction| {
        let variant = variants.iter().find(|variant| variant.name == prediction.variant);
        let mut rows = variant.into_iter().flat_map(|variant| &variant.metrics);
        let row = rows.find(|row| row.metric == prediction.metric);
        Claim { plan, rounds, prediction, row, level: level(plan, rounds, prediction) }
            .part(undecided, blocks)
    };
    plan.predictions.iter().map(judged).collect()
}

/// Mean of the variant's own values; `None` for a claim about a ratio, or if a round has no value.
fn level(plan: &Plan, rounds: &[RoundRecord], prediction: &Prediction) -> Option<Level> {
    let Prediction { metric, variant, bound } = prediction;
    if bound.is_ratio() {
        return None;
    }
    let sides = Sides::select(plan, rounds, metric, variant);
    let values: Option<Vec<f64>> = sides.own().map(|round| metric.level(round).ok()).collect();
    stats::level(&values?)
}

/// A prediction and the figures about it.
struct Claim<'c> {
    plan: &'c Plan,
    rounds: &'c [RoundRecord],
    prediction: &'c Prediction,
    row: Option<&'c Row>,
    level: Option<Level>,
}

impl Claim<'_> {
    fn part(self, undecided: Option<Undecided>, blocks: u32) -> PredictionPart {
        let lang = self.plan.language;
        let verdict = match undecided {
            Some(why) if !self.withstands(why) => Verdict::Undecided(why),
            _ => self.verdict(),
        };
        let (measured, blocks_needed) = (self.measured(), self.blocks_needed(verdict));
        let mut sentence =
            lang.answer(self.prediction, &self.plan.reference, verdict, &measured, blocks);
        if verdict == Verdict::Undecided(Undecided::TooWide) {
            sentence += &lang.more_blocks(blocks_needed);
        }
        PredictionPart {
            prediction: self.prediction.clone(),
            verdict,
            undecided_because: lang.reason(verdict),
            sentence,
            blocks_needed,
            level: self.level,
        }
    }

    fn is_ratio(&self) -> bool {
        self.prediction.bound.is_ratio()
    }

    fn estimate(&self) -> Option<&Estimate> {
        self.row?.comparison.estimate()
    }

    /// True if it can be decided although the run as a whole cannot.
    fn withstands(&self, why: Undecided) -> bool {
        let Prediction { metric, variant, .. } = self.prediction;
        // Noise cannot make every request fail.
        rules::is_shared(self.plan, metric, why)
            || why == Undecided::MachineTooNoisy
                && metric.counts_good()
                && zeros::never_good(self.rounds, variant)
                && !zeros::nothing_good(self.rounds, &self.plan.reference)
    }

    fn verdict(&self) -> Verdict {
        let Prediction { metric, variant, bound } = self.prediction;
        // One round of twenty without a good request hardly moves a median or a mean.
        let is_flattered = !matches!(bound, Bound::RatioAtMost(_) | Bound::AtMost(_))
            && metric.counts_good()
            && zeros::nothing_good(self.rounds, variant);
        match self.by_interval() {
            Verdict::Supported
            | Verdict::Undecided(Undecided::TooWide | Undecided::TooFewBlocks)
                if is_flattered =>
            {
                Verdict::Undecided(Undecided::NothingGood)
            }
            verdict => verdict,
        }
    }

    fn by_interval(&self) -> Verdict {
        let found = if self.is_ratio() {
            self.estimate().map(|estimate| estimate.interval)
        } else {
            self.level.map(|level| level.interval)
        };
        match found {
            None => self.without_value(),
            Some(_) if self.interferes() => Verdict::Undecided(Undecided::Interference),
            Some(interval) => self.restricted(interval),
        }
    }

    /// Verdict about figures without an estimate.
    fn without_value(&self) -> Verdict {
        if let Some(zeros) = self.zeros() {
            let verdict = self.restricted(zeros.interval());
            if !matches!(verdict, Verdict::Undecided(_)) {
                return verdict;
            }
        }
        let Prediction { metric, variant, .. } = self.prediction;
        let reference = Some(&self.plan.reference).filter(|_| self.is_ratio());
        let mut about = [variant].into_iter().chain(reference);
        let has_nothing_good = about.any(|name| zeros::nothing_good(self.rounds, name));
        Verdict::Undecided(match self.is_ratio() {
            _ if metric.needs_good() && has_nothing_good => Undecided::NothingGood,
            true => Undecided::NoRatio,
            false => Undecided::NoValue,
        })
    }

    fn restricted(&self, interval: Option<(f64, f64)>) -> Verdict {
        let Prediction { metric, variant, bound } = self.prediction;
        let sides = Sides::select(self.plan, self.rounds, metric, variant);
        let restrictions = Restrictions::from_sides(self.plan, &sides, metric, bound.is_ratio());
        restrictions.apply(Verdict::judge(*bound, interval), *bound, interval)
    }

    fn zeros(&self) -> Option<Zeros> {
        let Prediction { metric, variant, bound } = self.prediction;
        bound.is_ratio().then(|| Zeros::find(self.plan, self.rounds, metric, variant))?
    }

    /// True if the interference within pairs is larger than the claim.
    fn interferes(&self) -> bool {
        let (Some(row), Some(estimate)) = (self.row, self.estimate()) else { return false };
        let (below, above) = self.prediction.bound.distances(estimate.ratio);
        self.is_ratio() && rules::interferes(row.interference, below.abs().min(above.abs()))
    }

    fn blocks_needed(&self, verdict: Verdict) -> Option<u32> {
        if verdict != Verdict::Undecided(Undecided::TooWide) {
            return None;
        }
        let (value, spread) = if self.is_ratio() {
            let estimate = self.estimate()?;
            (estimate.ratio, estimate.spread?)
        } else {
            (self.level?.value, self.level?.spread?)
        };
        let (below, above) = self.prediction.bound.distances(value);
        stats::blocks_needed(spread, below, above)
    }

    /// The measured value in words.
    fn measured(&self) -> String {
        let lang = self.plan.language;
        match (self.level, self.row.map(|row| &row.comparison)) {
            (Some(level), _) => {
                let show = |value| self.prediction.metric.show(value);
                let ends = level.interval.map(|(low, high)| (show(low), show(high)));
                lang.measured(&lang.value(&show(level.value), ends))
            }
            (None, Some(Comparison::Ratio(estimate))) if self.is_ratio() => {
                lang.measured(&lang.estimate(estimate))
            }
            (None, Some(Comparison::NoRatio(why))) => {
                let zeros = self.zeros().and_then(|zeros| zeros.words(why, lang));
                zeros.unwrap_or_else(|| lang.no_ratio(why))
            }
            _ => lang.nothing().to_owned(),
        }
    }
}
