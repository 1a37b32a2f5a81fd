//! Sources of settings, and errors of settings.

use super::Settings;
use super::keys::{KEYS, Key, Section as _};
use super::value::Kind;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Origin of an effective value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// A line of the configuration file.
    File(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// A command-line flag.
    Flag(String),
}

impl Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// Error of the configuration file, or of a setting. The text names the origin, the key, the value and what is
/// accepted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    fn new(origin: impl Display, problem: impl Display) -> Self {
        Self(format!("{origin}: {problem}"))
    }

    fn unknown(origin: impl Display, key: &str) -> Self {
        let problem =
            format!("unknown setting `{key}`{}; `madang config` lists all settings", nearest(key));
        Self::new(origin, problem)
    }
}

/// Environment variables of Madang that are not settings.
const RESERVED_VARIABLES: &[&str] = &[
    "MADANG_CONFIG", "MADANG_COPY_TO", "MADANG_DRILLS", "MADANG_DRILL_TABLE",
    "MADANG_SKIPPED_FILE", "MADANG_TEST_DATA", "MADANG_TEST_MARIADB",
];

/// Values of all sources; later ones win.
#[derive(Debug, Default)]
pub struct Sources {
    values: BTreeMap<&'static str, (String, Origin)>,
}

impl Sources {
    /// The defaults with the store of a test: see [`madang_testing::database`].
    #[cfg(test)]
    pub(crate) fn of_test() -> Self {
        let mut sources = Self::new();
        if let Some(url) = madang_testing::database() {
            let flag = Origin::Flag("test".to_owned());
            sources.set("database.url", &url, flag).expect("a URL of MariaDB");
        }
        sources
    }

    /// Only defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a TOML file. Tables nest into dotted keys: `[tracks] detail = "full"` is `tracks.detail`.
    ///
    /// # Errors
    /// When the file cannot be read or parsed, or contains an unknown key.
    pub fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| ConfigError::new(path.display(), format!("cannot be read: {e}")))?;
        self.text(path, &text)
    }

    /// Reads the text of a file.
    pub(crate) fn text(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let wrong = |problem| ConfigError::new(path.display(), problem);
        let table = toml::de::DeTable::parse(text).map_err(|e| wrong(syntax_error(text, &e)))?;
        let mut found = Vec::new();
        flatten(table.get_ref(), "", &mut found, &wrong)?;
        for (key, value, at) in found {
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            self.set(&key, &value, Origin::File(path.to_owned(), line))?;
        }
        Ok(())
    }

    /// Reads `MADANG_…` variables.
    ///
    /// # Errors
    /// When a variable with that prefix is no setting, such as a misspelled one.
    pub fn environment(
        &mut self,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        for (name, value) in variables {
            let ours = name.starts_with("MADANG_") && !is_service_link(&name);
            if !ours || RESERVED_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            let origin = Origin::Environment(name.clone());
            match KEYS.iter().find(|key| key.variable() == name) {
                Some(key) => self.set(key.name, &value, origin)?,
                None => return Err(ConfigError::unknown(origin, &name)),
            }
        }
        Ok(())
    }

    /// Sets one key; a later call wins.
    ///
    /// # Errors
    /// When the key is unknown.
    pub fn set(&mut self, key: &str, value: &str, origin: Origin) -> Result<(), ConfigError> {
        let Some(known) = Key::find(key) else {
            return Err(ConfigError::unknown(origin, key));
        };
        self.values.insert(known.name, (value.to_owned(), origin));
        Ok(())
    }

    /// The effective value of a key as text, and its origin.
    pub fn effective(&self, key: &'static Key) -> (&str, Origin) {
        match self.values.get(key.name) {
            Some((value, origin)) => (value, origin.clone()),
            None => (key.default, Origin::Default),
        }
    }

    /// The effective value of a key, parsed.
    pub(super) fn parsed<T>(&self, name: &str, kind: &Kind<T>) -> Result<T, ConfigError> {
        let key = row(name);
        let (value, _) = self.effective(key);
        let invalid = || self.error(key, "invalid value ", &format!("; accepted: {}", key.accepts));
        (kind.parse)(value).ok_or_else(invalid)
    }

    /// Error of a key's effective value, named between these texts.
    fn error(&self, key: &'static Key, before: &str, after: &str) -> ConfigError {
        let (value, origin) = self.effective(key);
        let value = if key.secret { "(hidden)" } else { value };
        ConfigError::new(origin, format!("{before}`{} = {value}`{after}", key.name))
    }

    /// Parses all effective values.
    ///
    /// # Errors
    /// When a value is invalid, needs another setting, or is unsafe without `unsafe_experiments`.
    pub fn resolve(&self) -> Result<Settings, ConfigError> {
        let settings = Settings::read(self)?;
        if let Some((key, needs, why)) = settings.missing() {
            return Err(self.error(row(key), "", &format!(" needs `{needs}`: {why}")));
        }
        if !settings.unsafe_experiments
            && let Some((key, gives_up)) = settings.unsafe_value()
        {
            let allow = "to allow it, set `unsafe_experiments = true`";
            return Err(self.error(row(key), "", &format!(" is unsafe: {gives_up}; {allow}")));
        }
        Ok(settings)
    }
}

fn row(name: &str) -> &'static Key {
    Key::find(name).expect("a row is a key")
}

/// The message for a file that is not TOML. The line is quoted, unless it may hold a secret.
fn syntax_error(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
    let quoted = text.lines().nth(line).unwrap_or("");
    let is_secret = |key: &Key| {
        let name = key.name.rsplit('.').next().unwrap_or(key.name);
        key.secret && quoted.contains(name)
    };
    if KEYS.iter().any(is_secret) {
        return format!("TOML parse error at line {}: {}", line + 1, error.message());
    }
    error.to_string().trim_end().to_owned()
}

/// Variables that Kubernetes and Docker set near a service named `madang`: `MADANG_SERVICE_HOST`,
/// `MADANG_PORT=tcp://…`, `MADANG_PORT_8080_TCP_ADDR`, `MADANG_NAME`. No section has one of these names.
fn is_service_link(variable: &str) -> bool {
    matches!(variable, "MADANG_PORT" | "MADANG_NAME")
        || variable.starts_with("MADANG_PORT_")
        || variable.starts_with("MADANG_SERVICE_")
}

/// Lists dotted keys with their values and byte offsets.
fn flatten(
    table: &toml::de::DeTable<'_>,
    prefix: &str,
    found: &mut Vec<(String, String, usize)>,
    wrong: &impl Fn(String) -> ConfigError,
) -> Result<(), ConfigError> {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        let at = name.span().start;
        let value = value.get_ref();
        if let Some(inner) = value.as_table() {
            flatten(inner, &format!("{key}."), found, wrong)?;
        } else if let Some(text) = value.as_str() {
            found.push((key, text.to_owned(), at));
        } else if let Some(truth) = value.as_bool() {
            found.push((key, truth.to_string(), at));
        } else if let Some(number) = value.as_integer() {
            // TOML has 0x400, 0o2000 and 0b1, too.
            let whole = i128::from_str_radix(number.as_str(), number.radix())
                .map_err(|e| wrong(format!("`{key}`: {e}")))?;
            found.push((key, whole.to_string(), at));
        } else if let Some(number) = value.as_float() {
            found.push((key, number.as_str().to_owned(), at));
        } else {
            return Err(wrong(format!("`{key}` is {}; expected a single value", value.type_str())));
        }
    }
    Ok(())
}

/// ` (did you mean …?)` with the most similar key.
fn nearest(key: &str) -> String {
    let wanted = key.strip_prefix("MADANG_").map_or_else(
        || key.to_lowercase(),
        |variable| variable.to_lowercase().replacen('_', ".", 1),
    );
    KEYS.iter()
        .map(|known| (strsim::levenshtein(&wanted, known.name), known.name))
        .min()
        .filter(|(distance, name)| *distance <= name.len() / 3)
        .map(|(_, name)| format!(" (did you mean `{name}`?)"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Detail, Simplify};

    fn flag() -> Origin {
        Origin::Flag("--set".to_owned())
    }

    #[test]
    fn every_default_is_valid() {
        let settings = Sources::new().resolve().unwrap();
        assert_eq!(settings.tracks.detail, Detail::Medium);
        assert_eq!(settings.server.listen.port(), 8080);
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("madang.toml");
        std::fs::write(&path, "[tracks]\ndetail = \"low\"\nsimplify = \"degrees:0.0005\"\ncache_from_metres = 10000\n").unwrap();
        let mut sources = Sources::new();
        sources.file(&path).unwrap();
        let variable = ("MADANG_TRACKS_DETAIL".to_owned(), "high".to_owned());
        sources.environment([variable, ("HOME".to_owned(), "/".to_owned())].into_iter()).unwrap();
        let settings = sources.resolve().unwrap();
        assert_eq!(settings.tracks.detail, Detail::High);
        assert_eq!(settings.tracks.simplify, Simplify::Degrees(0.0005));
        assert!((settings.tracks.cache_from_metres - 10_000.0).abs() < f64::EPSILON);
        sources.set("tracks.detail", "full", flag()).unwrap();
        assert_eq!(sources.resolve().unwrap().tracks.detail, Detail::Full);
        assert_eq!(
            sources.effective(Key::find("tracks.simplify").unwrap()).1,
            Origin::File(path, 3)
        );
    }

    #[test]
    fn variables_of_container_platforms_are_no_settings() {
        let links = [
            "MADANG_SERVICE_HOST", "MADANG_SERVICE_PORT", "MADANG_PORT",
            "MADANG_PORT_8080_TCP_ADDR",
        ];
        let variables =
            links.iter().map(|name| ((*name).to_owned(), "tcp://10.0.0.1:8080".to_owned()));
        Sources::new().environment(variables).unwrap();
        for key in KEYS.iter() {
            assert!(!is_service_link(&key.variable()), "{} would be ignored", key.variable());
        }
    }

    #[test]
    fn an_unknown_key_is_refused_and_its_neighbour_named() {
        let mut sources = Sources::new();
        let error = sources.set("tracks.detial", "low", flag()).unwrap_err();
        assert!(error.to_string().contains("did you mean `tracks.detail`?"), "{error}");
        let error = sources
            .environment([("MADANG_TRACKS_DETIAL".to_owned(), "low".to_owned())].into_iter())
            .unwrap_err();
        assert!(error.to_string().contains("did you mean `tracks.detail`?"), "{error}");
    }

    #[test]
    fn a_wrong_value_names_key_value_origin_and_what_is_accepted() {
        for (key, value) in [
            ("tracks.detail", "ultra"),
            ("tracks.simplify", "degrees:-1"),
            ("tracks.cache_from_metres", "-5"),
            ("http.compression", "maybe"),
            ("server.listen", "localhost"),
            ("server.header_timeout", "0"),
            ("server.queue_time", "0"),
            ("server.queue_time", "401ms"),
            ("server.workers", "0"),
            ("cache.mode", "elsewhere"),
            ("log.level", "warning"),
            ("log.level", "madang_service=loud"),
        ] {
            let mut sources = Sources::new();
            sources.set(key, value, flag()).unwrap();
            let text = sources.resolve().unwrap_err().to_string();
            let accepts = &*Key::find(key).unwrap().accepts;
            for part in [key, value, "--set", accepts] {
                assert!(text.contains(part), "{text} does not name {part}");
            }
        }
    }

    #[test]
    fn a_secret_that_needs_another_setting_is_hidden() {
        let mut sources = Sources::new();
        sources.set("likes.write", "queue", flag()).unwrap();
        sources.set("likes.url", "redis://user:s3cret@127.0.0.1:1", flag()).unwrap();
        let text = sources.resolve().unwrap_err().to_string();
        assert!(text.contains("`likes.url = (hidden)` needs"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }

    #[test]
    fn a_file_that_is_not_toml_is_refused_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("madang.toml");
        std::fs::write(&path, "[tracks]\ndetail = \n").unwrap();
        let text = Sources::new().file(&path).unwrap_err().to_string();
        assert!(text.contains("line 2"), "{text}");
    }
}
