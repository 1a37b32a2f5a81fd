//! `application/x-www-form-urlencoded` bodies from objects.

use rquickjs::{Array, Coerced, Object, Result, Value};

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
            escape(key, &mut out);
            out.push('=');
            escape(value, &mut out);
        }
    }
    Ok(out)
}

fn texts(array: &Array<'_>) -> Result<Vec<String>> {
    array.iter::<Coerced<String>>().map(|value| value.map(|text| text.0)).collect()
}

/// Percent-encodes all but letters, digits and `-_.~`; a space becomes `+`.
fn escape(text: &str, out: &mut String) {
    use std::fmt::Write as _;
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            _ if byte.is_ascii_alphanumeric() => out.push(byte as char),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping_follows_the_form_rules() {
        let mut out = String::new();
        escape("a b&c=ü~", &mut out);
        assert_eq!(out, "a+b%26c%3D%C3%BC~");
    }
}
