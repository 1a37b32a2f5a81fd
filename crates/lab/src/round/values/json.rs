//! Finds a number in JSON.

use serde_json::Value;

use super::ValueError;

/// The number at a path such as `items.0.count`; `#` is the length of a list, as in `items.#`.
/// `true` counts as 1 and `false` as 0.
pub(crate) fn number(body: &[u8], path: &str) -> Result<f64, ValueError> {
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
}
