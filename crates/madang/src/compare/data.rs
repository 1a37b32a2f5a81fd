//! `[data]` of an experiment: the data at the start of every round.

use madang_lab::host::HostError;
use std::path::{Path, PathBuf};

/// The `[data]` table of this host.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Data {
    pub samples: bool,
    /// GPX and GeoJSON files, relative to the experiment.
    pub tracks: Vec<PathBuf>,
    /// Arguments of `madang seed`.
    pub seed: Option<Vec<String>>,
}

impl Data {
    /// Reads and checks the table; `dir` is the experiment's directory.
    pub(crate) fn read(table: &toml::Table, dir: &Path) -> Result<Self, HostError> {
        let mut data = Self::default();
        for (key, value) in table {
            match (key.as_str(), value) {
                ("samples", toml::Value::Boolean(samples)) => data.samples = *samples,
                ("tracks", toml::Value::Array(files)) => {
                    data.tracks =
                        files.iter().map(|file| track(file, dir)).collect::<Result<_, _>>()?;
                }
                ("seed", toml::Value::Table(counts)) => {
                    let flags = crate::seed::flags(counts);
                    data.seed = Some(flags.map_err(|why| error(format!("`seed`: {why}")))?);
                }
                ("samples", _) => return Err(error("`samples` must be true or false")),
                ("tracks", _) => return Err(error("`tracks` must be a list of files")),
                ("seed", _) => {
                    return Err(error("`seed` must be a table such as { users = 200 }"));
                }
                _ => {
                    let accepted = "accepted are `samples`, `tracks`, `seed`";
                    return Err(error(format!("unknown key `{key}`: {accepted}")));
                }
            }
        }
        Ok(data)
    }

    /// Files named in the table, existing or not. The samples are part of this program, and `seed` reads no files.
    pub(crate) fn files(table: &toml::Table, dir: &Path) -> Vec<PathBuf> {
        let tracks = table.get("tracks").and_then(toml::Value::as_array);
        let names = tracks.into_iter().flatten().filter_map(toml::Value::as_str);
        names.map(|name| dir.join(name)).collect()
    }
}

fn track(file: &toml::Value, dir: &Path) -> Result<PathBuf, HostError> {
    let path = file.as_str().map(|name| dir.join(name));
    let path =
        path.ok_or_else(|| error(format!("`tracks` must be a list of files, not {file}")))?;
    let missing = || error(format!("`tracks`: no file `{}`", path.display()));
    if path.is_file() { Ok(path) } else { Err(missing()) }
}

pub(super) fn error(text: impl Into<String>) -> HostError {
    HostError(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_table_are_named_also_when_they_are_gone() {
        let table = "samples = true\ntracks = [\"a.gpx\", \"/b/c.json\"]\nseed = { users = 2 }";
        let files = Data::files(&table.parse().unwrap(), Path::new("/dir"));
        assert_eq!(files, [Path::new("/dir/a.gpx"), Path::new("/b/c.json")]);
    }
}
