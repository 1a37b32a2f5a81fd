//! The summary on the terminal, in the layout of k6's compact mode.

use std::collections::HashMap;

use super::humanize::humanize;
use super::{SummaryData, SummaryMetric, Values};
use crate::metrics::{CheckCount, Contains, GroupMeasured, MetricKind};

/// How to write it.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextOptions {
    pub(crate) color: bool,
    /// `s`, `ms` or `us`.
    pub(crate) time_unit: Option<String>,
}

/// Sections of metrics; whatever is named nowhere here and not built in is CUSTOM.
const HTTP: &[&str] = &["http_req_duration", "http_req_failed", "http_reqs"];
const EXECUTION: &[&str] =
    &["dropped_iterations", "iteration_duration", "iterations", "vus", "vus_max"];
const NETWORK: &[&str] = &["data_received", "data_sent"];
/// Built-in metrics the compact mode leaves out.
const HIDDEN: &[&str] = &[
    "checks",
    "group_duration",
    "http_req_blocked",
    "http_req_connecting",
    "http_req_receiving",
    "http_req_sending",
    "http_req_tls_handshaking",
    "http_req_waiting",
];

/// Writes the summary.
pub(crate) fn text(data: &SummaryData<'_>, options: &TextOptions) -> String {
    let style = Style(options.color);
    let mut out = String::from("\n\n");
    write_thresholds(&mut out, data, options, &style);
    out.push_str(&format!("  █ {} \n\n", style.bold("TOTAL RESULTS")));
    let checks = all_checks(data.groups);
    if !checks.is_empty() {
        write_checks(&mut out, data, &checks, &style);
    }
    let shown: Vec<&SummaryMetric> =
        data.metrics.iter().filter(|metric| section_of(metric).is_some()).collect();
    let layout = Layout::new(&shown, options);
    for section in ["CUSTOM", "HTTP", "EXECUTION", "NETWORK", "WEBSOCKET"] {
        let mut lines: Vec<&SummaryMetric> =
            shown.iter().copied().filter(|metric| section_of(metric) == Some(section)).collect();
        if lines.is_empty() {
            continue;
        }
        lines.sort_by(|left, right| left.name.cmp(&right.name));
        out.push_str(&format!("    {}\n", style.bold(section)));
        for metric in lines {
            out.push_str(&layout.line(metric, &style));
        }
        out.push('\n');
    }
    out.push('\n');
    out
}

/// Thresholds by metric; those of a sub-metric below its metric when that has some, too.
fn write_thresholds(
    out: &mut String,
    data: &SummaryData<'_>,
    options: &TextOptions,
    style: &Style,
) {
    let mut metrics: Vec<&SummaryMetric> =
        data.metrics.iter().filter(|metric| !metric.thresholds.is_empty()).collect();
    if metrics.is_empty() {
        return;
    }
    metrics.sort_by(|left, right| left.name.cmp(&right.name));
    out.push_str(&format!("  █ {} \n\n", style.bold("THRESHOLDS")));
    for metric in &metrics {
        let base = base_name(metric);
        let below = metric.name != base && metrics.iter().any(|other| other.name == base);
        let (indent, name) = match below {
            true => ("      ", &metric.name[base.len()..]),
            false => ("    ", metric.name.as_str()),
        };
        out.push_str(&format!("{indent}{}\n", style.bold(name)));
        for one in &metric.thresholds {
            let unit = options.time_unit.as_deref();
            let per_second = metric.kind == MetricKind::Counter && one.aggregation == "rate";
            let suffix = if per_second { "/s" } else { "" };
            let value = humanize(one.value, metric.kind, metric.contains, unit);
            let mark = if one.ok { style.green("✓") } else { style.red("✗") };
            let found = style.cyan(&format!("{value}{suffix}"));
            out.push_str(&format!("{indent}{mark} '{}' {}={found}\n", one.source, one.aggregation));
        }
        out.push('\n');
    }
    out.push('\n');
}

fn base_name(metric: &SummaryMetric) -> &str {
    metric.name.split('{').next().unwrap_or_default()
}

fn section_of(metric: &SummaryMetric) -> Option<&'static str> {
    let name = base_name(metric);
    match name {
        _ if HTTP.contains(&name) => Some("HTTP"),
        _ if EXECUTION.contains(&name) => Some("EXECUTION"),
        _ if NETWORK.contains(&name) => Some("NETWORK"),
        _ if name.starts_with("ws_") => Some("WEBSOCKET"),
        _ if HIDDEN.contains(&name) => None,
        _ => Some("CUSTOM"),
    }
}

/// Checks of all groups, those of a group before those of the groups in it. The compact mode does
/// not tell groups apart: checks of the same name are one line, where the first of them is.
fn all_checks(groups: &[GroupMeasured]) -> Vec<(&str, CheckCount)> {
    fn collect<'g>(groups: &'g [GroupMeasured], at: usize, into: &mut Vec<(&'g str, CheckCount)>) {
        let Some(group) = groups.get(at) else { return };
        into.extend(group.checks.iter().map(|(name, count)| (name.as_str(), *count)));
        group.children.iter().for_each(|child| collect(groups, *child, into));
    }
    let mut checks = Vec::new();
    collect(groups, 0, &mut checks);
    let mut merged: Vec<(&str, CheckCount)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (name, count) in checks {
        let place = *places.entry(name).or_insert(merged.len());
        if place == merged.len() {
            merged.push((name, CheckCount::default()));
        }
        merged[place].1.passes += count.passes;
        merged[place].1.fails += count.fails;
    }
    merged
}

fn write_checks(
    out: &mut String,
    data: &SummaryData<'_>,
    checks: &[(&str, CheckCount)],
    style: &Style,
) {
    if let Some(SummaryMetric { values: Values::Rate { rate, passes, fails }, .. }) =
        data.find("checks")
    {
        let total = passes + fails;
        let percent = |part: f64| humanize(part, MetricKind::Rate, Contains::Default, None);
        let per_second = total as f64 / data.seconds;
        let rate_text = humanize(per_second, MetricKind::Counter, Contains::Default, None) + "/s";
        // Not 1 − rate: rounded down to two digits, that can be one off.
        let failed = *fails as f64 / total.max(1) as f64;
        let rows = [
            ("checks_total", total.to_string(), rate_text),
            ("checks_succeeded", percent(*rate), format!("{passes} out of {total}")),
            ("checks_failed", percent(failed), format!("{fails} out of {total}")),
        ];
        let width = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or(0);
        for (name, value, extra) in rows {
            let dots = style.faint(&format!("{}:", ".".repeat(19 - name.len())));
            let value = pad(&style.cyan(&value), &value, width);
            out.push_str(&format!("    {name}{dots} {value} {}\n", style.faint_cyan(&extra)));
        }
        out.push('\n');
    }
    for (name, count) in checks {
        if count.fails == 0 {
            out.push_str(&format!("    {}\n", style.green(&format!("✓ {name}"))));
        } else {
            let percent = 100 * count.passes / (count.passes + count.fails);
            out.push_str(&format!("    {}\n", style.red(&format!("✗ {name}"))));
            let detail = format!("↳  {percent}% — ✓ {} / ✗ {}", count.passes, count.fails);
            out.push_str(&format!("      {}\n", style.red(&detail)));
        }
    }
    out.push('\n');
}

/// Widths of the columns over all metrics shown.
struct Layout<'o> {
    options: &'o TextOptions,
    name: usize,
    value: usize,
    trend: Vec<usize>,
    extras: Vec<usize>,
}

impl<'o> Layout<'o> {
    fn new(metrics: &[&SummaryMetric], options: &'o TextOptions) -> Self {
        let mut layout = Self { options, name: 0, value: 0, trend: Vec::new(), extras: Vec::new() };
        for metric in metrics {
            layout.name = layout.name.max(width(&display_name(metric)));
            let (value, extras) = layout.cells(metric);
            let columns = if value.is_some() { &mut layout.extras } else { &mut layout.trend };
            columns.resize(columns.len().max(extras.len()), 0);
            for (column, extra) in columns.iter_mut().zip(&extras) {
                *column = (*column).max(width(&extra.1));
            }
            layout.value = layout.value.max(value.as_deref().map_or(0, width));
        }
        layout
    }

    /// The main value (none for a trend) and the further ones with their labels.
    fn cells(&self, metric: &SummaryMetric) -> (Option<String>, Vec<(String, String)>) {
        let unit = self.options.time_unit.as_deref();
        let show = |value| humanize(value, metric.kind, metric.contains, unit);
        let plain = |text: String| (String::new(), text);
        match &metric.values {
            Values::Counter { count, rate } => {
                (Some(show(*count)), vec![plain(show(*rate) + "/s")])
            }
            Values::Gauge { value, min, max } => {
                let extras = [format!("min={}", show(*min)), format!("max={}", show(*max))];
                (Some(show(*value)), extras.map(plain).to_vec())
            }
            Values::Rate { rate, passes, fails } => {
                (Some(show(*rate)), vec![plain(format!("{passes} out of {}", passes + fails))])
            }
            Values::Trend(stats) => {
                let cells = stats.iter().map(|(name, value)| {
                    let text = if name == "count" { value.to_string() } else { show(*value) };
                    (format!("{name}="), text)
                });
                (None, cells.collect())
            }
        }
    }

    fn line(&self, metric: &SummaryMetric, style: &Style) -> String {
        let name = display_name(metric);
        let dots = style.faint(&format!("{}:", ".".repeat(self.name + 3 - width(&name))));
        let (value, extras) = self.cells(metric);
        let data = match value {
            None => {
                let cells = extras.iter().zip(&self.trend).map(|((label, text), width)| {
                    format!("{label}{}", pad(&style.cyan(text), text, *width))
                });
                cells.collect::<Vec<_>>().join(" ")
            }
            Some(value) => {
                let mut data = pad(&style.cyan(&value), &value, self.value);
                for (index, (_, text)) in extras.iter().enumerate() {
                    data.push(' ');
                    let shown = style.faint_cyan(text);
                    let fill = if extras.len() > 1 { self.extras[index] } else { 0 };
                    data.push_str(&pad(&shown, text, fill));
                }
                data
            }
        };
        format!("    {name}{dots} {data}\n")
    }
}

fn display_name(metric: &SummaryMetric) -> String {
    match metric.name.split_once('{') {
        Some((_, tags)) => format!("  {{ {} }}", tags.trim_end_matches('}').trim()),
        None => metric.name.clone(),
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// `shown` (with colours) filled up to the width that `plain` leaves free.
fn pad(shown: &str, plain: &str, columns: usize) -> String {
    format!("{shown}{}", " ".repeat(columns.saturating_sub(width(plain))))
}

/// Colours, if wanted.
struct Style(bool);

impl Style {
    fn wrap(&self, codes: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{codes}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(&self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn faint(&self, text: &str) -> String {
        self.wrap("2;37", text)
    }

    fn cyan(&self, text: &str) -> String {
        self.wrap("36", text)
    }

    fn faint_cyan(&self, text: &str) -> String {
        self.wrap("2;36", text)
    }

    fn green(&self, text: &str) -> String {
        self.wrap("32", text)
    }

    fn red(&self, text: &str) -> String {
        self.wrap("31", text)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::{Builtin, GroupMeasured, Measured, Registry, Sink};

    fn checks_of(passes: u64, fails: u64) -> CheckCount {
        CheckCount { passes, fails }
    }

    /// A summary of checks in the root group and in a group inside it; nothing else happened.
    fn summary(root: &[(&str, CheckCount)], inner: &[(&str, CheckCount)], seconds: u64) -> String {
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
        let measured = Measured { sinks, groups, ..Measured::default() };
        let data =
            SummaryData::new(&registry, &measured, &[], Duration::from_secs(seconds), (&[], &[]));
        text(&data, &TextOptions::default())
    }

    fn line<'t>(text: &'t str, start: &str) -> &'t str {
        text.lines().map(str::trim).find(|line| line.starts_with(start)).unwrap_or_default()
    }

    #[test]
    fn the_part_of_failed_checks_is_counted_and_not_left_over() {
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
}
