//! Parsing: from the bytes of a body to the positions of its fields.

use super::{Field, JsonObject};
use crate::http::problem::{FieldError, Problem};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Maximum number of fields: thirty times that of the largest documented body.
const MOST_FIELDS: usize = 256;

pub(super) fn read(bytes: Bytes) -> Result<JsonObject, Problem> {
    let text = std::str::from_utf8(&bytes)
        .map_err(|e| Problem::bad_request(format!("the body is not UTF-8: {e}")))?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(no_object(text));
    }
    let mut parser = serde_json::Deserializer::from_str(text);
    let found = parser.deserialize_map(FieldsVisitor).map_err(|e| no_json(&e))?;
    parser.end().map_err(|e| no_json(&e))?;
    // Only escapes and nested values can still hide invalid JSON.
    let is_nested = |value: &RawValue| value.get().starts_with(['[', '{']);
    if found.iter().any(|(_, value)| is_nested(value)) || text.contains('\\') {
        serde_json::from_str::<Checked>(text).map_err(|e| no_json(&e))?;
    }
    let base = text.as_ptr().addr();
    let fields = found
        .into_iter()
        .map(|(name, value)| {
            let start = value.get().as_ptr().addr() - base;
            Field { name: name.into(), start, end: start + value.get().len() }
        })
        .collect();
    Ok(JsonObject { bytes, fields, errors: Vec::new() })
}

/// The parser's messages name the error and its position, never a value.
fn no_json(error: &serde_json::Error) -> Problem {
    Problem::bad_request(format!("the body is not valid JSON: {error}"))
}

fn no_object(text: &str) -> Problem {
    match serde_json::from_str::<Checked>(text) {
        Err(error) => no_json(&error),
        Ok(_) => Problem::invalid(vec![FieldError::new("(body)", "an object: {…}")]),
    }
}

/// Lists the members of an object in order, with the text of their values.
struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Self::Value::with_capacity(8);
        while let Some(Name(name)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            if fields.len() == MOST_FIELDS {
                return Err(A::Error::custom(format_args!("more than {MOST_FIELDS} fields")));
            }
            // The next program would read a number that no double holds as something else.
            let number = value.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
            if number && !value.get().parse().is_ok_and(f64::is_finite) {
                return Err(A::Error::custom("number out of range"));
            }
            fields.push((name, value));
        }
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
        refuse_twins(&mut names)?;
        Ok(fields)
    }
}

/// A name in an object, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Name<'n>(#[serde(borrow)] Cow<'n, str>);

/// Rejects an object with two members of one name. Sorts the names.
fn refuse_twins<E: serde::de::Error>(names: &mut [&str]) -> Result<(), E> {
    names.sort_unstable();
    let twins = names.windows(2).any(|pair| pair[0] == pair[1]);
    if twins { Err(E::custom("an object has two members of the same name")) } else { Ok(()) }
}

/// Any JSON value that is valid at every level; nothing of it is kept.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Checked)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = Checked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_str<E>(self, _: &str) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Checked, A::Error> {
        while let Some(Checked) = seq.next_element()? {}
        Ok(Checked)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Checked, A::Error> {
        let mut names: Vec<Name<'de>> = Vec::new();
        while let Some(name) = map.next_key()? {
            names.push(name);
            let Checked = map.next_value()?;
        }
        let mut names: Vec<&str> = names.iter().map(|Name(name)| &**name).collect();
        refuse_twins(&mut names)?;
        Ok(Checked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use proptest::prelude::*;

    fn status(body: &[u8]) -> StatusCode {
        match read(Bytes::copy_from_slice(body)) {
            Ok(_) => StatusCode::OK,
            Err(problem) => problem.status(),
        }
    }

    #[test]
    fn what_is_no_json_is_400() {
        let broken: &[&[u8]] = &[
            b"", b" ", b"{", br#"{"a":1"#, br#"{"a":1,}"#, br#"{"a" 1}"#, b"{'a':1}", b"{a:1}",
            br#"{"a":1}x"#, br#"{"a":1}{}"#, br#"{"a":01}"#, br#"{"a":.5}"#, br#"{"a":+1}"#,
            br#"{"a":NaN}"#, br#"{"a":Infinity}"#, br#"{"a":tru}"#, b"{\"a\":\"\x01\"}",
            b"{\"a\":\"line\nbreak\"}", br#"{"a":"\x41"}"#, br#"{"a":"\ud800"}"#,
            br#"{"a":"\udc00\ud800"}"#, br#"{"\ud800":1}"#, br#"{"a":["\ud83d"]}"#,
            b"{\"a\":\"\xff\"}", b"{\"a\":\"\xed\xa0\x80\"}", b"\xef\xbb\xbf{\"a\":1}",
            br#"{"a":1e999}"#, br#"{"a":[1e999]}"#, br#"{"a":1,"a":1}"#, br#"{"a":1,"\u0061":1}"#,
            br#"{"a":{"b":1,"":2,"b":1}}"#, br#"{"a":[{"b":1,"b":1}]}"#, b"// c\n{\"a\":1}",
            b"[1,]", b"nul",
        ];
        for body in broken {
            let text = String::from_utf8_lossy(body);
            assert_eq!(status(body), StatusCode::BAD_REQUEST, "{text}");
        }
    }

    #[test]
    fn json_that_is_no_object_is_422() {
        for body in ["[]", "null", "\"text\"", "1", "[{\"a\":1}]"] {
            assert_eq!(status(body.as_bytes()), StatusCode::UNPROCESSABLE_ENTITY, "{body}");
        }
    }

    #[test]
    fn nesting_and_fields_end_somewhere() {
        let nested = |levels: usize| {
            format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels)).into_bytes()
        };
        assert_eq!(status(&nested(126)), StatusCode::OK);
        assert_eq!(status(&nested(127)), StatusCode::BAD_REQUEST);
        assert_eq!(status(&nested(100_000)), StatusCode::BAD_REQUEST);
        let fields = |count: usize| {
            let fields: Vec<_> = (0..count).map(|i| format!("\"{i}\":{i}")).collect();
            format!("{{{}}}", fields.join(",")).into_bytes()
        };
        assert_eq!(status(&fields(MOST_FIELDS)), StatusCode::OK);
        assert_eq!(status(&fields(MOST_FIELDS + 1)), StatusCode::BAD_REQUEST);
        let twins: Vec<_> = (0..200).map(|i| format!("\"{}\":0", i % 199)).collect();
        assert_eq!(status(format!("{{{}}}", twins.join(",")).as_bytes()), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn a_message_never_repeats_a_value() {
        for body in
            ["{\"password\":\"secret1\" x}", "\"secret1\" x", "{\"a\":[\"secret1\\ud800\"]}"]
        {
            let problem = read(Bytes::copy_from_slice(body.as_bytes())).unwrap_err();
            assert!(!format!("{problem:?}").contains("secret1"), "{problem:?}");
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            // Eighths: the test's own reading of longer fractions would be off by a bit.
            any::<i32>().prop_map(|n| (f64::from(n) / 8.0).into()),
            ".{0,10}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::btree_map(".{0,5}", inner, 0..6)
                    .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_object_is_read_and_its_fields_are_where_it_says(fields in prop::collection::btree_map(".{0,5}", json(), 0..20), pretty: bool) {
            let fields: serde_json::Map<_, _> = fields.into_iter().collect();
            let value = serde_json::Value::Object(fields);
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let object = read(Bytes::from(text.into_bytes())).unwrap();
            for field in &object.fields {
                let raw = &object.bytes[field.start..field.end];
                let read: serde_json::Value = serde_json::from_slice(raw).unwrap();
                prop_assert_eq!(&read, &value[&*field.name]);
            }
            prop_assert_eq!(object.fields.len(), value.as_object().unwrap().len());
        }

        #[test]
        fn any_bytes_are_answered_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), wrap: bool) {
            let body = if wrap { [b"{\"a\":", &bytes[..], b"}"].concat() } else { bytes };
            let _ = read(Bytes::from(body));
        }

        #[test]
        fn what_is_taken_is_json_to_everybody(text in "[\\[\\]{}\":,a0\\\\u .e-]{0,30}") {
            if read(Bytes::from(text.clone().into_bytes())).is_ok() {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}", text);
            }
        }
    }
}
