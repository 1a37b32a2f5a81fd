//! The summary as k6 showed it before version 1: checks by group, then all metrics by name.

use super::layout::{Layout, Style};
use super::text::{TextOptions, detail};
use super::{SummaryData, SummaryMetric};
use crate::metrics::GroupMeasured;

const INDENT: usize = 5;

pub(super) fn text(data: &SummaryData<'_>, options: &TextOptions, style: &Style) -> String {
    let mut out = String::from("\n");
    write_group(&mut out, data.groups, 0, INDENT, style);
    let mut metrics: Vec<&SummaryMetric> = data.metrics.iter().collect();
    metrics.sort_by_key(|metric| metric.name.split_once('{').unwrap_or((&metric.name, "")));
    let layout = Layout::new(&metrics, options);
    for metric in metrics {
        let mark = match &metric.thresholds {
            none if none.is_empty() => " ".to_owned(),
            held if held.iter().all(|one| one.ok) => style.green("✓"),
            _ => style.red("✗"),
        };
        out.push_str(&layout.line(metric, style, "   ", &format!("{mark} ")));
    }
    out.push_str("\n\n");
    out
}

fn write_group(
    out: &mut String,
    groups: &[GroupMeasured],
    at: usize,
    indent: usize,
    style: &Style,
) {
    let Some(group) = groups.get(at) else { return };
    let mut spaces = " ".repeat(indent);
    if !group.name.is_empty() {
        out.push_str(&format!("{spaces}█ {}\n\n", group.name));
        spaces.push_str("  ");
    }
    for (name, count) in &group.checks {
        if count.fails == 0 {
            out.push_str(&style.green(&format!("{spaces}✓ {name}")));
        } else {
            out.push_str(&style.red(&format!("{spaces}✗ {name}\n{spaces} {}", detail(*count))));
        }
        out.push('\n');
    }
    if !group.checks.is_empty() {
        out.push('\n');
    }
    for child in &group.children {
        write_group(out, groups, *child, spaces.len(), style);
    }
}
