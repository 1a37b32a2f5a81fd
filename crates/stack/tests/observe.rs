//! What a tree uses, as seen from outside.

use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

use madang_stack::{Process, Sample};

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
    let sample = sample_until(&process, |sample| sample.cpu() >= Duration::from_millis(60));
    assert_eq!(sample.processes, 2, "{sample:?}");
    assert_eq!(sample.threads, 2, "{sample:?}");
    assert!(sample.open_files >= 6, "three standard streams each: {sample:?}");
    assert!(sample.rss_bytes > 1 << 18 && sample.peak_rss_bytes > 1 << 18, "{sample:?}");
    assert!(sample.involuntary_switches + sample.voluntary_switches > 0, "{sample:?}");
}

/// Runs a script whose `$BURN` takes a shell at least some ticks of CPU time.
fn cpu_after(script: &str) -> Duration {
    let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let process = supervisor().spawn(&sh(script).env("BURN", burn)).unwrap();
    process.ready_line("ready", DEADLINE).unwrap();
    sample_until(&process, |sample| sample.processes == 1);
    // The sample in which it disappeared may have missed it.
    process.sample().unwrap().cpu()
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
