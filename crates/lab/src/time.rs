//! Points in time and lengths of it, as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Year, month, day, hour, minute, second in UTC.
fn parts(time: SystemTime) -> (i64, u32, u32, u32, u32, u32) {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days to date in the proleptic Gregorian calendar, counting years from March so that the leap
    // day comes last (H. Hinnant, "chrono-compatible low-level date algorithms", civil_from_days).
    let days = i64::try_from(days).unwrap_or(0) + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let small = |value: i64| u32::try_from(value).unwrap_or(0);
    let clock = |value: u64| u32::try_from(value).unwrap_or(0);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    (year, small(month), small(day), clock(hour), clock(minute), clock(second))
}

/// `2026-11-20T18:01:58Z`.
pub fn rfc3339(time: SystemTime) -> String {
    let (year, month, day, hour, minute, second) = parts(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `20261120-180158`, in UTC: sorts by time and is a plain file name.
pub fn stamp(time: SystemTime) -> String {
    let (year, month, day, hour, minute, second) = parts(time);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// For a command line: `1500ms`.
pub fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// For a person: `45 s`, `12 min`, `1 h 5 min`.
pub fn rough(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..=90 => format!("{seconds} s"),
        91..=5399 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A setting as it was chosen: `500 ms`, `2.5 s`.
pub fn exact(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_not_rounded() {
        let ms = |ms| exact(Duration::from_millis(ms));
        assert_eq!(
            (ms(500).as_str(), ms(2500).as_str(), ms(10_000).as_str()),
            ("500 ms", "2.5 s", "10 s")
        );
    }

    #[test]
    fn dates_agree_with_date_of_coreutils() {
        // `date -u -d @SECONDS +%FT%TZ`
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_795_197_718, "2026-11-20T18:01:58Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
        assert_eq!(stamp(UNIX_EPOCH + Duration::from_secs(1_795_197_718)), "20261120-180158");
    }

    #[test]
    fn lengths_are_rounded_as_a_person_would() {
        let text = |seconds| rough(Duration::from_secs(seconds));
        assert_eq!([text(45), text(720), text(3900)], ["45 s", "12 min", "65 min"]);
        assert_eq!(text(7500), "2 h 5 min");
    }
}
