//! Reads tables key by key, so that every mistake is reported with its line, the key and what
//! would be accepted, and all mistakes of a file at once. Deriving the types would report the
//! first only, and could not tell a key that is wrong from one that is not supported yet.

use std::{cell::RefCell, fmt, ops::Range, time::Duration};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Nobody means a longer time, and sums and multiples of times stay far from overflowing.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Something wrong in an experiment file. Prints as `LINE: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong and what would be accepted.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

/// The mistakes found so far in one text.
pub struct Mistakes<'t> {
    text: &'t str,
    found: RefCell<Vec<Mistake>>,
}

impl<'t> Mistakes<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, found: RefCell::default() }
    }

    pub fn add(&self, offset: usize, message: impl Into<String>) {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        self.found.borrow_mut().push(Mistake { line, message: message.into() });
    }

    pub fn into_sorted(self) -> Vec<Mistake> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|mistake| mistake.line);
        found
    }
}

/// One table, being read. Every key asked for is one that is accepted.
pub struct Reader<'a> {
    table: &'a DeTable<'a>,
    /// As it is written in the file: `[rounds.quick]`; empty at the top.
    path: String,
    offset: usize,
    accepted: Vec<&'static str>,
    mistakes: &'a Mistakes<'a>,
}

/// A value and where it stands.
pub struct Found<T> {
    pub value: T,
    pub offset: usize,
}

impl<'a> Reader<'a> {
    pub fn new(table: &'a DeTable<'a>, mistakes: &'a Mistakes<'a>) -> Self {
        Self { table, path: String::new(), offset: 0, accepted: Vec::new(), mistakes }
    }

    pub fn mistakes(&self) -> &'a Mistakes<'a> {
        self.mistakes
    }

    /// Where the table begins.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Keys that will be accepted one day; naming them tells a wish from a typing error.
    pub fn not_yet(&mut self, keys: &[&str]) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if keys.contains(&name) {
                let message = format!("`{name}` is not supported yet{}", self.place());
                self.mistakes.add(key.span().start, message);
            }
        }
    }

    /// Reports every key that was not asked for. Call it last.
    pub fn finish(self, not_yet: &[&str]) {
        for (key, _) in self.table {
            let name: &str = key.get_ref();
            if self.accepted.contains(&name) || not_yet.contains(&name) {
                continue;
            }
            let accepted: Vec<String> =
                self.accepted.iter().map(|accepted| format!("`{accepted}`")).collect();
            let guess = closest(name, &self.accepted)
                .map_or_else(String::new, |guess| format!(" (did you mean `{guess}`?)"));
            let message = format!(
                "unknown key `{name}`{}{guess}: accepted are {}",
                self.place(),
                accepted.join(", ")
            );
            self.mistakes.add(key.span().start, message);
        }
    }

    pub fn text(&mut self, key: &'static str) -> Option<Found<String>> {
        self.typed(key, "a string", |value| value.as_str().map(str::to_owned))
    }

    pub fn required_text(&mut self, key: &'static str) -> Option<Found<String>> {
        self.text(key).or_else(|| self.missing(key))
    }

    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        self.typed(key, "true or false", DeValue::as_bool).map(|found| found.value)
    }

    /// A positive number, whole or not.
    pub fn positive(&mut self, key: &'static str) -> Option<f64> {
        let number = |value: &DeValue<'_>| {
            let text = match value {
                DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
                DeValue::Float(float) => float.as_str(),
                _ => return None,
            };
            let number: f64 = text.replace('_', "").parse().ok()?;
            (number.is_finite() && number > 0.0).then_some(number)
        };
        self.typed(key, "a positive number", number).map(|found| found.value)
    }

    pub fn whole(&mut self, key: &'static str, accepted: Range<u32>) -> Option<u32> {
        let wanted = format!("a whole number from {} to {}", accepted.start, accepted.end - 1);
        let whole = |value: &DeValue<'_>| {
            let DeValue::Integer(integer) = value else { return None };
            let digits = integer.as_str().replace('_', "");
            let number = u32::from_str_radix(&digits, integer.radix()).ok()?;
            accepted.contains(&number).then_some(number)
        };
        self.typed(key, &wanted, whole).map(|found| found.value)
    }

    /// A time, possibly none at all.
    pub fn duration(&mut self, key: &'static str) -> Option<Duration> {
        self.duration_from(key, Duration::ZERO)
    }

    /// A time of at least a millisecond, which is what command lines are given.
    pub fn positive_duration(&mut self, key: &'static str) -> Option<Duration> {
        self.duration_from(key, Duration::from_millis(1))
    }

    fn duration_from(&mut self, key: &'static str, least: Duration) -> Option<Duration> {
        let wanted = "a time with its unit, such as \"500ms\", \"10s\" or \"1m30s\"";
        let range = if least.is_zero() { "at most 7 days" } else { "from 1ms to 7 days" };
        let read = |value: &DeValue<'_>| {
            let time = value.as_str().and_then(duration)?;
            (least..=LONGEST).contains(&time).then_some(time)
        };
        self.typed(key, &format!("{wanted}, {range}"), read).map(|found| found.value)
    }

    /// A list of strings with at least one element.
    pub fn words(&mut self, key: &'static str) -> Option<Vec<String>> {
        let words = |value: &DeValue<'_>| {
            let array = value.as_array()?;
            let words: Option<Vec<String>> =
                array.iter().map(|word| word.get_ref().as_str().map(str::to_owned)).collect();
            words.filter(|words| !words.is_empty())
        };
        self.typed(key, "a list of strings, such as [\"program\", \"argument\"]", words)
            .map(|found| found.value)
    }

    /// A table of strings, in the order of the file.
    pub fn strings(&mut self, key: &'static str) -> Option<Vec<(String, String)>> {
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

    /// Every entry as a figure: a string of a number and its unit, such as `"0.8 s"`.
    pub fn figures(&self) -> Vec<(String, String)> {
        let mut figures: Vec<(usize, String, String)> = Vec::new();
        for (name, value) in self.table {
            match value.get_ref().as_str() {
                Some(text) if is_figure(text) => {
                    let name = name.get_ref().clone().into_owned();
                    figures.push((value.span().start, name, text.to_owned()));
                }
                _ => {
                    let wanted = "a string of a number and its unit, such as \"0.8 s\"";
                    self.wrong_type(name.get_ref(), value, wanted);
                }
            }
        }
        figures.sort_by_key(|(offset, ..)| *offset);
        figures.into_iter().map(|(_, name, text)| (name, text)).collect()
    }

    /// A table to be read in turn.
    pub fn table(&mut self, key: &'static str) -> Option<Self> {
        self.accepted.push(key);
        let (name, value) = self.table.get_key_value(key)?;
        self.child(name.get_ref(), name.span().start, value)
    }

    /// All tables in this table, in the order of the file, with their names.
    pub fn tables(&self) -> Vec<(String, Self)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let read = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &'a Spanned<_>)| {
            let child = self.child(name.get_ref(), name.span().start, value)?;
            Some((name.get_ref().clone().into_owned(), child))
        };
        entries.into_iter().filter_map(read).collect()
    }

    /// Notes a missing key. Always `None`, to end a chain.
    pub fn missing<T>(&self, key: &str) -> Option<T> {
        if self.table.get(key).is_none() {
            let message = format!("`{key}` is missing{}", self.place());
            self.mistakes.add(self.offset, message);
        }
        None
    }

    pub fn has(&self, key: &str) -> bool {
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
    ) -> Option<Found<T>> {
        self.accepted.push(key);
        let value = self.table.get(key)?;
        match read(value.get_ref()) {
            Some(read) => Some(Found { value: read, offset: value.span().start }),
            None => {
                self.wrong_type(key, value, wanted);
                None
            }
        }
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

fn is_figure(text: &str) -> bool {
    let Some((number, unit)) = text.split_once(' ') else { return false };
    // A minus sign as typesetters write it is one, too.
    let number = number.replace(',', "").replace('\u{2212}', "-");
    number.parse::<f64>().is_ok() && !unit.trim().is_empty()
}

/// `1h2m3.5s`-like times: one or more numbers, each with its unit.
pub fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        total += number
            * match &rest[..letters] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(total).ok() }
}

/// The accepted word that a mistyped one is nearest to, if it is near enough.
fn closest<'w>(word: &str, accepted: &[&'w str]) -> Option<&'w str> {
    let near = accepted.iter().map(|accepted| (distance(word, accepted), *accepted)).min()?;
    (near.0 <= 2 && near.0 < word.chars().count()).then_some(near.1)
}

/// Edit distance: insertions, deletions and replacements (Levenshtein 1966), in the two-row form
/// of Wagner and Fischer (1974).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_units() {
        assert_eq!(duration("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("0.5s"), Some(Duration::from_millis(500)));
        assert_eq!(duration("0s"), Some(Duration::ZERO));
        for text in ["", "5", "s", "5 s", "-1s", "1s5", "1.2.3s", "1d", "9e99s"] {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_time_beyond_all_measure_is_refused() {
        assert_eq!(duration(&format!("{}h", "9".repeat(300))), None);
        assert_eq!(duration(&format!("{}h", "9".repeat(400))), None);
    }

    #[test]
    fn a_guess_is_made_only_when_it_is_near() {
        assert_eq!(closest("blokcs", &["blocks", "warm_up"]), Some("blocks"));
        assert_eq!(closest("warmup", &["blocks", "warm_up"]), Some("warm_up"));
        assert_eq!(closest("banana", &["blocks", "warm_up"]), None);
        assert_eq!(closest("x", &["a"]), None);
    }
}
