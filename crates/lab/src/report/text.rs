//! The report for a terminal: one table, one sentence.

use super::{Report, Row, invariants, summary};
use crate::{
    metric::{Metric, Statistic},
    report::Comparison,
};

/// What is worth a line on a screen; the rest is in `report.md`.
const SHOWN: [Metric; 7] = [
    Metric::Goodput,
    Metric::Latency(Statistic::Mean),
    Metric::Latency(Statistic::P50),
    Metric::Latency(Statistic::P95),
    Metric::Latency(Statistic::P99),
    Metric::CpuPerGoodRequest,
    Metric::PeakRss,
];
/// Columns are this far apart.
const GAP: usize = 3;

pub fn render(report: &Report) -> String {
    let mut lines =
        vec![format!("{} · {}", report.experiment.name, report.experiment.question), String::new()];
    // Nothing is worth a look in the table of a service that lost something.
    let (broken, held) = invariants::lines(&report.invariants);
    if !broken.is_empty() {
        lines.extend(broken);
        lines.push(String::new());
    }
    lines.extend(align(&table(report)));
    lines.push(String::new());
    lines.push(report.sentence.clone());
    lines.extend(held);
    lines.extend(report.noise.clone());
    for warning in &report.warnings {
        lines.push(format!("warning: {}", warning.replace('\n', "\n  ")));
    }
    lines.join("\n") + "\n"
}

/// First the heads, then for each metric its values, its ratios, and what others published.
fn table(report: &Report) -> Vec<Vec<String>> {
    let mut heads = vec![String::new()];
    heads.extend(report.variants.iter().map(|variant| {
        let mark = if variant.is_reference { " (reference)" } else { "" };
        format!("{}{mark}", variant.name)
    }));
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
        table.push(line(&metric.label(), &value));
        table.push(line("", &ratio));
        if rows.iter().any(|row| row.documented.is_some()) {
            table.push(line("  as documented", &|row| row.documented.clone().unwrap_or_default()));
        }
    }
    table
}

/// Metrics that no round has are not worth a line.
fn is_told(report: &Report, metric: &Metric) -> bool {
    rows(report, metric).any(|row| row.value.is_some() || row.documented.is_some())
        || *metric == Metric::Goodput
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

pub fn ratio(row: &Row) -> String {
    match &row.comparison {
        Comparison::Reference => String::new(),
        Comparison::NoRatio(_) => "no ratio".to_owned(),
        Comparison::Ratio(estimate) => match estimate.interval {
            Some((low, high)) => format!(
                "×{} [{} – {}]{}",
                summary::ratio(estimate.ratio),
                summary::ratio(low),
                summary::ratio(high),
                row.finding.map_or_else(String::new, |found| format!(" {}", found.word.text()))
            ),
            None => format!("×{}", summary::ratio(estimate.ratio)),
        },
    }
}

/// The lines of a table, its columns as wide as their widest cell.
pub fn align(table: &[Vec<String>]) -> Vec<String> {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        table.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            let fill = width - cell.chars().count() + GAP;
            line.extend(std::iter::repeat_n(' ', fill));
        }
        line.trim_end().to_owned()
    };
    table.iter().map(line).filter(|line| !line.is_empty()).collect()
}
