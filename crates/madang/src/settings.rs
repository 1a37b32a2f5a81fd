//! Flags common to all commands with settings.

use madang_service::config::{Origin, Settings, Sources};
use std::path::{Path, PathBuf};

/// File that is read if it exists and no other is named.
const DEFAULT_FILE: &str = "madang.toml";

/// Flags for the sources of settings.
#[derive(clap::Args, Debug)]
pub(crate) struct SettingsArgs {
    /// Data directory (setting data.dir) [default: madang-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Configuration file [default: madang.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "MADANG_CONFIG")]
    pub config: Option<PathBuf>,
    /// Value of one setting; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl SettingsArgs {
    /// Unparsed values of file, environment and flags.
    pub(crate) fn sources(&self) -> anyhow::Result<Sources> {
        let mut sources = Sources::new();
        match &self.config {
            Some(path) => sources.file(path)?,
            None if Path::new(DEFAULT_FILE).is_file() => sources.file(Path::new(DEFAULT_FILE))?,
            None => {}
        }
        sources.environment(std::env::vars_os().filter_map(|(name, value)| {
            // A value that is not UTF-8 is passed on lossily, and then rejected under its key.
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        }))?;
        if let Some(dir) = &self.data {
            let wrong = || usage(format!("--data {}: the path is not UTF-8", dir.display()));
            let text = dir.to_str().ok_or_else(wrong)?;
            sources.set("data.dir", text, Origin::Flag("--data".to_owned()))?;
        }
        for pair in &self.set {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                usage(format!("--set {pair}: expected KEY=VALUE, such as --set tracks.detail=full"))
            })?;
            sources.set(key.trim(), value.trim(), Origin::Flag(format!("--set {}", key.trim())))?;
        }
        Ok(sources)
    }

    pub(crate) fn resolve(&self) -> anyhow::Result<Settings> {
        Ok(self.sources()?.resolve()?)
    }
}

/// An invalid flag.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub String);

/// [`Usage`] as an error of a command.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}
