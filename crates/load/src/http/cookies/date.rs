//! The date of `Expires`, by the lenient algorithm of RFC 6265 §5.1.1.

use time::{Date, Month, UtcDateTime};

/// Seconds since 1970; `None` for an invalid date.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    // All but letters, digits and the colon are delimiters.
    let tokens = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == ':'))
        .filter(|token| !token.is_empty());
    for token in tokens {
        if time.is_none() && time_of_day(token).is_some() {
            time = time_of_day(token);
        } else if day.is_none() && number(token, 1, 2).is_some() {
            day = number(token, 1, 2);
        } else if month.is_none() && month_of(token).is_some() {
            month = month_of(token);
        } else if year.is_none() {
            year = number(token, 2, 4);
        }
    }
    let (time, day, month) = (time?, day?, month?);
    let year = match year? {
        year @ 0..=69 => 2000 + year,
        year @ 70..=99 => 1900 + year,
        year => year,
    };
    let valid = (1..=31).contains(&day) && year >= 1601;
    Some(days_since_1970(year, month, day).filter(|_| valid)? * 86_400 + time)
}

/// The leading digits of a token: at least `min` of them, at most `max`.
fn number(token: &str, min: usize, max: usize) -> Option<i64> {
    let digits = token.bytes().take_while(u8::is_ascii_digit).count();
    (min..=max).contains(&digits).then(|| token[..digits].parse().ok()).flatten()
}

/// `h:m:s` in seconds.
fn time_of_day(token: &str) -> Option<i64> {
    let mut parts = token.splitn(3, ':').map(|part| number(part, 1, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    (hour < 24 && minute < 60 && second < 60).then_some((hour * 60 + minute) * 60 + second)
}

fn month_of(token: &str) -> Option<Month> {
    const NAMES: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let name = token.get(..3)?.to_ascii_lowercase();
    let index = NAMES.iter().position(|known| *known == name)?;
    Month::try_from(index as u8 + 1).ok()
}

/// Days since 1970-01-01. A day beyond the month's end is one of the next month.
fn days_since_1970(year: i64, month: Month, day: i64) -> Option<i64> {
    let first = Date::from_calendar_date(year.try_into().ok()?, month, 1).ok()?;
    Some((first - UtcDateTime::UNIX_EPOCH.date()).whole_days() + day - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_forms_servers_send_are_read() {
        // `date -u -d '2026-10-21 07:28:00' +%s`
        for text in [
            "Wed, 21 Oct 2026 07:28:00 GMT",
            "Wednesday, 21-Oct-26 07:28:00 GMT",
            "Wed Oct 21 07:28:00 2026",
            "21 october 2026 7:28:0",
        ] {
            assert_eq!(parse(text), Some(1_792_567_680), "{text}");
        }
        assert_eq!(parse("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse("Tue, 29 Feb 2000 12:00:00 GMT"), Some(951_825_600));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in
            ["", "0", "never", "Wed, 21 Oct 2026", "21 Oct 2026 24:00:00", "32 Oct 2026 1:1:1"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }
}
