//! Bodies of forms: `application/x-www-form-urlencoded`, and `multipart/form-data` (RFC 7578) with `http.file()`.

use std::time::{SystemTime, UNIX_EPOCH};

use rquickjs::function::Opt;
use rquickjs::object::Property;
use rquickjs::{Array, Coerced, Ctx, Object, Result, Value};

use super::bytes::bytes_of;
use crate::http::escape_query;

/// Encodes an object as a form: keys in ascending order (as Go's `url.Values.Encode`, which k6 uses), arrays repeat
/// their key.
pub(super) fn url_encoded(object: &Object<'_>) -> Result<String> {
    let mut pairs: Vec<(String, Vec<String>)> = Vec::new();
    for entry in object.props::<String, Value<'_>>() {
        let (key, value) = entry?;
        let values = match value.as_object().and_then(|object| object.as_array()) {
            Some(array) => array
                .iter::<Value<'_>>()
                .map(|value| url_text(&value?))
                .collect::<Result<Vec<_>>>()?,
            None => vec![url_text(&value)?],
        };
        pairs.push((key, values));
    }
    pairs.sort_unstable();
    let mut out = String::new();
    for (key, values) in &pairs {
        for value in values {
            if !out.is_empty() {
                out.push('&');
            }
            escape_query(key, &mut out);
            out.push('=');
            escape_query(value, &mut out);
        }
    }
    Ok(out)
}

/// As in Go, a missing value is `<nil>`: servers receive the same as from k6.
fn url_text(value: &Value<'_>) -> Result<String> {
    match value.is_null() || value.is_undefined() {
        true => Ok("<nil>".to_owned()),
        false => Ok(value.get::<Coerced<String>>()?.0),
    }
}

/// Hidden property of the objects of `http.file()`.
const MARK: &str = "@@http.file";

/// `http.file(data, filename?, contentType?)`.
pub(super) fn file<'js>(
    ctx: Ctx<'js>,
    data: Value<'js>,
    name: Opt<Coerced<String>>,
    content_type: Opt<Coerced<String>>,
) -> Result<Object<'js>> {
    bytes_of(&ctx, &data)?;
    let object = Object::new(ctx)?;
    object.set("data", data)?;
    let name = name.0.map_or_else(nanoseconds, |name| name.0);
    object.set("filename", name)?;
    let default = || "application/octet-stream".to_owned();
    object.set("content_type", content_type.0.map_or_else(default, |kind| kind.0))?;
    object.prop(MARK, Property::from(true))?;
    Ok(object)
}

/// k6's name for a file without one.
fn nanoseconds() -> String {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn as_file<'a, 'js>(value: &'a Value<'js>) -> Option<&'a Object<'js>> {
    value.as_object().filter(|object| object.contains_key(MARK).unwrap_or(false))
}

pub(super) fn has_file(body: &Object<'_>) -> Result<bool> {
    for entry in body.props::<String, Value<'_>>() {
        if as_file(&entry?.1).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The body and its `Content-Type`.
pub(super) fn multipart<'js>(ctx: &Ctx<'js>, body: &Object<'js>) -> Result<(Vec<u8>, String)> {
    let boundary: String = std::iter::repeat_with(fastrand::alphanumeric).take(48).collect();
    let mut out = Vec::new();
    for entry in body.props::<String, Value<'js>>() {
        let (name, value) = entry?;
        let name = escape(&name);
        if let Some(file) = as_file(&value) {
            let file_name = escape(&file.get::<_, String>("filename")?);
            let kind: String = file.get("content_type")?;
            let head = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; \
                 filename=\"{file_name}\"\r\nContent-Type: {}\r\n\r\n",
                kind.replace(['\r', '\n'], " ")
            );
            push_part(&mut out, &head, &bytes_of(ctx, &file.get::<_, Value<'js>>("data")?)?);
            continue;
        }
        let head =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        for text in texts(&value)? {
            push_part(&mut out, &head, text.as_bytes());
        }
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok((out, format!("multipart/form-data; boundary={boundary}")))
}

fn push_part(out: &mut Vec<u8>, head: &str, body: &[u8]) {
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// The values of a field: one, or those of an array.
fn texts(value: &Value<'_>) -> Result<Vec<String>> {
    match value.as_object().and_then(|object| object.as_array()) {
        Some(array) => {
            Array::iter::<Coerced<String>>(array).map(|text| text.map(|text| text.0)).collect()
        }
        None => Ok(vec![value.get::<Coerced<String>>()?.0]),
    }
}

/// Escapes a name inside the quotes of a header, as browsers do (WHATWG HTML, "multipart/form-data encoding
/// algorithm").
fn escape(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(escape("a\"\r\nX: y"), "a%22%0D%0AX: y");
    }
}
