//! CPU budgets: how much of the machine's CPU time a process tree may use, enforced by the kernel.
//!
//! The tree gets a cgroup of its own, with a quota for each period of 20 ms: short enough that a server without quota
//! left stalls for less than most response times. A burstable budget imitates the small instances that clouds sell:
//! credits, in CPU seconds, grow at the base rate while the tree uses less, and let it use up to the burst rate while
//! they last. No kernel does that (a cgroup's own `burst` is bounded by one quota), so a thread of the owner reads
//! the usage ten times a second and sets the quota. Over any longer time the tree uses at most base times that time
//! plus the credits it began with.
//!
//! The supervisor joins the cgroup before it starts the command, so every descendant is in it from
//! its first instruction. The owner removes the cgroup when the tree is gone. An owner killed with
//! `kill -9` leaves an empty one; the next budget on this machine removes it.
//!
//! With version 1 the cgroup is below the caller's own. In version 2 a cgroup with processes has no
//! children with controllers, so it is usually *beside* the caller's, in its parent: limits of the
//! parent and above bind the tree, those of the caller's own cgroup (a service manager's unit) do
//! not. If the parent does not delegate the CPU controller, it is made to, permanently. Cgroups
//! further up are neither used nor changed; if neither of the two works, the budget is refused.

mod cgroup;
mod credits;

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, io};

use cgroup::Group;
use credits::Credits;

/// Interval between two readings of the usage.
const TICK: Duration = Duration::from_millis(100);
/// The kernel's smallest quota is 1 ms, and a period is 20 ms.
const LEAST: f64 = 0.05;
/// More cores than any machine has; more credit than any experiment needs.
const MOST: f64 = 100_000.0;

/// Limit of the CPU time of a process tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuBudget {
    base: f64,
    burst: Option<Burst>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Burst {
    cores: f64,
    credit_seconds: f64,
}

impl CpuBudget {
    /// Cores it may always use.
    pub fn base(&self) -> f64 {
        self.base
    }

    /// Cores it may use beyond that, and for how many seconds its credit lasts.
    pub fn burst(&self) -> Option<(f64, f64)> {
        self.burst.map(|burst| (burst.cores, burst.credit_seconds))
    }

    /// A constant number of cores.
    ///
    /// # Errors
    /// When `cores` is not between 0.05 and 100,000.
    pub fn fixed(cores: f64) -> Result<Self, BudgetRangeError> {
        if (LEAST..=MOST).contains(&cores) {
            return Ok(Self { base: cores, burst: None });
        }
        Err(BudgetRangeError::Cores(cores))
    }

    /// `base` cores, and up to `burst` while credits last. The tree starts with `credit_seconds` of
    /// CPU time, which is also the maximum.
    ///
    /// # Errors
    /// When a number is out of range, or `burst` is not above `base`.
    pub fn burstable(base: f64, burst: f64, credit_seconds: f64) -> Result<Self, BudgetRangeError> {
        let fixed = Self::fixed(base)?;
        Self::fixed(burst)?;
        if burst <= base {
            return Err(BudgetRangeError::Burst { base, burst });
        }
        if !(credit_seconds > 0.0 && credit_seconds <= MOST) {
            return Err(BudgetRangeError::Credit(credit_seconds));
        }
        Ok(Self { burst: Some(Burst { cores: burst, credit_seconds }), ..fixed })
    }

    /// Checks that budgets can be enforced here, by making a cgroup with one and removing it. With
    /// version 2, the caller's cgroup or its parent may delegate the CPU controller from then on.
    ///
    /// # Errors
    /// When no cgroup with this quota can be made.
    pub fn probe(&self) -> Result<(), BudgetError> {
        let group = Group::create()?;
        group.limit(self.base)
    }
}

impl fmt::Display for CpuBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cores", self.base)?;
        match self.burst {
            None => Ok(()),
            Some(Burst { cores, credit_seconds }) => {
                write!(f, ", up to {cores} while {credit_seconds} s of credit last")
            }
        }
    }
}

/// A number out of range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum BudgetRangeError {
    #[error("a budget is a number of cores from {LEAST} to {MOST}, not {0}")]
    Cores(f64),
    #[error("`burst` must be above `base`, and {burst} is not above {base}")]
    Burst { base: f64, burst: f64 },
    #[error("`credit_seconds` must be a number of seconds above 0, at most {MOST}, not {0}")]
    Credit(f64),
}

/// Error of enforcing a budget.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages and names say it")]
pub enum BudgetError {
    #[error("this machine shows no cgroup with a CPU controller (in /proc/self/mountinfo)")]
    NoController,
    #[error(
        "the CPU controller is handed down neither by `{}` nor by its parent, and no cgroup \
         further up is touched", .path.display()
    )]
    NotHandedDown { path: PathBuf, source: io::Error },
    #[error("cannot {what} `{}`", .path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
}

/// An enforced budget; lifted when dropped.
#[derive(Debug)]
pub(crate) struct Enforced {
    group: Arc<Group>,
    /// Thread that sets the quota of a burstable budget, and the sender whose drop ends it.
    control: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Enforced {
    pub(crate) fn new(budget: &CpuBudget) -> Result<Self, BudgetError> {
        let group = Arc::new(Group::create()?);
        let Some(Burst { cores, credit_seconds }) = budget.burst else {
            group.limit(budget.base)?;
            return Ok(Self { group, control: None });
        };
        group.usage()?;
        let credits = Credits::new(budget.base, cores, credit_seconds);
        group.limit(credits.cores(TICK.as_secs_f64()))?;
        let (stop, stopped) = mpsc::channel();
        let controlled = Arc::clone(&group);
        let thread = std::thread::Builder::new().name("stack-budget".to_owned());
        let thread = thread.spawn(move || control(&controlled, credits, &stopped));
        let path = group.quota.clone();
        let thread =
            thread.map_err(|source| BudgetError::File { what: "control", path, source })?;
        Ok(Self { group, control: Some((stop, thread)) })
    }

    /// Files to which a process writes its id to join.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        self.group.entrances()
    }
}

impl Drop for Enforced {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.control.take() {
            drop(stop);
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

/// Sets the quota from the usage until stopped. If the cgroup can no longer be read or written, the
/// last quota stays: at most what the credits allowed for one tick.
fn control(group: &Group, mut credits: Credits, stopped: &mpsc::Receiver<()>) {
    let mut at = Instant::now();
    let mut used = group.usage().unwrap_or_default();
    let mut set = None;
    while stopped.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
        let Ok(now_used) = group.usage() else { return };
        let now = Instant::now();
        let spent = now_used.saturating_sub(used);
        credits.pass(now.duration_since(at).as_secs_f64(), spent.as_secs_f64());
        (at, used) = (now, now_used);
        let cores = credits.cores(TICK.as_secs_f64());
        if set != Some(cores) && group.limit(cores).is_err() {
            return;
        }
        set = Some(cores);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_budget_is_refused_in_words() {
        assert!(CpuBudget::fixed(0.5).is_ok() && CpuBudget::burstable(0.2, 1.0, 10.0).is_ok());
        for wrong in [0.0, -1.0, 0.04, f64::NAN, f64::INFINITY] {
            assert!(CpuBudget::fixed(wrong).is_err(), "{wrong}");
            assert!(CpuBudget::burstable(wrong, 1.0, 1.0).is_err(), "{wrong}");
            assert!(CpuBudget::burstable(0.2, wrong, 1.0).is_err(), "{wrong}");
        }
        assert!(matches!(
            CpuBudget::burstable(0.2, 0.2, 1.0),
            Err(BudgetRangeError::Burst { base: 0.2, burst: 0.2 })
        ));
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(CpuBudget::burstable(0.2, 1.0, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_budget_reads_as_it_was_meant() {
        let burstable = CpuBudget::burstable(0.2, 1.0, 10.0).unwrap();
        assert_eq!(burstable.to_string(), "0.2 cores, up to 1 while 10 s of credit last");
        assert_eq!(CpuBudget::fixed(0.5).unwrap().to_string(), "0.5 cores");
    }
}
