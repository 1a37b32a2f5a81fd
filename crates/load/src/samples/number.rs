//! Numbers and times as Go writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::log::rfc_3339;

/// `strconv.FormatFloat(value, 'g', -1, 64)`: as few digits as tell the number from all others, with an
/// exponent below 1e-4 and from 1e6 on.
pub(super) fn shortest(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value}"),
    }
}

/// A time in UTC, `2026-11-20T18:05:32.25Z`, with as many digits as it needs.
pub(super) fn rfc_3339_nano(time: SystemTime) -> String {
    let nanos = time.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let whole = rfc_3339(time);
    if nanos == 0 {
        return whole;
    }
    let fraction = format!("{nanos:09}");
    format!("{}.{}Z", whole.trim_end_matches('Z'), fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn numbers_are_those_of_go() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (2.5, "2.5"),
            (1_234_567.0, "1.234567e+06"),
            (123_456.789, "123456.789"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (-3.25, "-3.25"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(shortest(value), text);
        }
    }

    #[test]
    fn a_time_has_the_digits_it_needs() {
        let time = UNIX_EPOCH + Duration::new(1_795_197_932, 250_000_000);
        assert_eq!(rfc_3339_nano(time), "2026-11-20T18:05:32.25Z");
        assert_eq!(rfc_3339_nano(UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }
}
