//! The summary for the terminal, in the layout of k6's modes.

use std::collections::HashMap;

use super::humanize::humanize;
use super::layout::{Layout, Style, pad};
use super::{SummaryData, SummaryMetric, SummaryPart, Values};
use crate::metrics::{CheckCount, Contains, GroupMeasured, MetricKind};

/// Extent of the summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SummaryMode {
    /// The whole run.
    #[default]
    Compact,
    /// Also each scenario and each group, and more metrics.
    Full,
    /// The layout of k6 before version 1.
    Legacy,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct TextOptions {
    pub(crate) color: bool,
    /// Fixed unit of durations: `s`, `ms` or `us`.
    pub(crate) time_unit: Option<String>,
    pub(crate) mode: SummaryMode,
}

/// Sections of metrics; all others that are not built in are CUSTOM.
const HTTP: &[&str] = &["http_req_duration", "http_req_failed", "http_reqs"];
const EXECUTION: &[&str] =
    &["dropped_iterations", "iteration_duration", "iterations", "vus", "vus_max"];
const NETWORK: &[&str] = &["data_received", "data_sent"];
/// Built-in metrics without a section.
const HIDDEN: &[&str] = &["checks", "group_duration"];
/// Metrics of the section HTTP in the full mode only.
const IN_DETAIL: &[&str] = &[
    "http_req_blocked", "http_req_connecting", "http_req_receiving", "http_req_sending",
    "http_req_tls_handshaking", "http_req_waiting",
];

const INDENT: usize = 4;

pub(crate) fn text(data: &SummaryData<'_>, options: &TextOptions) -> String {
    let style = Style(options.color);
    if options.mode == SummaryMode::Legacy {
        return super::legacy::text(data, options, &style);
    }
    let mut page = Page { out: String::from("\n\n"), seconds: data.seconds, options, style };
    page.thresholds(&data.metrics);
    page.section("TOTAL RESULTS");
    page.content(&data.metrics, &all_checks(data.groups), INDENT);
    page.out.push('\n');
    let root = Node::from_summary(data, "");
    for group in &root.children {
        page.section(&format!("GROUP: {}", group.name));
        page.group(group, INDENT);
        page.out.push('\n');
    }
    let mut scenarios: Vec<_> = data
        .parts
        .iter()
        .map(|part| part.part.scenario.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    scenarios.sort_unstable();
    scenarios.dedup();
    for name in scenarios {
        page.section(&format!("SCENARIO: {name}"));
        page.group(&Node::from_summary(data, name), INDENT);
        page.out.push('\n');
    }
    page.out
}

/// A group with its inner groups; the root stands for the scenario.
#[derive(Default)]
struct Node<'a> {
    name: &'a str,
    /// `None` when nothing was measured outside of the inner groups.
    part: Option<&'a SummaryPart<'a>>,
    children: Vec<Node<'a>>,
}

impl<'a> Node<'a> {
    fn from_summary(data: &'a SummaryData<'a>, scenario: &str) -> Self {
        let mut root = Node::default();
        for part in data.parts.iter().filter(|part| part.part.scenario == scenario) {
            let mut node = &mut root;
            let names = part.part.group.split("::").filter(|name| !name.is_empty());
            for name in names {
                let known = node.children.iter().position(|child| child.name == name);
                let index = known.unwrap_or_else(|| {
                    node.children.push(Node { name, ..Node::default() });
                    node.children.len() - 1
                });
                node = &mut node.children[index];
            }
            node.part = Some(part);
        }
        root
    }
}

/// The summary as far as it is written.
struct Page<'o> {
    out: String,
    seconds: f64,
    options: &'o TextOptions,
    style: Style,
}

impl Page<'_> {
    fn section(&mut self, title: &str) {
        self.out.push_str(&format!("  █ {} \n\n", self.style.bold(title)));
    }

    fn group(&mut self, node: &Node<'_>, indent: usize) {
        if let Some(SummaryPart { part, metrics }) = node.part {
            let checks: Vec<_> =
                part.checks.iter().map(|(name, count)| (name.as_str(), *count)).collect();
            self.content(metrics, &checks, indent);
        }
        for child in &node.children {
            let title = self.style.bold(&format!("GROUP: {}", child.name));
            self.out.push_str(&format!("{}↳ {title} \n\n", " ".repeat(indent)));
            self.group(child, indent + 2);
        }
    }

    fn content(&mut self, metrics: &[SummaryMetric], checks: &[(&str, CheckCount)], indent: usize) {
        if !checks.is_empty() {
            self.checks(metrics, checks, indent);
        }
        let is_full = self.options.mode == SummaryMode::Full;
        let section = |metric: &SummaryMetric| section_of(metric, is_full);
        let shown: Vec<_> = metrics.iter().filter(|metric| section(metric).is_some()).collect();
        let layout = Layout::new(&shown, self.options);
        let spaces = " ".repeat(indent);
        for title in ["CUSTOM", "HTTP", "EXECUTION", "NETWORK", "WEBSOCKET"] {
            let mut lines: Vec<_> =
                shown.iter().copied().filter(|metric| section(metric) == Some(title)).collect();
            if lines.is_empty() {
                continue;
            }
            lines.sort_by(|left, right| left.name.cmp(&right.name));
            self.out.push_str(&format!("{spaces}{}\n", self.style.bold(title)));
            for metric in lines {
                self.out.push_str(&layout.line(metric, &self.style, &spaces, ""));
            }
            self.out.push('\n');
        }
    }

    /// Thresholds by metric; those of a sub-metric below its metric if that has some too.
    fn thresholds(&mut self, metrics: &[SummaryMetric]) {
        let mut metrics: Vec<&SummaryMetric> =
            metrics.iter().filter(|metric| !metric.thresholds.is_empty()).collect();
        if metrics.is_empty() {
            return;
        }
        metrics.sort_by(|left, right| left.name.cmp(&right.name));
        self.section("THRESHOLDS");
        let style = &self.style;
        for metric in &metrics {
            let base = base_name(metric);
            let below = metric.name != base && metrics.iter().any(|other| other.name == base);
            let (indent, name) = match below {
                true => ("      ", &metric.name[base.len()..]),
                false => ("    ", metric.name.as_str()),
            };
            self.out.push_str(&format!("{indent}{}\n", style.bold(name)));
            for one in &metric.thresholds {
                let unit = self.options.time_unit.as_deref();
                let per_second = metric.kind == MetricKind::Counter && one.aggregation == "rate";
                let suffix = if per_second { "/s" } else { "" };
                let value = humanize(one.value, metric.kind, metric.contains, unit);
                let mark = if one.ok { style.green("✓") } else { style.red("✗") };
                let value = style.cyan(&format!("{value}{suffix}"));
                let line = format!("{indent}{mark} '{}' {}={value}\n", one.source, one.aggregation);
                self.out.push_str(&line);
            }
            self.out.push('\n');
        }
        self.out.push('\n');
    }

    fn checks(&mut self, metrics: &[SummaryMetric], checks: &[(&str, CheckCount)], indent: usize) {
        let (out, style) = (&mut self.out, &self.style);
        let spaces = " ".repeat(indent);
        let sums = metrics.iter().find(|metric| metric.name == "checks");
        if let Some(SummaryMetric { values: Values::Rate { rate, passes, fails }, .. }) = sums {
            let total = passes + fails;
            let percent = |part: f64| humanize(part, MetricKind::Rate, Contains::Default, None);
            let per_second = total as f64 / self.seconds;
            let per_second = humanize(per_second, MetricKind::Counter, Contains::Default, None);
            // Not 1 − rate: rounded down to two digits, that can be one off.
            let failed = *fails as f64 / total.max(1) as f64;
            let rows = [
                ("checks_total", total.to_string(), per_second + "/s"),
                ("checks_succeeded", percent(*rate), format!("{passes} out of {total}")),
                ("checks_failed", percent(failed), format!("{fails} out of {total}")),
            ];
            let width = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or(0);
            for (name, value, extra) in rows {
                let dots = style.faint(&format!("{}:", ".".repeat(19 - name.len())));
                let value = pad(&style.cyan(&value), &value, width);
                let extra = style.faint_cyan(&extra);
                out.push_str(&format!("{spaces}{name}{dots} {value} {extra}\n"));
            }
            out.push('\n');
        }
        for (name, count) in checks {
            if count.fails == 0 {
                out.push_str(&format!("{spaces}{}\n", style.green(&format!("✓ {name}"))));
            } else {
                out.push_str(&format!("{spaces}{}\n", style.red(&format!("✗ {name}"))));
                // As far to the right as in k6.
                let spaces = " ".repeat(2 * indent - 2);
                out.push_str(&format!("{spaces}{}\n", style.red(&detail(*count))));
            }
        }
        out.push('\n');
    }
}

fn base_name(metric: &SummaryMetric) -> &str {
    metric.name.split('{').next().unwrap_or_default()
}

fn section_of(metric: &SummaryMetric, is_full: bool) -> Option<&'static str> {
    let name = base_name(metric);
    match name {
        _ if IN_DETAIL.contains(&name) => Some("HTTP").filter(|_| is_full),
        _ if HTTP.contains(&name) => Some("HTTP"),
        _ if EXECUTION.contains(&name) => Some("EXECUTION"),
        _ if NETWORK.contains(&name) => Some("NETWORK"),
        _ if name.starts_with("ws_") => Some("WEBSOCKET"),
        _ if HIDDEN.contains(&name) => None,
        _ => Some("CUSTOM"),
    }
}

/// Checks of all groups, those of a group before those of its inner groups. The compact mode does not distinguish
/// groups: checks of the same name are one line, at the place of the first.
fn all_checks(groups: &[GroupMeasured]) -> Vec<(&str, CheckCount)> {
    fn collect<'g>(groups: &'g [GroupMeasured], at: usize, into: &mut Vec<(&'g str, CheckCount)>) {
        let Some(group) = groups.get(at) else { return };
        into.extend(group.checks.iter().map(|(name, count)| (name.as_str(), *count)));
        group.children.iter().for_each(|child| collect(groups, *child, into));
    }
    let mut checks = Vec::new();
    collect(groups, 0, &mut checks);
    let mut merged: Vec<(&str, CheckCount)> = Vec::new();
    let mut indices: HashMap<&str, usize> = HashMap::new();
    for (name, count) in checks {
        let index = *indices.entry(name).or_insert(merged.len());
        if index == merged.len() {
            merged.push((name, CheckCount::default()));
        }
        merged[index].1.passes += count.passes;
        merged[index].1.fails += count.fails;
    }
    merged
}

/// The counts of a check that has failed.
pub(super) fn detail(count: CheckCount) -> String {
    let percent = 100 * count.passes / (count.passes + count.fails);
    format!("↳  {percent}% — ✓ {} / ✗ {}", count.passes, count.fails)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::{Builtin, GroupMeasured, Measured, Registry, SampleTags, Sink};

    fn checks_of(passes: u64, fails: u64) -> CheckCount {
        CheckCount { passes, fails }
    }

    /// A summary of checks in the root group and in a group inside it; nothing else happened.
    fn summary(root: &[(&str, CheckCount)], inner: &[(&str, CheckCount)], seconds: u64) -> String {
        shown(&measured(root, inner), seconds, SummaryMode::Compact)
    }

    fn shown(measured: &Measured, seconds: u64, mode: SummaryMode) -> String {
        let registry = Registry::new();
        let duration = Duration::from_secs(seconds);
        let data = SummaryData::new(&registry, measured, &[], duration, (&[], &[]));
        text(&data, &TextOptions { mode, ..TextOptions::default() })
    }

    fn measured(root: &[(&str, CheckCount)], inner: &[(&str, CheckCount)]) -> Measured {
        let registry = Registry::new();
        let owned = |checks: &[(&str, CheckCount)]| {
            checks.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let group =
            |children, checks| GroupMeasured { children, checks, ..GroupMeasured::default() };
        let mut sinks: Vec<Sink> =
            registry.iter().map(|(_, metric)| Sink::new(metric.kind)).collect();
        let all = || root.iter().chain(inner).map(|(_, count)| count);
        let trues = all().map(|count| count.passes).sum();
        let total = all().map(|count| count.passes + count.fails).sum();
        sinks[Builtin::Checks as usize] = Sink::Rate { trues, total };
        let groups = vec![group(vec![1], owned(root)), group(Vec::new(), owned(inner))];
        Measured { sinks, groups, ..Measured::default() }
    }

    fn line<'t>(text: &'t str, start: &str) -> &'t str {
        text.lines().map(str::trim).find(|line| line.starts_with(start)).unwrap_or_default()
    }

    #[test]
    fn the_rate_of_failed_checks_is_computed_from_their_number() {
        // 1 − 0.9 is 0.09999999999999998, which would be shown as 9.99 %.
        let text = summary(&[("a", checks_of(9, 1))], &[], 4);
        assert!(line(&text, "checks_failed").contains(" 10.00% "), "{text}");
        assert!(line(&text, "checks_succeeded").contains(" 90.00% "), "{text}");
    }

    #[test]
    fn checks_have_a_rate_even_when_no_iteration_was_completed() {
        let text = summary(&[("a", checks_of(9, 1))], &[], 4);
        assert!(line(&text, "checks_total").ends_with(" 2.5/s"), "{text}");
    }

    #[test]
    fn checks_of_the_same_name_are_one_line_where_the_first_one_was() {
        let root = [("b", checks_of(1, 0)), ("a", checks_of(1, 0))];
        let text = summary(&root, &[("c", checks_of(1, 0)), ("b", checks_of(0, 1))], 1);
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(['✓', '✗']))
            .map(str::trim)
            .collect();
        assert_eq!(names, ["b", "a", "c"], "{text}");
        assert!(line(&text, "↳").contains("50% — ✓ 1 / ✗ 1"), "{text}");
    }

    #[test]
    fn the_full_mode_shows_scenarios_with_their_groups() {
        let mut measured = measured(&[("a", checks_of(1, 0))], &[]);
        let tags = |group| SampleTags { scenario: "buy", group, ..SampleTags::default() };
        let requests = Builtin::HttpReqs.id();
        for group in ["", "::a::b"] {
            measured.breakdown.add(requests, MetricKind::Counter, 2.0, &tags(group));
        }
        let found = shown(&measured, 4, SummaryMode::Full);
        let expected = "

  █ SCENARIO: buy\x20

    HTTP
    http_reqs...: 4 1/s

    ↳ GROUP: a\x20

      ↳ GROUP: b\x20

        HTTP
        http_reqs...: 2 0.5/s

";
        assert!(found.contains(expected), "{found}");
    }

    #[test]
    fn the_legacy_mode_shows_checks_by_group_and_metrics_by_name() {
        let found = shown(
            &measured(&[("a", checks_of(1, 1))], &[("b", checks_of(2, 0))]),
            1,
            SummaryMode::Legacy,
        );
        let expected = "
     ✗ a
      ↳  50% — ✓ 1 / ✗ 1

     ✓ b

     checks...: 75.00% 3 out of 4

";
        assert!(found.contains(expected), "{found}");
    }
}
