//! Servers that are observed through a cgroup, like containers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use madang_testing::Watch;

use crate::help::{self, Lab, measured, two};

/// A cgroup of the test in every hierarchy that permits one.
struct Group {
    name: String,
    dirs: Vec<PathBuf>,
}

impl Group {
    fn make(name: &str) -> Self {
        let name = format!("madang-test-{}-{name}", std::process::id());
        let parents = ["", "cpuacct", "cpu,cpuacct", "memory", "pids", "unified"];
        let dirs = parents.map(|parent| PathBuf::from("/sys/fs/cgroup").join(parent).join(&name));
        let dirs = dirs.into_iter().filter(|dir| fs::create_dir(dir).is_ok());
        Self { name, dirs: dirs.filter(|dir| dir.join("cgroup.procs").is_file()).collect() }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for dir in &self.dirs {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// A server in a cgroup; ended when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// `burn_ms` of CPU time for each request.
    fn start(group: &Group, burn_ms: u32) -> Self {
        let joins =
            group.dirs.iter().map(|dir| format!("echo $$ > {}/cgroup.procs; ", dir.display()));
        let line = format!(
            "{}exec {} server --port 0 --burn_ms {burn_ms}",
            joins.collect::<String>(),
            help::FIXTURE
        );
        let mut child =
            Command::new("sh").args(["-c", &line]).stdout(Stdio::piped()).spawn().unwrap();
        let watch = Watch::over(&child);
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        drop(watch);
        let url = first.trim().strip_prefix("listening ").unwrap().to_owned();
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two running servers are loaded side by side, and each has its own cost.
#[test]
fn servers_that_run_already_are_measured_by_their_cgroups() {
    let groups = [Group::make("slow"), Group::make("fast")];
    if let Err(error) = madang_stack::Cgroup::find(&groups[0].name) {
        madang_testing::skip!(false, "no cgroups: {error}");
        return;
    }
    let servers = [Server::start(&groups[0], 8), Server::start(&groups[1], 2)];
    let variants: Vec<String> = servers
        .iter()
        .zip(&groups)
        .map(|(server, group)| format!("url = {:?}\ncgroup = {:?}", server.url, group.name))
        .collect();
    let text = two(&variants[0], &variants[1], 2, "").replace("\"rounds\"", "\"duet\"");
    let report = Lab::new("get", &text).run();
    let mut per_request = [const { Vec::<f64>::new() }; 2];
    for round in &report.rounds {
        let measured = measured(round);
        let used = measured.server.as_ref().unwrap();
        assert!(used.peak_memory_bytes.unwrap() > 100_000 && used.threads > 0, "{used:?}");
        let place = usize::from(round.variant == "fast");
        let cpu = used.cpu_seconds.unwrap() / measured.load.requests.total as f64;
        per_request[place].push(cpu);
    }
    // The cost of a request beside its burning is small; half and twice are far from both. The median, because the
    // machine may have delayed one of the rounds.
    let middle = per_request.each_mut().map(|all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
    assert!((0.004..0.016).contains(&middle[0]), "{per_request:?}");
    assert!((0.001..0.004).contains(&middle[1]), "{per_request:?}");
}

#[test]
fn a_cgroup_that_is_not_there_or_cannot_be_the_rounds_own_is_named() {
    let mistake = |slow: &str, rest: &str| {
        Lab::new("get", &two(slow, "serve = {}", 1, rest)).read().unwrap_err().to_string()
    };
    let said = mistake("serve = {}\ncgroup = \"x\"", "");
    assert!(
        said.contains("toml:16:") && said.contains("what a `serve` variant uses is known"),
        "{said}"
    );
    let said = mistake("command = [\"true\"]\ncgroup = \"x\"", "");
    assert!(said.contains("must have `{port}` in it"), "{said}");
    let hook = "[hooks]\nduring = { at = \"10ms\", signal = \"KILL\", restart = true }";
    let said = mistake("command = [\"true\"]\ncgroup = \"x/{port}\"", hook);
    assert!(said.contains("`slow` has containers or a `cgroup`"), "{said}");
    // Reported when the round starts: a container creates its own cgroup.
    let fixture = help::FIXTURE;
    let command = format!("command = [{fixture:?}, \"server\", \"--port\", \"{{port}}\"]");
    let text = two(&format!("{command}\ncgroup = \"none/{{port}}\""), "serve = {}", 1, "");
    let report = Lab::new("get", &text.replace("blocks = 1", "blocks = 1\nretries = 0")).run();
    assert!(report.to_text().contains("no cgroup `none/"), "{}", report.to_text());
}
