//! Reads samples of the Prometheus and OpenMetrics text formats.

use std::fmt;

/// A name and labels that a sample must have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    name: String,
    labels: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no series such as `requests_total{{status=\"200\"}}`")]
pub struct SelectorError(String);

impl Selector {
    /// Parses `NAME` or `NAME{label="value",…}`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let refusal = || SelectorError(text.to_owned());
        let (name, labels, rest) = series(text.trim()).ok_or_else(refusal)?;
        if rest.is_empty() { Ok(Self { name, labels }) } else { Err(refusal()) }
    }

    /// Sum of all samples with this name and at least these labels; `None` if no sample has the name.
    pub fn sum(&self, page: &str) -> Option<f64> {
        let mut sum = None;
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, labels, rest)) = series(line) else { continue };
            if name != self.name {
                continue;
            }
            let has_all = self.labels.iter().all(|label| labels.contains(label));
            let value = rest.split_whitespace().next().and_then(number);
            let sum = sum.get_or_insert(0.0);
            if has_all && let Some(value) = value {
                *sum += value;
            }
        }
        sum
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.labels.is_empty() {
            return Ok(());
        }
        let label = |(name, value): &(String, String)| {
            let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            format!("{name}=\"{value}\"")
        };
        let labels: Vec<String> = self.labels.iter().map(label).collect();
        write!(f, "{{{}}}", labels.join(","))
    }
}

/// Skips values that would spoil a sum.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

type Labels = Vec<(String, String)>;

fn series(line: &str) -> Option<(String, Labels, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c: char| !is_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    match rest.strip_prefix('{') {
        None if rest.is_empty() || rest.starts_with([' ', '\t']) => {
            Some((name.to_owned(), Vec::new(), rest.trim_start()))
        }
        None => None,
        Some(rest) => {
            let (labels, rest) = labels(rest)?;
            Some((name.to_owned(), labels, rest.trim_start()))
        }
    }
}

/// Parses `a="b",c="d"}`, and returns the rest of the text.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, value) = rest.split_once("=\"")?;
        let (value, after) = quoted(value)?;
        labels.push((name.trim().to_owned(), value));
        rest = after;
    }
}

/// Parses a text up to the closing quote, and returns the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP requests_total Answers.
# TYPE requests_total counter
requests_total{method=\"GET\",status=\"200\"} 7 1700000000
requests_total{method=\"POST\",status=\"200\"} 2
requests_total{method=\"GET\",status=\"503\"} 1.5
requests_total_created 99
up 1
odd{text=\"a \\\"b\\\", c}\\n\"} 4
broken{ 5
lost NaN
# EOF
";

    fn sum(text: &str) -> Option<f64> {
        Selector::parse(text).unwrap().sum(PAGE)
    }

    #[test]
    fn samples_with_the_labels_are_added_up() {
        assert_eq!(sum("requests_total"), Some(10.5));
        assert_eq!(sum("requests_total{status=\"200\"}"), Some(9.0));
        assert_eq!(sum("requests_total{status=\"200\", method=\"POST\"}"), Some(2.0));
        assert_eq!(sum("up"), Some(1.0));
        assert_eq!(sum("odd{text=\"a \\\"b\\\", c}\\n\"}"), Some(4.0));
    }

    #[test]
    fn a_name_that_is_there_without_the_labels_is_zero_and_one_that_is_not_is_none() {
        assert_eq!(sum("requests_total{status=\"404\"}"), Some(0.0));
        assert_eq!(sum("requests"), None);
        assert_eq!(sum("lost"), Some(0.0));
    }

    #[test]
    fn what_is_no_series_is_refused() {
        for text in ["", "9a", "a b", "a{b=c}", "a{b=\"c\"", "a{b=\"c\"} 3", "a.b"] {
            assert!(Selector::parse(text).is_err(), "{text:?} was accepted");
        }
        let text = "requests_total{status=\"200\"}";
        assert_eq!(Selector::parse(text).unwrap().to_string(), text);
    }
}
