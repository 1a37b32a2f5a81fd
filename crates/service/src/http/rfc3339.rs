//! Times: RFC 3339 with any offset as input, milliseconds since 1970 inside, RFC 3339 in UTC as output.
//!
//! A number compares, sorts and indexes without a calendar. The offset of the input is not kept.

use std::time::{SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The last millisecond of the year 9999 in UTC, the last one with a year of four digits.
pub const LAST_MS: i64 = 253_402_300_799_999;

/// Milliseconds since 1970-01-01T00:00:00Z of an RFC 3339 time from 1970 to 9999 (in UTC), else `None`.
///
/// `T` and `Z` may be lower case, and a space may replace `T` (RFC 3339, 5.6). A leap second is accepted where one
/// can be, at the end of a month in UTC, and read as the last millisecond before it. Finer fractions are truncated.
pub fn parse(text: &str) -> Option<i64> {
    // The crate accepts any separator.
    if !matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' ')) {
        return None;
    }
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let ms = i64::try_from(time.unix_timestamp_nanos().div_euclid(1_000_000)).ok()?;
    (0..=LAST_MS).contains(&ms).then_some(ms)
}

/// Milliseconds since 1970-01-01T00:00:00Z now.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The current time in UTC.
pub fn now_utc() -> String {
    format_utc(now_ms())
}

/// `2026-11-20T12:34:56.789Z`: always UTC and milliseconds, so that texts sort as times do. A time outside of 1970 to
/// 9999 becomes the nearest end.
pub fn format_utc(ms: i64) -> String {
    let ms = ms.clamp(0, LAST_MS);
    let time = OffsetDateTime::from_unix_timestamp(ms.div_euclid(1000))
        .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    let mut text = *b"0000-00-00T00:00:00.000Z";
    // `format!` of these seven numbers took a tenth of the CPU time of a listing.
    let mut put = |end: usize, digits: usize, mut number: u32| {
        for place in text[end - digits..end].iter_mut().rev() {
            // A remainder below ten.
            *place = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(4, 4, year.unsigned_abs());
    put(7, 2, u8::from(month).into());
    put(10, 2, day.into());
    put(13, 2, hour.into());
    put(16, 2, minute.into());
    put(19, 2, second.into());
    put(23, 3, u32::try_from(ms.rem_euclid(1000)).unwrap_or(0));
    str::from_utf8(&text).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn any_offset_is_read_as_the_same_moment() {
        let noon = Some(1_795_176_000_000);
        for text in [
            "2026-11-20T12:00:00Z", "2026-11-20t12:00:00z", "2026-11-20 12:00:00Z",
            "2026-11-20T12:00:00.0009Z", "2026-11-20T12:00:00-00:00", "2026-11-20T21:00:00+09:00",
            "2026-11-21T11:59:00+23:59", "2026-11-20T02:30:00-09:30",
        ] {
            assert_eq!(parse(text), noon, "{text}");
        }
        assert_eq!(parse("2026-11-20T12:00:00.000000000Z"), noon);
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse("1970-01-01T00:00:00.001999Z"), Some(1));
        assert_eq!(parse("9999-12-31T23:59:59.999999Z"), Some(LAST_MS));
        assert_eq!(parse("2024-02-29T00:00:00Z"), Some(1_709_164_800_000));
        assert_eq!(parse("2016-12-31T23:59:60Z"), Some(1_483_228_799_999), "a leap second");
        assert_eq!(parse("2017-01-01T08:59:60.5+09:00"), Some(1_483_228_799_999));
    }

    #[test]
    fn what_is_no_such_time_is_refused() {
        for text in [
            "", "2026-11-20", "2026-11-20T12:00Z", "2026-11-20T12:00:00", "2026-11-20T12:00:00.Z",
            "2026-11-20T12:00:00,5Z", "2026-11-20T12:00:00+0900", "2026-11-20T12:00:00+09",
            "2026-11-20T12:00:00+24:00", "2026-11-20T12:00:00+09:60", "2026-11-20_12:00:00Z",
            "2026-11-20T12:00:00Z ", " 2026-11-20T12:00:00Z", "2026-02-29T00:00:00Z",
            "2026-00-10T00:00:00Z", "2026-04-31T00:00:00Z", "2026-11-20T24:00:00Z",
            "2026-11-20T12:60:00Z", "2026-11-20T12:00:60Z", "2026-11-20T12:00:61Z",
            "26-11-20T12:00:00Z", "+2026-11-20T12:00:00Z", "-2026-11-20T12:00:00Z",
            "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01",
            "10000-01-01T00:00:00Z", "２026-11-20T12:00:00Z", "2026-11-20é12:00:00Z",
            "1795176000000",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("2026-11-20T12:00:00Z[Asia/Seoul]"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ms in 0..=LAST_MS) {
            let text = format_utc(ms);
            prop_assert_eq!(text.len(), 24);
            prop_assert_eq!(parse(&text), Some(ms), "{}", text);
        }

        #[test]
        fn any_text_is_answered_without_a_panic(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }

    #[test]
    fn times_beyond_the_calendar_are_written_as_its_ends() {
        assert_eq!(format_utc(-1), "1970-01-01T00:00:00.000Z");
        assert_eq!(format_utc(i64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(format_utc(1_795_176_000_007), "2026-11-20T12:00:00.007Z");
    }
}
