//! The paths of `response.json(path)`: gjson's syntax, which k6 uses, without patterns in keys, modifiers and pipes.
//!
//! Keys and array indices separated by dots, `\` before a dot that belongs to a key, `#` for the length of an array
//! at the end of a path or for every element of it before a dot, `#(query)` for the first matching element and
//! `#(query)#` for all.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use rquickjs::{Array, Ctx, Result, Value};

/// A part of gjson's syntax that is missing here.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::script) struct UnsupportedPath;

type Parsed<T> = std::result::Result<T, UnsupportedPath>;

#[derive(Debug, Clone, PartialEq)]
pub(in crate::script) enum Step {
    Key(String),
    /// `#`: every element, or the length as the last step.
    Each,
    /// `#(…)`, or with `all` `#(…)#`.
    Where {
        query: Query,
        all: bool,
    },
}

/// Condition on an element.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::script) struct Query {
    /// Path in the element; empty for the element itself.
    path: Vec<Step>,
    /// `None`: the path must exist.
    condition: Option<(&'static str, serde_json::Value)>,
}

/// Longer ones before their prefixes.
const OPERATORS: [&str; 9] = ["==", "!=", "!%", "<=", ">=", "=", "<", ">", "%"];

/// Levels of nested queries: a virtual user's stack is small.
const DEPTH: usize = 16;

pub(in crate::script) fn parse(path: &str) -> Parsed<Vec<Step>> {
    parse_within(path, DEPTH)
}

/// Parses with so many levels of queries left.
fn parse_within(path: &str, left: usize) -> Parsed<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    loop {
        if let Some(query) = rest.strip_prefix("#(") {
            let (inside, after) = split_at_parenthesis(query)?;
            let (all, after) =
                after.strip_prefix('#').map_or((false, after), |after| (true, after));
            let left = left.checked_sub(1).ok_or(UnsupportedPath)?;
            steps.push(Step::Where { query: parse_query(inside, left)?, all });
            match after.strip_prefix('.') {
                Some(next) => rest = next,
                None if after.is_empty() => return Ok(steps),
                None => return Err(UnsupportedPath),
            }
            continue;
        }
        let (step, after) = parse_key(rest)?;
        steps.push(step);
        match after {
            Some(next) => rest = next,
            None => return Ok(steps),
        }
    }
}

/// A key or `#`, and the text after its dot.
fn parse_key(text: &str) -> Parsed<(Step, Option<&str>)> {
    let mut key = String::new();
    let mut escaped = false;
    let step = |key: String| if key == "#" { Step::Each } else { Step::Key(key) };
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => key.push(c),
            '\\' => escaped = true,
            '.' => return Ok((step(key), Some(&text[at + 1..]))),
            '*' | '?' | '|' | '@' | '{' | '[' | '(' | '!' => return Err(UnsupportedPath),
            _ => key.push(c),
        }
    }
    Ok((step(key), None))
}

/// The text before the parenthesis that closes a query, and the text after it.
fn split_at_parenthesis(text: &str) -> Parsed<(&str, &str)> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth == 0 => return Ok((&text[..at], &text[at + 1..])),
            ')' => depth -= 1,
            _ => {}
        }
    }
    Err(UnsupportedPath)
}

fn parse_query(text: &str, left: usize) -> Parsed<Query> {
    let (mut depth, mut found) = (0usize, None);
    for (at, c) in text.char_indices() {
        match c {
            '"' => break,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ => {
                let operator = OPERATORS.iter().find(|sign| text[at..].starts_with(**sign));
                if let Some(operator) = operator {
                    let value = text[at + operator.len()..].trim();
                    found = Some((text[..at].trim(), *operator, value));
                    break;
                }
            }
        }
    }
    let (path, condition) = match found {
        None => (text.trim(), None),
        // A value without quotes is a string too.
        Some((path, operator, value)) => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            (path, Some((operator, value)))
        }
    };
    let path = if path.is_empty() { Vec::new() } else { parse_within(path, left)? };
    Ok(Query { path, condition })
}

impl Query {
    fn holds<'js>(&self, ctx: &Ctx<'js>, element: &Value<'js>) -> Result<bool> {
        let found = select(ctx, element.clone(), &self.path)?;
        if found.is_undefined() {
            return Ok(false);
        }
        let Some((operator, wanted)) = &self.condition else { return Ok(true) };
        let text = ctx.json_stringify(found)?.map(|text| text.to_string()).transpose()?;
        let found = serde_json::from_str(text.as_deref().unwrap_or("null"));
        Ok(found.is_ok_and(|found| compare(operator, &found, wanted)))
    }
}

/// As in gjson, values of different types are different, and neither is less.
fn compare(operator: &str, found: &serde_json::Value, wanted: &serde_json::Value) -> bool {
    use serde_json::Value::{Number, String};
    let order = match (found, wanted) {
        (String(found), String(wanted)) => match operator {
            "%" => return is_like(found, wanted),
            "!%" => return !is_like(found, wanted),
            _ => Some(found.cmp(wanted)),
        },
        (Number(found), Number(wanted)) => found.as_f64().partial_cmp(&wanted.as_f64()),
        _ => (found == wanted).then_some(Ordering::Equal),
    };
    match operator {
        "=" | "==" => order.is_some_and(Ordering::is_eq),
        "!=" => !order.is_some_and(Ordering::is_eq),
        "<" => order.is_some_and(Ordering::is_lt),
        "<=" => order.is_some_and(Ordering::is_le),
        ">" => order.is_some_and(Ordering::is_gt),
        ">=" => order.is_some_and(Ordering::is_ge),
        _ => false,
    }
}

/// Matches a pattern: `*` is any text, `?` any character.
fn is_like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut place, mut star) = (0, 0, None);
    while at < text.len() {
        match pattern.get(place) {
            Some('*') => {
                star = Some((at, place));
                place += 1;
            }
            Some(c) if *c == '?' || *c == text[at] => (at, place) = (at + 1, place + 1),
            // The last `*` takes one character more.
            _ => match star {
                Some((from, there)) => {
                    star = Some((from + 1, there));
                    (at, place) = (from + 1, there + 1);
                }
                None => return false,
            },
        }
    }
    pattern[place..].iter().all(|c| *c == '*')
}

/// Removes members of a valid document whose name occurs earlier in the same object: gjson finds the first,
/// `JSON.parse` keeps the last. `None` when there are none.
pub(super) fn without_repeated_members(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    // Names with the number of their object.
    let mut seen = HashSet::new();
    // Open brackets: objects by number, arrays without.
    let mut open: Vec<Option<usize>> = Vec::new();
    let (mut objects, mut comma, mut expects_name) = (0, 0, false);
    // Depth and start of the member that is being left out.
    let mut left_out: Option<(usize, usize)> = None;
    let (mut kept, mut copied) = (String::new(), 0);
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => {
                objects += 1;
                open.push(Some(objects));
                expects_name = true;
            }
            b'[' => open.push(None),
            end @ (b',' | b'}' | b']') => {
                if let Some((depth, from)) = left_out
                    && depth == open.len()
                {
                    kept.push_str(&text[copied..from]);
                    copied = at;
                    left_out = None;
                }
                if end == b',' {
                    comma = at;
                    expects_name = matches!(open.last(), Some(Some(_)));
                } else {
                    open.pop();
                }
            }
            b'"' => {
                let end = end_of_text(bytes, at);
                if let Some(Some(object)) = open.last()
                    && std::mem::take(&mut expects_name)
                    && left_out.is_none()
                    && !seen.insert((*object, unescaped(&text[at..end])))
                {
                    left_out = Some((open.len(), comma));
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    (copied > 0).then(|| kept + &text[copied..])
}

/// The end of the string that begins at a quotation mark.
fn end_of_text(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn unescaped(name: &str) -> Cow<'_, str> {
    match name.contains('\\') {
        true => serde_json::from_str(name).map_or(name.into(), Cow::Owned),
        false => name[1..name.len() - 1].into(),
    }
}

/// The value at a path, or `undefined`.
pub(super) fn select<'js>(ctx: &Ctx<'js>, value: Value<'js>, steps: &[Step]) -> Result<Value<'js>> {
    let undefined = || Value::new_undefined(ctx.clone());
    let Some((first, rest)) = steps.split_first() else { return Ok(value) };
    let Some(object) = value.as_object() else { return Ok(undefined()) };
    if let Step::Key(key) = first {
        // Only members of the document itself, not `length` or inherited methods.
        let own = object.own_keys::<String>(rquickjs::object::Filter::new().string().enum_only());
        if !own.filter_map(Result::ok).any(|found| found == *key) {
            return Ok(undefined());
        }
        return select(ctx, object.get(key.as_str())?, rest);
    }
    let Some(array) = object.as_array() else { return Ok(undefined()) };
    if *first == Step::Each && rest.is_empty() {
        return Ok(Value::new_number(ctx.clone(), array.len() as f64));
    }
    let selected = Array::new(ctx.clone())?;
    for element in array.iter::<Value<'js>>() {
        let element = element?;
        if let Step::Where { query, all } = first {
            if !query.holds(ctx, &element)? {
                continue;
            }
            if !*all {
                return select(ctx, element, rest);
            }
        }
        let found = select(ctx, element, rest)?;
        if !found.is_undefined() {
            selected.set(selected.len(), found)?;
        }
    }
    Ok(match first {
        Step::Where { all: false, .. } => undefined(),
        _ => selected.into_value(),
    })
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
    fn the_first_of_several_members_of_a_name_is_the_only_one() {
        let unique = r#"{"a":{"a":["a","a",{"a":"\",\"a\":1"}]},"b":"a","a\"":"}","":1} "#;
        for (text, expected) in [
            (r#"{"a":1,"a":2,"b":3}"#, Some(r#"{"a":1,"b":3}"#)),
            (r#" {"a":1, "a" :{"c":[{},"}"]} , "a":2 } "#, Some(r#" {"a":1} "#)),
            (r#"[{"k":1,"k":2},{"k":{"k":4,"\u006b":[5]}}]"#, Some(r#"[{"k":1},{"k":{"k":4}}]"#)),
            (unique, None),
            ("[]", None),
        ] {
            assert_eq!(without_repeated_members(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn modifiers_pipes_and_patterns_are_refused() {
        for path in ["a|b", "@reverse", "a*", "a.#(b", "#(a==1)b", "{a,b}"] {
            assert_eq!(parse(path), Err(UnsupportedPath), "{path}");
        }
    }

    #[test]
    fn queries_nest_only_so_deep() {
        let nested = |depth| format!("{}a{}", "#(".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(DEPTH)).is_ok());
        assert_eq!(parse(&nested(DEPTH + 1)), Err(UnsupportedPath));
        // It would exhaust the stack of a virtual user.
        assert_eq!(parse(&nested(100_000)), Err(UnsupportedPath));
    }

    /// Expected values computed with gjson 1.18 by k6 1.8.1's `response.json()`.
    #[test]
    fn queries_select_as_gjson_does() {
        let document = r#"{"list":[{"id":1,"n":"xa","f":true,"t":[{"k":"a"}]},{"id":2,"n":"y","g":null},
            {"id":3.5,"n":"x)b"}],"words":["one","two"],"numbers":[1,2,3]}"#;
        let runtime = rquickjs::Runtime::new().unwrap();
        rquickjs::Context::full(&runtime).unwrap().with(|ctx| {
            for (path, expected) in [
                ("list.#(id==2).n", Some("\"y\"")),
                ("list.#(id>1)#.id", Some("[2,3.5]")),
                ("list.#(id>=1)#.n", Some("[\"xa\",\"y\",\"x)b\"]")),
                ("list.#(n==\"x)b\").id", Some("3.5")),
                ("list.#(n==y).id", Some("2")),
                ("list.#(n%\"x*\")#.id", Some("[1,3.5]")),
                ("list.#(n!%\"x*\").id", Some("2")),
                ("list.#(id!=1)#.id", Some("[2,3.5]")),
                ("list.#(f==true).id", Some("1")),
                ("list.#(g).id", Some("2")),
                ("list.#(t.#(k==\"a\")).id", Some("1")),
                ("list.#(id==9)", None),
                ("list.#(id==9)#", Some("[]")),
                ("list.#(n<1)#", Some("[]")),
                ("words.#(==\"two\")", Some("\"two\"")),
                ("numbers.#(>=2)#", Some("[2,3]")),
                ("numbers.#(>2)", Some("3")),
                ("words.#(id==1)", None),
            ] {
                let value = ctx.json_parse(document).unwrap();
                let found = select(&ctx, value, &parse(path).unwrap()).unwrap();
                let text = ctx.json_stringify(found).unwrap().map(|text| text.to_string().unwrap());
                assert_eq!(text.as_deref(), expected, "{path}");
            }
        });
    }
}
