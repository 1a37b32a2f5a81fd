//! Starts, watches and stops real processes for tests, the lab and clusters.
//!
//! A program that starts servers has one duty above all: leave none behind. [`Supervisor`] starts
//! each command under a small process of its own, the *supervisor*, which is the host binary run
//! again with a hidden subcommand (see [`supervisor::main`]). The supervisor outlives whatever
//! kills the owner, and then kills every descendant of the command.
//!
//! | what dies | what happens |
//! |---|---|
//! | the command | its other descendants are killed, the owner is told its exit status |
//! | the owner (return, panic, `abort`, `kill -9`, out of memory) | the whole tree is killed, daemons included |
//! | the supervisor by SIGTERM, SIGINT or SIGHUP | the whole tree is killed |
//! | the supervisor by `kill -9` | the command itself dies with it; a living owner then finds the other descendants by the process group and an environment variable they inherited and kills them |
//!
//! What does **not** hold: when owner *and* supervisor are killed with `kill -9` at the same
//! moment, only the command itself is sure to die. The owner's search after a killed supervisor
//! misses a process that left the group (`setsid`) *and* overwrote its environment: nginx's workers
//! do only the latter and are found, PostgreSQL's backends do both and are not; those end by
//! themselves when they notice that their postmaster is gone. A command that is started set-user-id
//! loses the signal on its supervisor's death (the kernel clears it), the other rows hold for it
//! too. A process this user may not signal cannot be stopped by anybody here.
//!
//! [`CpuBudget`] limits the CPU time of a tree. Beside that: [`Process::sample`] observes a process
//! tree from `/proc`, [`Cgroup`] reads what a container used, [`machine`] the machine around it, [`http`] asks a server whether it is
//! ready; [`nginx`], [`mariadb`] and [`redis`] start Debian's servers of these names. Linux only:
//! subreapers, death signals and `/proc` have no portable equivalent.

mod budget;
mod cgroup;
pub mod container;
mod control;
mod cpus;
mod error;
mod follower;
pub mod http;
pub mod machine;
pub mod mariadb;
mod mounts;
mod neighbour;
pub mod nginx;
mod output;
mod patience;
mod port;
mod process;
mod procfs;
pub mod redis;
mod spawner;
mod spec;
pub mod supervisor;
mod sweep;
mod tree;

pub use budget::{BudgetError, CpuBudget};
pub use cgroup::{Cgroup, CgroupUse};
pub use cpus::CpuList;
pub use error::{Error, Result, Tail};
pub use follower::Follower;
pub use neighbour::Neighbour;
pub use output::Output;
pub use patience::Patience;
pub use port::PortReservation;
pub use process::{Exit, Process};
pub use procfs::all_listening_ports;
pub use spawner::Supervisor;
pub use spec::Spec;
pub use tree::{Glance, Sample, Scope};

/// CPU time, user and system, of the calling process with all its threads: by its own clock, which
/// is finer than the ticks of `/proc`.
pub fn own_cpu_time() -> std::time::Duration {
    clock(rustix::time::ClockId::ProcessCPUTime)
}

/// CPU time, user and system, of the calling thread alone.
pub fn thread_cpu_time() -> std::time::Duration {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

fn clock(id: rustix::time::ClockId) -> std::time::Duration {
    let time = rustix::time::clock_gettime(id);
    let unsigned = |part: i64| u64::try_from(part).unwrap_or_default();
    std::time::Duration::from_secs(unsigned(time.tv_sec))
        + std::time::Duration::from_nanos(unsigned(time.tv_nsec))
}
