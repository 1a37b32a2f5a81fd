//! Bodies as tables: a row says what a field is called, what it may hold and whether it must be there.
//! The body is read by the table and described by it in the OpenAPI document, so the two cannot differ.
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
//! A row is a field of the struct, so the compiler refuses one that is described and never used. Rules
//! that tie fields together, or look something up, stay with whoever reads the body, who notes what
//! they refuse with [`JsonObject::refuse`]: JSON Schema has no words for them.

use super::{JsonObject, Secret};
use serde_json::{Map, Value, json};
use std::ops::RangeInclusive;
use utoipa::openapi::{RefOr, Schema};

/// What a field may hold.
pub trait FieldKind {
    /// What it is to the rest of the program.
    type Value;
    /// Reads the field; notes what is accepted when it is missing or wrong.
    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<Self::Value>;
    /// The same as a JSON Schema.
    fn schema(&self) -> Value;
}

/// How much of a table a body must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Every required field.
    All,
    /// What is to be changed: any field may be missing, or null.
    Part,
}

/// A row. Its example becomes JSON only where it is described: a body is read without it.
#[derive(Debug)]
pub struct Field<K, E> {
    name: &'static str,
    kind: K,
    required: bool,
    example: E,
}

/// A field that must be there, unless only a [part](Asked::Part) is asked for.
pub fn required<K, E: Into<Value>>(name: &'static str, kind: K, example: E) -> Field<K, E> {
    Field { name, kind, required: true, example }
}

/// A field that may be missing or null.
pub fn optional<K, E: Into<Value>>(name: &'static str, kind: K, example: E) -> Field<K, E> {
    Field { name, kind, required: false, example }
}

impl<K: FieldKind, E: Into<Value>> Field<K, E> {
    /// Reads it.
    pub fn read(&self, body: &mut JsonObject, asked: Asked) -> Option<K::Value> {
        let wanted = self.required && asked == Asked::All || body.has(self.name);
        if wanted { self.kind.read(body, self.name) } else { None }
    }

    /// Describes it: its name, whether it must be there, its schema, an example.
    pub fn described(self, about: &str, asked: Asked) -> (&'static str, bool, Value, Value) {
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
pub fn object(about: &str, fields: Vec<(&'static str, bool, Value, Value)>) -> RefOr<Schema> {
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

/// Makes the struct of a table's fields, as they were read, and the types of its descriptions.
macro_rules! table {
    ($(#[doc = $about:literal])+ $vis:vis struct $Fields:ident: $($Schema:ident ($asked:ident)),+;
     $($(#[doc = $says:literal])+ $field:ident: $kind:ty = $row:expr;)+) => {
        $(#[doc = $about])+
        $vis struct $Fields {
            $($(#[doc = $says])+ $vis $field: Option<<$kind as $crate::http::json::table::FieldKind>::Value>,)+
        }

        impl $Fields {
            /// Reads every field; what is wrong is noted in the body.
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

/// What no text of one line has in it, as ranges of a character class: controls, line ends, marks that
/// force or isolate a direction, fillers that cannot be seen. See [`JsonObject::text`].
const NOT_IN_A_LINE: &str =
    r"\u0000-\u001F\u007F-\u009F\u2028\u2029\u202A-\u202E\u2066-\u2069\u115F\u1160\u3164\uFFA0";
/// What no text of many lines has in it; a carriage return stands before a line feed alone.
const NOT_IN_LINES: &str = r"\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202D\u202E";
/// What alone is nothing to see.
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

/// A text of one line with so many characters: [`JsonObject::text`].
#[derive(Debug)]
pub struct Line(pub RangeInclusive<usize>);

impl FieldKind for Line {
    type Value = String;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<String> {
        body.text(name, self.0.clone())
    }

    fn schema(&self) -> Value {
        text(&self.0, &format!("[^{NOT_IN_A_LINE}]"), NOT_IN_A_LINE)
    }
}

/// A text of any number of lines: [`JsonObject::lines`].
#[derive(Debug)]
pub struct Lines(pub RangeInclusive<usize>);

impl FieldKind for Lines {
    type Value = String;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<String> {
        body.lines(name, self.0.clone())
    }

    fn schema(&self) -> Value {
        text(&self.0, &format!(r"(?:[^{NOT_IN_LINES}]|\r\n)"), NOT_IN_LINES)
    }
}

/// A whole number: [`JsonObject::whole`].
#[derive(Debug)]
pub struct Whole(pub RangeInclusive<i64>);

impl FieldKind for Whole {
    type Value = i64;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<i64> {
        body.whole(name, self.0.clone())
    }

    fn schema(&self) -> Value {
        json!({
            "type": "integer", "format": "int64",
            "minimum": self.0.start(), "maximum": self.0.end(),
        })
    }
}

/// A number: [`JsonObject::number`].
#[derive(Debug)]
pub struct Number(pub RangeInclusive<f64>);

impl FieldKind for Number {
    type Value = f64;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<f64> {
        body.number(name, self.0.clone())
    }

    fn schema(&self) -> Value {
        json!({
            "type": "number", "format": "double",
            "minimum": self.0.start(), "maximum": self.0.end(),
        })
    }
}

/// A moment: [`JsonObject::time`].
#[derive(Debug)]
pub struct Time;

impl FieldKind for Time {
    type Value = i64;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<i64> {
        body.time(name)
    }

    fn schema(&self) -> Value {
        json!({ "type": "string", "format": "date-time" })
    }
}

/// One of these words: [`JsonObject::choice`].
#[derive(Debug)]
pub struct Choice<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Clone> FieldKind for Choice<T> {
    type Value = T;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<T> {
        body.choice(name, self.0)
    }

    fn schema(&self) -> Value {
        let words: Vec<_> = self.0.iter().map(|(word, _)| *word).collect();
        json!({ "type": "string", "enum": words })
    }
}

/// A password with so many bytes: [`JsonObject::secret`].
#[derive(Debug)]
pub struct NewSecret(pub RangeInclusive<usize>);

impl FieldKind for NewSecret {
    type Value = Secret;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<Secret> {
        body.secret(name, self.0.clone())
    }

    fn schema(&self) -> Value {
        // A character has up to four bytes.
        let (least, most) = (self.0.start().div_ceil(4), self.0.end());
        json!({
            "type": "string", "format": "password", "minLength": least, "maxLength": most,
            "pattern": r"^[^\u0000-\u001F\u007F-\u009F]*$",
        })
    }
}

/// A password to be compared with one of at most so many bytes: [`JsonObject::secret_within`].
#[derive(Debug)]
pub struct GivenSecret(pub usize);

impl FieldKind for GivenSecret {
    type Value = Option<Secret>;

    fn read(&self, body: &mut JsonObject, name: &'static str) -> Option<Option<Secret>> {
        body.secret_within(name, self.0)
    }

    fn schema(&self) -> Value {
        json!({
            "type": "string", "format": "password", "pattern": r"^[^\u0000-\u001F\u007F-\u009F]*$",
        })
    }
}

#[cfg(test)]
mod tests;
