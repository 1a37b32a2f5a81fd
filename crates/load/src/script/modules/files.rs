//! `open()`, `k6/experimental/fs` and `k6/experimental/csv`. Files and their rows are kept once for all virtual users.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rquickjs::convert::List;
use rquickjs::function::Opt;
use rquickjs::{ArrayBuffer, Coerced, Ctx, Exception, Object, Result, Value};

use super::{data, define, ensure, kept_library};
use crate::script::source::normalize;
use crate::script::user::User;
use crate::script::{commonjs, raw};

const LIBRARY: &str = include_str!("files.js");

/// Hidden global with the library of a virtual user: both modules have the same class of files.
const LOADED: &str = "__files__";

pub(super) const FS_MEMBERS: &str = "open SeekMode";

pub(super) fn fs<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    library(ctx)?.get("fs")
}

pub(super) const CSV_MEMBERS: &str = "parse Parser";

pub(super) fn csv<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    library(ctx)?.get("csv")
}

fn library<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    kept_library(ctx, LOADED, ("files.js", LIBRARY), |native| {
        define(native, "isInit", is_init)?;
        define(native, "open", open)?;
        define(native, "read", read)?;
        define(native, "rows", rows)
    })
}

/// Defines the global `open()`.
pub(super) fn install(ctx: &Ctx<'_>) -> Result<()> {
    define(&ctx.globals(), "open", open_global)
}

/// `open(path, mode?)`: the text of a file, or an `ArrayBuffer` with the mode `b`. The path is relative to the
/// calling file.
fn open_global<'js>(
    ctx: Ctx<'js>,
    path: Coerced<String>,
    mode: Opt<Coerced<String>>,
) -> Result<Value<'js>> {
    let user = User::of(&ctx);
    let message = "the \"open\" function is only available in the init stage (i.e. the global \
                       scope), see https://grafana.com/docs/k6/latest/using-k6/test-lifecycle for \
                       more information";
    ensure(&ctx, user.is_initialising(), message)?;
    ensure(&ctx, !path.0.is_empty(), "open() can't be used with an empty filename")?;
    let caller = commonjs::caller(&ctx);
    let caller = caller.as_deref().and_then(|name| name.strip_prefix("file://"));
    let caller = caller.map_or(user.run.script.as_path(), Path::new);
    let content = content(&ctx, &beside(caller, &path.0))?;
    if mode.0.is_some_and(|mode| mode.0.contains('b')) {
        return Ok(ArrayBuffer::new_copy(ctx, content)?.into_value());
    }
    raw::text(&ctx, &content)
}

fn is_init(ctx: Ctx<'_>) -> bool {
    User::of(&ctx).is_initialising()
}

fn content(ctx: &Ctx<'_>, path: &Path) -> Result<Arc<[u8]>> {
    let user = User::of(ctx);
    let content = user.run.files.open(path, user.id == 0);
    content.map_err(|error| Exception::throw_message(ctx, &error.to_string()))
}

/// Resolves a path of a script relative to `file`.
fn beside(file: &Path, path: &str) -> PathBuf {
    let directory = file.parent().unwrap_or(Path::new("/"));
    normalize(&directory.join(path.strip_prefix("file://").unwrap_or(path)))
}

/// Path and size in bytes of a file; as in k6, the path is relative to the script.
fn open(ctx: Ctx<'_>, path: String) -> Result<List<(String, f64)>> {
    let user = User::of(&ctx);
    let path = beside(&user.run.script, &path);
    let size = content(&ctx, &path)?.len();
    Ok(List((path.display().to_string(), size as f64)))
}

fn read<'js>(ctx: Ctx<'js>, path: String, at: f64, length: f64) -> Result<ArrayBuffer<'js>> {
    let content = content(&ctx, Path::new(&path))?;
    let from = (at as usize).min(content.len());
    let to = from.saturating_add(length as usize).min(content.len());
    ArrayBuffer::new_copy(ctx, &content[from..to])
}

/// Lines `first` to `last` (from 0; -1: to the end) of a file, as a shared array.
fn rows<'js>(
    ctx: Ctx<'js>,
    path: String,
    at: f64,
    delimiter: String,
    first: f64,
    last: f64,
    as_objects: bool,
) -> Result<Value<'js>> {
    let user = User::of(&ctx);
    let name = format!("csv.parse.{path}.{at}.{delimiter}.{first}.{last}.{as_objects}");
    let rows = user.run.shared.get_or_make(&name, || {
        let content = content(&ctx, Path::new(&path))?;
        let wrong = |problem: String| Exception::throw_message(&ctx, &problem);
        let comma = delimiter.chars().next().unwrap_or(',');
        let rest = content.get(at as usize..).unwrap_or_default();
        let records =
            records(&String::from_utf8_lossy(rest), comma).map_err(|e| wrong(e.to_string()))?;
        let header = as_objects.then(|| records.first().cloned().unwrap_or_default());
        let first = first as usize;
        if first > records.len() {
            return Err(wrong(format!(
                "failed to create a new parser; reason: failed to read line {first}; reason: EOF"
            )));
        }
        let end = if last < 0.0 { records.len() } else { records.len().min(last as usize + 1) };
        let rows = records[first..end.max(first)].iter();
        Ok(rows.map(|record| json(record, header.as_deref())).collect())
    })?;
    data::shared(&ctx, rows)
}

fn json(record: &[String], header: Option<&[String]>) -> Box<str> {
    let value = match header {
        None => serde_json::json!(record),
        Some(names) => {
            names.iter().cloned().zip(record.iter().map(|field| serde_json::json!(field))).collect()
        }
    };
    value.to_string().into()
}

/// Error of a text, in Go's words. Lines count from 1.
#[derive(Debug, thiserror::Error)]
pub(in crate::script) enum CsvError {
    #[error("record on line {0}: wrong number of fields")]
    Fields(usize),
    #[error("record on line {0}: parse error: extraneous or missing \" in quoted-field")]
    Quoted(usize),
    #[error("parse error on line {0}: bare \" in non-quoted-field")]
    Bare(usize),
}

/// The records of a text, by the rules of Go's `encoding/csv`: quotes only around a whole field, empty lines left
/// out, and as many fields in each record as in the first.
pub(in crate::script) fn records(
    text: &str,
    comma: char,
) -> std::result::Result<Vec<Vec<String>>, CsvError> {
    let mut records: Vec<Vec<String>> = Vec::new();
    let mut rest = text;
    let mut line = 1;
    loop {
        while let Some(after) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
            (rest, line) = (after, line + 1);
        }
        if rest.is_empty() {
            return Ok(records);
        }
        let (record, after, lines) = record(rest, comma, line)?;
        if records.first().is_some_and(|first| first.len() != record.len()) {
            return Err(CsvError::Fields(line));
        }
        records.push(record);
        (rest, line) = (after, line + lines + 1);
    }
}

/// The first record of a text, the text after it, and the number of line ends inside it.
fn record(
    text: &str,
    comma: char,
    line: usize,
) -> std::result::Result<(Vec<String>, &str, usize), CsvError> {
    let mut fields = Vec::new();
    let mut lines = 0;
    let mut rest = text;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted, &mut lines).ok_or(CsvError::Quoted(line))?,
            None => {
                let end = rest.find([comma, '\n']).unwrap_or(rest.len());
                let field =
                    rest[..end].strip_suffix('\r').filter(|_| rest[end..].starts_with('\n'));
                let field = field.unwrap_or(&rest[..end]);
                if field.contains('"') {
                    return Err(CsvError::Bare(line));
                }
                (field.to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        if let Some(next) = after.strip_prefix(comma) {
            rest = next;
            continue;
        }
        let after =
            after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')).unwrap_or(after);
        return Ok((fields, after, lines));
    }
}

/// A field from behind its first quote on; `None` if it ends otherwise than by a quote.
fn quoted_field<'t>(text: &'t str, lines: &mut usize) -> Option<(String, &'t str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let at = rest.find('"')?;
        field.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => break,
        }
    }
    *lines += field.matches('\n').count();
    // Only a comma or a line end may follow, which the caller checks.
    let is_end =
        rest.is_empty() || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '"' || c == ' ');
    is_end.then(|| (field.replace("\r\n", "\n"), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_of_go() {
        for (text, expected) in [
            ("a,b\n1,2\n", vec![vec!["a", "b"], vec!["1", "2"]]),
            ("a,b\r\n1,2", vec![vec!["a", "b"], vec!["1", "2"]]),
            ("a\n\n\nb\n", vec![vec!["a"], vec!["b"]]),
            ("\"a,\"\"b\"\"\nc\",d\n", vec![vec!["a,\"b\"\nc", "d"]]),
            ("a,\nb,\n", vec![vec!["a", ""], vec!["b", ""]]),
            ("\"\"\n\"x\"\n", vec![vec![""], vec!["x"]]),
            ("", vec![]),
        ] {
            assert_eq!(records(text, ',').unwrap(), expected, "{text:?}");
        }
        assert_eq!(records("a;b", ';').unwrap(), [["a", "b"]]);
    }

    #[test]
    fn errors_are_reported_with_their_line() {
        for (text, expected) in [
            ("a,b\n1\n", "line 2: wrong number of fields"),
            ("a\"b\n", "line 1: bare \""),
            ("\"a\n", "line 1: parse error"),
            ("x\n\"a\"b\n", "line 2: parse error"),
        ] {
            let error = records(text, ',').unwrap_err();
            assert!(error.to_string().contains(expected), "{text:?}: {error}");
        }
    }
}
