//! Flags that every command with settings shares, and how they become settings.

use madang_service::config::{Origin, Settings, Sources};
use std::path::{Path, PathBuf};

/// File that is read when it is there and no other is named.
const DEFAULT_FILE: &str = "madang.toml";

/// Where settings come from.
#[derive(clap::Args, Debug)]
pub struct SettingsArgs {
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
    /// Values of file, environment and flags, not yet parsed.
    pub fn sources(&self) -> anyhow::Result<Sources> {
        let mut sources = Sources::new();
        match &self.config {
            Some(path) => sources.file(path)?,
            None if Path::new(DEFAULT_FILE).is_file() => sources.file(Path::new(DEFAULT_FILE))?,
            None => {}
        }
        sources.environment(std::env::vars_os().filter_map(|(name, value)| {
            // Text that is no UTF-8 is passed on as it can be: the value is then refused by its key.
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

    pub fn resolve(&self) -> anyhow::Result<Settings> {
        Ok(self.sources()?.resolve()?)
    }
}

/// A flag with a wrong form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// [`Usage`] as an error of a command.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}
