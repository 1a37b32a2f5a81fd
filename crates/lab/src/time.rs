//! Times and durations as text.

use std::time::{Duration, SystemTime};

use serde::Serializer;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// `2026-11-20T18:01:58Z`.
pub fn rfc3339(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time).truncate_to_second();
    time.format(&Rfc3339).expect("the year has four digits, and UTC no seconds")
}

/// `20261120-180158`, in UTC: sorts by time and is a plain file name.
pub(crate) fn stamp(time: SystemTime) -> String {
    rfc3339(time).replace(['-', ':', 'Z'], "").replace('T', "-")
}

/// `1500ms`, for a command line.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// `45 s`, `12 min`, `1 h 5 min`.
pub(crate) fn rough(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..=90 => format!("{seconds} s"),
        91..=5399 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `500 ms`, `2.5 s`; not rounded.
pub(crate) fn exact(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{} s", time.as_secs_f64())
    }
}

/// Serialises a duration as seconds.
pub(crate) fn as_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

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
