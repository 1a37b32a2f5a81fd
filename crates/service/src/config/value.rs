//! Values as they are written in files, the environment and flags: durations and sizes with a unit. What cannot be
//! parsed is nothing: what a key accepts says the rest.

use madang_guard::net::Cidr;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned};
use std::path::PathBuf;
use std::time::Duration;

/// Parses a duration: a whole or decimal number and a unit, `ms`, `s`, `min`, `h` or `d`.
/// Only zero may come without a unit, because `30` alone reads as anybody's guess.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * factor;
    // A century: far above any sensible setting, far below what Duration can hold.
    (0.0..=3.2e9).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// A [`duration`] other than zero.
pub(super) fn positive(text: &str) -> Option<Duration> {
    duration(text).filter(|duration| !duration.is_zero())
}

/// Parses a size in bytes: a number and `B`, `KiB`, `MiB` or `GiB` (powers of 1,024), or a bare
/// number of bytes.
pub(crate) fn size(text: &str) -> Option<usize> {
    let (number, unit) = split_unit(text.trim());
    let factor: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    usize::try_from(number.parse::<u64>().ok()?.checked_mul(factor)?).ok()
}

/// Parses addresses and ranges of them, with commas between; an empty text is none.
pub(crate) fn ranges(text: &str) -> Option<Vec<Cidr>> {
    let parts = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
    parts.map(|range| range.parse().ok()).collect()
}

/// Parses a whole number within a range, both ends included.
pub(crate) fn whole(text: &str, low: usize, high: usize) -> Option<usize> {
    text.trim().parse().ok().filter(|number| (low..=high).contains(number))
}

/// A [`whole`] number from 1.
pub(super) fn whole_u32(text: &str, high: u32) -> Option<u32> {
    u32::try_from(whole(text, 1, high as usize)?).ok()
}

/// `auto`, or a [`whole`] number from 1.
pub(super) fn auto(text: &str, high: usize) -> Option<Option<usize>> {
    if text == "auto" { Some(None) } else { whole(text, 1, high).map(Some) }
}

/// `off`, or what `parse` takes.
pub(super) fn off_or<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text == "off" { Some(None) } else { parse(text).map(Some) }
}

/// Nothing, or what `parse` takes.
pub(super) fn set_or_none<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { parse(text).map(Some) }
}

/// The variant of this name.
pub(super) fn word<T: DeserializeOwned>(text: &str) -> Option<T> {
    T::deserialize(StrDeserializer::<de::value::Error>::new(text)).ok()
}

/// `on` or `true`, `off` or `false`.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

pub(super) fn directory(text: &str) -> Option<PathBuf> {
    (!text.trim().is_empty()).then(|| text.into())
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
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("10 min"), Some(Duration::from_secs(600)));
        for (hours, text) in [(2, "2h"), (24, "1d")] {
            assert_eq!(duration(text), Some(Duration::from_secs(hours * 3600)));
        }
        assert_eq!(duration("0"), Some(Duration::ZERO));
        for wrong in ["30", "", "s", "-1s", "1e9s", "1.2.3s", "99999999999d", "5 parsecs", "NaNs"] {
            assert!(duration(wrong).is_none(), "{wrong} was accepted");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("32MiB"), Some(32 << 20));
        assert_eq!(size("1 KiB"), Some(1024));
        assert_eq!(size("77"), Some(77));
        for wrong in ["", "1MB", "-1", "1.5MiB", "99999999999999GiB"] {
            assert!(size(wrong).is_none(), "{wrong} was accepted");
        }
    }
}
