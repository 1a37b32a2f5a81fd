//! Lines of metrics in columns, with colours.

use super::humanize::humanize;
use super::text::TextOptions;
use super::{SummaryMetric, Values};

/// Column widths for all metrics shown.
pub(super) struct Layout<'o> {
    options: &'o TextOptions,
    name: usize,
    value: usize,
    trend: Vec<usize>,
    extras: Vec<usize>,
}

impl<'o> Layout<'o> {
    pub(super) fn new(metrics: &[&SummaryMetric], options: &'o TextOptions) -> Self {
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

    /// The main value (`None` for a trend), and further ones with their labels.
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

    /// One line; `mark` precedes the name.
    pub(super) fn line(
        &self,
        metric: &SummaryMetric,
        style: &Style,
        indent: &str,
        mark: &str,
    ) -> String {
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
        let inner = name.trim_start();
        let before = &name[..name.len() - inner.len()];
        format!("{indent}{before}{mark}{inner}{dots} {data}\n")
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

/// Pads `shown` (`plain` with colours) to a width.
pub(super) fn pad(shown: &str, plain: &str, columns: usize) -> String {
    format!("{shown}{}", " ".repeat(columns.saturating_sub(width(plain))))
}

/// Colours; `false` for none.
pub(super) struct Style(pub(super) bool);

impl Style {
    fn wrap(&self, codes: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{codes}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(super) fn bold(&self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(super) fn faint(&self, text: &str) -> String {
        self.wrap("2;37", text)
    }

    pub(super) fn cyan(&self, text: &str) -> String {
        self.wrap("36", text)
    }

    pub(super) fn faint_cyan(&self, text: &str) -> String {
        self.wrap("2;36", text)
    }

    pub(super) fn green(&self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(super) fn red(&self, text: &str) -> String {
        self.wrap("31", text)
    }
}
