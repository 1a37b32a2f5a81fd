//! Values in files, the environment and flags: durations and sizes have a unit. Parsers return `None` for an invalid
//! value; its key describes what is accepted.

use madang_guard::net::Cidr;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A duration: a whole or decimal number and a unit, `ms`, `s`, `min`, `h` or `d`. Only zero needs no unit.
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
    // A century: above any sensible setting, below the maximum of a Duration.
    (0.0..=3.2e9).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// A [`duration`] other than zero.
pub(super) fn positive(text: &str) -> Option<Duration> {
    duration(text).filter(|duration| !duration.is_zero())
}

/// A size in bytes: a number and `B`, `KiB`, `MiB` or `GiB` (powers of 1,024), or a bare number of bytes.
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

/// Addresses and ranges separated by commas; an empty text is none.
pub(crate) fn ranges(text: &str) -> Option<Vec<Cidr>> {
    let parts = text.split(',').map(str::trim).filter(|_| !text.trim().is_empty());
    parts.map(|range| range.parse().ok()).collect()
}

/// A whole number in an inclusive range.
pub(crate) fn whole(text: &str, low: usize, high: usize) -> Option<usize> {
    text.trim().parse().ok().filter(|number| (low..=high).contains(number))
}

type Parse<T> = Box<dyn Fn(&str) -> Option<T>>;

/// A description of accepted values, and their parser.
pub(crate) struct Kind<T> {
    pub(super) accepts: String,
    pub(super) parse: Parse<T>,
}

pub(super) fn kind<T: 'static>(
    accepts: impl Into<String>,
    parse: impl Fn(&str) -> Option<T> + 'static,
) -> Kind<T> {
    Kind { accepts: accepts.into(), parse: Box::new(parse) }
}

/// A [`whole`] number from 1.
pub(super) fn up_to<T: TryFrom<usize> + 'static>(high: usize) -> Kind<T> {
    kind(format!("1 to {high}"), move |text| whole(text, 1, high)?.try_into().ok())
}

/// `auto`, or a [`whole`] number from 1.
pub(super) fn auto(high: usize) -> Kind<Option<usize>> {
    instead("auto", up_to(high))
}

/// `off`, or what `other` accepts.
pub(super) fn off_or<T: 'static>(other: Kind<T>) -> Kind<Option<T>> {
    instead("off", other)
}

fn instead<T: 'static>(word: &'static str, Kind { accepts, parse }: Kind<T>) -> Kind<Option<T>> {
    let joined = if accepts.contains(" or ") { "," } else { " or" };
    kind(format!("{word}{joined} {accepts}"), move |text| {
        if text == word { Some(None) } else { parse(text).map(Some) }
    })
}

/// An empty text, or what `parse` takes.
pub(super) fn optional<T: 'static>(accepts: &str, parse: fn(&str) -> Option<T>) -> Kind<Option<T>> {
    kind(accepts, move |text| if text.is_empty() { Some(None) } else { parse(text).map(Some) })
}

/// A [`duration`] other than zero.
pub(super) fn time() -> Kind<Duration> {
    kind("a duration: 250ms, 5s, 10min, 24h", positive)
}

/// Any [`duration`].
pub(super) fn time_or_0() -> Kind<Duration> {
    kind("a duration: 0, 250ms, 5s, 2min", duration)
}

/// A time to live in the cache.
pub(super) fn lifetime() -> Kind<Duration> {
    kind("a duration: 30s, 10min, 24h; 0 = not kept", duration)
}

/// A [`size`].
pub(super) fn bytes<T: TryFrom<usize> + 'static>() -> Kind<T> {
    kind("a size: 512KiB, 8MiB, 1GiB", |text| size(text)?.try_into().ok())
}

/// [`ranges`] of addresses.
pub(super) fn addresses() -> Kind<Vec<Cidr>> {
    let accepts =
        "addresses or ranges, separated by commas: 127.0.0.1, 10.0.0.0/8, fd00::/8; empty = none";
    kind(accepts, ranges)
}

/// An address to listen on.
pub(super) fn listener() -> Kind<SocketAddr> {
    kind("ADDRESS:PORT, port 0 = any free one", |text| text.parse().ok())
}

/// One of the names of a type's variants.
pub(super) fn word<T: DeserializeOwned + 'static>(accepts: &str) -> Kind<T> {
    kind(accepts, named)
}

/// The variant of this name in kebab case.
pub(super) fn named<T: DeserializeOwned>(text: &str) -> Option<T> {
    T::deserialize(StrDeserializer::<de::value::Error>::new(text)).ok()
}

/// `on` or `true`, `off` or `false`.
pub(super) fn switch() -> Kind<bool> {
    kind("on or off", |text| match text {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    })
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
