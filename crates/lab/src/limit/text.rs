//! The report for a terminal: one table, a sentence for each variant.

use super::{
    goal::number,
    report::LimitReport,
    summary::{Best, Capacity, VariantLimit, Versus},
};
use crate::report::{Language, align, ratio};

/// The heads of the table.
pub const HEADS: [&str; 5] =
    ["variant", "capacity, iterations/s", "against the reference", "gave way", "at its best"];

pub fn render(report: &LimitReport) -> String {
    let mut lines = vec![
        format!("{} · {}", report.name, report.question),
        format!("goal: {}", report.goal),
        String::new(),
    ];
    let mut table = vec![HEADS.map(str::to_owned).to_vec()];
    table.extend(report.variants.iter().map(|variant| row(variant).to_vec()));
    lines.extend(align(&table));
    lines.push(String::new());
    lines.push(report.sentence.clone());
    for warning in &report.warnings {
        lines.push(format!("warning: {}", warning.replace('\n', "\n  ")));
    }
    lines.join("\n") + "\n"
}

/// A variant's cells.
pub fn row(variant: &VariantLimit) -> [String; 5] {
    let mark = if variant.is_reference { " (reference)" } else { "" };
    let versus = match &variant.versus {
        Versus::Reference => String::new(),
        Versus::NoRatio(_) => "no ratio".to_owned(),
        Versus::Ratio(estimate) => match estimate.interval {
            Some((low, high)) => {
                format!("×{} [{} – {}]", ratio(estimate.ratio), ratio(low), ratio(high))
            }
            None => format!("×{}", ratio(estimate.ratio)),
        },
    };
    let searches = variant.searches.len();
    let gave_way =
        variant.gave_way.iter().map(|(word, count)| format!("{word} {count}/{searches}"));
    [
        format!("{}{mark}", variant.name),
        capacity(&variant.capacity),
        versus,
        gave_way.collect::<Vec<_>>().join(", "),
        variant.at_best.as_ref().map_or_else(String::new, best),
    ]
}

fn capacity(capacity: &Capacity) -> String {
    match capacity {
        Capacity::Exactly { rate, interval: Some((low, high)) } => {
            format!("{} [{} – {}]", number(*rate), number(*low), number(*high))
        }
        Capacity::Exactly { rate, interval: None } => number(*rate),
        Capacity::AtLeast { rate, .. } => format!("{rate} or more"),
        Capacity::Nothing { .. } => "none".to_owned(),
        Capacity::Unknown => "–".to_owned(),
    }
}

fn best(best: &Best) -> String {
    let p95 = best.figures.p95_ms.map_or_else(String::new, |ms| format!("p95 {} ms, ", number(ms)));
    let cores = best.server_cores.map_or_else(String::new, |cores| format!(", {cores:.2} cores"));
    format!("{p95}{} good/s{cores}", number(best.figures.goodput))
}

/// What is to be said of a variant.
pub fn sentence(variant: &VariantLimit) -> String {
    let VariantLimit { name, searches, .. } = variant;
    let takes = match &variant.capacity {
        Capacity::Exactly { rate, interval } => {
            let interval = interval.map_or_else(String::new, |(low, high)| {
                format!(" (95 % interval {} to {})", number(low), number(high))
            });
            let first = variant.gave_way.first();
            let first = first.map_or_else(String::new, |(word, count)| {
                format!("; {word} gave way first in {count} of {} searches", searches.len())
            });
            format!("`{name}` takes {} iterations/s{interval}{first}.", number(*rate))
        }
        Capacity::AtLeast { rate: 0, because } => {
            format!("Nothing is known of `{name}`: {}.", because.text())
        }
        Capacity::AtLeast { rate, because } => {
            format!("`{name}` takes {rate} iterations/s or more: {}.", because.text())
        }
        Capacity::Nothing { searches: failed } => format!(
            "`{name}` did not reach the goal even at 1 iteration/s in {failed} of {} searches.",
            searches.len()
        ),
        Capacity::Unknown => format!("No search of `{name}` was completed."),
    };
    let compared = match &variant.versus {
        Versus::Reference => String::new(),
        Versus::NoRatio(why) => format!(" It has no ratio: {why}."),
        Versus::Ratio(estimate) => {
            let shown = Language::En.estimate(estimate);
            let doubt = match estimate.interval.is_some() && estimate.includes_no_difference() {
                true => ", which may be no difference",
                false => "",
            };
            format!(" That is {shown} of what the reference takes{doubt}.")
        }
    };
    takes + &compared
}
