//! Numbers as k6 writes them.

use crate::metrics::{Contains, MetricKind};

/// Formats a value of a metric. `time_unit` fixes the unit of durations: `s`, `ms` or `us`.
pub(crate) fn humanize(
    value: f64,
    kind: MetricKind,
    contains: Contains,
    time_unit: Option<&str>,
) -> String {
    if kind == MetricKind::Rate {
        // Truncated, not rounded: 99.999 % is not everything.
        return format!("{:.2}%", (value * 100.0 * 100.0).trunc() / 100.0);
    }
    match contains {
        Contains::Data => bytes(value),
        Contains::Time => duration(value, time_unit),
        Contains::Default => trimmed(value, 6),
    }
}

fn bytes(value: f64) -> String {
    const UNITS: [&str; 9] = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    if value < 10.0 {
        return format!("{} B", trimmed(value, 15));
    }
    let exponent = ((value.ln() / 1000f64.ln()).floor() as usize).min(UNITS.len() - 1);
    let scaled = (value / 1000f64.powi(exponent as i32) * 10.0 + 0.5).floor() / 10.0;
    let scaled = fixed(scaled, usize::from(scaled < 10.0));
    format!("{scaled} {}", UNITS[exponent])
}

/// Formats milliseconds.
fn duration(value: f64, time_unit: Option<&str>) -> String {
    match time_unit {
        Some("s") => return fixed(value * 0.001, 2) + "s",
        Some("ms") => return fixed(value, 2) + "ms",
        Some("us") => return fixed(value * 1000.0, 2) + "µs",
        _ => {}
    }
    if value == 0.0 {
        return "0s".to_owned();
    }
    if value < 0.001 {
        return format!("{}ns", (value * 1e6).trunc());
    }
    if value < 1.0 {
        return format!("{}µs", cut(value * 1000.0, 2));
    }
    if value < 1000.0 {
        return format!("{}ms", cut(value, 2));
    }
    let digits = if value > 60_000.0 { 0 } else { 2 };
    let seconds = format!("{}s", cut(value % 60_000.0 / 1000.0, digits));
    let minutes = (value / 60_000.0).trunc();
    if minutes < 1.0 {
        return seconds;
    }
    let hours = (minutes / 60.0).trunc();
    let text = format!("{}m{seconds}", minutes % 60.0);
    if hours < 1.0 { text } else { format!("{hours}h{text}") }
}

/// At most `digits` decimals, without trailing zeros.
pub(super) fn trimmed(value: f64, digits: usize) -> String {
    let text = fixed(value, digits);
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// JavaScript's `toFixed`: a tie goes up, where Rust would round it to even.
fn fixed(value: f64, digits: usize) -> String {
    let scale = 10f64.powi(digits as i32);
    let tie = (value * scale).fract() == 0.5;
    let value = if tie { (value * scale).ceil() / scale } else { value };
    format!("{value:.digits$}")
}

fn cut(value: f64, digits: i32) -> String {
    let scale = 10f64.powi(digits);
    trimmed((value * scale).trunc() / scale, digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_k6_writes_them() {
        for (milliseconds, text) in [
            (0.0, "0s"),
            (0.000_5, "500ns"),
            (0.021_7, "21.7µs"),
            (0.344_999, "344.99µs"),
            (1.2, "1.2ms"),
            (102.84, "102.84ms"),
            (1001.5, "1s"),
            (61_500.0, "1m1s"),
            (3_723_000.0, "1h2m3s"),
        ] {
            assert_eq!(duration(milliseconds, None), text, "{milliseconds}");
        }
        assert_eq!(duration(1234.5, Some("s")), "1.23s");
    }

    #[test]
    fn bytes_and_rates_are_written_as_k6_writes_them() {
        for (value, text) in
            [(0.0, "0 B"), (9.0, "9 B"), (34_524.0, "35 kB"), (9072.0, "9.1 kB"), (1.5e9, "1.5 GB")]
        {
            assert_eq!(bytes(value), text);
        }
        for (value, kind, text) in [
            (2.0 / 3.0, MetricKind::Rate, "66.66%"),
            (0.999_999, MetricKind::Rate, "99.99%"),
            (61.654_913_8, MetricKind::Counter, "61.654914"),
        ] {
            assert_eq!(humanize(value, kind, Contains::Default, None), text);
        }
    }
}
