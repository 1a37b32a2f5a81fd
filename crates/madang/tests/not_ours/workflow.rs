//! The example workflow of docs/ci.md: its steps are run as GitHub would run them, on a pull request that
//! is worse and on one that is not.

use madang_testing::Finish as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::PoisonError;

use yaml_rust2::{Yaml, YamlLoader};

use crate::{ACCEPT, ALONE, MADANG, experiments};

const FILE: &str = include_str!("../../../../docs/examples/compare.yml");

/// What makes our own releases. Its scripts are looked at, but not run: they build for an hour, and publish.
const RELEASE: &str = include_str!("../../../../.github/workflows/release.yml");

/// The steps of all jobs.
fn steps_of(file: &str) -> Vec<Yaml> {
    let workflow = YamlLoader::load_from_str(file).unwrap().remove(0);
    let jobs = workflow["jobs"].as_hash().unwrap();
    jobs.values().flat_map(|job| job["steps"].as_vec().unwrap().clone()).collect()
}

/// The steps of the example.
fn steps() -> Vec<Yaml> {
    steps_of(FILE)
}

fn name(step: &Yaml) -> &str {
    step["name"].as_str().unwrap()
}

#[test]
fn every_action_has_an_exact_version_and_every_step_a_name() {
    for step in [FILE, RELEASE].into_iter().flat_map(steps_of) {
        let name = name(&step);
        let Some(action) = step["uses"].as_str() else {
            assert!(step["run"].as_str().is_some(), "{name}");
            continue;
        };
        let version = action.split_once('@').unwrap().1;
        let numbers: Vec<&str> = version.strip_prefix('v').unwrap().split('.').collect();
        let is_number = |text: &&str| text.parse::<u32>().is_ok();
        assert!(numbers.len() == 3 && numbers.iter().all(is_number), "{action}");
    }
}

#[test]
fn every_script_pleases_shellcheck() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = vec![experiments().join("nginx-gzip/nginx.sh")];
    for (place, step) in [FILE, RELEASE].into_iter().flat_map(steps_of).enumerate() {
        let Some(script) = step["run"].as_str() else { continue };
        // Expressions are put in before the shell sees the script: what somebody chose does not belong there.
        assert!(!script.contains("${{"), "{}", name(&step));
        let file = dir.path().join(format!("{place}.sh"));
        fs::write(&file, format!("#!/bin/bash\n{script}")).unwrap();
        files.push(file);
    }
    let output = Command::new("shellcheck").args(files).finish();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A runner with the two checked out: a service that costs some hashes for each answer.
struct Runner(tempfile::TempDir);

impl Runner {
    fn new(base: u32, head: u32) -> Self {
        Self::of([("base", base, "server.py"), ("head", head, "server.py")])
    }

    /// Each with its hashes and the name of its program, of which `wrong.py` answers 200 to everything, and
    /// nothing right.
    fn of(builds: [(&str, u32, &str); 2]) -> Self {
        let runner = Self(tempfile::tempdir().unwrap());
        let bench = runner.dir().join("head/bench");
        fs::create_dir_all(&bench).unwrap();
        fs::create_dir(runner.dir().join("base")).unwrap();
        fs::create_dir(runner.dir().join("bin")).unwrap();
        symlink(MADANG, runner.dir().join("bin/madang")).unwrap();
        let right = experiments().join("five-percent/server.py");
        let text = fs::read_to_string(&right).unwrap();
        let answer = "else work()";
        assert!(text.contains(answer));
        let wrong = runner.dir().join("wrong.py");
        fs::write(&wrong, text.replace(answer, "else b'no rows' * bool(work())")).unwrap();
        for (build, hashes, program) in builds {
            let program = if program == "wrong.py" { &wrong } else { &right };
            let server = format!("#!/bin/sh\nexec python3 {} \"$2\" {hashes}\n", program.display());
            let makefile =
                format!("server: source\n\tcp source server\n\tchmod +x server\n# {build}");
            let dir = runner.dir().join(build);
            fs::write(dir.join("source"), server).unwrap();
            fs::write(dir.join("Makefile"), makefile).unwrap();
        }
        runner.copy_bench(&bench);
        runner
    }

    /// The example's own files, with short rounds and without what a busy machine makes of times.
    fn copy_bench(&self, to: &Path) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/bench");
        let files = [
            (
                "compare.toml",
                vec![(
                    "[load]",
                    format!("[rounds]\nblocks = 4\nwarm_up = \"200ms\"\n{ACCEPT}\n[load]"),
                )],
            ),
            ("script.js", vec![("'10s'", "'2s'".to_owned()), ("rate: 200", "rate: 40".to_owned())]),
        ];
        for (file, changes) in files {
            let text = fs::read_to_string(from.join(file)).unwrap();
            let text = changes.iter().fold(text, |text, (old, new)| {
                assert!(text.contains(old), "no {old:?} in {file}");
                text.replacen(old, new, 1)
            });
            fs::write(to.join(file), text).unwrap();
        }
    }

    fn dir(&self) -> &Path {
        self.0.path()
    }

    fn summary(&self) -> PathBuf {
        self.dir().join("summary.md")
    }

    /// Runs a step as GitHub does: `bash -e {0}` in the workspace.
    fn step(&self, wanted: &str) -> Output {
        let steps = steps();
        let step = steps.iter().find(|step| name(step) == wanted).unwrap();
        let path =
            format!("{}:{}", self.dir().join("bin").display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-e", "-c", step["run"].as_str().unwrap()]).current_dir(self.dir());
        bash.env("PATH", path).env("GITHUB_STEP_SUMMARY", self.summary()).finish()
    }

    fn succeed(&self, step: &str) {
        let Output { status, stdout, stderr } = self.step(step);
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(status.success(), "{step}: {stdout}{stderr}");
    }

    /// All steps but those of GitHub itself; how the comparison ended.
    fn run(&self) -> Output {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        for step in ["Install madang", "Build both"] {
            self.succeed(step);
        }
        let ended = self.step("Compare");
        // What the job does in spite of a failure.
        self.succeed("Show the report");
        let server = fs::metadata(self.dir().join("head/server")).unwrap();
        assert!(server.permissions().mode() & 0o111 != 0);
        let summary = fs::read_to_string(self.summary()).unwrap();
        assert!(summary.contains("Is head worse than base?"), "{summary}");
        ended
    }
}

#[test]
fn a_pull_request_that_costs_much_more_is_held_up() {
    let ended = Runner::new(1000, 8000).run();
    assert_eq!(ended.status.code(), Some(7));
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(said.contains("WORSE: head needs ") && said.contains("the CPU per request"), "{said}");
}

#[test]
fn a_pull_request_that_costs_less_passes() {
    if !madang_testing::drill!() {
        return;
    }
    let ended = Runner::new(8000, 1000).run();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}

#[test]
fn a_pull_request_that_answers_nonsense_is_held_up_however_fast_it_is() {
    if !madang_testing::drill!() {
        return;
    }
    let runner = Runner::of([("base", 4000, "server.py"), ("head", 500, "wrong.py")]);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for step in ["Install madang", "Build both"] {
        runner.succeed(step);
    }
    assert_eq!(runner.step("Compare").status.code(), Some(8));
    // What the job does in spite of that: the report is there, and says why.
    runner.succeed("Show the report");
    let summary = fs::read_to_string(runner.summary()).unwrap();
    assert!(summary.contains("BROKEN: check `the answer is right` failed"), "{summary}");
}
