//! Durations, and guesses for misspelt words.

use std::time::Duration;

use strsim::levenshtein;

/// Parses durations such as `1h2m3.5s`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        total += number
            * match &rest[..letters] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(total).ok() }
}

/// The accepted word that is nearest to a misspelt one, if it is near enough.
pub(crate) fn closest<'w>(word: &str, accepted: &[&'w str]) -> Option<&'w str> {
    let near = accepted.iter().map(|accepted| (levenshtein(word, accepted), *accepted)).min()?;
    (near.0 <= 2 && near.0 < word.chars().count()).then_some(near.1)
}

/// True if a word differs from the known one by one letter, by the order of its letters, or by case.
pub(crate) fn is_nearly(word: &str, known: &str) -> bool {
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let lower = word.to_ascii_lowercase();
    word != known && (levenshtein(&lower, known) <= 1 || letters(&lower) == letters(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_nearly_another_by_one_slip() {
        for word in ["prot", "por", "ports", "PORT", "pott"] {
            assert!(is_nearly(word, "port"), "{word}");
        }
        for word in ["port", "host", "print", "", "p"] {
            assert!(!is_nearly(word, "port"), "{word}");
        }
    }

    #[test]
    fn times_need_units() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("0.5s"), Some(Duration::from_millis(500)));
        assert_eq!(duration("0s"), Some(Duration::ZERO));
        for text in ["", "5", "s", "5 s", "-1s", "1s5", "1.2.3s", "1d", "9e99s"] {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_time_beyond_all_measure_is_refused() {
        assert_eq!(duration(&format!("{}h", "9".repeat(300))), None);
        assert_eq!(duration(&format!("{}h", "9".repeat(400))), None);
    }

    #[test]
    fn a_guess_is_made_only_when_it_is_near() {
        assert_eq!(closest("blokcs", &["blocks", "warm_up"]), Some("blocks"));
        assert_eq!(closest("warmup", &["blocks", "warm_up"]), Some("warm_up"));
        assert_eq!(closest("banana", &["blocks", "warm_up"]), None);
        assert_eq!(closest("x", &["a"]), None);
    }
}
