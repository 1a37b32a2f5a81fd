//! Table of ratios with a plot, shared by terminal, Markdown and HTML.

use super::{Language, Report, Row, VariantSummary, columns, summary};
use crate::file::experiment::Bound;
use crate::judge::metric::{Metric, Statistic};
use crate::plan::Design;
use crate::report::Comparison;

/// Rows of the short table.
const SHOWN: [Metric; 6] = [
    Metric::CpuPerGoodRequest,
    Metric::PeakMemory,
    Metric::Goodput,
    Metric::Response(Statistic::P50),
    Metric::Response(Statistic::P95),
    Metric::Response(Statistic::P99),
];
/// Number of leading rows of [`SHOWN`] that pairs measure.
const COSTS: usize = 2;

/// Columns of the plot on each side of 1.
const HALF: usize = 10;
/// Smallest and largest ends of the plot, as factors.
const LEAST_REACH: f64 = 1.01;
const MOST_REACH: f64 = 100.0;

/// A variant compared with the reference. The first row is the head.
pub(crate) struct Table {
    pub variant: String,
    pub rows: Vec<Vec<String>>,
}

/// One table per variant except the reference, with all figures or the short selection.
pub(crate) fn tables(report: &Report, is_full: bool) -> Vec<Table> {
    others(report).map(|variant| table(report, variant, is_full)).collect()
}

fn table(report: &Report, variant: &VariantSummary, is_full: bool) -> Table {
    let lang = report.language;
    let mut rows: Vec<&Row> = if is_full {
        variant.metrics.iter().collect()
    } else {
        shown(report)
            .filter_map(|metric| variant.metrics.iter().find(|row| row.metric == *metric))
            .collect()
    };
    rows.retain(|row| is_full || is_shown(report, row));
    let bounds: Vec<f64> = rows.iter().flat_map(|row| limits(report, &variant.name, row)).collect();
    let reach = reach(&rows, &bounds);
    let mut table = vec![vec![
        String::new(),
        report.experiment.reference.clone(),
        variant.name.clone(),
        lang.pick("ratio", "비율").to_owned(),
        lang.pick("95 % interval", "95 % 구간").to_owned(),
        lang.pick("answer", "판정").to_owned(),
        scale(reach),
    ]];
    table.extend(rows.iter().map(|row| cells(report, variant, row, reach)));
    table.extend(errors(report, variant).filter(|_| !is_full));
    Table { variant: variant.name.clone(), rows: table }
}

/// Metrics of the short table: the usual ones, those in question, and observed ones.
fn shown(report: &Report) -> impl Iterator<Item = &Metric> {
    let usual = match report.settings.design {
        Design::Duet => &SHOWN[..COSTS],
        Design::Rounds | Design::Both => &SHOWN[..],
    };
    let own = report.variants.first().map_or(&[][..], |variant| &variant.metrics);
    let is_asked = |metric: &&Metric| {
        !Metric::ALL.contains(metric)
            || report.headlines.iter().any(|headline| headline.metric == **metric)
            || report.predictions.iter().any(|one| one.prediction.metric == **metric)
    };
    let own = own.iter().map(|row| &row.metric).filter(move |metric| is_asked(metric));
    usual.iter().chain(own.filter(|metric| !usual.contains(metric)))
}

fn cells(report: &Report, variant: &VariantSummary, row: &Row, reach: f64) -> Vec<String> {
    let lang = report.language;
    let show =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| row.metric.show(value));
    let (ratio, interval, plot) = match &row.comparison {
        Comparison::Ratio(estimate) => {
            let ends = estimate.interval.map_or_else(String::new, |(low, high)| {
                format!("{} – {}", summary::ratio(low), summary::ratio(high))
            });
            let bounds = limits(report, &variant.name, row);
            let plot = plot(estimate.ratio, estimate.interval, &bounds, reach);
            (format!("×{}", summary::ratio(estimate.ratio)), ends, plot)
        }
        Comparison::NoRatio(_) => {
            (lang.pick("no ratio", "비율 없음").to_owned(), String::new(), String::new())
        }
        Comparison::Reference => (String::new(), String::new(), String::new()),
    };
    let word = row.answer.map_or("", |answer| lang.answer_word(answer)).to_owned();
    let (reference, own) = (show(row.reference_value), show(row.value));
    vec![lang.metric(&row.metric), reference, own, ratio, interval, word, plot]
}

fn limits(report: &Report, variant: &str, row: &Row) -> Vec<f64> {
    let own = report.predictions.iter().map(|one| &one.prediction);
    let own = own.filter(|one| one.variant == variant && one.metric == row.metric);
    let ends = own.flat_map(|one| match one.bound {
        Bound::RatioAtMost(limit) | Bound::RatioAtLeast(limit) => vec![limit],
        Bound::DifferenceBelow(share) => vec![1.0 / (1.0 + share), 1.0 + share],
        Bound::AtMost(_) | Bound::AtLeast(_) => Vec::new(),
    });
    ends.collect()
}

/// Largest factor that the plot shows.
fn reach(rows: &[&Row], bounds: &[f64]) -> f64 {
    let ends = rows.iter().filter_map(|row| row.interval()).flat_map(|(low, high)| [low, high]);
    let single = rows.iter().filter_map(|row| Some(row.comparison.estimate()?.ratio));
    let all = ends.chain(single).chain(bounds.iter().copied());
    let factor = |value: f64| value.max(1.0 / value);
    let most = all.map(factor).filter(|factor| factor.is_finite()).fold(LEAST_REACH, f64::max);
    most.min(MOST_REACH)
}

/// Scale above the plot.
fn scale(reach: f64) -> String {
    let (low, high) = (summary::ratio(1.0 / reach), summary::ratio(reach));
    let side = HALF + 1;
    let (low, high) = (format!("×{low}"), format!("×{high}"));
    let left = (side - 1).saturating_sub(low.chars().count());
    let right = (side - 1).saturating_sub(high.chars().count());
    format!("{low}{}1{}{high}", " ".repeat(left), " ".repeat(right))
}

/// `    ├──●──┤│`: interval of a ratio on a logarithmic scale with 1 in the middle and `┊` at bounds of predictions.
fn plot(ratio: f64, interval: Option<(f64, f64)>, bounds: &[f64], reach: f64) -> String {
    let width = 2 * HALF + 1;
    let place = |value: f64| {
        let share = (value.ln() / reach.ln()).clamp(-1.0, 1.0);
        (HALF as f64 + share * HALF as f64).round() as usize
    };
    let mut line = vec![' '; width];
    line[HALF] = '│';
    for bound in bounds {
        line[place(*bound)] = '┊';
    }
    if let Some((low, high)) = interval {
        let (from, to) = (place(low), place(high));
        line[from..=to].fill('─');
        line[from] = if low * reach < 1.0 - 1e-9 { '◄' } else { '├' };
        line[to] = if high > reach * (1.0 + 1e-9) { '►' } else { '┤' };
    }
    line[place(ratio)] = '●';
    line.into_iter().collect::<String>().trim_end().to_owned()
}

/// Row with the share of bad requests, if there are any.
fn errors(report: &Report, variant: &VariantSummary) -> Option<Vec<String>> {
    let reference = report.variants.iter().find(|one| one.is_reference)?;
    let share = |one: &VariantSummary| Some(one.figures?.not_good_share);
    let shares = [share(reference), share(variant)];
    if shares.iter().all(|share| share.is_none_or(|share| share == 0.0)) {
        return None;
    }
    let label = report.language.pick("requests not good", "비정상 요청").to_owned();
    let cell = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), columns::percent);
    Some([label].into_iter().chain(shares.into_iter().map(cell)).collect())
}

/// True for rows of the short table: those with a value that are not zero throughout.
fn is_shown(report: &Report, row: &Row) -> bool {
    let has_value = row.value.is_some() || row.reference_value.is_some();
    !is_nothing(report, row) && (has_value || row.metric == Metric::Goodput)
}

/// True if it is zero on both sides and not predicted, like most counters of a database.
fn is_nothing(report: &Report, row: &Row) -> bool {
    !Metric::ALL.contains(&row.metric)
        && report.experiment.predictions.iter().all(|one| one.metric != row.metric)
        && row.value == Some(0.0)
        && row.reference_value.is_none_or(|value| value == 0.0)
}

/// Number of rows left out of the short table because they are zero.
pub(crate) fn left_out(report: &Report) -> usize {
    let nothing = |variant: &VariantSummary| {
        variant.metrics.iter().filter(|row| is_nothing(report, row)).count()
    };
    others(report).map(nothing).min().unwrap_or(0)
}

fn others(report: &Report) -> impl Iterator<Item = &VariantSummary> {
    report.variants.iter().filter(|variant| !variant.is_reference)
}

impl Language {
    /// Title of the table of one of several variants.
    pub fn beside(self, variant: &str, reference: &str) -> String {
        self.pick(format!("{variant} beside {reference}"), format!("{reference} 대비 {variant}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_drawn_to_scale() {
        let drawn = |ratio, low, high, bounds: &[f64]| plot(ratio, Some((low, high)), bounds, 4.0);
        assert_eq!(drawn(2.0, 1.5, 3.0, &[]), "          │  ├─●──┤");
        assert_eq!(drawn(1.0, 0.5, 2.0, &[]), "     ├────●────┤");
        assert_eq!(drawn(0.5, 0.1, 0.7, &[0.25]), "◄────●─┤  │");
        assert_eq!(plot(1.0, None, &[4.0], 4.0), "          ●         ┊");
        assert_eq!(scale(4.0).chars().count(), 2 * HALF + 1);
    }
}
