//! An experiment from the command line: two servers and a script.

use super::CheckError;
use madang_lab::Experiment;
use madang_lab::experiment::COMMAND_LINE;
use madang_stack::container::{CONTAINER_FILES, Engine};
use std::path::{Path, PathBuf};

/// Characters that need a shell.
const SHELL: &str = "|&;<>()$`\\\"'*?[]#~!\n";

#[derive(clap::Args, Debug)]
pub(crate) struct Bare {
    /// k6 script, for a comparison without a file; reads the server's address from BASE_URL
    #[arg(long, value_name = "FILE", conflicts_with = "path")]
    pub script: Option<PathBuf>,
    /// Command of the reference server, with --script; `{port}` is replaced by a free port, `{dir}` by
    /// an empty directory. Or a directory with a compose file or a Dockerfile
    #[arg(long, value_name = "COMMAND|DIR", requires = "script", conflicts_with_all = ["base_url", "base_image"])]
    base: Option<String>,
    /// Command of the server to be judged, or its directory, with --script
    #[arg(long, value_name = "COMMAND|DIR", requires = "script", conflicts_with_all = ["head_url", "head_image"])]
    head: Option<String>,
    /// Container image of the reference server, instead of --base; reached at the port that it exposes
    #[arg(long, value_name = "IMAGE", requires = "script", conflicts_with = "base_url")]
    base_image: Option<String>,
    /// Container image of the server to be judged, instead of --head
    #[arg(long, value_name = "IMAGE", requires = "script", conflicts_with = "head_url")]
    head_image: Option<String>,
    /// Load generator for --script: `k6`, or the command of a program that follows experiments/REFERENCE.md
    #[arg(long, value_name = "COMMAND", requires = "script")]
    generator: Option<String>,
    /// Address of a running reference server, instead of --base
    #[arg(long, value_name = "URL", requires = "script")]
    base_url: Option<String>,
    /// Address of a running server to be judged, instead of --head
    #[arg(long, value_name = "URL", requires = "script")]
    head_url: Option<String>,
}

impl Bare {
    /// The experiment; `None` without a script.
    pub(crate) fn experiment(&self) -> anyhow::Result<Option<Experiment>> {
        let Some(script) = &self.script else { return Ok(None) };
        if !script.is_file() {
            return Err(wrong(format!("--script names `{}`, which is no file", script.display())));
        }
        let mut variants = toml::Table::new();
        let sides = [
            ("base", &self.base, &self.base_image, &self.base_url),
            ("head", &self.head, &self.head_image, &self.head_url),
        ];
        for (name, command, image, url) in sides {
            let command = command.as_ref().map(|command| started(name, command)).transpose()?;
            let image = image.as_ref().map(|image| ("image", image.clone().into()));
            let url = url.as_ref().map(|url| ("url", url.clone().into()));
            let Some((key, value)) = command.or(image).or(url) else {
                let why = format!(
                    "--{name} is missing: the command of the server, such as --{name} './server --port \
                     {{port}}', its directory with a Dockerfile, --{name}-image or --{name}-url"
                );
                return Err(wrong(why));
            };
            variants.insert(name.to_owned(), table([(key, value)]).into());
        }
        // Explicit, because the order of tables is not guaranteed.
        let rest = table([("reference", "base".into())]);
        let load =
            table(self.generator.as_ref().map(|command| ("generator", words(command).into())));
        script_experiment("compare", script, load, variants, rest).map(Some)
    }
}

/// Key and value of a server that is started by its command, or from its directory.
fn started(name: &str, command: &str) -> anyhow::Result<(&'static str, toml::Value)> {
    let dir = Path::new(command);
    if !dir.is_dir() {
        return Ok(("command", words(command).into()));
    }
    if Engine::compose_file(dir).is_some() {
        return Ok(("compose", command.into()));
    }
    if CONTAINER_FILES.iter().any(|file| dir.join(file).is_file()) {
        return Ok(("build", command.into()));
    }
    Err(wrong(format!(
        "--{name} names the directory `{command}`, which has no compose file and no Dockerfile"
    )))
}

fn wrong(why: String) -> anyhow::Error {
    CheckError { file: COMMAND_LINE.into(), problems: vec![why] }.into()
}

pub(crate) fn table<'k>(entries: impl IntoIterator<Item = (&'k str, toml::Value)>) -> toml::Table {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// An experiment from a script and variants, named after command and script. `load` and `rest` are further entries of
/// the experiment file.
pub(crate) fn script_experiment(
    command: &str,
    script: &Path,
    mut load: toml::Table,
    variants: toml::Table,
    rest: toml::Table,
) -> anyhow::Result<Experiment> {
    let path = std::path::absolute(script)?;
    let Some(path) = path.to_str() else {
        return Err(wrong("the path of the script is no UTF-8".to_owned()));
    };
    load.insert("script".to_owned(), path.into());
    let stem = script.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let name: String = stem.unwrap_or_default().chars().filter(|c| is_plain(*c)).collect();
    let mut file = rest;
    file.insert("name".to_owned(), format!("{command}-{name}").into());
    file.insert("load".to_owned(), load.into());
    file.insert("variants".to_owned(), variants.into());
    Ok(Experiment::of_command_line(&file.to_string(), &std::env::current_dir()?)?)
}

/// Splits a command into words, or wraps it in a shell if it contains shell syntax. Only without a shell is the
/// program known: a missing one is reported before the run, and a resumed run detects another build.
fn words(command: &str) -> Vec<String> {
    let first = command.split_whitespace().next().unwrap_or_default();
    if command.contains(|c| SHELL.contains(c)) || first.contains('=') {
        return ["sh", "-c", command].map(str::to_owned).to_vec();
    }
    command.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_container() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let error = started("base", path).unwrap_err().to_string();
        assert!(error.contains("no compose file and no Dockerfile"), "{error}");
        for (file, key) in [("Dockerfile", "build"), ("compose.yml", "compose")] {
            std::fs::write(dir.path().join(file), "").unwrap();
            assert_eq!(started("base", path).unwrap(), (key, path.into()));
        }
        assert_eq!(started("base", "./x {port}").unwrap().0, "command");
    }

    #[test]
    fn a_command_is_split_and_a_shell_starts_only_what_needs_one() {
        assert_eq!(words("./a  --port={port}"), ["./a", "--port={port}"]);
        for command in ["PORT={port} ./a", "cd x && ./a", "./a 'b c'", "./a $PORT"] {
            assert_eq!(words(command), ["sh", "-c", command]);
        }
    }
}
