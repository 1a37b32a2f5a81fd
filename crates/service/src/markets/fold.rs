//! Normal forms of names and searches.

use unicode_normalization::UnicodeNormalization as _;

/// The form in which text is stored: composed (NFC), without control characters, each run of white space one space,
/// none at the ends.
pub fn cleaned(text: &str) -> String {
    spaced(text.nfc())
}

/// The form in which text is compared: compatibility-composed (for Hangul typed on a Mac, full-width digits and `㈜`),
/// lower case, each run of white space one space, none at the ends.
pub fn folded(text: &str) -> String {
    spaced(text.nfkc().flat_map(char::to_lowercase).nfc())
}

fn spaced(text: impl Iterator<Item = char>) -> String {
    let mut out = String::new();
    let mut gap = false;
    for c in text {
        if c.is_whitespace() || c.is_control() {
            gap = !out.is_empty();
        } else {
            if std::mem::take(&mut gap) {
                out.push(' ');
            }
            out.push(c);
        }
    }
    out
}

/// [`folded`] and without spaces: `중앙 시장` and `중앙시장` are one name.
pub fn without_spaces(text: &str) -> String {
    let mut out = folded(text);
    out.retain(|c| c != ' ');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_looks_the_same_is_the_same() {
        for (written, same) in [
            (" 중앙\u{3000}\t시장 ", "중앙 시장"),
            ("ＡＢＣ１２", "abc12"),
            ("㈜시장", "(주)시장"),
            ("a\u{0}b\nc", "a b c"),
            ("", ""),
        ] {
            assert_eq!(folded(written), same, "{written:?}");
        }
        assert_eq!(without_spaces("원주 중앙 시장"), "원주중앙시장");
    }

    proptest! {
        #[test]
        fn folding_again_changes_nothing(text in "\\PC{0,40}|[가-힣 ]{0,20}") {
            let once = folded(&text);
            prop_assert_eq!(folded(&once), once);
        }

        #[test]
        fn composed_and_decomposed_hangul_are_one(text in "[가-힣 a-z]{0,20}") {
            prop_assert_eq!(folded(&text.nfd().collect::<String>()), folded(&text));
        }
    }
}
