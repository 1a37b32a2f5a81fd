//! From rows to answers: each prediction, its verdict, and both in words.

use serde::Serialize;

use super::summary::Sides;
use super::zeros::{self, Zeros};
use super::{Comparison, Language, Row, VariantSummary};
use crate::file::experiment::{Bound, Prediction};
use crate::journal::record::RoundRecord;
use crate::judge::rules::{self, Restrictions};
use crate::judge::stats::{self, Level};
use crate::judge::verdict::{Undecided, Verdict};
use crate::plan::Plan;

/// A prediction and what the rounds say about it.
#[derive(Debug, Clone, Serialize)]
pub struct PredictionPart {
    #[serde(flatten)]
    pub prediction: Prediction,
    pub verdict: Verdict,
    /// Why it is undecided; `null` otherwise.
    pub undecided_because: Option<&'static str>,
    pub sentence: String,
    /// Of an interval too wide: with how many blocks it would be decided with a chance of 80 %, if
    /// mean and spread stay as they are; `null` otherwise, and if more than 1,000.
    pub blocks_needed: Option<u32>,
    /// What was measured, of a claim about a value; that of a ratio is in its row.
    pub level: Option<Level>,
}

/// What answers rest on.
pub(crate) struct Evidence<'e> {
    pub plan: &'e Plan,
    pub variants: &'e [VariantSummary],
    pub rounds: &'e [RoundRecord],
}

impl Evidence<'_> {
    /// One answer for each prediction; all of them undecided when the run allows no verdict.
    pub(crate) fn answers(&self, undecided: Option<Undecided>, blocks: u32) -> Vec<PredictionPart> {
        let answer = |prediction: &Prediction| {
            let level = self.level(prediction);
            let verdict = match undecided {
                Some(why) if !self.withstands(why, prediction) => Verdict::Undecided(why),
                _ => self.verdict(prediction, level.as_ref()),
            };
            let blocks_needed = self.blocks_needed(prediction, level.as_ref(), verdict);
            PredictionPart {
                blocks_needed,
                verdict,
                undecided_because: self.plan.language.reason(verdict),
                sentence: self.sentence(prediction, level.as_ref(), verdict, blocks)
                    + &self.more(verdict, blocks_needed),
                prediction: prediction.clone(),
                level,
            }
        };
        self.plan.predictions.iter().map(answer).collect()
    }

    /// Whether it can be decided in spite of that.
    fn withstands(&self, why: Undecided, prediction: &Prediction) -> bool {
        // Whoever used the machine: some request would have been good.
        rules::is_shared(self.plan, &prediction.metric, why)
            || why == Undecided::MachineTooNoisy
                && prediction.metric.counts_good()
                && zeros::never_good(self.rounds, &prediction.variant)
                && !zeros::nothing_good(self.rounds, &self.plan.reference)
    }

    fn row(&self, prediction: &Prediction) -> Option<&Row> {
        let about = self.variants.iter().find(|variant| variant.name == prediction.variant)?;
        about.metrics.iter().find(|row| row.metric == prediction.metric)
    }

    /// The mean of the variant's own values; `None` of a claim about a ratio, or when any round
    /// has none.
    fn level(&self, prediction: &Prediction) -> Option<Level> {
        if prediction.bound.is_ratio() {
            return None;
        }
        let sides = Sides::select(self.plan, self.rounds, &prediction.metric, &prediction.variant);
        let values = sides.own().map(|round| prediction.metric.level(round).ok());
        let values: Option<Vec<f64>> = values.collect();
        stats::level(&values?)
    }

    fn verdict(&self, prediction: &Prediction, level: Option<&Level>) -> Verdict {
        let verdict = self.by_interval(prediction, level);
        let must_be_good = !matches!(prediction.bound, Bound::RatioAtMost(_) | Bound::AtMost(_));
        // Of twenty starts one that answers nothing does not move the median of their throughputs,
        // and a mean not far enough.
        let is_flattered = must_be_good
            && prediction.metric.counts_good()
            && zeros::nothing_good(self.rounds, &prediction.variant);
        match verdict {
            Verdict::Supported
            | Verdict::Undecided(Undecided::TooWide | Undecided::TooFewBlocks)
                if is_flattered =>
            {
                Verdict::Undecided(Undecided::NothingGood)
            }
            verdict => verdict,
        }
    }

    /// What can be said of values that have no interval of Student's t.
    fn without_interval(&self, prediction: &Prediction) -> Verdict {
        let is_ratio = prediction.bound.is_ratio();
        let decided = self.zeros(prediction).map(|zeros| {
            let interval = zeros.interval();
            self.restrictions(prediction).apply(
                Verdict::judge(prediction.bound, interval),
                prediction.bound,
                interval,
            )
        });
        let decided = decided.filter(|verdict| !matches!(verdict, Verdict::Undecided(_)));
        if let Some(verdict) = decided {
            return verdict;
        }
        let paired = Some(self.plan.reference.as_str()).filter(|_| is_ratio);
        let mut about = [prediction.variant.as_str()].into_iter().chain(paired);
        Verdict::Undecided(
            if prediction.metric.needs_good()
                && about.any(|name| zeros::nothing_good(self.rounds, name))
            {
                Undecided::NothingGood
            } else if is_ratio {
                Undecided::NoRatio
            } else {
                Undecided::NoValue
            },
        )
    }

    fn by_interval(&self, prediction: &Prediction, level: Option<&Level>) -> Verdict {
        let estimate = self.row(prediction).and_then(|row| row.comparison.estimate());
        let found = if prediction.bound.is_ratio() {
            estimate.map(|estimate| estimate.interval)
        } else {
            level.map(|level| level.interval)
        };
        // Only with a value: without one, the reason for that tells more.
        let Some(interval) = found else { return self.without_interval(prediction) };
        if self.interferes(prediction) {
            return Verdict::Undecided(Undecided::Interference);
        }
        let verdict = Verdict::judge(prediction.bound, interval);
        self.restrictions(prediction).apply(verdict, prediction.bound, interval)
    }

    fn restrictions(&self, prediction: &Prediction) -> Restrictions {
        let Prediction { metric, variant, bound } = prediction;
        let sides = Sides::select(self.plan, self.rounds, metric, variant);
        Restrictions::from_sides(self.plan, &sides, metric, bound.is_ratio())
    }

    fn zeros(&self, prediction: &Prediction) -> Option<Zeros> {
        let Prediction { metric, variant, bound } = prediction;
        bound.is_ratio().then(|| Zeros::find(self.plan, self.rounds, metric, variant))?
    }

    /// Whether what was claimed is less than what loading both at once changes.
    fn interferes(&self, prediction: &Prediction) -> bool {
        let row = self.row(prediction).filter(|_| prediction.bound.is_ratio());
        let distance = |row: &Row| {
            let (below, above) = prediction.bound.distances(row.comparison.estimate()?.ratio);
            Some(below.abs().min(above.abs()))
        };
        let is_so = |row: &Row| {
            distance(row).is_some_and(|distance| rules::interferes(row.interference, distance))
        };
        row.is_some_and(is_so)
    }

    fn blocks_needed(
        &self,
        prediction: &Prediction,
        level: Option<&Level>,
        verdict: Verdict,
    ) -> Option<u32> {
        if verdict != Verdict::Undecided(Undecided::TooWide) {
            return None;
        }
        let (value, spread) = if prediction.bound.is_ratio() {
            let estimate = self.row(prediction)?.comparison.estimate()?;
            (estimate.ratio, estimate.spread?)
        } else {
            (level?.value, level?.spread?)
        };
        let (below, above) = prediction.bound.distances(value);
        stats::blocks_needed(spread, below, above)
    }

    /// The answer as a person would say it.
    fn sentence(
        &self,
        prediction: &Prediction,
        level: Option<&Level>,
        verdict: Verdict,
        blocks: u32,
    ) -> String {
        let lang = self.plan.language;
        let measured = match (level, self.row(prediction).map(|row| &row.comparison)) {
            (Some(level), _) => lang.measured(&show_level(prediction, level, lang)),
            (None, Some(Comparison::Ratio(estimate))) if prediction.bound.is_ratio() => {
                lang.measured(&lang.estimate(estimate))
            }
            (None, Some(Comparison::NoRatio(why))) => {
                let zeros = self.zeros(prediction).and_then(|zeros| zeros.words(why, lang));
                zeros.unwrap_or_else(|| lang.no_ratio(why))
            }
            _ => lang.nothing().to_owned(),
        };
        lang.answer(prediction, &self.plan.reference, verdict, &measured, blocks)
    }

    /// What an interval that is too wide would take.
    fn more(&self, verdict: Verdict, blocks: Option<u32>) -> String {
        match verdict {
            Verdict::Undecided(Undecided::TooWide) => self.plan.language.more_blocks(blocks),
            _ => String::new(),
        }
    }
}

/// `12.3 ms (95 % interval 11.9 ms to 12.7 ms)`.
fn show_level(prediction: &Prediction, level: &Level, lang: Language) -> String {
    let show = |value| prediction.metric.show(value);
    let ends = level.interval.map(|(low, high)| (show(low), show(high)));
    lang.value(&show(level.value), ends)
}
