//! Servers in real containers, as drills: podman, runc and podman-compose are not needed otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::help::{FIXTURE, Lab, two};
use crate::report_schema;

/// Settings for podman where a container may not raise its limits.
const ENGINE: &str = r#"[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
"#;

/// An experiment with images of the fixture: `slow` and `fast`, each with a Dockerfile.
struct Images {
    lab: Lab,
    /// Containers and images of all tests are in one store.
    _alone: MutexGuard<'static, ()>,
}

impl Images {
    fn new(slow: &str, fast: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let lab = Lab::new("get", &two(slow, fast, 1, ""));
        fs::write(lab.path().join("containers.conf"), ENGINE).unwrap();
        for (name, burn_ms) in [("slow", 4), ("fast", 1)] {
            let dir = lab.path().join(name);
            fill(&dir.join("root"));
            let dockerfile = format!(
                "FROM scratch\nCOPY root /\nEXPOSE 8080\nCMD [\"/fixture\", \"server\", \"--port\", \"8080\", \
                 \"--open\", \"true\", \"--burn_ms\", \"{burn_ms}\"]\n"
            );
            fs::write(dir.join("Dockerfile"), dockerfile).unwrap();
            let compose = format!(
                "services:\n  web:\n    image: {name}-test\n    build: .\n    ports: [\"127.0.0.1:${{PORT}}:8080\"]\n  \
                 idle:\n    image: {name}-test\n"
            );
            fs::write(dir.join("compose.yaml"), compose).unwrap();
        }
        Self { lab, _alone: alone }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("CONTAINERS_CONF", self.lab.path().join("containers.conf"));
        command
    }

    fn podman(&self, args: &[&str]) -> String {
        let output = self.command("podman").args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn compare(&self) -> Command {
        let mut command = self.command(FIXTURE);
        command.arg("compare").args([self.lab.path(), &self.lab.out()]);
        command
    }

    /// Runs the experiment, and returns the rounds of both variants.
    fn run(&self) -> Vec<Value> {
        let output = self.compare().output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        report_schema::assert_right(&self.lab.json());
        let journal = fs::read_to_string(self.lab.out().join("rounds.jsonl")).unwrap();
        journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Names of containers and networks that the lab made and did not remove.
    fn left(&self) -> String {
        self.podman(&["ps", "--all", "--quiet", "--filter", "name=madang-"])
            + &self.podman(&["network", "ls", "--quiet", "--filter", "name=madang-"])
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        let run = fs::read_to_string(self.lab.out().join("run.json")).unwrap_or_default();
        let run: Value = serde_json::from_str(&run).unwrap_or_default();
        let built = run["images"].as_object().into_iter().flatten();
        let built = built.filter_map(|(_, id)| id.as_str());
        let names = ["slow-test", "fast-test"].into_iter().chain(built);
        let _ = self.command("podman").args(["rmi", "--force"]).args(names).output();
    }
}

/// A file system with the fixture and its libraries.
fn fill(root: &Path) {
    fs::create_dir_all(root.join("tmp")).unwrap();
    fs::copy(FIXTURE, root.join("fixture")).unwrap();
    let output = Command::new("ldd").arg(FIXTURE).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for library in text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from) {
        let copy = root.join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(&library, copy).unwrap();
    }
}

/// CPU time per request of the variants, slow first.
#[track_caller]
fn costs(rounds: &[Value]) -> [f64; 2] {
    ["slow", "fast"].map(|name| {
        let round = rounds.iter().find(|round| round["variant"] == name).unwrap();
        let measured = &round["measured"];
        let cpu = measured["server"]["cpu_seconds"].as_f64();
        let requests = measured["load"]["requests"]["total"].as_f64();
        match (cpu, requests) {
            (Some(cpu), Some(requests)) => cpu / requests,
            _ => panic!("{round}"),
        }
    })
}

#[test]
fn images_built_from_directories_are_measured_by_their_cgroups() {
    if !madang_testing::drill!() {
        return;
    }
    let images = Images::new("build = \"slow\"", "build = \"fast\"");
    let [slow, fast] = costs(&images.run());
    assert!(fast > 0.0002 && slow > 2.0 * fast, "{slow} {fast}");
    assert_eq!(images.left(), "");
    // Resuming with another image would mix two builds.
    let run = fs::read_to_string(images.lab.out().join("run.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    assert_ne!(run["images"]["slow"], run["images"]["fast"]);
}

#[test]
fn an_image_without_a_port_of_its_own_listens_where_it_is_told() {
    if !madang_testing::drill!() {
        return;
    }
    let command = r#"command = ["/fixture", "server", "--port", "{port}", "--burn_ms", "1"]"#;
    let images = Images::new(
        "image = \"slow-test\"\nport = 8080",
        &format!("image = \"fast-test\"\n{command}"),
    );
    for name in ["slow", "fast"] {
        let dir = images.lab.path().join(name);
        images.podman(&[
            "build",
            "--quiet",
            "--tag",
            &format!("{name}-test"),
            dir.to_str().unwrap(),
        ]);
    }
    let [slow, fast] = costs(&images.run());
    assert!(fast > 0.0002 && slow > 2.0 * fast, "{slow} {fast}");
    assert_eq!(images.left(), "");
}

#[test]
fn all_containers_of_a_compose_file_are_one_server() {
    if !madang_testing::drill!() {
        return;
    }
    let images = Images::new("compose = \"slow\"", "compose = \"fast/compose.yaml\"");
    let rounds = images.run();
    let [slow, fast] = costs(&rounds);
    assert!(fast > 0.0002 && slow > 2.0 * fast, "{slow} {fast}");
    // One more container, and one more init program.
    let threads = |round: &Value| round["measured"]["server"]["threads"].as_u64().unwrap();
    assert!(rounds.iter().all(|round| threads(round) >= 4), "{rounds:?}");
    assert_eq!(images.left(), "");
}

#[test]
fn a_lab_that_is_killed_leaves_no_container() {
    if !madang_testing::drill!() {
        return;
    }
    let images = Images::new("build = \"slow\"", "build = \"fast\"");
    fs::write(images.lab.path().join("script.js"), "hang").unwrap();
    let mut lab = images.compare().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _watch = madang_testing::Watch::over(&lab);
    madang_testing::until("a container runs", || (!images.left().is_empty()).then_some(()));
    lab.kill().unwrap();
    lab.wait().unwrap();
    madang_testing::until("the container is gone", || images.left().is_empty().then_some(()));
}

#[test]
fn images_that_cannot_be_had_are_named_with_the_engine_s_words() {
    if !madang_testing::drill!() {
        return;
    }
    for (image, said) in [
        (
            "image = \"localhost/no-such-image\"",
            "`podman pull --quiet localhost/no-such-image` failed",
        ),
        ("build = \"slow\"", "exposes no TCP port: name the port it listens at with `port`"),
    ] {
        let images = Images::new(image, "build = \"fast\"");
        fs::write(images.lab.path().join("slow/Dockerfile"), "FROM scratch\nCOPY root /\n")
            .unwrap();
        let output = images.compare().output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && words.contains("variant `slow`"), "{words}");
        assert!(words.contains(said), "{words}");
        assert_eq!(images.left(), "");
    }
}

/// Keys that containers cannot have are rejected with their line.
#[test]
fn keys_that_do_not_fit_containers_are_refused() {
    let mistakes = |variant: &str, rest: &str| {
        let lab = Lab::new("get", &two(variant, "serve = {}", 1, rest));
        fs::create_dir(lab.path().join("service")).unwrap();
        fs::write(lab.path().join("service/compose.yaml"), "ports: [\"8080:8080\"]").unwrap();
        lab.read().unwrap_err().to_string()
    };
    for (variant, said) in [
        (
            "image = \"x\"\nurl = \"http://localhost:1\"",
            "exactly one of `serve`, `command`, `image`",
        ),
        ("image = \"x\"\ncgroup = \"y\"", "`cgroup` in [variants.slow] is for other servers"),
        ("image = \"x\"\nport = 0", "`port`"),
        (
            "image = \"x\"\nport = 80\nenv = { PORT = \"{port}\" }",
            "`port` in [variants.slow] is not used: with `{port}` in `command` or `env`",
        ),
        (
            "command = [\"x\", \"{port}\"]\nport = 80",
            "the server of an `image` or `build` listens at",
        ),
        ("build = \"service\"", "there is no Dockerfile in `service`"),
        ("compose = \"other\"", "there is no compose file `other`"),
        ("compose = \"service\"", "such as `ports: [\"127.0.0.1:${PORT}:8080\"]`"),
        (
            "compose = \"service\"\ncpus = 1",
            "`cpus` in [variants.slow] does not apply to `compose`",
        ),
        (
            "image = \"x\"\ncpus = { base = 0.5, burst = 1.0, credit_seconds = 1 }",
            "containers have no burstable budget",
        ),
    ] {
        let words = mistakes(variant, "");
        assert!(words.contains(said), "{variant}: {words}");
    }
    let hook = "[hooks]\nduring = { at = \"20ms\", signal = \"TERM\" }";
    let words = mistakes("image = \"x\"", hook);
    assert!(words.contains("use a `command`, such as [\"docker\", \"kill\""), "{words}");
}
