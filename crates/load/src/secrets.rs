//! Values of `k6/secrets`: read from `--secret-source`, hidden in all messages.

use std::collections::HashMap;
use std::path::Path;

/// Source used when a script names none.
pub(crate) const DEFAULT: &str = "default";

/// Values by the name of their source, then by their own.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    sources: HashMap<String, HashMap<String, String>>,
    default: Option<String>,
}

/// A `--secret-source` that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("--secret-source {source_text}: {problem}")]
pub struct SecretsError {
    source_text: String,
    problem: String,
}

/// Error of a look-up, in k6's words.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum NoSecret {
    #[error("no secret sources are configured")]
    Unconfigured,
    #[error("no secret source with name {0:?} is configured")]
    Unknown(String),
    #[error("no value")]
    NoValue,
}

impl Secrets {
    /// Adds a source: `mock=NAME=VALUE,…`, or `file=PATH` with a `NAME=VALUE` per line. `name=NAME` in its list names
    /// it, and `default` makes it the one used when a script names none, as a single source is anyway.
    ///
    /// # Errors
    /// If the kind is unknown or the source cannot be read. The message contains no value.
    pub fn add(&mut self, text: &str) -> Result<(), SecretsError> {
        let (kind, list) = text.split_once('=').unwrap_or((text, ""));
        let wrong = |problem: String| {
            let source_text = kind.to_owned();
            SecretsError { source_text, problem }
        };
        let (mut name, mut is_default, mut rest) = (kind.to_owned(), false, Vec::new());
        for part in list.split(',') {
            match part.split_once('=') {
                None if part == "default" => is_default = true,
                Some(("name", given)) => name = given.to_owned(),
                _ => rest.push(part),
            }
        }
        let values = match kind {
            "mock" => pairs(rest.into_iter())
                .map_err(|at| wrong(format!("value {at} is not NAME=VALUE")))?,
            "file" => {
                let path =
                    rest.first().map_or("", |path| path.strip_prefix("filename=").unwrap_or(path));
                let text = std::fs::read_to_string(Path::new(path));
                let text =
                    text.map_err(|error| wrong(format!("{path} cannot be read: {error}")))?;
                pairs(text.lines())
                    .map_err(|at| wrong(format!("line {at} of {path} is not NAME=VALUE")))?
            }
            "" => return Err(wrong("KIND=… is expected, such as file=secrets.txt".to_owned())),
            _ => return Err(wrong("only `file` and `mock` are supported yet".to_owned())),
        };
        if is_default && self.default.replace(name.clone()).is_some() {
            return Err(wrong("there is another default source".to_owned()));
        }
        match self.sources.insert(name.clone(), values) {
            None => Ok(()),
            Some(_) => Err(wrong(format!("there is another source named `{name}`"))),
        }
    }

    /// Looks a value up.
    pub(crate) fn get(&self, source: &str, name: &str) -> Result<&str, NoSecret> {
        if self.sources.is_empty() {
            return Err(NoSecret::Unconfigured);
        }
        let values = match (source, &self.default) {
            (DEFAULT, Some(default)) => self.sources.get(default),
            (DEFAULT, None) if self.sources.len() == 1 => self.sources.values().next(),
            _ => self.sources.get(source),
        };
        let values = values.ok_or_else(|| NoSecret::Unknown(source.to_owned()))?;
        values.get(name).map(String::as_str).ok_or(NoSecret::NoValue)
    }
}

/// Parses `NAME=VALUE` items. The error is the number of the first malformed one, from 1.
fn pairs<'a>(lines: impl Iterator<Item = &'a str>) -> Result<HashMap<String, String>, usize> {
    let pair = |(at, line): (usize, &str)| {
        let (name, value) = line.split_once('=').ok_or(at + 1)?;
        Ok((name.to_owned(), value.to_owned()))
    };
    lines.enumerate().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(sources: &[&str]) -> Result<Secrets, SecretsError> {
        let mut secrets = Secrets::default();
        sources.iter().try_for_each(|text| secrets.add(text)).map(|()| secrets)
    }

    #[test]
    fn one_source_is_the_default_and_of_several_the_one_that_says_so() {
        let one = secrets(&["mock=name=a,cool=x=y"]).unwrap();
        assert_eq!((one.get(DEFAULT, "cool"), one.get("a", "cool")), (Ok("x=y"), Ok("x=y")));
        let two = secrets(&["mock=default,cool=1", "mock=name=b,cool=2"]).unwrap();
        assert_eq!((two.get(DEFAULT, "cool"), two.get("b", "cool")), (Ok("1"), Ok("2")));
        let none = secrets(&["mock=name=a,c=1", "mock=name=b,c=2"]).unwrap();
        let error = none.get(DEFAULT, "c").unwrap_err();
        assert_eq!(error.to_string(), "no secret source with name \"default\" is configured");
    }

    #[test]
    fn missing_values_and_wrong_sources_are_reported() {
        assert_eq!(Secrets::default().get(DEFAULT, "a"), Err(NoSecret::Unconfigured));
        assert_eq!(secrets(&["mock=a=1"]).unwrap().get(DEFAULT, "b"), Err(NoSecret::NoValue));
        for (sources, expected) in [
            (&["mock=a"][..], "value 1 is not NAME=VALUE"),
            (&["url=x"], "only `file` and `mock`"),
            (&[""], "KIND="),
            (&["file=/nowhere/at/all"], "cannot be read"),
            (&["mock=a=1", "mock=a=2"], "another source named `mock`"),
            (&["mock=default,a=1", "mock=name=b,default,a=2"], "another default"),
        ] {
            let error = secrets(sources).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_file_has_a_value_in_each_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "cool=a b\nelse=c=d").unwrap();
        let secrets = secrets(&[&format!("file={}", file.path().display())]).unwrap();
        assert_eq!(secrets.get(DEFAULT, "cool"), Ok("a b"));
        assert_eq!(secrets.get(DEFAULT, "else"), Ok("c=d"));
    }
}
