//! Values of cells, normalised to one spelling.

use madang_service::markets::cleaned;

/// Texts that mean an empty cell.
const EMPTY: [&str; 4] = ["", "-", "없음", "해당없음"];
const MOST_PARTS: usize = 100;

/// The text, composed and trimmed; `None` if it means an empty cell.
pub(super) fn text(value: &str) -> Option<String> {
    let value = cleaned(value);
    (!EMPTY.contains(&value.as_str())).then_some(value)
}

/// `Y` or `N`.
pub(super) fn flag(value: &str) -> Option<bool> {
    match value {
        "Y" | "y" => Some(true),
        "N" | "n" => Some(false),
        _ => None,
    }
}

/// A whole number, with or without thousands separators.
pub(super) fn number(value: &str) -> Option<u32> {
    value.trim_end_matches('개').trim_end().replace(',', "").parse().ok()
}

/// A date as `YYYY-MM-DD`; also with `/` or `.`, without leading zeros, or as eight digits.
pub(super) fn date(value: &str) -> Option<String> {
    let separator = value.chars().find(|c| !c.is_ascii_digit());
    let parts: Vec<&str> = match separator {
        Some(separator @ ('-' | '/' | '.')) => value.split(separator).collect(),
        None if value.len() == 8 => vec![&value[..4], &value[4..6], &value[6..]],
        _ => return None,
    };
    let [year, month, day] = parts.as_slice() else { return None };
    let number = |part: &str| -> Option<u16> {
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let read = (number(year)?, number(month)?, number(day)?);
    is_day(read).then(|| format!("{:04}-{:02}-{:02}", read.0, read.1, read.2))
}

/// Whether the date exists, in a plausible year.
fn is_day((year, month, day): (u16, u16, u16)) -> bool {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u16::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1900..=2100).contains(&year) && (1..=days).contains(&day)
}

/// Distinct parts between `+`, `,` and `.`, without a trailing "etc." (등).
pub(super) fn list(value: &str) -> Vec<String> {
    let value = value.strip_suffix('등').filter(|rest| rest.ends_with(' ')).unwrap_or(value);
    let mut parts: Vec<String> = Vec::new();
    for part in value.split(['+', ',', '.']).filter_map(text) {
        if !parts.contains(&part) && parts.len() < MOST_PARTS {
            parts.push(part);
        }
    }
    parts
}

/// `상설장`, `5일장` or `상설장+5일장`; other texts without spaces.
pub(super) fn kind(value: &str) -> String {
    let value: String = value.chars().filter(|c| *c != ' ').collect();
    let mut parts: Vec<&str> = value
        .split(['+', ',', '/'])
        .filter(|part| !part.is_empty())
        .map(|part| match part {
            "상설" | "상설시장" => "상설장",
            "5일" | "오일장" | "5일시장" => "5일장",
            other => other,
        })
        .collect();
    // The permanent kind first.
    parts.sort_by_key(|part| *part != "상설장");
    parts.dedup();
    parts.join("+")
}

/// `매일`, days such as `2일+7일`, a lone `5일장`, or several of these; other texts unchanged.
pub(super) fn cycle(value: &str) -> String {
    let without = value.strip_prefix("매월").unwrap_or(value);
    let parts = without.split(['+', ',', '.', '/', ' ']).filter(|part| !part.is_empty());
    let Some(parts) = parts.map(cycle_part).collect::<Option<Vec<String>>>() else {
        return value.to_owned();
    };
    let mut once: Vec<String> = Vec::new();
    for part in parts {
        if !once.contains(&part) {
            once.push(part);
        }
    }
    match once.as_slice() {
        [] => value.to_owned(),
        // A lone 5 is not a day of the month but a market held every fifth day.
        [one] if one == "5일" => "5일장".to_owned(),
        parts => parts.join("+"),
    }
}

fn cycle_part(part: &str) -> Option<String> {
    match part {
        "매일" | "상설" | "상설장" | "상설시장" | "상시" | "상시운영" | "연중무휴" => {
            Some("매일".to_owned())
        }
        "5일장" | "오일장" | "오일" => Some("5일장".to_owned()),
        day => {
            let day: u8 = day.strip_suffix('일').unwrap_or(day).parse().ok()?;
            (1..=31).contains(&day).then(|| format!("{day}일"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_at_every_sign_that_is_used() {
        assert_eq!(list("의류. 농수축산물. 지역특산물 등"), ["의류", "농수축산물", "지역특산물"]);
        assert_eq!(list("농산물+수산물,잡화"), ["농산물", "수산물", "잡화"]);
        assert_eq!(list("+,. "), Vec::<String>::new());
        assert_eq!(list("잡화, 잡화"), ["잡화"]);
        assert_eq!(list("고등어등"), ["고등어등"], "a word that ends so is no list");
    }

    #[test]
    fn kinds_have_one_spelling() {
        for (written, read) in [
            ("5일장", "5일장"),
            ("상설장 + 5일장", "상설장+5일장"),
            ("5일장+상설장", "상설장+5일장"),
            ("3일장", "3일장"),
        ] {
            assert_eq!(kind(written), read);
        }
    }

    #[test]
    fn cycles_have_one_spelling_where_they_are_understood() {
        for (written, read) in [
            ("매일", "매일"),
            ("상설시장", "매일"),
            ("2일. 7일", "2일+7일"),
            ("3일,+8일", "3일+8일"),
            ("1,6", "1일+6일"),
            ("3,8일", "3일+8일"),
            ("매월 3, 8일", "3일+8일"),
            ("매일+2일+7일", "매일+2일+7일"),
            ("5일", "5일장"),
            ("오일장", "5일장"),
            ("5일+10일", "5일+10일"),
            ("1965-03-03", "1965-03-03"),
            ("새벽 4시 - 오후 8시", "새벽 4시 - 오후 8시"),
            ("99일", "99일"),
            ("+", "+"),
        ] {
            assert_eq!(cycle(written), read, "{written}");
        }
    }

    #[test]
    fn blanks_and_wrong_values_are_nothing() {
        assert_eq!([text(" "), text("없음"), text("-"), text("\u{0}")], [None, None, None, None]);
        assert_eq!(text("a\u{0}b").as_deref(), Some("a b"));
        assert_eq!([flag("Y"), flag("n"), flag("?")], [Some(true), Some(false), None]);
        assert_eq!([number("1,234"), number("60개"), number("-1")], [Some(1234), Some(60), None]);
    }

    #[test]
    fn days_have_one_spelling_and_what_is_no_day_is_none() {
        for written in ["2024-11-04", "20241104", "2024/11/04", "2024.11.04", "2024-11-4"] {
            assert_eq!(date(written).as_deref(), Some("2024-11-04"), "{written}");
        }
        assert_eq!(date("2024-02-29").as_deref(), Some("2024-02-29"));
        for wrong in [
            "", "한글날", "2023-02-29", "2024-13-01", "2024-00-10", "2024-01-00", "2024-11/04",
            "2024-11", "24-11-04", "2024-11-04-", "-2024-11-04", "+024-11-04", "2024-11-+4",
            "202411041", "２０２４-11-04", "2024-11-99999999", "--", "가2024가11가04",
        ] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }
}
