use super::*;
use crate::http::Problem;
use crate::http::json::JsonBody;
use crate::http::json::table::{
    Choice, FieldKind, GivenSecret, Line, Lines, NewSecret, Number, Time, Whole,
};
use http::StatusCode;
use proptest::prelude::*;

fn object(text: &str) -> JsonObject {
    JsonBody(Bytes::copy_from_slice(text.as_bytes())).object(1 << 20).unwrap()
}

fn field(value: &str) -> JsonObject {
    object(&format!("{{\"other\": 1, \"f\": {value} }}"))
}

fn read<K: FieldKind>(kind: &K, value: &str) -> Option<K::Value> {
    kind.read(&mut field(value), "f")
}

#[test]
fn every_wrong_field_is_named_at_once() {
    let mut body = object(
        r#"{"title":"","startAt":"tomorrow","n":1.5,"state":"x","ignored":[{}],"gone":null}"#,
    );
    let title = Line(1..=100).read(&mut body, "title");
    let start = Time.read(&mut body, "startAt");
    let n = Whole(1..=9).read(&mut body, "n");
    let state = Choice(&[("new", 1), ("used", 2)]).read(&mut body, "state");
    let gone = Number(0.0..=1.0).read(&mut body, "gone");
    let missing = body.array("missing");
    let problem: Problem = body.finish((title, start, n, state, gone, missing)).unwrap_err();
    assert_eq!(problem.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let answer = format!("{problem:?}");
    for said in [
        "a text of 1 to 100 characters in one line",
        "a time with its offset",
        "a whole number from 1 to 9\"",
        "one of new, used",
        "required: a number from 0 to 1",
        "required: an array",
    ] {
        assert!(answer.contains(said), "{said}: {answer}");
    }
}

#[test]
fn what_is_read_comes_out_whole_and_what_is_refused_later_counts() {
    let text =
        r#"{"t":"a\u00e9\ud83d\ude00\/","n":-5,"x":2.5,"at":"1970-01-01T00:00:01Z","a":[1, {}]}"#;
    let mut body = object(text);
    let read = (
        Line(1..=10).read(&mut body, "t"),
        Whole(-5..=-5).read(&mut body, "n"),
        Number(0.0..=9.0).read(&mut body, "x"),
        Time.read(&mut body, "at"),
        body.array("a"),
    );
    let expected = ("aé😀/".to_owned(), -5, 2.5, 1000, Bytes::from_static(b"[1, {}]"));
    assert_eq!(body.finish(read).unwrap(), expected);
    body.refuse("n", "something else");
    assert!(body.finish(()).is_err());
}

#[test]
fn texts_are_bounded_in_characters_and_hold_no_control_characters() {
    let text = |value: &str, range| read(&Line(range), value);
    assert_eq!(text("\"가나다\"", 1..=3).as_deref(), Some("가나다"));
    assert_eq!(text("\"가나다라\"", 1..=3), None);
    assert_eq!(text("\"\"", 0..=3).as_deref(), Some(""));
    for blank in ["\"\"", "\" \"", "\"\\u3000\\u00a0\""] {
        assert_eq!(text(blank, 1..=3), None, "{blank}");
    }
    for control in ["\\u0000", "\\n", "\\r", "\\t", "\\u001b", "\\u007f", "\\u0085", "\\u2028"] {
        assert_eq!(text(&format!("\"a{control}b\""), 1..=9), None, "{control}");
    }
    for other in ["1", "true", "null", "[]", "[\"a\"]", "{}", "{\"a\":\"b\"}"] {
        assert_eq!(text(other, 0..=9), None, "{other}");
    }
    let lines = |value: &str| read(&Lines(1..=9), value);
    assert_eq!(lines("\"a\\r\\nb\\n\\tc\"").as_deref(), Some("a\nb\n\tc"));
    for control in ["\\u0000", "\\r", "\\u001b", "\\u007f"] {
        assert_eq!(lines(&format!("\"a{control}b\"")), None, "{control}");
    }
}

#[test]
fn something_of_a_text_can_be_seen() {
    for (from, to) in [
        ('\u{ad}', '\u{ad}'),
        ('\u{115f}', '\u{1160}'),
        ('\u{200b}', '\u{200f}'),
        ('\u{202a}', '\u{202e}'),
        ('\u{2060}', '\u{206f}'),
        ('\u{2800}', '\u{2800}'),
        ('\u{3164}', '\u{3164}'),
        ('\u{fe00}', '\u{fe0f}'),
        ('\u{feff}', '\u{feff}'),
        ('\u{ffa0}', '\u{ffa0}'),
        ('\u{e0020}', '\u{e007f}'),
    ] {
        for c in from..=to {
            let alone = read(&Line(1..=9), &format!("\" {c}{c}\""));
            assert_eq!(alone, None, "{}", c.escape_unicode());
            let beside = read(&Lines(1..=9), &format!("\"a{c}\""));
            // Those two are refused wherever they stand.
            let fine = !matches!(c, '\u{202d}' | '\u{202e}');
            assert_eq!(beside, fine.then(|| format!("a{c}")), "{}", c.escape_unicode());
        }
    }
    // A family, a flag, a heart with its selector, Hangul, a letter of its own, a single jamo.
    for seen in [
        "👨\u{200d}👩\u{200d}👧",
        "🏴\u{e0067}\u{e0062}\u{e007f}",
        "❤\u{fe0f}",
        "한",
        "ㅋ",
        "\u{1100}",
        ".",
    ] {
        assert_eq!(read(&Line(1..=9), &format!("\"{seen}\"")).as_deref(), Some(seen));
    }
}

#[test]
fn composed_and_decomposed_hangul_are_the_same_text() {
    let decomposed = "\"\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}\"";
    assert_eq!(read(&Line(2..=2), decomposed).as_deref(), Some("한글"));
    assert_eq!(read(&NewSecret(6..=6), decomposed).unwrap().expose(), "한글");
    assert_eq!(read(&Line(1..=1), "\"e\\u0301\"").as_deref(), Some("é"));
}

#[test]
fn secrets_are_bounded_in_bytes_and_never_printed() {
    let secret = |value: &str| read(&NewSecret(8..=1024), value);
    assert_eq!(secret("\"비밀번\""), Some(Secret("비밀번".to_owned())), "nine bytes");
    assert_eq!(secret("\"1234567\""), None);
    assert!(secret(&format!("\"{}\"", "x".repeat(1024))).is_some());
    assert_eq!(secret(&format!("\"{}\"", "x".repeat(1025))), None);
    assert_eq!(secret("\"12345678\\u0000\""), None);
    assert_eq!(secret("12345678"), None);
    assert!(secret("\"        \"").is_some(), "blanks are as good as any other character");
    assert!(!format!("{:?}", secret("\"hunter2hunter2\"")).contains("hunter2"));
}

#[test]
fn a_password_to_compare_may_be_of_any_length_and_is_not_composed_beyond_reach() {
    let within = |text: &str| read(&GivenSecret(10), &serde_json::json!(text).to_string());
    let exposed = |read: Option<Option<Secret>>| read.map(|s| s.map(|s| s.expose().to_owned()));
    assert_eq!(exposed(within("")), Some(Some(String::new())));
    // Three letters of three bytes each make one syllable.
    assert_eq!(exposed(within("\u{1112}\u{1161}\u{11AB}")), Some(Some("한".to_owned())));
    assert_eq!(exposed(within(&"x".repeat(32))), Some(Some("x".repeat(32))));
    assert_eq!(exposed(within(&"x".repeat(33))), Some(None));
    assert_eq!(exposed(within("a\nb")), None);
    assert_eq!(exposed(read(&GivenSecret(10), "7")), None);
}

#[test]
fn numbers_are_numbers_of_any_spelling_and_nothing_else() {
    let whole = |value: &str| read(&Whole(i64::MIN..=i64::MAX), value);
    assert_eq!(whole("9223372036854775807"), Some(i64::MAX));
    assert_eq!(whole("-9223372036854775808"), Some(i64::MIN));
    assert_eq!(whole("9223372036854775808"), None);
    assert_eq!((whole("-0"), whole("2.0"), whole("2e3")), (Some(0), Some(2), Some(2000)));
    for other in ["2.5", "1e300", "\"2\"", "true", "null", "[2]", "9007199254740992.5"] {
        assert_eq!(whole(other), None, "{other}");
    }
    assert_eq!(read(&Whole(1..=4), "5"), None);
    assert_eq!(read(&Number(0.0..=5.0), "0.5"), Some(0.5));
    assert_eq!(read(&Number(0.0..=5.0), "5.1"), None);
    assert_eq!(read(&Number(0.0..=5.0), "\"1\""), None);
}

proptest! {
    #[test]
    fn a_text_that_was_taken_is_taken_again_unchanged(text in "\\PC{0,12}") {
        let json = serde_json::json!({ "f": text }).to_string();
        if let Some(read) = Line(0..=8).read(&mut object(&json), "f") {
            prop_assert!(read.chars().count() <= 8);
            let again = serde_json::json!({ "f": read }).to_string();
            prop_assert_eq!(Line(0..=8).read(&mut object(&again), "f"), Some(read));
        }
    }
}

#[test]
fn overrides_of_direction_are_refused_with_their_reason() {
    for text in ["\u{202e}txt.exe", "가격 \u{202d}1000\u{202c}원"] {
        let kinds: [&dyn FieldKind<Value = String>; 2] = [&Line(1..=20), &Lines(1..=20)];
        for kind in kinds {
            let mut body = field(&format!("\"{text}\""));
            assert_eq!(kind.read(&mut body, "f"), None);
            let problem = format!("{:?}", body.finish(()).unwrap_err());
            assert!(problem.contains("U+202"), "{problem}");
        }
    }
    // Embeddings, isolates and marks are how right-to-left text is written.
    let text = "\u{2067}שלום\u{2069} \u{200f}مرحبا";
    assert!(read(&Lines(1..=40), &format!("\"{text}\"")).is_some());
}

#[test]
fn a_line_has_no_controls_of_direction_and_no_fillers() {
    let refused = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
    for c in refused.chain(['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}']) {
        let mut body = field(&format!("\"a{c}b\""));
        assert_eq!(Line(1..=9).read(&mut body, "f"), None, "{}", c.escape_unicode());
        let problem = format!("{:?}", body.finish(()).unwrap_err());
        assert!(problem.contains("U+2066"), "{problem}");
        assert_eq!(one_line(&format!("a{c}b"), 1..=9), None, "{}", c.escape_unicode());
    }
    let text = "שלום \u{200f}مرحبا";
    assert_eq!(read(&Line(1..=40), &format!("\"{text}\"")).as_deref(), Some(text));
}
