//! Starts the fixture, and checks that processes are gone.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use madang_stack::nginx::Certificate;
use madang_stack::{Process, Spec, Supervisor};
use madang_testing::Finish as _;

/// A generous limit for what takes milliseconds: only failures reach it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_stack-fixture");

pub(crate) fn supervisor() -> Supervisor {
    Supervisor::new(FIXTURE, ["supervise"])
}

pub(crate) fn sh(script: &str) -> Spec {
    Spec::new("sh").arg("-c").arg(script)
}

/// Handles SIGTERM with exit code 7.
pub(crate) const OBEDIENT: &str = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done";

/// Prints the ids of the shell, a child that ignores SIGTERM, that child's child, and a daemon that
/// forked twice into a session of its own. Then waits.
pub(crate) const FAMILY: &str = r#"
    sh -c 'trap "" TERM; sleep 600 & echo $$ $! > family.child; wait' &
    sh -c 'setsid sh -c "echo \$\$ > family.daemon; exec sleep 600" & exit'
    until [ -s family.child ] && [ -s family.daemon ]; do :; done
    echo ready $$ $(cat family.child) $(cat family.daemon)
    wait
"#;

/// The fixture as an owner in a process of its own.
pub(crate) struct Owner {
    pub child: Child,
    pub stdout: BufReader<ChildStdout>,
    pub supervisor: u32,
    /// The supervised command, its supervisor, and the ids that the script printed.
    pub pids: Vec<u32>,
    _dir: tempfile::TempDir,
}

impl Owner {
    pub(crate) fn start(role: &str, script: &str) -> Self {
        Self::start_with(role, &[script])
    }

    /// With a script and a clean-up command.
    pub(crate) fn start_with(role: &str, words: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(FIXTURE)
            .arg(role)
            .args(words)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let watch = madang_testing::Watch::over(&child);
        stdout.read_line(&mut line).unwrap();
        drop(watch);
        let words = line.strip_prefix("ready ").unwrap_or_else(|| panic!("it said {line:?}"));
        let pids = numbers(words);
        Self { child, stdout, supervisor: pids[1], pids, _dir: dir }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }
}

fn numbers(words: &str) -> Vec<u32> {
    words.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Waits for the ids that [`FAMILY`] prints.
pub(crate) fn family(process: &Process) -> Vec<u32> {
    numbers(&process.ready_line("ready ", DEADLINE).unwrap())
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A zombie counts as gone.
pub(crate) fn lives(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state != Some('Z')
}

pub(crate) fn all_live(pids: &[u32]) -> bool {
    pids.iter().all(|pid| lives(*pid))
}

#[track_caller]
pub(crate) fn assert_gone(pids: &[u32]) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let left: Vec<&u32> = pids.iter().filter(|pid| lives(**pid)).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "of {pids:?}, {left:?} still live");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// A self-signed certificate.
pub(crate) fn certificate(dir: &Path) -> Certificate {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=nobody"])
        .current_dir(dir)
        .finish();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Certificate { chain: dir.join("cert.pem"), key: dir.join("key.pem") }
}
