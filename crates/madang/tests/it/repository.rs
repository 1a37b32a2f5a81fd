//! What the repository says of itself.

use crate::harness::Madang;
use std::path::{Path, PathBuf};

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Every file below a directory, but not what was built.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.filter(|path| path.file_name().is_none_or(|name| name != "target"));
    below.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_experiment_passes_its_check() {
    let entries = std::fs::read_dir(workspace().join("experiments")).unwrap();
    let experiments: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    assert!(experiments.len() >= 9, "{experiments:?}");
    std::thread::scope(|scope| {
        for experiment in &experiments {
            scope.spawn(move || {
                for flags in [&["--check"][..], &["--check", "--quick"]] {
                    let mut command = vec!["compare", experiment.to_str().unwrap()];
                    command.extend(flags);
                    let checked = Madang::new(command).succeeds();
                    assert!(checked.stdout.contains("rounds"), "{}", checked.stdout);
                }
            });
        }
    });
}

#[test]
fn every_seed_of_the_fuzzer_belongs_to_a_target_that_its_readme_lists() {
    let seeds = std::fs::read_dir(workspace().join("fuzz/seeds")).unwrap();
    let readme = std::fs::read_to_string(workspace().join("fuzz/README.md")).unwrap();
    let code: Vec<String> = files(&workspace().join("crates"))
        .iter()
        .filter(|path| {
            path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("fuzzing"))
        })
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for dir in seeds {
        let name = dir.unwrap().file_name().into_string().unwrap();
        assert!(
            code.iter().any(|code| code.contains(&format!("(\"{name}\", "))),
            "{name} is no target"
        );
        assert!(readme.contains(&format!("`{name}`")), "{name} is not in fuzz/README.md");
    }
}
