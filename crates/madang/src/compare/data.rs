//! `[data]` of an experiment: what every round starts with.

use madang_lab::host::HostError;
use std::path::{Path, PathBuf};

/// The `[data]` table of this host.
#[derive(Debug, Default, PartialEq)]
pub struct Data {
    /// The bundled samples.
    pub samples: bool,
    /// GPX and GeoJSON files, relative to the experiment.
    pub tracks: Vec<PathBuf>,
    /// What `madang seed` makes; its names and numbers are checked by it.
    pub seed: Option<toml::Table>,
}

impl Data {
    /// Reads and checks the table; `dir` is the experiment's directory.
    pub fn read(table: &toml::Table, dir: &Path) -> Result<Self, HostError> {
        let mut data = Self::default();
        for (key, value) in table {
            match (key.as_str(), value) {
                ("samples", toml::Value::Boolean(samples)) => data.samples = *samples,
                ("tracks", toml::Value::Array(files)) => {
                    data.tracks =
                        files.iter().map(|file| track(file, dir)).collect::<Result<_, _>>()?;
                }
                ("seed", toml::Value::Table(counts)) => {
                    check_seed(counts)?;
                    data.seed = Some(counts.clone());
                }
                ("samples", _) => {
                    return Err(HostError("`samples` must be true or false".to_owned()));
                }
                ("tracks", _) => {
                    return Err(HostError("`tracks` must be a list of files".to_owned()));
                }
                ("seed", _) => {
                    let example = "`seed` must be a table such as { users = 200 }";
                    return Err(HostError(example.to_owned()));
                }
                _ => {
                    return Err(HostError(format!(
                        "unknown key `{key}`: accepted are `samples`, `tracks`, `seed`"
                    )));
                }
            }
        }
        Ok(data)
    }
}

fn track(file: &toml::Value, dir: &Path) -> Result<PathBuf, HostError> {
    let path = file.as_str().map(|name| dir.join(name));
    let path =
        path.ok_or_else(|| HostError(format!("`tracks` must be a list of files, not {file}")))?;
    if path.is_file() {
        Ok(path)
    } else {
        Err(HostError(format!("`tracks`: no file `{}`", path.display())))
    }
}

/// Counts and switches are what a seed is made of; which names there are, `madang seed` knows.
fn check_seed(counts: &toml::Table) -> Result<(), HostError> {
    let is_plain = |value: &toml::Value| value.is_integer() || value.is_bool() || value.is_str();
    match counts.iter().find(|(_, value)| !is_plain(value)) {
        Some((name, value)) => Err(HostError(format!(
            "`{name}` in `seed` must be a whole number, true, false or a text, not {value}"
        ))),
        None => unavailable(),
    }
}

/// Fills the store in `template` as `madang seed` does.
pub fn seed(_template: &Path, _counts: &toml::Table) -> Result<(), HostError> {
    unavailable()
}

/// Until `madang seed` exists, an experiment that needs it is refused before its first round.
fn unavailable() -> Result<(), HostError> {
    Err(HostError("`seed` is not supported yet: this program has no `madang seed`".to_owned()))
}
