//! Settings of outputs in environment variables.

use std::sync::Arc;
use std::time::Duration;

use crate::http::ClientCertificate;
use crate::options::{OptionsError, parse_duration};

/// The variables of an output, with a common prefix.
pub(super) struct Variables<'v> {
    prefix: &'static str,
    read: &'v dyn Fn(&str) -> Option<String>,
}

impl<'v> Variables<'v> {
    pub(super) fn new(prefix: &'static str, read: &'v dyn Fn(&str) -> Option<String>) -> Self {
        Self { prefix, read }
    }

    /// The value of a variable; an empty one counts as unset.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        (self.read)(&format!("{}{name}", self.prefix)).filter(|value| !value.is_empty())
    }

    pub(super) fn wrong(&self, name: &str, problem: impl std::fmt::Display) -> OptionsError {
        OptionsError::invalid(format!("{}{name}", self.prefix), problem.to_string())
    }

    pub(super) fn refuse(&self, name: &str) -> Result<(), OptionsError> {
        let missing = format!("the environment variable `{}{name}`", self.prefix);
        self.text(name).map_or(Ok(()), |_| Err(OptionsError::Unsupported(missing)))
    }

    pub(super) fn switch(&self, name: &str, default: bool) -> Result<bool, OptionsError> {
        match self.text(name).as_deref() {
            None => Ok(default),
            Some("true" | "1") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(other) => Err(self.wrong(name, format!("`{other}` is not true or false"))),
        }
    }

    pub(super) fn duration(&self, name: &str, default: Duration) -> Result<Duration, OptionsError> {
        let Some(text) = self.text(name) else { return Ok(default) };
        parse_interval(&text).map_err(|problem| self.wrong(name, problem.to_string()))
    }

    /// Parses `NAME:VALUE,NAME:VALUE` with any separator in place of the colon.
    pub(super) fn pairs(
        &self,
        name: &str,
        sign: char,
    ) -> Result<Vec<(String, String)>, OptionsError> {
        let text = self.text(name).unwrap_or_default();
        let entries = text.split(',').filter(|entry| !entry.is_empty());
        let pairs = entries.map(|entry| {
            let problem = || self.wrong(name, format!("`{entry}` is not NAME{sign}VALUE"));
            let (key, value) = entry.split_once(sign).ok_or_else(problem)?;
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        });
        pairs.collect()
    }

    pub(super) fn certificate(
        &self,
        certificate: &str,
        key: &str,
    ) -> Result<Vec<Arc<ClientCertificate>>, OptionsError> {
        let read = |name: &str, path: String| {
            std::fs::read_to_string(&path)
                .map_err(|error| self.wrong(name, format!("{path}: {error}")))
        };
        match (self.text(certificate), self.text(key)) {
            (None, None) => Ok(Vec::new()),
            (Some(chain), Some(path)) => {
                let (chain, text) = (read(certificate, chain)?, read(key, path)?);
                let both = ClientCertificate::from_pem(&chain, &text, None);
                both.map(|both| vec![Arc::new(both)])
                    .map_err(|error| self.wrong(certificate, error))
            }
            (Some(_), None) => Err(self.wrong(key, format!("{} needs it", certificate))),
            (None, Some(_)) => Err(self.wrong(certificate, format!("{key} needs it"))),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a duration such as 1s")]
pub(super) struct NotAnInterval(String);

/// Parses a duration other than zero.
pub(super) fn parse_interval(text: &str) -> Result<Duration, NotAnInterval> {
    let given = parse_duration(text).ok().filter(|given| !given.is_zero());
    given.ok_or_else(|| NotAnInterval(text.to_owned()))
}
