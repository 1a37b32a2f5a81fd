//! Script files: resolution of imports, and texts, read once for all virtual users.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::compiled::{Compiled, Libraries};
use super::syntax::{self, Language, Syntax};
use super::vendor::{self, Vendored};
use super::{ScriptError, jslib, modules};
use crate::http::Url;

const MAX_SOURCE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// As JavaScript, without a byte order mark.
    pub(crate) text: Arc<str>,
    pub(crate) syntax: Arc<Syntax>,
    /// The text as compiled by the first virtual user.
    pub(crate) compiled: Arc<OnceLock<Compiled>>,
}

/// The files of a run, by absolute path.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: Mutex<HashMap<PathBuf, Source>>,
    vendored: OnceLock<Result<Option<Vendored>, ScriptError>>,
    /// Built-in libraries imported by scripts.
    pub(super) libraries: Libraries,
}

impl Sources {
    /// Reads a file; returns the same to every virtual user, even if the file changes meanwhile.
    pub(crate) fn read(&self, path: &Path) -> Result<Source, ScriptError> {
        self.read_once(path, |_| Ok(()))
    }

    /// Reads a file, and checks its text before the first use.
    fn read_once(
        &self,
        path: &Path,
        check: impl FnOnce(&str) -> Result<(), ScriptError>,
    ) -> Result<Source, ScriptError> {
        let mut files = self.files.lock();
        if let Some(source) = files.get(path) {
            return Ok(source.clone());
        }
        let failed = |reason: String| {
            ScriptError::Read(format!(
                "the script file {} couldn't be read: {reason}",
                path.display()
            ))
        };
        let metadata = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if !metadata.is_file() {
            return Err(failed("it is not a file".to_owned()));
        }
        if metadata.len() > MAX_SOURCE_BYTES {
            return Err(failed(format!("it is larger than {} MiB", MAX_SOURCE_BYTES >> 20)));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        check(&text)?;
        insert(&mut files, path, &text)
    }

    /// Adds a script that is no file; relative imports start as if it were at `path`.
    pub(crate) fn add(&self, path: &Path, text: &str) -> Result<(), ScriptError> {
        let mut files = self.files.lock();
        insert(&mut files, path, text).map(drop)
    }

    /// The module at `url`, imported by `script` or one of its imports.
    pub(crate) fn read_fetched(&self, script: &Path, url: &str) -> Result<Source, ScriptError> {
        let vendored = self.vendored.get_or_init(|| Vendored::find(script)).as_ref();
        let vendored = vendored.map_err(Clone::clone)?.as_ref();
        let Some((path, digest)) = vendored.and_then(|vendored| vendored.file(url)) else {
            return Err(ScriptError::Read(format!(
                "`{url}` is not here: `madang load vendor {}` fetches what is imported by URL",
                script.display()
            )));
        };
        self.read_once(&path, |text| {
            if vendor::digest(text.as_bytes()) == digest {
                return Ok(());
            }
            Err(ScriptError::Read(format!(
                "{} is not what was fetched from {url}: its SHA-256 is another one",
                path.display()
            )))
        })
    }

    pub(crate) fn known(&self, path: &Path) -> Option<Source> {
        self.files.lock().get(path).cloned()
    }

    /// Names that the files read so far may import of a built-in module that does not export them.
    pub(crate) fn absent_members(&self, module: &str) -> BTreeSet<String> {
        let files = self.files.lock();
        files
            .values()
            .flat_map(|source| &source.syntax.uses)
            .filter(|used| used.module == module && is_identifier(&used.member))
            .filter(|used| !modules::exports(module, &used.member))
            .map(|used| used.member.clone())
            .collect()
    }

    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        self.files.lock().keys().cloned().collect()
    }

    /// Built-in modules and libraries that the files read so far import.
    pub(crate) fn built_in(&self) -> BTreeSet<String> {
        let files = self.files.lock();
        let imported = files.iter().flat_map(|(path, source)| {
            let base = module_name(path);
            source.syntax.specifiers.iter().map(move |specifier| resolve(&base, specifier))
        });
        let built_in = imported.filter_map(|import| match import {
            Ok(Import::BuiltIn(name)) => Some(name),
            _ => None,
        });
        built_in.collect()
    }

    /// Variables of `__ENV` used by the files read so far; `None` if one of them computes a name.
    pub(crate) fn variables(&self) -> Option<BTreeSet<String>> {
        let files = self.files.lock();
        let variables = files.values().map(|source| source.syntax.variables.clone());
        variables.collect::<Option<Vec<_>>>().map(|all| all.into_iter().flatten().collect())
    }
}

fn insert(
    files: &mut HashMap<PathBuf, Source>,
    path: &Path,
    text: &str,
) -> Result<Source, ScriptError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
    let name = path.display().to_string();
    let (syntax, text) = syntax::read(text, Language::from_path(path), &name)?;
    let source = Source { text: text.into(), syntax: syntax.into(), compiled: Arc::default() };
    files.insert(path.to_owned(), source.clone());
    Ok(source)
}

/// True for names that can follow a dot.
pub(super) fn is_identifier(text: &str) -> bool {
    let is_start = |c: char| c.is_alphabetic() || c == '_' || c == '$';
    text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_numeric())
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Import {
    /// A module of the engine (`k6`, `k6/…`) or a library of jslib.k6.io.
    BuiltIn(String),
    /// Absolute path.
    File(PathBuf),
    /// Address of a module that is fetched before the run.
    Url(String),
}

impl Import {
    /// The module name in the script engine and in stack traces.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::BuiltIn(name) | Self::Url(name) => name.clone(),
            Self::File(path) => module_name(path),
        }
    }
}

pub(crate) fn resolve(base: &str, specifier: &str) -> Result<Import, ScriptError> {
    let is_own = specifier == "k6" || specifier.starts_with("k6/");
    if is_own || jslib::is_built_in(specifier) {
        return Ok(Import::BuiltIn(specifier.to_owned()));
    }
    if specifier.starts_with("https://") || specifier.starts_with("http://") {
        return address(Url::parse(specifier), specifier);
    }
    let path = specifier.strip_prefix("file://").unwrap_or(specifier);
    if !path.starts_with('/') && !path.starts_with("./") && !path.starts_with("../") {
        return Err(ScriptError::Unsupported(format!(
            "importing the package `{specifier}` (files are imported as ./name.js)"
        )));
    }
    if base.starts_with("https://") || base.starts_with("http://") {
        return address(Url::parse(base).and_then(|base| base.join(specifier)), specifier);
    }
    let base = base.strip_prefix("file://").unwrap_or(base);
    let directory = Path::new(base).parent().unwrap_or(Path::new("/"));
    Ok(Import::File(normalize(&directory.join(path))))
}

fn address(
    url: Result<Url, crate::http::RequestError>,
    given: &str,
) -> Result<Import, ScriptError> {
    let wrong = |error| ScriptError::Read(format!("`{given}` cannot be imported: {error}"));
    let url = url.map_err(wrong)?;
    let text = url.text.to_string();
    Ok(if jslib::is_built_in(&text) { Import::BuiltIn(text) } else { Import::Url(text) })
}

/// The module name of a file, as it appears in stack traces.
pub(crate) fn module_name(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Removes `.` and `..` without asking the file system, so that a symbolic link keeps the name under which it was
/// imported.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_imports_start_at_the_importing_file() {
        let from = |specifier| resolve("file:///a/b/main.js", specifier).unwrap();
        assert_eq!(from("./lib.js"), Import::File("/a/b/lib.js".into()));
        assert_eq!(from("../x/./lib.js"), Import::File("/a/x/lib.js".into()));
        assert_eq!(from("/abs.js"), Import::File("/abs.js".into()));
        let utils = "https://jslib.k6.io/k6-utils/1.4.0/index.js";
        for built_in in ["k6/http", utils] {
            assert_eq!(from(built_in), Import::BuiltIn(built_in.into()));
        }
    }

    #[test]
    fn packages_are_refused_by_name() {
        let error = resolve("file:///a.js", "lodash").unwrap_err().to_string();
        assert!(error.contains("`lodash`") && error.ends_with("not supported yet"), "{error}");
    }

    #[test]
    fn relative_imports_of_fetched_modules_start_at_their_address() {
        let testing = "https://jslib.k6.io/k6-testing/0.5.0/index.js";
        let utils = "https://jslib.k6.io/k6-utils/1.4.0/index.js";
        for (base, specifier, expected) in [
            ("file:///a.js", testing, Import::Url(testing.into())),
            ("https://a.example/b/c.js", "../d.js", Import::Url("https://a.example/d.js".into())),
            ("https://a.example/b/c.js", "k6/http", Import::BuiltIn("k6/http".into())),
            (
                "https://jslib.k6.io/x/1/y.js",
                "../../k6-utils/1.4.0/index.js",
                Import::BuiltIn(utils.into()),
            ),
        ] {
            assert_eq!(resolve(base, specifier), Ok(expected), "{specifier} in {base}");
        }
        assert!(resolve("file:///a.js", "https://").is_err());
    }
}
