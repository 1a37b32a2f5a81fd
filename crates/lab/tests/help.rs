//! Writes experiments into temporary directories and runs them.

use std::fs;
use std::path::{Path, PathBuf};

use madang_lab::experiment::FileError;
use madang_lab::progress::{Progress, Silent};
use madang_lab::{
    Cancel, Experiment, Finished, Options, Plan, Report, RoundRecord, RunError, Stored,
};

use serde_json::Value;

use crate::host::TestHost;

pub const FIXTURE: &str = env!("CARGO_BIN_EXE_lab-fixture");

/// An experiment in a directory of its own.
pub struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    /// `script` is a word of the fixture's load generator.
    pub fn new(script: &str, experiment: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("script.js"), script).unwrap();
        fs::write(dir.path().join("experiment.toml"), experiment).unwrap();
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    pub fn read(&self) -> Result<Experiment, FileError> {
        Experiment::read(self.path())
    }

    pub fn run(&self) -> Report {
        self.run_with(&Options::default())
    }

    pub fn run_with(&self, options: &Options) -> Report {
        self.try_run(options, &Cancel::default()).unwrap()
    }

    pub fn try_run(&self, options: &Options, cancel: &Cancel) -> Result<Report, RunError> {
        let finished = self.attempt(options, cancel, &mut Silent)?;
        finished.written?;
        Ok(finished.report)
    }

    pub fn try_run_with(
        &self,
        cancel: &Cancel,
        progress: &mut dyn Progress,
    ) -> Result<Finished, RunError> {
        self.attempt(&Options::default(), cancel, progress)
    }

    fn attempt(
        &self,
        options: &Options,
        cancel: &Cancel,
        progress: &mut dyn Progress,
    ) -> Result<Finished, RunError> {
        self.run_experiment(&self.read().unwrap(), options, cancel, progress)
    }

    pub fn run_experiment(
        &self,
        experiment: &Experiment,
        options: &Options,
        cancel: &Cancel,
        progress: &mut dyn Progress,
    ) -> Result<Finished, RunError> {
        let plan = Plan::new(experiment, options).unwrap();
        let host = TestHost::new(Path::new(FIXTURE));
        madang_lab::run(experiment, &plan, &host, &self.out(), cancel, progress)
    }

    /// `report.json` as parsed JSON.
    pub fn json(&self) -> Value {
        let text = fs::read_to_string(self.out().join("report.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// Two variants of the fixture's server under 300 ms of load each. Tests run in parallel: disturbances are accepted.
pub fn two(slow: &str, fast: &str, blocks: u32, rest: &str) -> String {
    format!(
        r#"design = "rounds"
name = "test"
question = "Which is faster?"
reference = "slow"
prediction = {{ metric = "http_req_duration.p50", variant = "fast", ratio_at_most = 0.5 }}
[load]
script = "script.js"
vus = 2
duration = "300ms"
[rounds]
blocks = {blocks}
warm_up = "50ms"
accept = ["steal", "foreign_cpu"]
[variants.slow]
{slow}
[variants.fast]
{fast}
{rest}
"#
    )
}

/// A stored run of so many blocks, made of one round: `change` edits each copy by block and variant.
pub fn stored(lab: &Lab, blocks: u32, change: impl Fn(u32, &str, &mut Value)) -> Stored {
    let dir = tempfile::tempdir().unwrap();
    let run = fs::read_to_string(lab.out().join("run.json")).unwrap();
    let run =
        run.replace("\\n[rounds]\\nblocks = 1\\n", &format!("\\n[rounds]\\nblocks = {blocks}\\n"));
    let run = run.replace("\"blocks\": 1", &format!("\"blocks\": {blocks}"));
    fs::write(dir.path().join("run.json"), run).unwrap();
    let journal = fs::read_to_string(lab.out().join("rounds.jsonl")).unwrap();
    let first: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    let mut text = String::new();
    for block in 1..=blocks {
        for variant in ["slow", "fast"] {
            let mut round = first.clone();
            round["block"] = block.into();
            round["variant"] = variant.into();
            // Other tests may have disturbed it.
            round.as_object_mut().unwrap().remove("refused");
            round["measured"]["warnings"] = Value::Array(Vec::new());
            change(block, variant, &mut round["measured"]);
            text += &format!("{round}\n");
        }
    }
    fs::write(dir.path().join("rounds.jsonl"), text).unwrap();
    Stored::read(dir.path()).unwrap()
}

/// A `command` variant: the fixture's server on fresh data.
pub fn command() -> String {
    format!(
        "command = [{FIXTURE:?}, \"server\", \"--port\", \"{{port}}\", \"--dir\", \"{{dir}}\"]\n{READY}"
    )
}

/// A `command` variant: a shell script that gets the port as `$0`.
pub fn shell(script: &str) -> String {
    format!("command = [\"sh\", \"-c\", {script:?}, \"{{port}}\"]\n{READY}")
}

const READY: &str = "ready = \"http://127.0.0.1:{port}/health\"";

pub fn measured(round: &RoundRecord) -> &madang_lab::Measured {
    round.measured().unwrap_or_else(|| panic!("{:?}", round.failure()))
}
