//! From rows to answers: each prediction, its verdict, and both in words.

use serde::Serialize;

use super::{
    Comparison, Language, Row, VariantSummary, all, counted,
    summary::Sides,
    zeros::{self, Zeros},
};
use crate::{
    experiment::{Bound, Prediction},
    finding,
    metric::Metric,
    plan::Plan,
    record::{RoundRecord, Warning},
    stats::{self, Level},
    verdict::{Undecided, Verdict},
};

/// Fewer values above a percentile do not tell where it is: among 10, chance moves it by a third of what lies beyond.
const FEWEST_ABOVE: f64 = 10.0;

/// A prediction and what the rounds say about it.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// What was predicted.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// The answer.
    pub verdict: Verdict,
    /// Why it is undecided; `null` otherwise.
    pub undecided_because: Option<&'static str>,
    /// The answer in words.
    pub sentence: String,
    /// Of an interval too wide: with how many blocks it would be decided with a chance of 80 %, if
    /// mean and spread stay as they are; `null` otherwise, and if more than 1,000.
    pub blocks_needed: Option<u32>,
    /// What was measured, of a claim about a value; that of a ratio is in its row.
    pub level: Option<Level>,
}

/// What answers rest on.
pub struct Evidence<'e> {
    pub plan: &'e Plan,
    pub variants: &'e [VariantSummary],
    pub rounds: &'e [RoundRecord],
}

impl Evidence<'_> {
    /// One answer for each prediction; all of them undecided when the run allows no verdict.
    pub fn answers(&self, undecided: Option<Undecided>, blocks: u32) -> Vec<Answer> {
        let answer = |prediction: &Prediction| {
            let level = self.level(prediction);
            let verdict = match undecided {
                Some(why) if !self.withstands(why, prediction) => Verdict::Undecided(why),
                _ => self.verdict(prediction, level.as_ref()),
            };
            let blocks_needed = self.blocks_needed(prediction, level.as_ref(), verdict);
            Answer {
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

    /// Whether it can be told in spite of that.
    fn withstands(&self, why: Undecided, prediction: &Prediction) -> bool {
        // Whoever used the machine: some request would have been good.
        let is_noise = matches!(why, Undecided::MachineTooNoisy | Undecided::GeneratorLimited);
        if is_noise && self.plan.is_paired(&prediction.metric) {
            return true;
        }
        is_noise
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
        let sides = Sides::of(self.plan, self.rounds, &prediction.metric, &prediction.variant);
        let values = sides.own.iter().map(|(_, round)| prediction.metric.level(round).ok());
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
            Verdict::Supported | Verdict::Undecided(Undecided::TooWide) if is_flattered => {
                Verdict::Undecided(Undecided::NothingGood)
            }
            verdict => verdict,
        }
    }

    /// What can be said of values that have no interval of Student's t.
    fn without_interval(&self, prediction: &Prediction) -> Verdict {
        let is_ratio = prediction.bound.is_ratio();
        let zeros = Zeros::of(self.plan, self.rounds, prediction);
        let decided = zeros.map(|zeros| zeros.verdict(prediction.bound));
        let decided = decided.filter(|verdict| !matches!(verdict, Verdict::Undecided(_)));
        if let Some(verdict) = decided.filter(|_| !self.plan.calibration) {
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
        let about = (&prediction.metric, &prediction.variant);
        if threw(self.plan, self.rounds, about.1) {
            return Verdict::Undecided(Undecided::Exceptions);
        }
        let is_doubtful = if prediction.bound.is_ratio() {
            tells_about_refusals(self.plan, self.rounds, about.0, about.1)
        } else {
            has_refusals(self.rounds, about.0, about.1)
        };
        if is_doubtful {
            return Verdict::Undecided(Undecided::BadRequests);
        }
        let mut names = vec![about.1.as_str()];
        names.extend(prediction.bound.is_ratio().then_some(self.plan.reference.as_str()));
        if names.iter().any(|name| has_short_tail(self.rounds, about.0, name)) {
            return Verdict::Undecided(Undecided::TooFewRequests);
        }
        if let Some(why) = self.spoilt(prediction) {
            return Verdict::Undecided(why);
        }
        if !self.plan.calibration {
            return Verdict::of(prediction.bound, interval);
        }
        // A calibration predicts no difference. Of several metrics one may differ by chance: they
        // are adjusted for, so that the whole is wrong in one run of twenty.
        match self.adjusted_p_value(prediction) {
            None if estimate.is_none() => Verdict::Undecided(Undecided::NoRatio),
            None => Verdict::Undecided(Undecided::TooFewBlocks),
            Some(p_value) if p_value > finding::LEVEL => Verdict::Supported,
            Some(_) => Verdict::Refuted,
        }
    }

    /// Why pairs tell nothing about a prediction, if they do not.
    fn spoilt(&self, prediction: &Prediction) -> Option<Undecided> {
        if !self.plan.is_paired(&prediction.metric) {
            return None;
        }
        if were_apart(self.rounds, &prediction.variant) {
            return Some(Undecided::Apart);
        }
        let row = self.row(prediction)?;
        let ratio = row.comparison.estimate()?.ratio;
        let (below, above) = prediction.bound.distances(ratio);
        let distance = below.abs().min(above.abs());
        let is_smaller =
            row.interference.is_some_and(|one| one.is_certain && distance < one.difference.abs());
        (prediction.bound.is_ratio() && is_smaller).then_some(Undecided::Interference)
    }

    /// The p-value of "the ratio is 1", adjusted by Holm over all predictions.
    fn adjusted_p_value(&self, prediction: &Prediction) -> Option<f64> {
        let p_value =
            |prediction: &Prediction| self.row(prediction)?.comparison.estimate()?.p_value;
        let own = p_value(prediction)?;
        let all: Vec<f64> = self.plan.predictions.iter().filter_map(p_value).collect();
        let place = all.iter().position(|one| *one == own)?;
        stats::holm(&all).get(place).copied()
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
                let zeros = Zeros::of(self.plan, self.rounds, prediction);
                let zeros = zeros.and_then(|zeros| zeros.words(why, lang));
                zeros.unwrap_or_else(|| lang.no_ratio(why))
            }
            _ => lang.nothing().to_owned(),
        };
        if self.plan.calibration {
            let widest = widest(self.variants);
            return lang.calibration(&prediction.metric, verdict, &measured, blocks, widest);
        }
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

/// Whether the script threw so often in rounds of a variant or of the reference that their loads differ
/// from what it says, and perhaps from each other.
pub fn threw(plan: &Plan, rounds: &[RoundRecord], variant: &str) -> bool {
    let both = [plan.reference.as_str(), variant].into_iter();
    let mut measured = both.flat_map(|name| all(rounds, name).map(|(_, measured)| measured));
    measured.any(|measured| measured.warnings.contains(&Warning::Exceptions))
}

/// Whether a pair of a variant was not loaded at the same time.
pub fn were_apart(rounds: &[RoundRecord], variant: &str) -> bool {
    let mut paired = all(rounds, variant).filter(|(round, _)| round.beside.is_some());
    paired.any(|(_, measured)| measured.warnings.contains(&Warning::Apart))
}

/// Whether a round of a variant has too few values above a percentile for it to say anything.
pub fn has_short_tail(rounds: &[RoundRecord], metric: &Metric, variant: &str) -> bool {
    let mut tails = counted(rounds, variant).filter_map(|(_, measured)| metric.tail(measured));
    tails.any(|values| values < FEWEST_ABOVE)
}

/// Whether a comparison of response times would compare refusals.
pub fn tells_about_refusals(
    plan: &Plan,
    rounds: &[RoundRecord],
    metric: &Metric,
    variant: &str,
) -> bool {
    has_refusals(rounds, metric, &plan.reference) || has_refusals(rounds, metric, variant)
}

fn has_refusals(rounds: &[RoundRecord], metric: &Metric, variant: &str) -> bool {
    metric.is_response_time()
        && counted(rounds, variant).any(|(_, measured)| metric.has_bad_requests(measured))
}

/// `12.3 ms (95 % interval 11.9 ms to 12.7 ms)`.
fn show_level(prediction: &Prediction, level: &Level, lang: Language) -> String {
    let show = |value| prediction.metric.show(value);
    let ends = level.interval.map(|(low, high)| (show(low), show(high)));
    lang.value(&show(level.value), ends)
}

/// The widest interval of any ratio, as a share: how far apart two equal things appear here.
fn widest(variants: &[VariantSummary]) -> Option<(f64, &Metric)> {
    let rows = variants.iter().flat_map(|variant| &variant.metrics);
    rows.filter_map(|row| Some((row.comparison.estimate()?.half_width()?, &row.metric)))
        .max_by(|left, right| left.0.total_cmp(&right.0))
}
