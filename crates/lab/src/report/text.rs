//! The report for a terminal: what is broken or was found, what could overturn it, and a table. All figures are below,
//! for whom asks.

use unicode_width::UnicodeWidthStr;

use super::{Language, Report, Row, broken, columns, invariants, summary};
use crate::{
    metric::{Metric, Statistic},
    report::Comparison,
};

/// What is worth a line to everybody.
const SHOWN: [Metric; 7] = [
    Metric::Goodput,
    Metric::Latency(Statistic::Mean),
    Metric::Latency(Statistic::P50),
    Metric::Latency(Statistic::P95),
    Metric::Latency(Statistic::P99),
    Metric::CpuPerGoodRequest,
    Metric::PeakMemory,
];
/// Columns are this far apart.
const GAP: usize = 3;

/// With `is_full`, followed by the table of all figures.
pub fn render(report: &Report, is_full: bool) -> String {
    let lang = report.language;
    // Nothing is worth a look in the table of a service that lost something.
    let mut lines = broken::headed(&report.broken, lang);
    lines.push(report.sentence.clone());
    lines.extend(report.caveats.clone());
    lines.extend(report.noise.clone());
    lines.push(String::new());
    let (_, held) = invariants::lines(&report.invariants, lang);
    lines.push(format!("{} · {}", report.experiment.name, report.experiment.question));
    lines.push(String::new());
    lines.extend(align(&table(report)));
    let left_out = report.variants.first().map_or(0, |variant| {
        variant.metrics.iter().filter(|row| is_nothing(report, &row.metric)).count()
    });
    lines.extend((left_out > 0).then(|| lang.left_out(left_out)));
    lines.push(String::new());
    lines.extend(held);
    lines.extend(report.pace.clone());
    let label = lang.pick("warning", "경고");
    for warning in &report.warnings {
        lines.push(format!("{label}: {}", warning.replace('\n', "\n  ")));
    }
    let figures = columns::table(report);
    if is_full && figures.len() > 1 {
        lines.push(String::new());
        lines.extend(align(&columns::turned(&figures)));
        lines.extend([String::new(), columns::note(lang).to_owned()]);
    }
    lines.join("\n") + "\n"
}

/// First the heads, then for each metric its values and its ratios.
fn table(report: &Report) -> Vec<Vec<String>> {
    let lang = report.language;
    let mut heads = vec![String::new()];
    heads.extend(
        report.variants.iter().map(|variant| head(&variant.name, variant.is_reference, lang)),
    );
    let mut table = vec![heads];
    let own = report.variants.first().map_or(&[][..], |variant| &variant.metrics);
    let own = own.iter().map(|row| &row.metric).filter(|metric| !Metric::ALL.contains(metric));
    for metric in SHOWN.iter().chain(own).filter(|metric| is_told(report, metric)) {
        let rows: Vec<&Row> = rows(report, metric).collect();
        let line = |label: &str, cell: &dyn Fn(&Row) -> String| {
            let mut line = vec![label.to_owned()];
            line.extend(rows.iter().map(|row| cell(row)));
            line
        };
        table.push(line(&lang.metric(metric), &value));
        table.push(line("", &|row| ratio(row, lang)));
    }
    table.extend(errors(report));
    table
}

/// A variant's name over its column.
pub fn head(name: &str, is_reference: bool, lang: Language) -> String {
    let mark = if is_reference { lang.pick(" (reference)", " (기준)") } else { "" };
    format!("{name}{mark}")
}

/// Requests that were not good are worth a line when there are any.
fn errors(report: &Report) -> Option<Vec<String>> {
    let shares: Vec<Option<f64>> =
        report.variants.iter().map(|one| Some(one.figures?.not_good_share)).collect();
    if shares.iter().all(|share| share.is_none_or(|share| share == 0.0)) {
        return None;
    }
    let label = report.language.pick("requests not good", "비정상 요청").to_owned();
    let cell = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), columns::percent);
    Some([label].into_iter().chain(shares.into_iter().map(cell)).collect())
}

/// Metrics that no round has are not worth a line, nor are those of which there is nothing.
fn is_told(report: &Report, metric: &Metric) -> bool {
    !is_nothing(report, metric)
        && (rows(report, metric).any(|row| row.value.is_some()) || *metric == Metric::Goodput)
}

/// Whether it is zero everywhere, as most counters of a database are, and nobody predicted it.
fn is_nothing(report: &Report, metric: &Metric) -> bool {
    !Metric::ALL.contains(metric)
        && report.experiment.predictions.iter().all(|prediction| prediction.metric != *metric)
        && rows(report, metric).all(|row| row.value == Some(0.0))
}

fn rows<'r>(report: &'r Report, metric: &Metric) -> impl Iterator<Item = &'r Row> {
    report
        .variants
        .iter()
        .filter_map(move |variant| variant.metrics.iter().find(|row| row.metric == *metric))
}

pub fn value(row: &Row) -> String {
    row.value.map_or_else(|| "–".to_owned(), |value| row.metric.show(value))
}

fn ratio(row: &Row, lang: Language) -> String {
    match &row.comparison {
        Comparison::Reference => String::new(),
        Comparison::NoRatio(_) => lang.pick("no ratio", "비율 없음").to_owned(),
        Comparison::Ratio(estimate) => match estimate.interval {
            Some((low, high)) => format!(
                "×{} [{} – {}]{}",
                summary::ratio(estimate.ratio),
                summary::ratio(low),
                summary::ratio(high),
                row.finding
                    .map_or_else(String::new, |found| format!(" {}", lang.finding(found.word)))
            ),
            None => format!("×{}", summary::ratio(estimate.ratio)),
        },
    }
}

/// The lines of a table, its columns as wide as their widest cell; a Korean syllable is as wide as two
/// Latin letters.
pub fn align(table: &[Vec<String>]) -> Vec<String> {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        table.iter().filter_map(|row| Some(row.get(column)?.width())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            let fill = width - cell.width() + GAP;
            line.extend(std::iter::repeat_n(' ', fill));
        }
        line.trim_end().to_owned()
    };
    table.iter().map(line).filter(|line| !line.is_empty()).collect()
}
