//! Kills what a supervisor left behind that was itself killed with `kill -9`.
//!
//! Its descendants are then children of init, or of another subreaper, and nothing in `/proc` says
//! whose they were, except two things they inherited: the process group and an environment
//! variable. A process may leave the one (`setsid`) and overwrite the other (a program that shows
//! its state in `ps` writes over its environment, as nginx and PostgreSQL do). nginx's workers stay
//! in the group, so they are found; what did both is not.

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::procfs;
use crate::spawner::TREE_VARIABLE;

/// How long the search may take. Only a process stuck in the kernel needs longer.
const SWEEP_TIME: Duration = Duration::from_secs(20);

/// Waits for the supervisor and kills its tree if it could not do that itself.
pub(crate) fn after(mut supervisor: Child, tree: &str) {
    let pid = i32::try_from(supervisor.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        kill_group_of_killed(pid);
    }
    if !supervisor.wait().is_ok_and(|status| status.success()) {
        kill_by_environment(tree);
    }
}

/// The supervisor is the leader of its group. Until it has been waited for, no other process or
/// group can be given its number, so this cannot hit a stranger: hence before `wait`.
fn kill_group_of_killed(pid: Pid) {
    let ended = loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            ended => break ended,
        }
    };
    if ended.is_ok_and(|status| status.is_some_and(|status| status.exit_status() != Some(0))) {
        // An error means that nobody is left in it.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn kill_by_environment(tree: &str) {
    let deadline = Instant::now() + SWEEP_TIME;
    while Instant::now() < deadline {
        let left = procfs::with_environment(TREE_VARIABLE, tree).unwrap_or_default();
        if left.is_empty() {
            return;
        }
        for pid in left {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            // An error means that it has ended meanwhile, or is not ours to kill.
            pid.map(|pid| kill_process(pid, Signal::KILL));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
