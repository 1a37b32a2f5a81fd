//! Forms of nicknames and passwords.

use crate::http::JsonObject;
use crate::http::json::table::{FieldKind, Line};
use std::ops::RangeInclusive;

/// Characters of a nickname.
pub(super) const NICKNAME_CHARS: RangeInclusive<usize> = 2..=64;

/// Bytes of a password. The upper bound keeps reading it cheap beside the hash; NIST SP 800-63B asks
/// for at least 64 characters.
pub(super) const PASSWORD_BYTES: RangeInclusive<usize> = 8..=1024;

/// The rule of nicknames in messages.
pub(super) const NICKNAME_RULE: &str = "2 to 64 letters (A to Z), digits, _, - or Hangul";

/// Returns true if `text`, in normal form C, is a nickname: ASCII letters and digits, `_`, `-`, syllables of
/// Hangul and its single letters (ㅋㅋ).
///
/// Other scripts are excluded because they have look-alikes of letters; `l` and `1`, `O` and `0` remain. Full-width
/// letters are refused, not folded. Also excluded are the invisible fillers of Hangul, and old letters that normal
/// form C does not change.
pub(super) fn is_nickname(text: &str) -> bool {
    let allowed = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '_' | '-' | '\u{AC00}'..='\u{D7A3}' | '\u{3131}'..='\u{3163}')
    };
    NICKNAME_CHARS.contains(&text.chars().count()) && text.chars().all(allowed)
}

/// A field of a body that [is a nickname](is_nickname).
pub(super) struct Nickname;

impl FieldKind for Nickname {
    type Value = String;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<String> {
        let text = Line(NICKNAME_CHARS).read(body, name)?;
        if is_nickname(&text) {
            return Some(text);
        }
        body.refuse(name, NICKNAME_RULE);
        None
    }

    fn schema(&self) -> serde_json::Value {
        let (least, most) = (NICKNAME_CHARS.start(), NICKNAME_CHARS.end());
        serde_json::json!({
            "type": "string", "minLength": least, "maxLength": most,
            "pattern": r"^[A-Za-z0-9_\-\uAC00-\uD7A3\u3131-\u3163]*$",
        })
    }
}

/// The form in which names of one account are equal: ASCII letters in lower case, as in the store's NOCASE.
pub(super) fn account_key(nickname: &str) -> String {
    nickname.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nickname_is_ascii_letters_digits_dash_underscore_and_hangul() {
        let (longest, hangul) = ("x".repeat(64), "가".repeat(64));
        for good in ["ab", "A1", "_-", "--", "마당", "마당_1-b", "ㅋㅋ", &longest, &hangul] {
            assert!(is_nickname(good), "{good}");
        }
        let (too_long, too_long_hangul) = ("x".repeat(65), "가".repeat(65));
        for bad in [
            "", "a", "가", &too_long, &too_long_hangul, "a b", " ab", "ab ", "a.b", "a@b", "a/b",
            "a\0b", "a\nb", "<b>", "é1", "ｍｉｎａ", "１２", "аб", "漢字", "かな",
            "\u{3164}\u{3164}", "\u{115F}\u{1160}", "\u{1100}\u{1161}", "ab\u{200B}", "ab\u{202E}",
            "🙂🙂", "ﾡﾡ",
        ] {
            assert!(!is_nickname(bad), "{bad:?}");
        }
    }
}
