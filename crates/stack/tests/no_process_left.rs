//! The whole tree ends, whichever of its processes or owners dies.

use std::time::Duration;

use madang_stack::Exit;
use rustix::process::Signal;

use crate::help::{
    self, DEADLINE, FAMILY, OBEDIENT, Owner, all_live, assert_gone, family, sh, supervisor,
};

#[test]
fn an_owner_killed_with_sigkill_leaves_nobody() {
    let mut owner = Owner::start("own", FAMILY);
    assert_eq!(owner.pids.len(), 6, "shell, supervisor, shell, child, grandchild, daemon");
    assert!(all_live(&owner.pids));
    owner.kill();
    assert_gone(&owner.pids);
}

#[test]
fn an_owner_that_panics_leaves_nobody() {
    let mut owner = Owner::start("own-and-panic", FAMILY);
    assert_eq!(madang_testing::ended(&mut owner.child).code(), Some(101));
    assert_gone(&owner.pids);
}

#[test]
fn an_owner_that_aborts_leaves_nobody() {
    let mut owner = Owner::start("own-and-abort", FAMILY);
    madang_testing::ended(&mut owner.child);
    assert_gone(&owner.pids);
}

#[test]
fn what_others_hold_is_removed_whoever_ends_first() {
    let dir = tempfile::tempdir().unwrap();
    let held = dir.path().join("held");
    let is_gone = || (!held.exists()).then_some(());
    std::fs::write(&held, "").unwrap();
    let clean_up = ["rm", held.to_str().unwrap()];
    // The command itself.
    let process = supervisor().spawn(&sh("exit 3").afterwards(clean_up)).unwrap();
    assert_eq!(process.wait(DEADLINE), Some(Exit::Code(3)));
    assert_eq!(is_gone(), Some(()), "the wait is over before");
    // The owner, killed.
    std::fs::write(&held, "").unwrap();
    let mut owner =
        Owner::start_with("own", &[&["echo ready $$; exec sleep 600"][..], &clean_up].concat());
    owner.kill();
    madang_testing::until("it is removed", is_gone);
}

#[test]
fn a_terminated_supervisor_takes_the_tree_along() {
    for end in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut owner = Owner::start("own", FAMILY);
        help::signal(owner.supervisor, end);
        assert_gone(&owner.pids);
        assert_eq!(owner.next_line(), "ended Some(Signal(9))\n");
    }
}

#[test]
fn a_supervisor_killed_with_sigkill_is_replaced_by_its_owner() {
    let mut owner = Owner::start("own", FAMILY);
    help::signal(owner.supervisor, Signal::KILL);
    assert_gone(&owner.pids);
    assert_eq!(owner.next_line(), "ended Some(Unknown)\n");
}

#[test]
fn a_descendant_without_its_environment_dies_with_a_killed_supervisor() {
    // As in a program that overwrites its environment for `ps`.
    let script = r#"
        env -i sleep 600 &
        until [ "$(head -c 1 /proc/$!/environ | wc -c)" = 0 ]; do :; done
        echo ready $!
        wait
    "#;
    let mut owner = Owner::start("own", script);
    assert!(all_live(&owner.pids));
    help::signal(owner.supervisor, Signal::KILL);
    assert_gone(&owner.pids);
    assert_eq!(owner.next_line(), "ended Some(Unknown)\n");
}

#[test]
fn a_command_dies_with_its_supervisor_even_if_no_owner_acts() {
    let mut owner = Owner::start("own", "echo ready $$; exec sleep 600");
    // A stopped owner can clean up nothing.
    help::signal(owner.child.id(), Signal::STOP);
    help::signal(owner.supervisor, Signal::KILL);
    assert_gone(&owner.pids);
    owner.kill();
}

#[test]
fn a_dropped_process_is_gone_when_drop_returns() {
    let dir = tempfile::tempdir().unwrap();
    let process = supervisor().spawn(&sh(FAMILY).dir(dir.path())).unwrap();
    let mut pids = family(&process);
    pids.push(process.supervisor_pid());
    assert!(all_live(&pids));
    drop(process);
    assert!(!pids.iter().any(|pid| help::lives(*pid)));
}

#[test]
fn a_command_that_ends_does_not_leave_its_daemons() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        setsid sh -c 'trap "" TERM HUP; echo $$ > daemon; exec sleep 600' &
        until [ -s daemon ]; do :; done
        echo ready $(cat daemon)
        exit 3
    "#;
    let process = supervisor().spawn(&sh(script).dir(dir.path())).unwrap();
    let daemon: u32 = process.ready_line("ready ", DEADLINE).unwrap().parse().unwrap();
    assert_eq!(process.wait(DEADLINE), Some(Exit::Code(3)));
    assert!(!help::lives(daemon));
}

#[test]
fn stop_lets_the_command_end_by_itself_within_its_grace() {
    let process = supervisor().spawn(&sh(OBEDIENT)).unwrap();
    process.ready_line("ready", DEADLINE).unwrap();
    assert_eq!(process.stop(DEADLINE).unwrap(), Exit::Code(7));
}

#[test]
fn stop_kills_what_ignores_the_request() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("trap '' TERM; {FAMILY}");
    let process = supervisor().spawn(&sh(&script).dir(dir.path())).unwrap();
    let pids = family(&process);
    assert_eq!(process.stop(Duration::from_millis(50)).unwrap(), Exit::Signal(9));
    assert!(!pids.iter().any(|pid| help::lives(*pid)));
}

#[test]
fn a_process_outlives_the_thread_that_started_it() {
    let start = || supervisor().spawn(&sh(OBEDIENT)).unwrap();
    let process = std::thread::spawn(start).join().unwrap();
    process.ready_line("ready", DEADLINE).unwrap();
    // Had the thread's end been taken for the owner's, it would have been killed by signal 9.
    assert_eq!(process.stop(DEADLINE).unwrap(), Exit::Code(7));
}

#[test]
fn many_trees_at_once_do_not_disturb_each_other() {
    let threads: Vec<_> = (0..8)
        .map(|code| {
            std::thread::spawn(move || {
                let script = format!("echo ready; exit {code}");
                let process = supervisor().spawn(&sh(&script)).unwrap();
                assert_eq!(process.wait(DEADLINE), Some(Exit::Code(code)));
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
