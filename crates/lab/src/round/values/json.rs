//! A number in a JSON answer.

use serde_json::Value;

use super::ValueError;

/// The number at a path such as `items.0.count`; `#` is the length of a list, as in `items.#`.
/// `true` counts as 1 and `false` as 0.
pub fn number(body: &[u8], path: &str) -> Result<f64, ValueError> {
    let whole = serde_json::from_slice(body);
    let whole: Value =
        whole.map_err(|error| ValueError::NoNumber(format!("the answer is no JSON: {error}")))?;
    let mut value = &whole;
    let parts: Vec<&str> =
        path.split('.').filter(|part| !part.is_empty() && *part != "$").collect();
    for (place, part) in parts.iter().enumerate() {
        let inner = match value {
            Value::Array(list) if *part == "#" && place + 1 == parts.len() => {
                return Ok(list.len() as f64);
            }
            Value::Array(list) => part.parse::<usize>().ok().and_then(|index| list.get(index)),
            Value::Object(map) => map.get(*part),
            _ => None,
        };
        value = inner.ok_or_else(|| {
            ValueError::NoNumber(format!("the answer has no `{part}` of `{path}`"))
        })?;
    }
    match value {
        Value::Number(number) => {
            number.as_f64().ok_or_else(|| ValueError::NoNumber(format!("{number} is too large")))
        }
        Value::Bool(truth) => Ok(f64::from(u8::from(*truth))),
        other => {
            let text: String = other.to_string().chars().take(40).collect();
            Err(ValueError::NoNumber(format!("`{path}` is no number but {text}")))
        }
    }
}

/// The body of an answer in chunks without the marks between them; any other as it is. A chunked
/// body begins with a line that is a hexadecimal number and ends with an empty chunk (RFC 9112,
/// section 7.1), which neither JSON nor a metrics page does.
pub fn without_chunks(body: Vec<u8>) -> Vec<u8> {
    let mut rest = body.as_slice();
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).ok();
        let size = size.and_then(|size| size.split(';').next());
        let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        match size {
            Some(0) => return whole,
            Some(size) if size <= rest.len().saturating_sub(end + 4) => {
                whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
                rest = &rest[end + 4 + size..];
            }
            _ => break,
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_path() {
        let body = br#"{"items": [{"n": 3}, {"n": 4.5}], "ok": true, "text": "7"}"#;
        let found = |path| number(body, path);
        assert_eq!(found("items.1.n").unwrap(), 4.5);
        assert_eq!(found("$.items.#").unwrap(), 2.0);
        assert_eq!(found("ok").unwrap(), 1.0);
        assert_eq!(number(b"12", "").unwrap(), 12.0);
        for (path, part) in
            [("items.2.n", "no `2`"), ("items.0.m", "no `m`"), ("text", "no number but \"7\"")]
        {
            let error = found(path).unwrap_err().to_string();
            assert!(error.contains(part), "no {part:?} in: {error}");
        }
        assert!(number(b"<html>", "a").unwrap_err().to_string().contains("no JSON"));
    }

    #[test]
    fn chunks_are_joined_and_anything_else_is_left_alone() {
        let join = |text: &str| String::from_utf8(without_chunks(text.into())).unwrap();
        assert_eq!(join("3\r\n[1,\r\n2;x=y\r\n2]\r\n0\r\n\r\n"), "[1,2]");
        for text in ["", "12", "[1]\r\n", "5\r\nabc", "ffffffffffffffff\r\nabc\r\n", "up 1\r\n"] {
            assert_eq!(join(text), text);
        }
    }
}
