//! CPU budgets of busy processes. On a machine that does not permit cgroups, a budget has to be
//! refused with its reason.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use madang_stack::{CpuBudget, Error, Process, Spec};

use crate::help::{DEADLINE, assert_gone, sh, supervisor};

/// Keeps two cores busy, in a child and a grandchild.
const BURN: &str = "sh -c 'while :; do :; done' & while :; do :; done";

/// The process, or `None` where budgets are not permitted.
fn start(spec: &Spec) -> Option<Process> {
    match supervisor().spawn(spec) {
        Ok(process) => Some(process),
        Err(Error::Budget(why)) => {
            assert!(!why.to_string().is_empty());
            madang_testing::skip!(madang_testing::can_make_cgroups(), "no CPU budgets: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// CPU seconds used within `time`, and the actual length.
fn used(process: &Process, time: Duration) -> (f64, f64) {
    let (before, begun) = (process.cpu_time().unwrap(), Instant::now());
    std::thread::sleep(time);
    let used = process.cpu_time().unwrap().saturating_sub(before);
    (used.as_secs_f64(), begun.elapsed().as_secs_f64())
}

/// Directories of the process's own cgroups.
fn cgroups(process: &Process) -> Vec<PathBuf> {
    let own = std::fs::read_to_string(format!("/proc/{}/cgroup", process.pid())).unwrap();
    let name = own.lines().find_map(|line| Some(&line[line.find("stack-")?..])).unwrap();
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"];
    roots.iter().map(|root| PathBuf::from(root).join(name)).filter(|dir| dir.exists()).collect()
}

/// Number of times the kernel throttled the tree.
fn throttled(process: &Process) -> u64 {
    let stats = cgroups(process).into_iter().map(|dir| dir.join("cpu.stat"));
    let text: String = stats.filter_map(|stat| std::fs::read_to_string(stat).ok()).collect();
    let count = text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse().ok());
    count.unwrap_or_else(|| panic!("no count in {text:?}"))
}

#[test]
fn a_tree_uses_no_more_than_its_budget() {
    let budget = CpuBudget::fixed(0.1).unwrap();
    let Some(process) = start(&sh(BURN).budget(budget)) else { return };
    // An upper bound, however busy the machine is.
    let (cpu, wall) = used(&process, Duration::from_secs(2));
    assert!(cpu <= 0.1 * wall + 0.1, "{cpu} s of CPU in {wall} s");
    // The budget holds it back, not other processes.
    let begun = Instant::now();
    while throttled(&process) == 0 {
        assert!(begun.elapsed() < DEADLINE, "never throttled");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_burstable_tree_uses_its_credits_and_then_its_base() {
    let budget = CpuBudget::burstable(0.1, 1.0, 0.6).unwrap();
    let Some(process) = start(&sh(BURN).budget(budget)) else { return };
    let begun = Instant::now();
    // Waits until all credits are spent, which may take long on a busy machine.
    while process.cpu_time().unwrap() < Duration::from_millis(600) {
        assert!(begun.elapsed() < DEADLINE, "{:?}", process.cpu_time());
        std::thread::sleep(Duration::from_millis(5));
    }
    // A thread of this process ends the burst, perhaps late: then the tree owes what it overspent, and pays it back.
    let stretches = (0..5).map(|_| used(&process, Duration::from_secs(2)));
    let mut seen = Vec::new();
    let is_held = stretches
        .inspect(|stretch| seen.push(*stretch))
        .any(|(cpu, wall)| cpu <= 0.1 * wall + 0.15);
    assert!(is_held, "{seen:?}: seconds of CPU and of time, without credits");
    loop {
        let all = process.cpu_time().unwrap().as_secs_f64();
        let most = 0.6 + 0.1 * begun.elapsed().as_secs_f64() + 0.25;
        if all <= most {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{all} s of CPU, {most} allowed");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_is_left_of_a_cgroup_when_its_tree_is_gone() {
    let budget = CpuBudget::burstable(0.5, 1.0, 1.0).unwrap();
    let Some(process) = start(&sh("sleep 600 & sleep 600").budget(budget)) else { return };
    let dirs = cgroups(&process);
    assert!(!dirs.is_empty());
    let pids = [process.pid(), process.supervisor_pid()];
    drop(process);
    assert_gone(&pids);
    assert!(dirs.iter().all(|dir| !dir.exists()), "{dirs:?}");
}

#[test]
fn a_command_that_cannot_start_leaves_no_cgroup() {
    let budget = CpuBudget::fixed(0.5).unwrap();
    match supervisor().spawn(&Spec::new("/nothing/of/the/kind").budget(budget)) {
        Err(Error::Start { .. } | Error::Budget(_)) => {}
        other => panic!("{other:?}"),
    }
    // Cgroups of concurrent tests are not empty for long.
    let own = format!("stack-{}-", std::process::id());
    let is_left = |dir: &PathBuf| {
        let name = dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own));
        name && std::fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty())
    };
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"];
    let begun = Instant::now();
    loop {
        let dirs = roots.iter().filter_map(|root| std::fs::read_dir(root).ok()).flatten().flatten();
        let left: Vec<PathBuf> = dirs.map(|entry| entry.path()).filter(is_left).collect();
        if left.is_empty() {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{left:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_killed_owner_left_is_removed_by_the_next_budget() {
    let budget = CpuBudget::fixed(0.5).unwrap();
    let Some(process) = start(&sh("sleep 600").budget(budget)) else { return };
    let dirs = cgroups(&process);
    drop(process);
    // Beyond the largest process id Linux gives.
    let orphans: Vec<PathBuf> =
        dirs.iter().map(|dir| dir.with_file_name("stack-4194305-7")).collect();
    for orphan in &orphans {
        std::fs::create_dir(orphan).unwrap();
    }
    budget.probe().unwrap();
    assert!(orphans.iter().all(|dir| !dir.exists()), "{orphans:?}");
}
