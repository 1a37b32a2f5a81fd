//! Script files: where an import leads, and their text, read once for all virtual users.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{ScriptError, jslib, scan};

/// Largest script file.
const MAX_SOURCE_BYTES: u64 = 64 * 1024 * 1024;

/// Names of files that k6 strips of their types.
const TYPESCRIPT: &[&str] = &["ts", "mts", "cts"];

/// The files of a run, by absolute path.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: Mutex<HashMap<PathBuf, Arc<str>>>,
}

impl Sources {
    /// The text of a file; the same for every virtual user, even if the file changes meanwhile.
    ///
    /// # Errors
    /// When it cannot be read, is not UTF-8, or is not JavaScript.
    pub(crate) fn read(&self, path: &Path) -> Result<Arc<str>, ScriptError> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = files.get(path) {
            return Ok(text.clone());
        }
        if let Some(extension) = path.extension().and_then(|extension| extension.to_str())
            && TYPESCRIPT.contains(&extension)
        {
            let what = format!("TypeScript (`{}`)", path.display());
            return Err(ScriptError::Unsupported(what));
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
        let text: Arc<str> = text.trim_start_matches('\u{feff}').into();
        files.insert(path.to_owned(), text.clone());
        Ok(text)
    }

    /// Paths of the files read so far.
    pub(crate) fn paths(&self) -> BTreeSet<PathBuf> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Variables of `__ENV` that the files read so far use; `None` if one of them computes a name.
    pub(crate) fn variables(&self) -> Option<BTreeSet<String>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let variables = files.values().map(|text| scan::variables(text));
        variables.collect::<Option<Vec<_>>>().map(|all| all.into_iter().flatten().collect())
    }
}

/// What an import specifier means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Import {
    /// A module of the engine: `k6`, `k6/…`, or a library of jslib.k6.io.
    BuiltIn(String),
    /// A file, by absolute path.
    File(PathBuf),
}

/// Resolves an import of `specifier` in the module `base`.
///
/// # Errors
/// `Unsupported` for remote modules and bare names.
pub(crate) fn resolve(base: &str, specifier: &str) -> Result<Import, ScriptError> {
    if specifier == "k6" || specifier.starts_with("k6/") {
        return Ok(Import::BuiltIn(specifier.to_owned()));
    }
    if jslib::is_built_in(specifier) {
        return Ok(Import::BuiltIn(specifier.to_owned()));
    }
    if specifier.starts_with("https://") || specifier.starts_with("http://") {
        return Err(ScriptError::Unsupported(format!("importing from a URL (`{specifier}`)")));
    }
    let path = specifier.strip_prefix("file://").unwrap_or(specifier);
    if !path.starts_with('/') && !path.starts_with("./") && !path.starts_with("../") {
        return Err(ScriptError::Unsupported(format!(
            "importing the package `{specifier}` (files are imported as ./name.js)"
        )));
    }
    let base = base.strip_prefix("file://").unwrap_or(base);
    let directory = Path::new(base).parent().unwrap_or(Path::new("/"));
    Ok(Import::File(normalize(&directory.join(path))))
}

/// The module name of a file, as it appears in stack traces.
pub(crate) fn module_name(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Removes `.` and `..` without asking the file system, so that a symbolic link keeps the name
/// under which it was imported.
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
    fn remote_modules_and_packages_are_refused_by_name() {
        for specifier in ["https://jslib.k6.io/k6chaijs/4.3.4.3/index.js", "lodash"] {
            let error = resolve("file:///a.js", specifier).unwrap_err();
            assert!(error.to_string().contains(specifier));
            assert!(error.to_string().ends_with("not supported yet"));
        }
    }
}
