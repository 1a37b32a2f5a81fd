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

#[test]
fn cpu_of_children_that_ended_still_counts() {
    // The inner shell burns at least a tenth of a second by its own clock and ends. The daemon
    // between them is re-parented to the supervisor before it ends, so both ways are covered.
    let burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let script = format!(
        "sh -c '{burn}'; sh -c 'setsid sh -c \"{burn}; echo ready\" &'; sleep 600",
        burn = burn.replace('$', "\\$")
    );
    let script = script.replacen("\\$", "$", 3);
    let process = supervisor().spawn(&sh(&script)).unwrap();
    process.ready_line("ready", DEADLINE).unwrap();
    let sample = sample_until(&process, |sample| sample.processes == 2);
    assert!(sample.cpu() >= Duration::from_millis(50), "{sample:?}");
}

#[test]
fn a_tree_that_has_ended_is_not_found() {
    let process = supervisor().spawn(&sh("exit")).unwrap();
    process.wait(DEADLINE).unwrap();
    assert_eq!(process.sample().unwrap_err().kind(), ErrorKind::NotFound);
}
