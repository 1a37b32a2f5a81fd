//! Values as they are written in files, the environment and flags: durations and sizes with a unit.

use madang_guard::net::Cidr;
use std::time::Duration;

/// Parses a duration: a whole or decimal number and a unit, `ms`, `s`, `min`, `h` or `d`.
/// Only zero may come without a unit, because `30` alone reads as anybody's guess.
///
/// # Errors
/// A sentence that says what would be accepted.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("a duration with a unit: 250ms, 5s, 10min, 2h or 1d".to_owned()),
    };
    let seconds = number.parse::<f64>().ok().map(|n| n * factor);
    match seconds {
        // A century: far above any sensible setting, far below what Duration can hold.
        Some(s) if s.is_finite() && (0.0..=3.2e9).contains(&s) => Ok(Duration::from_secs_f64(s)),
        _ => Err("a duration with a unit: 250ms, 5s, 10min, 2h or 1d".to_owned()),
    }
}

/// Writes a duration the way [`duration`] reads it.
pub fn format_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0 => "0".to_owned(),
        ms if ms % 86_400_000 == 0 => format!("{}d", ms / 86_400_000),
        ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{}min", ms / 60_000),
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

/// Parses a size in bytes: a number and `B`, `KiB`, `MiB` or `GiB` (powers of 1,024), or a bare
/// number of bytes.
///
/// # Errors
/// A sentence that says what would be accepted.
pub fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = split_unit(text.trim());
    let factor: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err("a size: 512KiB, 32MiB, 1GiB or a number of bytes".to_owned()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| "a size: 512KiB, 32MiB, 1GiB or a number of bytes".to_owned())
}

/// Parses addresses and ranges of them, with commas between; an empty text is none.
///
/// # Errors
/// A sentence that says what would be accepted.
pub fn ranges(text: &str) -> Result<Vec<Cidr>, String> {
    let parts = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
    parts.map(|range| range.parse().map_err(|e| format!("{e}"))).collect()
}

/// Parses a whole number within a range, both ends included.
///
/// # Errors
/// A sentence that says what would be accepted.
pub fn whole(text: &str, low: usize, high: usize) -> Result<usize, String> {
    match text.trim().parse::<usize>() {
        Ok(n) if (low..=high).contains(&n) => Ok(n),
        _ => Err(format!("a whole number from {low} to {high}")),
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_unless_zero() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("10 min"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["30", "", "s", "-1s", "1e9s", "1.2.3s", "99999999999d", "5 parsecs", "NaNs"] {
            assert!(duration(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text in ["0", "1ms", "1500ms", "5s", "10min", "2h", "1d"] {
            assert_eq!(format_duration(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("32MiB"), Ok(32 << 20));
        assert_eq!(size("1 KiB"), Ok(1024));
        assert_eq!(size("77"), Ok(77));
        for wrong in ["", "1MB", "-1", "1.5MiB", "99999999999999GiB"] {
            assert!(size(wrong).is_err(), "{wrong} was accepted");
        }
    }
}
