//! Whoever is killed with `kill -9` in the middle of a round: nobody else is left behind, the
//! message says who it was, no report is half, and `--resume` completes the run.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use madang_stack::Supervisor;
use madang_stack::redis::Redis;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{EXPERIMENT, Lab, MADANG, exit_code, mentioning, on_results, text_of, until};

/// A run in the middle of its first round, with a command that would go on for ever.
struct Faulty {
    lab: Lab,
    redis: Redis,
    _dir: tempfile::TempDir,
    child: Child,
}

impl Faulty {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let redis = Redis::start(&supervisor(), dir.path()).unwrap();
        // Its last argument, the directory of the round, is how it is found.
        let hook = "test -e healed || exec sleep 600";
        let lines = format!(
            "[observe]\nredis = {:?}\n[hooks]\n\
             during = {{ at = \"0s\", command = [\"sh\", \"-c\", \"echo $LAB_PID > hooked; {hook}\"] }}\n",
            redis.url()
        );
        // Long enough to be killed in, however busy the machine is.
        let text = EXPERIMENT.replace("duration = \"1s\"", "duration = \"4s\"");
        let text = text.replace("[rounds]", "[rounds]\nretries = 0") + &lines;
        let lab = Lab::new(&text);
        let mut command = lab.command(&[]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let faulty = Self { lab, redis, _dir: dir, child };
        until("no round began", || faulty.lab.0.path().join("hooked").exists());
        faulty
    }

    fn round(&self, role: &str) -> u32 {
        let is_role = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(role.as_bytes())
        };
        let round = mentioning(&self.lab.0.path().join("out/work/round"));
        round.into_iter().find(is_role).unwrap_or_else(|| panic!("nobody is `{role}`"))
    }

    /// Kills somebody and looks at what is left; the run has to end with this code.
    fn kill(mut self, victim: u32, code: Option<i32>, message: &str) {
        let hooked = descendants(self.child.id());
        assert!(hooked.len() >= 6, "server, load, command and a supervisor each: {hooked:?}");
        kill(victim);
        assert_eq!(exit_code(&mut self.child), code);
        until("processes are left", || hooked.iter().all(|pid| !lives(*pid)));
        assert!(mentioning(self.lab.0.path()).is_empty());
        let said = self.child.wait_with_output().unwrap();
        let said = text_of(&said);
        assert!(said.contains(message), "no {message:?} in: {said}");
        let out = self.lab.out();
        if code.is_some() {
            let report = json(&out);
            assert_eq!(report["ended"]["state"], "broken", "{report}");
            assert!(report["rounds"][0]["failed"].is_object(), "{report}");
            let page = fs::read_to_string(out.join("report.html")).unwrap();
            assert!(page.trim_end().ends_with("</html>"), "half a page");
        } else {
            for name in ["report.json", "report.md", "report.html"] {
                assert!(!out.join(name).exists(), "{name}");
            }
        }
        // The victim is there again, and the command ends by itself.
        self.redis.restart(&supervisor()).unwrap();
        fs::write(self.lab.0.path().join("healed"), "").unwrap();
        let resumed = on_results(&["--resume", out.to_str().unwrap()]);
        assert_eq!(resumed.status.code(), Some(0), "{}", text_of(&resumed));
        let report = json(&out);
        assert_eq!(report["ended"]["state"], "complete", "{report}");
        assert_eq!(report["complete_blocks"], 1, "{report}");
        assert!(mentioning(self.lab.0.path()).is_empty());
    }
}

fn supervisor() -> Supervisor {
    Supervisor::new(MADANG, ["supervise"])
}

fn json(out: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(out.join("report.json")).unwrap()).unwrap()
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// A zombie is gone: nothing of it runs.
fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

/// All processes under this one, by their parents.
fn descendants(root: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<(u32, u32)> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.1)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

#[test]
fn a_server_that_is_killed_breaks_its_round() {
    if !madang_testing::drill!() {
        return;
    }
    let faulty = Faulty::start();
    let victim = faulty.round("serve");
    faulty.kill(victim, Some(8), "the server ended under load (signal 9)");
}

#[test]
fn a_load_generator_that_is_killed_breaks_its_round() {
    if !madang_testing::drill!() {
        return;
    }
    let faulty = Faulty::start();
    let victim = faulty.round("load");
    faulty.kill(victim, Some(1), "the load generator failed (signal 9)");
}

#[test]
fn a_database_that_is_killed_breaks_its_round() {
    if !madang_testing::drill!() {
        return;
    }
    let faulty = Faulty::start();
    let victim = faulty.redis.pid();
    let message = format!(
        "the database redis://127.0.0.1:{}, which is observed, cannot be asked: the connection \
         was closed",
        faulty.redis.port()
    );
    faulty.kill(victim, Some(8), &message);
}

#[test]
fn a_lab_that_is_killed_leaves_a_run_that_can_be_resumed() {
    let faulty = Faulty::start();
    let victim = faulty.child.id();
    faulty.kill(victim, None, "");
}
