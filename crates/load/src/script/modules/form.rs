//! `application/x-www-form-urlencoded` bodies from objects.

use rquickjs::{Coerced, Object, Result, Value};

use crate::http::escape_query;

/// Encodes an object as a form: keys in ascending order (as Go's `url.Values.Encode`, which k6 uses), arrays repeat their
/// key.
pub(super) fn encode(object: &Object<'_>) -> Result<String> {
    let mut pairs: Vec<(String, Vec<String>)> = Vec::new();
    for entry in object.props::<String, Value<'_>>() {
        let (key, value) = entry?;
        let values = match value.as_object().and_then(|object| object.as_array()) {
            Some(array) => {
                array.iter::<Value<'_>>().map(|value| text(&value?)).collect::<Result<Vec<_>>>()?
            }
            None => vec![text(&value)?],
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
fn text(value: &Value<'_>) -> Result<String> {
    match value.is_null() || value.is_undefined() {
        true => Ok("<nil>".to_owned()),
        false => Ok(value.get::<Coerced<String>>()?.0),
    }
}
