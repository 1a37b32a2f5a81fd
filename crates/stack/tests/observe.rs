//! Resource use of a tree, observed from outside.

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use madang_stack::{Process, Sample, Spec};

use crate::help::{DEADLINE, sh, supervisor};

fn sample_until(process: &Process, enough: impl Fn(&Sample) -> bool) -> Sample {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let sample = process.sample().unwrap();
        if enough(&sample) {
            return sample;
        }
        assert!(Instant::now() < deadline, "{sample:?}");
    }
}

#[test]
fn cpu_of_children_counts_while_they_run() {
    let process = supervisor().spawn(&sh("sh -c 'while :; do :; done' & wait")).unwrap();
    let sample = sample_until(&process, |sample| sample.cpu >= Duration::from_millis(60));
    assert_eq!(sample.processes, 2, "{sample:?}");
    assert_eq!(sample.threads, 2, "{sample:?}");
    assert!(sample.open_files >= 6, "three standard streams each: {sample:?}");
    assert!(sample.rss_bytes > 1 << 18 && sample.peak_rss_bytes > 1 << 18, "{sample:?}");
    assert!(sample.involuntary_switches + sample.voluntary_switches > 0, "{sample:?}");
}

/// Shell code that takes some ticks of CPU time.
const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
/// Shell code that takes less than a tick.
const BRIEFLY: &str = "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done";

/// Runs a script whose `$BURN` takes a shell at least some ticks of CPU time.
fn cpu_after(script: &str) -> Duration {
    let process = supervisor().spawn(&sh(script).env("BURN", BURN)).unwrap();
    process.ready_line("ready", DEADLINE).unwrap();
    sample_until(&process, |sample| sample.processes == 1);
    // The previous sample may have missed the process that ended.
    process.sample().unwrap().cpu
}

#[test]
fn cpu_of_children_that_ended_still_counts() {
    assert!(cpu_after("sh -c \"$BURN\"; echo ready; exec sleep 600") > Duration::ZERO);
}

#[test]
fn cpu_of_daemons_that_ended_still_counts() {
    let script = "sh -c 'setsid sh -c \"$BURN; echo ready\" &'; exec sleep 600";
    assert!(cpu_after(script) > Duration::ZERO);
}

#[test]
fn a_tree_that_has_ended_is_not_found() {
    let process = supervisor().spawn(&sh("exit")).unwrap();
    process.wait(DEADLINE).unwrap();
    assert_eq!(process.sample().unwrap_err().kind(), ErrorKind::NotFound);
}

/// CPU time of a single-threaded process, from the scheduler.
fn scheduled(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Each process uses a few milliseconds, which ticks of 10 ms cannot resolve.
#[test]
fn little_cpu_of_many_processes_is_counted_to_the_last_millisecond() {
    let script = "i=0; while [ $i -lt 16 ]; do sh -c \"$BURN; echo \\$\\$; exec sleep 600\" & i=$((i+1)); done; \
                  wait";
    let process = supervisor().spawn(&sh(script).env("BURN", BRIEFLY)).unwrap();
    let deadline = Instant::now() + DEADLINE;
    while process.stdout_lines().len() < 16 {
        assert!(Instant::now() < deadline, "{:?}", process.stdout_lines());
    }
    let mut pids: Vec<u32> =
        process.stdout_lines().iter().map(|line| line.parse().unwrap()).collect();
    pids.push(process.pid());
    let is_asleep = |pid: &u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        name.trim() == "sleep" || *pid == process.pid()
    };
    let all = || pids.iter().copied().map(scheduled).sum::<Duration>();
    // `exec` costs some, too: until no process uses any more.
    loop {
        let before = all();
        let seen = process.sample().unwrap().cpu;
        let after = all();
        if before == after && pids.iter().all(is_asleep) {
            assert!(
                seen.abs_diff(after) < Duration::from_millis(1),
                "{seen:?}, in truth {after:?}"
            );
            return;
        }
        assert!(Instant::now() < deadline, "{before:?}, {after:?}");
    }
}

fn kill(pid: &str) {
    assert!(std::process::Command::new("kill").args(["-9", pid]).status().unwrap().success());
}

#[test]
fn what_a_child_of_a_parent_that_ignores_its_end_was_seen_to_use_stays_used() {
    let script = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
                  if os.fork() == 0:\n while time.process_time() < 0.2: pass\n \
                  print('ready', os.getpid(), flush=True)\ntime.sleep(600)";
    let process = supervisor().spawn(&Spec::new("python3").args(["-c", script])).unwrap();
    let child = process.ready_line("ready", DEADLINE).unwrap();
    let mut follower = process.follow();
    let alive = follower.sample(true).unwrap();
    assert!(alive.processes == 2 && alive.cpu > Duration::from_millis(200), "{alive:?}");
    assert!(!follower.has_lost_children());
    kill(&child);
    let deadline = Instant::now() + DEADLINE;
    let (dead, is_lost) = loop {
        let sample = follower.sample(true).unwrap();
        if sample.processes == 1 {
            break (sample, follower.has_lost_children());
        }
        assert!(Instant::now() < deadline, "{sample:?}");
    };
    assert!(is_lost && dead.cpu >= alive.cpu, "{alive:?}, then {dead:?}");
    assert!(process.sample().unwrap().cpu < alive.cpu, "the kernel has forgotten it");
    follower.glance().unwrap();
    assert!(!follower.has_lost_children(), "told once");
}

#[test]
fn children_that_are_waited_for_are_not_lost() {
    let script = "i=0; while [ $i -lt 40 ]; do sh -c \"$BURN\"; i=$((i+1)); done; echo ready; \
                  exec sleep 600";
    let process = supervisor().spawn(&sh(script).env("BURN", BRIEFLY)).unwrap();
    let mut follower = process.follow();
    let (mut last, deadline) = (Duration::ZERO, Instant::now() + DEADLINE);
    while process.stdout_lines().is_empty() {
        let cpu = follower.glance().unwrap().cpu;
        assert!(cpu >= last && !follower.has_lost_children(), "{cpu:?} after {last:?}");
        assert!(Instant::now() < deadline);
        last = cpu;
    }
    // The last glance may be old: once more, now that all children have been waited for.
    let cpu = follower.glance().unwrap().cpu;
    assert!(cpu >= last && !follower.has_lost_children(), "{cpu:?} after {last:?}");
    let raw = process.sample().unwrap().cpu;
    assert!((raw / 2..=raw * 2).contains(&cpu), "{cpu:?}, the kernel says {raw:?}");
}

#[test]
fn memory_that_processes_share_counts_once() {
    // Filled before the forks, and only read afterwards.
    let script = "import os, time\nx = bytearray(b'x' * (64 << 20))\nfor _ in range(4):\n if os.fork() == 0: \
                  time.sleep(600)\nprint('ready', flush=True)\ntime.sleep(600)";
    let process = supervisor().spawn(&Spec::new("python3").args(["-c", script])).unwrap();
    process.ready_line("ready", DEADLINE).unwrap();
    let sample = sample_until(&process, |sample| sample.processes == 5);
    let pss = sample.pss_bytes.unwrap();
    let mut follower = process.follow();
    let whole = follower.sample(true).unwrap().pss_bytes.unwrap();
    assert_eq!(follower.memory_of(&[process.pid()]), whole);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", process.pid()));
    let children: Vec<u32> =
        children.unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let own = follower.memory_of(&children[..1]);
    assert!((10 << 20..whole / 3).contains(&own), "a fifth of {whole}: {own}");
    assert!(follower.memory_of(&children) >= own * 3, "{own}");
    assert!(sample.rss_bytes > 5 * (64 << 20), "{sample:?}");
    assert!((64 << 20..150 << 20).contains(&pss), "{sample:?}");
}
