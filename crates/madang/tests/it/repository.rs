//! What the repository says of itself.

use crate::harness::Madang;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Every file below a directory, but not what was built.
fn files(dir: &Path) -> Vec<PathBuf> {
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
fn unsafe_code_stands_where_the_architecture_says() {
    let text = std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let crates = workspace().join("crates");
    let mut found = 0;
    for path in files(&crates) {
        let name = path.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
        if !name.contains("/src/") || !name.ends_with(".rs") {
            continue;
        }
        let code = std::fs::read_to_string(&path).unwrap();
        if code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl") {
            found += 1;
            let name = name.replace("/src/", "/");
            assert!(text.contains(&format!("`{name}`")), "ARCHITECTURE.md does not name {name}");
        }
    }
    assert_eq!(found, 3, "ARCHITECTURE.md counts them");
}
