//! Durations as k6 reads them: Go's syntax (`1h2m3.5s`, `300ms`), days, or plain milliseconds.

use std::time::Duration;

use thiserror::Error;

/// Error of parsing a duration.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[error(
    "invalid duration `{0}`: a number with a unit is expected, such as `30s`, `1m30s` or `500ms`"
)]
pub struct DurationError(String);

/// Longest accepted duration: a hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Parses a duration.
///
/// # Errors
/// When the text is not a duration, negative, or longer than a hundred years.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError(text.to_owned());
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(error());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = &rest[..digits];
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let nanos: u64 = match &rest[..unit] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            // A number alone is milliseconds.
            "" if digits == text.trim().len() => 1_000_000,
            _ => return Err(error()),
        };
        total += multiply(number, nanos).filter(|part| *part <= LONGEST).ok_or_else(error)?;
        rest = &rest[unit..];
    }
    if total > LONGEST { Err(error()) } else { Ok(total) }
}

/// A decimal number times a unit. Whole and fractional part are multiplied apart, so that `1.001s` is exactly 1,001 ms.
fn multiply(number: &str, nanos: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: f64 =
        if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
    let part = Duration::from_nanos((fraction * nanos as f64).round() as u64);
    Some(Duration::from_nanos(whole.checked_mul(nanos)?) + part)
}

/// Writes a duration as Go does: `1m30s`, `2s`, `500ms`, `0s`.
pub(crate) fn format_duration(duration: Duration) -> String {
    // Nine decimals are nanoseconds.
    let fraction = |value: f64| {
        let text = format!("{value:.9}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match duration.as_nanos() {
        0 => return "0s".to_owned(),
        nanos @ ..1_000 => return format!("{nanos}ns"),
        nanos @ ..1_000_000 => return format!("{}µs", fraction(nanos as f64 / 1e3)),
        nanos @ ..1_000_000_000 => return format!("{}ms", fraction(nanos as f64 / 1e6)),
        _ => {}
    }
    let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
    let seconds = (duration - Duration::from_secs(duration.as_secs() / 60 * 60)).as_secs_f64();
    match (hours, minutes) {
        (0, 0) => format!("{}s", fraction(seconds)),
        (0, _) => format!("{minutes}m{}s", fraction(seconds)),
        _ => format!("{hours}h{minutes}m{}s", fraction(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_k6_reads_them() {
        for (text, milliseconds) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("2d", 172_800_000),
            ("250ms", 250),
            ("1000", 1000),
            ("0s", 0),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "10x", "-1s", "1s2", "1..2s", "1e3s", "9999999999h", "NaN"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_durations_can_be_read(milliseconds in 0u64..10_000_000_000) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,20}") {
            let _ = parse_duration(&text);
        }
    }
}
