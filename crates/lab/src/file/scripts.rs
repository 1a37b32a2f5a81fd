//! The files that a load script names: what it imports or opens.
//!
//! A name that is only put together when the script runs is not seen, and one in a comment is.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Longer files are data.
const MOST_SCRIPT_BYTES: u64 = 1 << 20;
/// More than a script imports.
const MOST_SCRIPTS: usize = 256;
/// As long as Linux takes.
const MOST_NAME_BYTES: usize = 4095;

/// The files whose names stand in a script, or in a script that it names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Scripts, without the first.
    pub scripts: BTreeSet<PathBuf>,
    /// All others.
    pub data: BTreeSet<PathBuf>,
}

/// Follows the names in a script. Those of files that are not there are passed over.
pub fn named_by(script: &Path) -> Named {
    let home = script.parent().unwrap_or(Path::new("/"));
    let itself = script.canonicalize().unwrap_or_else(|_| script.to_owned());
    let mut named = Named::default();
    let mut unread = vec![script.to_owned()];
    while let Some(path) = unread.pop() {
        let text = text_of(&path).unwrap_or_default();
        let beside = path.parent().unwrap_or(home);
        // Between any two quotes, whichever of them belong together.
        let names = text.split(['\'', '"', '`']).filter(|name| is_file_name(name));
        let paths = names.flat_map(|name| [beside.join(name), home.join(name)]);
        for path in paths.filter(|path| path.is_file()) {
            let Ok(path) = path.canonicalize() else { continue };
            let is_script = path.extension().is_some_and(|kind| kind == "js" || kind == "mjs");
            if !is_script || named.scripts.len() == MOST_SCRIPTS {
                named.data.insert(path);
            } else if path != itself && named.scripts.insert(path.clone()) {
                unread.push(path);
            }
        }
    }
    named
}

/// `None` of one that is too long, or cannot be read.
pub fn text_of(script: &Path) -> Option<String> {
    let is_short =
        fs::metadata(script).is_ok_and(|file| file.is_file() && file.len() <= MOST_SCRIPT_BYTES);
    if is_short { fs::read_to_string(script).ok() } else { None }
}

fn is_file_name(text: &str) -> bool {
    (1..=MOST_NAME_BYTES).contains(&text.len()) && !text.contains('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_followed_and_neighbours_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| fs::write(home.join(name), text).unwrap();
        fs::create_dir(home.join("lib")).unwrap();
        write(
            "load.js",
            "import { a } from './lib/a.js'; import x from './load.js'; open('u.csv')",
        );
        // Names are of the file they stand in; `open` counts from the first script.
        write("lib/a.js", "export * from \"./b.mjs\"; const users = open('u.json'); './gone.js'");
        write("lib/b.mjs", "import '../load.js'; import './a.js'");
        write("u.csv", "");
        write("u.json", "{\"server\": \"server.js\"}");
        write("server.js", "not the load's");
        let all = |names: &[&str]| names.iter().map(|name| home.join(name)).collect();
        assert_eq!(
            named_by(&home.join("load.js")),
            Named { scripts: all(&["lib/a.js", "lib/b.mjs"]), data: all(&["u.csv", "u.json"]) }
        );
    }
}
