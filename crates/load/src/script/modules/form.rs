//! `application/x-www-form-urlencoded` bodies from objects.

use rquickjs::{Array, Coerced, Object, Result, Value};

use crate::http::escape_query;

/// Encodes an object as a form: keys in ascending order (as Go's `url.Values.Encode`, which k6
/// uses), arrays repeat their key.
pub(super) fn encode(object: &Object<'_>) -> Result<String> {
    let mut pairs: Vec<(String, Vec<String>)> = Vec::new();
    for entry in object.props::<String, Value<'_>>() {
        let (key, value) = entry?;
        let values = match value.as_object().and_then(|object| object.as_array().cloned()) {
            Some(array) => texts(&array)?,
            None => vec![value.get::<Coerced<String>>()?.0],
        };
        pairs.push((key, values));
    }
    pairs.sort_by(|(left, _), (right, _)| left.cmp(right));
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

fn texts(array: &Array<'_>) -> Result<Vec<String>> {
    array.iter::<Coerced<String>>().map(|value| value.map(|text| text.0)).collect()
}
