//! Reads tables key by key, so that all mistakes of a file are reported at once, each with its line, the key and what
//! would be accepted. Derived types would report only the first, and could not distinguish an unknown key from one
//! that is not supported yet.

mod text;

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::file::expression::Expression;

pub(crate) use text::is_nearly;
use text::{closest, duration};

/// Sums and multiples of such times cannot overflow.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A mistake in an experiment file. Prints as `LINE: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

/// Mistakes found so far in one text.
pub(crate) struct Mistakes<'t> {
    text: &'t str,
    found: RefCell<Vec<Mistake>>,
}

impl<'t> Mistakes<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, found: RefCell::default() }
    }

    pub(crate) fn add(&self, offset: usize, message: impl Into<String>) {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        self.found.borrow_mut().push(Mistake { line, message: message.into() });
    }

    pub(crate) fn into_sorted(self) -> Vec<Mistake> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|mistake| mistake.line);
        found
    }
}

/// A table, and the keys that were read so far: the accepted ones.
pub(crate) struct Reader<'a> {
    table: &'a DeTable<'a>,
    /// Such as `rounds.quick`; empty at the top.
    path: String,
    offset: usize,
    accepted: Vec<&'static str>,
    mistakes: &'a Mistakes<'a>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(table: &'a DeTable<'a>, mistakes: &'a Mistakes<'a>) -> Self {
        Self { table, path: String::new(), offset: 0, accepted: Vec::new(), mistakes }
    }

    /// Offset of a key, or of the table if the key is missing.
    fn offset_of(&self, key: &str) -> usize {
        self.table.get_key_value(key).map_or(self.offset, |(name, _)| name.span().start)
    }

    /// Reports a mistake in the table as a whole.
    pub(crate) fn complain(&self, message: impl Into<String>) {
        self.mistakes.add(self.offset, message);
    }

    /// Notes a mistake in what a key says.
    pub(crate) fn wrong(&self, key: &str, message: impl Into<String>) {
        self.mistakes.add(self.offset_of(key), message);
    }

    /// Reports a mistake as "`key` in [table] `why`".
    pub(crate) fn refuse(&self, key: &str, why: impl fmt::Display) {
        self.wrong(key, format!("`{key}`{} {why}", self.place()));
    }

    /// As [`Self::refuse`], with a complete message after a colon.
    pub(crate) fn refuse_because(&self, key: &str, why: impl fmt::Display) {
        self.wrong(key, format!("`{key}`{}: {why}", self.place()));
    }

    /// Reports every key that was not read, and those in `not_yet` as not supported yet.
    pub(crate) fn finish(&self, not_yet: &[&str]) {
        for (key, _) in self.table {
            let (name, place): (&str, _) = (key.get_ref(), self.place());
            let message = if not_yet.contains(&name) {
                format!("`{name}` is not supported yet{place}")
            } else if self.accepted.contains(&name) {
                continue;
            } else {
                let accepted: Vec<String> =
                    self.accepted.iter().map(|accepted| format!("`{accepted}`")).collect();
                let guess = closest(name, &self.accepted)
                    .map_or_else(String::new, |guess| format!(" (did you mean `{guess}`?)"));
                let accepted = accepted.join(", ");
                format!("unknown key `{name}`{place}{guess}: accepted are {accepted}")
            };
            self.mistakes.add(key.span().start, message);
        }
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        self.typed(key, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn required_text(&mut self, key: &'static str) -> Option<String> {
        self.text(key).or_else(|| self.missing(key))
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        self.typed(key, "true or false", DeValue::as_bool)
    }

    pub(crate) fn positive(&mut self, key: &'static str) -> Option<f64> {
        let positive = |value: &DeValue<'_>| number(value).filter(|number| *number > 0.0);
        self.typed(key, "a positive number", positive)
    }

    pub(crate) fn amount(&mut self, key: &'static str) -> Option<f64> {
        let amount = |value: &DeValue<'_>| number(value).filter(|number| *number >= 0.0);
        self.typed(key, "a number that is not negative", amount)
    }

    pub(crate) fn formula(&mut self, key: &'static str) -> Option<Expression> {
        let read = |value: &DeValue<'_>| match value.as_str() {
            Some(text) => Some(Expression::parse(text)),
            None => number(value).map(|number| Ok(Expression::number(number))),
        };
        let wanted = "a number or a formula, such as \"max(0, 30 - before)\"";
        self.typed(key, wanted, read)?.map_err(|error| self.refuse_because(key, error)).ok()
    }

    pub(crate) fn whole(&mut self, key: &'static str, accepted: Range<u32>) -> Option<u32> {
        let wanted = format!("a whole number from {} to {}", accepted.start, accepted.end - 1);
        let whole = |value: &DeValue<'_>| {
            let DeValue::Integer(integer) = value else { return None };
            let digits = integer.as_str().replace('_', "");
            let number = u32::from_str_radix(&digits, integer.radix()).ok()?;
            accepted.contains(&number).then_some(number)
        };
        self.typed(key, &wanted, whole)
    }

    pub(crate) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        self.duration_from(key, Duration::ZERO)
    }

    /// At least a millisecond, the unit of command lines.
    pub(crate) fn positive_duration(&mut self, key: &'static str) -> Option<Duration> {
        self.duration_from(key, Duration::from_millis(1))
    }

    fn duration_from(&mut self, key: &'static str, least: Duration) -> Option<Duration> {
        let wanted = "a time with its unit, such as \"500ms\", \"10s\" or \"1m30s\"";
        let range = if least.is_zero() { "at most 7 days" } else { "from 1ms to 7 days" };
        let read = |value: &DeValue<'_>| {
            let time = value.as_str().and_then(duration)?;
            (least..=LONGEST).contains(&time).then_some(time)
        };
        self.typed(key, &format!("{wanted}, {range}"), read)
    }

    /// A non-empty list of strings.
    pub(crate) fn words(&mut self, key: &'static str) -> Option<Vec<String>> {
        let words = |value: &DeValue<'_>| {
            let array = value.as_array()?;
            let words: Option<Vec<String>> =
                array.iter().map(|word| word.get_ref().as_str().map(str::to_owned)).collect();
            words.filter(|words| !words.is_empty())
        };
        self.typed(key, "a list of strings, such as [\"one\", \"two\"]", words)
    }

    /// A table of strings, in the order of the file.
    pub(crate) fn strings(&mut self, key: &'static str) -> Option<Vec<(String, String)>> {
        let table = self.table(key)?;
        let mut entries: Vec<(usize, String, String)> = Vec::new();
        for (name, value) in table.table {
            match value.get_ref().as_str() {
                Some(text) => {
                    let name = name.get_ref().clone().into_owned();
                    entries.push((value.span().start, name, text.to_owned()));
                }
                None => table.wrong_type(name.get_ref(), value, "a string"),
            }
        }
        entries.sort_by_key(|(offset, ..)| *offset);
        Some(entries.into_iter().map(|(_, name, text)| (name, text)).collect())
    }

    pub(crate) fn table(&mut self, key: &'static str) -> Option<Self> {
        self.accepted.push(key);
        let (name, value) = self.table.get_key_value(key)?;
        self.child(name.get_ref(), name.span().start, value)
    }

    /// A table, or a list of tables.
    pub(crate) fn list(&mut self, key: &'static str) -> Option<Vec<Self>> {
        self.accepted.push(key);
        let (name, value) = self.table.get_key_value(key)?;
        let Some(array) = value.get_ref().as_array() else {
            return self.child(name.get_ref(), name.span().start, value).map(|table| vec![table]);
        };
        let read = |value| {
            let value: &'a Spanned<DeValue<'a>> = value;
            self.child(name.get_ref(), value.span().start, value)
        };
        Some(array.iter().filter_map(read).collect())
    }

    /// All tables in this table, in the order of the file, with their names.
    pub(crate) fn tables(&self) -> Vec<(String, Self)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let read = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &'a Spanned<_>)| {
            let child = self.child(name.get_ref(), name.span().start, value)?;
            Some((name.get_ref().clone().into_owned(), child))
        };
        entries.into_iter().filter_map(read).collect()
    }

    /// Reports a missing key. Always `None`, to end a chain.
    pub(crate) fn missing<T>(&self, key: &str) -> Option<T> {
        if self.table.get(key).is_none() {
            self.complain(format!("`{key}` is missing{}", self.place()));
        }
        None
    }

    /// `[rounds]`.
    pub(crate) fn title(&self) -> String {
        format!("[{}]", self.path)
    }

    pub(crate) fn is_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| value.get_ref().is_table())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    fn child(&self, name: &str, offset: usize, value: &'a Spanned<DeValue<'a>>) -> Option<Self> {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(name, value, "a table");
            return None;
        };
        Some(Self { table, path, offset, accepted: Vec::new(), mistakes: self.mistakes })
    }

    fn typed<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        read: impl FnOnce(&DeValue<'a>) -> Option<T>,
    ) -> Option<T> {
        self.accepted.push(key);
        let value = self.table.get(key)?;
        let read = read(value.get_ref());
        if read.is_none() {
            self.wrong_type(key, value, wanted);
        }
        read
    }

    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) {
        let found = self.mistakes.text.get(value.span()).unwrap_or_default();
        let mut shown: String = found.lines().next().unwrap_or_default().chars().take(40).collect();
        if shown.len() < found.len() {
            shown.push('…');
        }
        let found = if shown.is_empty() { String::new() } else { format!(", not {shown}") };
        let message = format!("`{key}`{} must be {wanted}{found}", self.place());
        self.mistakes.add(value.span().start, message);
    }

    fn place(&self) -> String {
        if self.path.is_empty() { String::new() } else { format!(" in [{}]", self.path) }
    }
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
        DeValue::Float(float) => float.as_str(),
        _ => return None,
    };
    text.replace('_', "").parse().ok().filter(|number: &f64| number.is_finite())
}
