//! A killed lab leaves no process behind.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::help::{FIXTURE, Lab, two};

const DEADLINE: Duration = Duration::from_secs(20);

/// Processes with `text` in their command line.
fn with_argument(text: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
    .collect()
}

#[track_caller]
fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn kill_9_in_the_middle_of_a_round_leaves_no_process() {
    let slow = "serve = { delay_ms = 1 }";
    let lab = Lab::new("hang", &two(slow, slow, 1, ""));
    let mut child = Command::new(FIXTURE)
        .arg("compare")
        .args([lab.path(), &lab.out()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The round's directory is in the command lines of its server and its generator, and of their supervisors.
    let round = lab.out().canonicalize().unwrap_or(lab.out()).join("work/round-1");
    let round = round.to_str().unwrap().to_owned();
    until("the round never began", || with_argument(&round).len() == 4);
    child.kill().unwrap();
    child.wait().unwrap();
    until("processes are left", || with_argument(&round).is_empty());
}
