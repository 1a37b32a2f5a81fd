//! The paths of `response.json(path)`: the plain part of gjson's syntax, which k6 uses.
//!
//! Keys and array indices separated by dots, `\` before a dot that belongs to a key, `#` for the
//! length of an array at the end of a path or for every element of it before a dot.

use rquickjs::{Array, Ctx, Result, Value};

/// A part of gjson's syntax that is missing here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnsupportedPath;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    /// `#`: every element, or the length when it is the last step.
    Each,
}

/// Splits a path into steps.
pub(super) fn parse(path: &str) -> std::result::Result<Vec<Step>, UnsupportedPath> {
    let mut steps = Vec::new();
    let mut key = String::new();
    let mut escaped = false;
    for c in path.chars() {
        match c {
            _ if std::mem::take(&mut escaped) => key.push(c),
            '\\' => escaped = true,
            '.' => steps.push(step(std::mem::take(&mut key))),
            '*' | '?' | '|' | '@' | '{' | '[' | '(' | '!' => return Err(UnsupportedPath),
            _ => key.push(c),
        }
    }
    steps.push(step(key));
    Ok(steps)
}

fn step(key: String) -> Step {
    if key == "#" { Step::Each } else { Step::Key(key) }
}

/// The value a path leads to; `undefined` when it leads nowhere.
pub(super) fn select<'js>(ctx: &Ctx<'js>, value: Value<'js>, steps: &[Step]) -> Result<Value<'js>> {
    let undefined = || Value::new_undefined(ctx.clone());
    let Some((first, rest)) = steps.split_first() else { return Ok(value) };
    let Some(object) = value.as_object() else { return Ok(undefined()) };
    match first {
        Step::Key(key) => {
            // Only what the document itself has, not `length` or inherited methods.
            let own =
                object.own_keys::<String>(rquickjs::object::Filter::new().string().enum_only());
            if !own.filter_map(Result::ok).any(|found| found == *key) {
                return Ok(undefined());
            }
            select(ctx, object.get(key.as_str())?, rest)
        }
        Step::Each => {
            let Some(array) = object.as_array() else { return Ok(undefined()) };
            if rest.is_empty() {
                return Ok(Value::new_number(ctx.clone(), array.len() as f64));
            }
            let selected = Array::new(ctx.clone())?;
            for element in array.iter::<Value<'js>>() {
                let found = select(ctx, element?, rest)?;
                if !found.is_undefined() {
                    selected.set(selected.len(), found)?;
                }
            }
            Ok(selected.into_value())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Step {
        Step::Key(text.to_owned())
    }

    #[test]
    fn dots_separate_and_backslashes_escape() {
        assert_eq!(parse("a.0.b\\.c.#"), Ok(vec![key("a"), key("0"), key("b.c"), Step::Each]));
    }

    #[test]
    fn queries_and_modifiers_are_refused() {
        for path in ["a.#(b==1)", "a|b", "@reverse", "a*"] {
            assert_eq!(parse(path), Err(UnsupportedPath), "{path}");
        }
    }
}
