//! Bodies as tables: a row declares a field's name, what it may hold and whether it is required
//! (docs/decisions/0011-field-tables.md).
//!
//! ```ignore
//! table! {
//!     /// What is planned.
//!     pub(super) struct Fields: NewSchedule (All);
//!     /// What is planned, on one line.
//!     title: Line = required("title", Line(1..=100), "한강 달리기");
//! }
//! let read = Fields::read(&mut body, Asked::All);
//! let title = body.finish(read.title)?;
//! ```
//!
//! A row is a field of the struct, so the compiler reports one that is described and never used. Rules that relate
//! fields, or look something up, belong to the reader of the body, who notes errors with [`JsonObject::refuse`]: JSON
//! Schema cannot express them.

use super::fields::{
    NOT_MISLEADING, UNFORCED, composed, forces_direction, line, many_lines, misleads, number, span,
    what_a_line_is, whole,
};
use super::{JsonObject, LARGEST_OBJECT, Secret};
use crate::http::rfc3339;
use serde_json::{Map, Value, json};
use std::ops::RangeInclusive;
use utoipa::openapi::{RefOr, Schema};

/// Kind of a field. All bodies share the messages of its errors.
pub(crate) trait FieldKind {
    type Value;

    /// Reads the field; notes what is accepted when it is missing, null or wrong.
    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<Self::Value>;

    /// The accepted values as a JSON Schema.
    fn schema(&self) -> Value;
}

/// Part of a table that a body must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Every required field.
    All,
    /// Only the fields to be changed: any field may be missing or null.
    Part,
}

/// A row. Its example becomes JSON only in the description.
#[derive(Debug)]
pub(crate) struct Field<K, E> {
    name: &'static str,
    kind: K,
    required: bool,
    example: E,
}

/// A field that is required, unless only a [part](Asked::Part) of the table is.
pub(crate) fn required<K, E: Into<Value>>(name: &'static str, kind: K, example: E) -> Field<K, E> {
    Field { name, kind, required: true, example }
}

/// A field that may be missing or null.
pub(crate) fn optional<K, E: Into<Value>>(name: &'static str, kind: K, example: E) -> Field<K, E> {
    Field { name, kind, required: false, example }
}

impl<K: FieldKind, E: Into<Value>> Field<K, E> {
    pub(crate) fn read(&self, body: &mut JsonObject, asked: Asked) -> Option<K::Value> {
        let wanted = self.required && asked == Asked::All || body.has(self.name);
        if wanted { self.kind.read(body, self.name) } else { None }
    }

    /// Its name, whether it is required, its schema, an example.
    pub(crate) fn described(self, about: &str, asked: Asked) -> (&'static str, bool, Value, Value) {
        let (mut schema, example) = (self.kind.schema(), self.example.into());
        let required = self.required && asked == Asked::All;
        if !required {
            schema["type"] = json!([schema["type"], "null"]);
            if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
                words.push(Value::Null);
            }
        }
        schema["description"] = about.trim().into();
        schema["examples"] = json!([example]);
        (self.name, required, schema, example)
    }
}

/// The schema of an object of these fields.
pub(crate) fn object(
    about: &str,
    fields: Vec<(&'static str, bool, Value, Value)>,
) -> RefOr<Schema> {
    let (mut needed, mut properties, mut example) = (Vec::new(), Map::new(), Map::new());
    for (name, required, schema, shown) in fields {
        needed.extend(required.then_some(name));
        properties.insert(name.to_owned(), schema);
        example.insert(name.to_owned(), shown);
    }
    let schema = json!({
        "type": "object",
        "description": about.trim(),
        "required": needed,
        "properties": properties,
        "examples": [example],
    });
    RefOr::T(serde_json::from_value(schema).expect("what a table says is a schema"))
}

/// Makes the struct of a table's values, and the types of its descriptions.
macro_rules! table {
    ($(#[doc = $about:literal])+ $vis:vis struct $Fields:ident: $($Schema:ident ($asked:ident)),+;
     $($(#[doc = $says:literal])+ $field:ident: $kind:ty = $row:expr;)+) => {
        $(#[doc = $about])+
        $vis struct $Fields {
            $($(#[doc = $says])+ $vis $field: Option<<$kind as $crate::http::json::table::FieldKind>::Value>,)+
        }

        impl $Fields {
            /// Reads every field; errors are noted in the body.
            $vis fn read(
                body: &mut $crate::http::JsonObject,
                asked: $crate::http::json::table::Asked,
            ) -> Self {
                use $crate::http::json::table::Field;
                Self { $($field: { let row: Field<$kind, _> = $row; row.read(body, asked) },)+ }
            }

            fn described(
                asked: $crate::http::json::table::Asked,
            ) -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                use $crate::http::json::table::{Field, object};
                let fields = vec![$({
                    let row: Field<$kind, _> = $row;
                    row.described(concat!($($says),+), asked)
                },)+];
                object(concat!($($about),+), fields)
            }
        }

        $(
            $vis struct $Schema;

            impl utoipa::PartialSchema for $Schema {
                fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                    $Fields::described($crate::http::json::table::Asked::$asked)
                }
            }

            impl utoipa::ToSchema for $Schema {}
        )+
    };
}
pub(crate) use table;

/// Characters excluded from a text of one line, as ranges of a character class: controls, line ends, marks that force
/// or isolate a direction, invisible fillers.
const NOT_IN_A_LINE: &str =
    r"\u0000-\u001F\u007F-\u009F\u2028\u2029\u202A-\u202E\u2066-\u2069\u115F\u1160\u3164\uFFA0";
/// Characters excluded from a text of many lines; a carriage return is allowed only before a line feed.
const NOT_IN_LINES: &str = r"\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202D\u202E";
/// Characters that are invisible on their own.
const INVISIBLE: &str = concat!(
    r"\s\u0085\u00AD\u034F\u061C\u115F\u1160\u1680\u17B4\u17B5\u180B-\u180F\u2000-\u200F\u2028-\u202F",
    r"\u205F-\u206F\u2800\u3000\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB",
    "\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}"
);

fn text(chars: &RangeInclusive<usize>, one: &str, not: &str) -> Value {
    let pattern = match chars.start() {
        0 => format!("^{one}*$"),
        _ => format!("^{one}*[^{not}{INVISIBLE}]{one}*$"),
    };
    json!({
        "type": "string", "minLength": chars.start(), "maxLength": chars.end(), "pattern": pattern,
    })
}

const NO_CONTROLS: &str = r"^[^\u0000-\u001F\u007F-\u009F]*$";

/// A text of one line with this many characters (Unicode scalar values), counted in the normal form C in which it is
/// stored, so that Hangul counts and compares alike on every keyboard. No control characters, line breaks, marks that
/// force or isolate a direction, or fillers; something visible unless it may be empty.
#[derive(Debug)]
pub(crate) struct Line(pub(crate) RangeInclusive<usize>);

impl FieldKind for Line {
    type Value = String;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<String> {
        let text = body.string(name);
        let misleads = text.as_deref().is_some_and(|text| text.contains(misleads));
        let read = text.and_then(|text| line(text, &self.0));
        body.noted(name, read, || match misleads {
            true => NOT_MISLEADING.to_owned(),
            false => what_a_line_is(&self.0),
        })
    }

    fn schema(&self) -> Value {
        text(&self.0, &format!("[^{NOT_IN_A_LINE}]"), NOT_IN_A_LINE)
    }
}

/// A text of any number of lines, otherwise as [`Line`]; tabs and embedded directions are allowed, and line ends
/// become `\n`.
#[derive(Debug)]
pub(crate) struct Lines(pub(crate) RangeInclusive<usize>);

impl FieldKind for Lines {
    type Value = String;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<String> {
        let text = body.string(name);
        let forced = text.as_deref().is_some_and(forces_direction);
        let read = text.and_then(|text| many_lines(text, &self.0));
        body.noted(name, read, || match forced {
            true => UNFORCED.to_owned(),
            false => format!("a text of {} characters", span(&self.0)),
        })
    }

    fn schema(&self) -> Value {
        text(&self.0, &format!(r"(?:[^{NOT_IN_LINES}]|\r\n)"), NOT_IN_LINES)
    }
}

/// A whole number. `2.0` and `2e0` are the number 2: JSON has one kind of number.
#[derive(Debug)]
pub(crate) struct Whole(pub(crate) RangeInclusive<i64>);

impl FieldKind for Whole {
    type Value = i64;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<i64> {
        let (from, to) = (self.0.start(), self.0.end());
        let read = body.find(name).and_then(whole).filter(|n| self.0.contains(n));
        body.noted(name, read, || format!("a whole number from {from} to {to}"))
    }

    fn schema(&self) -> Value {
        json!({
            "type": "integer", "format": "int64",
            "minimum": self.0.start(), "maximum": self.0.end(),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Number(pub(crate) RangeInclusive<f64>);

impl FieldKind for Number {
    type Value = f64;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<f64> {
        let (from, to) = (self.0.start(), self.0.end());
        let read = body.find(name).and_then(number).filter(|n| self.0.contains(n));
        body.noted(name, read, || format!("a number from {from} to {to}"))
    }

    fn schema(&self) -> Value {
        json!({
            "type": "number", "format": "double",
            "minimum": self.0.start(), "maximum": self.0.end(),
        })
    }
}

/// Milliseconds since 1970 from an RFC 3339 time with any offset: see [`rfc3339::parse`].
#[derive(Debug)]
pub(crate) struct Time;

impl FieldKind for Time {
    type Value = i64;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<i64> {
        let read = body.string(name).and_then(|text| rfc3339::parse(&text));
        body.noted(name, read, || {
            "a time with its offset, such as 2026-11-20T18:30:00+09:00, from 1970 to 9999"
                .to_owned()
        })
    }

    fn schema(&self) -> Value {
        json!({ "type": "string", "format": "date-time" })
    }
}

/// One of these words.
#[derive(Debug)]
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

impl<T> Choice<T> {
    fn words(&self) -> Vec<&'static str> {
        self.0.iter().map(|(word, _)| *word).collect()
    }
}

impl<T: Clone> FieldKind for Choice<T> {
    type Value = T;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<T> {
        let text = body.string(name);
        let read = text.and_then(|text| self.0.iter().find(|(word, _)| *word == text));
        let read = read.map(|(_, value)| value.clone());
        body.noted(name, read, || format!("one of {}", self.words().join(", ")))
    }

    fn schema(&self) -> Value {
        json!({ "type": "string", "enum": self.words() })
    }
}

/// A password: this many **bytes** of UTF-8 in normal form C (RFC 8265, 4.2.2: the same password on another keyboard
/// must be equal), without control characters.
#[derive(Debug)]
pub(crate) struct NewSecret(pub(crate) RangeInclusive<usize>);

impl FieldKind for NewSecret {
    type Value = Secret;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<Secret> {
        let read = body.string(name).and_then(|text| {
            // Composing leaves at least a third of the bytes.
            let may_fit = text.len() / 3 <= *self.0.end();
            let text = may_fit.then(|| composed(text))?;
            let fits = self.0.contains(&text.len()) && !text.contains(char::is_control);
            fits.then(|| Secret(text.into_owned()))
        });
        body.noted(name, read, || {
            format!("a text of {} bytes without control characters", span(&self.0))
        })
    }

    fn schema(&self) -> Value {
        // A character has at most four bytes.
        let (least, most) = (self.0.start().div_ceil(4), self.0.end());
        json!({
            "type": "string", "format": "password", "minLength": least, "maxLength": most,
            "pattern": NO_CONTROLS,
        })
    }
}

/// A password to be compared with one of at most this many bytes: as [`NewSecret`], of any length; `Some(None)` for a
/// text whose normal form is longer. It cannot be right, and composing it would take time in proportion to its
/// length.
#[derive(Debug)]
pub(crate) struct GivenSecret(pub(crate) usize);

impl FieldKind for GivenSecret {
    type Value = Option<Secret>;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<Option<Secret>> {
        if body.string(name).is_some_and(|text| text.len() / 3 > self.0) {
            return Some(None);
        }
        NewSecret(0..=LARGEST_OBJECT).read(body, name).map(Some)
    }

    fn schema(&self) -> Value {
        json!({ "type": "string", "format": "password", "pattern": NO_CONTROLS })
    }
}

#[cfg(test)]
mod tests;
