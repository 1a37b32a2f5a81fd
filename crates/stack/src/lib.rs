#![doc = include_str!("../README.md")]

mod budget;
mod cgroup;
pub mod container;
mod control;
mod cpus;
mod error;
mod follower;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod http;
pub mod machine;
pub mod mariadb;
mod mounts;
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
mod third_party;
mod tree;

pub use budget::{BudgetError, BudgetRangeError, CpuBudget};
pub use cgroup::{Cgroup, CgroupUse};
pub use cpus::{CpuList, CpuListError};
pub use error::{Error, Result, Tail};
pub use follower::Follower;
pub use output::Output;
pub use patience::Patience;
pub use port::PortReservation;
pub use process::{Exit, Process};
pub use procfs::{all_listening_ports, ignores_signal};
pub use spawner::Supervisor;
pub use spec::Spec;
pub use third_party::ThirdPartyServer;
pub use tree::{Glance, Sample, Scope};

/// CPU time, user and system, of the calling process, from its clock, which is finer than the ticks of `/proc`.
pub fn own_cpu_time() -> std::time::Duration {
    clock(rustix::time::ClockId::ProcessCPUTime)
}

/// CPU time, user and system, of the calling thread.
pub fn thread_cpu_time() -> std::time::Duration {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

fn clock(id: rustix::time::ClockId) -> std::time::Duration {
    let time = rustix::time::clock_gettime(id);
    let unsigned = |part: i64| u64::try_from(part).unwrap_or_default();
    std::time::Duration::from_secs(unsigned(time.tv_sec))
        + std::time::Duration::from_nanos(unsigned(time.tv_nsec))
}
