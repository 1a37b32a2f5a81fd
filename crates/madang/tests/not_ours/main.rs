//! `madang compare` on servers that are not Madang's: Debian's nginx and a server in Python.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod examples;
mod saturated;
mod troubles;
mod workflow;

use madang_testing::Finish as _;
use std::fs;
use std::os::unix;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

const MADANG: &str = env!("CARGO_BIN_EXE_madang");
/// What other tests and people do to this machine must not fail a test.
const ACCEPT: &str = "accept = [\"steal\", \"foreign_cpu\"]";

/// Every run has its generator on the same CPU. Beside one that computes, another would be late, and
/// its rounds rightly refused.
static ALONE: Mutex<()> = Mutex::new(());

/// The directory of the experiments that people run.
fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").canonicalize().unwrap()
}

/// An experiment in a directory of its own.
struct Lab(tempfile::TempDir);

impl Lab {
    fn new(experiment: &str, script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("experiment.toml"), experiment).unwrap();
        fs::write(dir.path().join("script.js"), script).unwrap();
        Self(dir)
    }

    /// One that people run, with a word of its file replaced by another. It stands beside the same
    /// neighbours.
    fn of(name: &str, replace: &[(&str, &str)]) -> Self {
        let lab = Self(tempfile::tempdir().unwrap());
        let (from, to) = (experiments().join(name), lab.dir().join(name));
        fs::create_dir(&to).unwrap();
        for entry in from.read_dir().unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
        let schema = "experiment.schema.json";
        unix::fs::symlink(experiments().join(schema), lab.dir().join(schema)).unwrap();
        let file = to.join("experiment.toml");
        let text = replace.iter().fold(fs::read_to_string(&file).unwrap(), |text, (from, to)| {
            assert!(text.contains(from), "no {from:?} in {name}");
            text.replace(from, to)
        });
        fs::write(&file, text).unwrap();
        lab
    }

    fn dir(&self) -> &Path {
        self.0.path()
    }

    /// Runs it and gives its exit code and report.
    fn run(&self, place: &str, flags: &[&str]) -> Ran {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = Command::new(MADANG);
        command.arg("compare").arg(self.dir().join(place)).arg("--json").args(flags);
        let output = command.arg("--out").arg(self.dir().join("out")).finish();
        let report = serde_json::from_slice(&output.stdout);
        let Output { status, stderr, .. } = output;
        let said = String::from_utf8_lossy(&stderr).into_owned();
        Ran {
            code: status.code(),
            report: report.unwrap_or_else(|error| panic!("{error}: {said}")),
        }
    }
}

/// What came of a run.
struct Ran {
    code: Option<i32>,
    report: Value,
}

impl Ran {
    /// All that was measured, round by round.
    fn rounds(&self) -> impl Iterator<Item = &Value> {
        let rounds = self.report["rounds"].as_array().unwrap().iter();
        rounds.map(|round| &round["measured"]).filter(|measured| !measured.is_null())
    }

    /// Whether a warning has these words.
    fn warns(&self, words: &str) -> bool {
        let warnings = self.report["warnings"].as_array().unwrap().iter();
        warnings.filter_map(Value::as_str).any(|warning| warning.contains(words))
    }
}
