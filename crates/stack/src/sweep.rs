//! Kills the tree of a supervisor that was itself killed with `kill -9`.
//!
//! Its descendants are then children of init or of another subreaper. Only two inherited things still
//! identify them: the process group and an environment variable. A process can leave the group
//! (`setsid`) and overwrite its environment (as nginx and PostgreSQL do to show their state in `ps`).
//! nginx's workers stay in the group, so they are found; a process that does both is not.

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use crate::procfs;
use crate::spawner::TREE_VARIABLE;

/// Time limit of the search. Only a process stuck in the kernel needs longer.
const SWEEP_TIME: Duration = Duration::from_secs(20);

/// Waits for the supervisor, and kills its tree if it could not do so itself.
pub(crate) fn after(mut supervisor: Child, tree: &str) {
    let pid = i32::try_from(supervisor.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        kill_group_of_killed(pid);
    }
    if !supervisor.wait().is_ok_and(|status| status.success()) {
        kill_by_environment(tree);
    }
}

/// The supervisor is the leader of its group. Until it is reaped, its id is not reused for a process
/// or group, so this runs before `wait`.
fn kill_group_of_killed(pid: Pid) {
    let ended = loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            ended => break ended,
        }
    };
    if ended.is_ok_and(|status| status.is_some_and(|status| status.exit_status() != Some(0))) {
        // Fails if the group is empty.
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
            // Fails if it has ended, or belongs to another user.
            pid.map(|pid| kill_process(pid, Signal::KILL));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
