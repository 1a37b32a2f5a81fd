use super::*;
use bytes::Bytes;
use proptest::prelude::*;

table! {
    /// A thing.
    struct Fields: Whole1 (All), Part1 (Part);
    /// A line.
    line: Line = required("line", Line(1..=3), "a");
    /// A word.
    word: Choice<u8> = optional("word", Choice(&[("one", 1), ("two", 2)]), "one");
}

fn is_valid(schema: &Value, value: &Value) -> bool {
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("kind.json", schema.clone()).unwrap();
    let index = compiler.compile("kind.json", &mut schemas).unwrap();
    schemas.validate(value, index).is_ok()
}

fn reads(kind: &impl FieldKind, value: &Value) -> bool {
    let body = Bytes::from(json!({ "f": value }).to_string());
    let mut body = crate::http::JsonBody::from(body).object(1 << 20).unwrap();
    let read = kind.read(&mut body, "f").is_some();
    assert_eq!(body.finish(()).is_ok(), read, "what is not read is noted: {value}");
    read
}

/// Characters on both sides of every border that a rule draws.
fn text() -> impl Strategy<Value = String> {
    let odd: Vec<char> = "aZ가ㅋ 🏃\u{0}\t\n\u{b}\r\u{1b}\u{7f}\u{85}\u{9f}\u{a0}\u{ad}\u{115f}\u{1160}\u{180e}\u{200b}\u{200d}\u{200f}\u{2028}\u{2029}\u{202a}\u{202d}\u{202e}\u{202f}\u{2060}\u{2066}\u{2069}\u{206a}\u{2800}\u{3000}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{fffb}\u{fffd}\u{1d173}\u{e0001}\u{e0067}"
        .chars()
        .collect();
    let any = prop_oneof![6 => prop::sample::select(odd), 1 => any::<char>()];
    // In normal form, as it is counted: a schema cannot count what a text becomes.
    prop::collection::vec(any, 0..5).prop_map(|chars| {
        use unicode_normalization::UnicodeNormalization as _;
        chars.into_iter().collect::<String>().replace("\r\n", "\n").nfc().collect()
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => text().prop_map(Value::from),
        2 => prop::sample::select(vec![
            json!(0), json!(1), json!(-1), json!(2.0), json!(2.5), json!(9), json!(10), json!(1e300),
            json!(true), json!([]), json!({}), json!("one"), json!("two"), json!("One"),
        ]),
    ]
}

proptest! {
    #[test]
    fn a_field_reads_what_its_schema_says(value in value()) {
        fn agrees(kind: &impl FieldKind, value: &Value) {
            assert_eq!(reads(kind, value), is_valid(&kind.schema(), value), "{value}");
        }
        agrees(&Line(1..=3), &value);
        agrees(&Line(0..=3), &value);
        agrees(&Lines(1..=3), &value);
        agrees(&Lines(0..=3), &value);
        agrees(&Whole(0..=9), &value);
        agrees(&Number(0.5..=9.5), &value);
        agrees(&Choice(&[("one", 1), ("two", 2)]), &value);
    }
}

#[test]
fn a_part_may_leave_out_what_all_must_have() {
    use utoipa::PartialSchema as _;
    let all = serde_json::to_value(Whole1::schema()).unwrap();
    let part = serde_json::to_value(Part1::schema()).unwrap();
    for (body, of_all, of_part) in [
        (json!({ "line": "a", "word": "two" }), true, true),
        (json!({ "line": "a", "word": null }), true, true),
        (json!({ "line": "a", "more": 1 }), true, true),
        (json!({ "word": "one" }), false, true),
        (json!({ "line": null }), false, true),
        (json!({}), false, true),
        (json!({ "line": "abcd" }), false, false),
        (json!({ "line": "a", "word": "three" }), false, false),
    ] {
        for (asked, schema, wanted) in [(Asked::All, &all, of_all), (Asked::Part, &part, of_part)] {
            let bytes = Bytes::from(body.to_string());
            let mut object = crate::http::JsonBody::from(bytes).object(1 << 20).unwrap();
            let Fields { line, word } = Fields::read(&mut object, asked);
            assert_eq!(object.finish(()).is_ok(), wanted, "{asked:?} {body}");
            assert_eq!(is_valid(schema, &body), wanted, "{asked:?} {body}");
            assert_eq!(line.is_some(), body["line"] == "a", "{body}");
            assert_eq!(
                word.is_some(),
                ["one", "two"].contains(&body["word"].as_str().unwrap_or(""))
            );
        }
    }
    assert_eq!(all["examples"][0], json!({ "line": "a", "word": "one" }));
}
