//! Sets of CPUs that a process may run on.

use std::str::FromStr;
use std::{fmt, fs, io};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPU numbers as the kernel counts them, ascending and without repeats. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// `None` without any CPU, or with one beyond the kernel's fixed-size set (1,024).
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Option<Self> {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        let largest = *cpus.last()?;
        (largest < CpuSet::MAX_CPU).then_some(Self(cpus))
    }

    /// CPUs that the calling thread may use: in a container, fewer than the machine has.
    ///
    /// # Errors
    /// When the kernel does not report them.
    pub fn allowed() -> io::Result<Self> {
        let set = sched_getaffinity(None)?;
        Self::new((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)))
            .ok_or_else(|| io::Error::other("no CPU is allowed"))
    }

    /// The CPUs grouped by core. A CPU whose siblings cannot be read, as in some sandboxes, counts as
    /// a core of its own.
    pub fn cores(&self) -> Vec<Vec<usize>> {
        self.cores_by(|cpu| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            fs::read_to_string(path).ok()
        })
    }

    fn cores_by(&self, siblings: impl Fn(usize) -> Option<String>) -> Vec<Vec<usize>> {
        let mut cores: Vec<Vec<usize>> = Vec::new();
        for cpu in &self.0 {
            if cores.iter().flatten().any(|seen| seen == cpu) {
                continue;
            }
            let mut core = siblings(*cpu).and_then(|text| ranges(&text)).unwrap_or_default();
            core.retain(|sibling| self.0.contains(sibling));
            if !core.contains(cpu) {
                core = vec![*cpu];
            }
            cores.push(core);
        }
        cores
    }

    /// The CPUs, ascending.
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// Pins the calling thread; threads and processes that it starts afterwards inherit the set.
    ///
    /// # Errors
    /// When the kernel refuses, for example because none of the CPUs is online.
    pub fn pin_this_thread(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.to_set())?)
    }

    pub(crate) fn to_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|cpu| set.set(*cpu));
        set
    }
}

/// Parses the kernel's list format, `0-1,8`.
fn ranges(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(first..=last.min(CpuSet::MAX_CPU));
    }
    Some(cpus)
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&cpus.join(","))
    }
}

/// A text that is not a list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a list of CPU numbers such as `0,2`")]
pub struct CpuListError(String);

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let refusal = || CpuListError(text.to_owned());
        let cpus: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
        Self::new(cpus.map_err(|_| refusal())?).ok_or_else(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_being_written_and_read() {
        let list: CpuList = "3,0,3".parse().unwrap();
        assert_eq!(list.as_slice(), [0, 3]);
        assert_eq!(list.to_string().parse(), Ok(list));
    }

    #[test]
    fn hardware_threads_of_one_core_are_grouped() {
        let list = |cpus: &[usize]| CpuList::new(cpus.iter().copied()).unwrap();
        let dashed = |cpu: usize| Some(format!("{}-{}\n", cpu / 2 * 2, cpu / 2 * 2 + 1));
        assert_eq!(list(&[0, 1, 2, 3]).cores_by(dashed), [[0, 1], [2, 3]]);
        let far = |cpu: usize| Some(format!("{},{}\n", cpu % 4, cpu % 4 + 4));
        assert_eq!(list(&[0, 1, 4, 5]).cores_by(far), [[0, 4], [1, 5]]);
        assert_eq!(list(&[0, 5]).cores_by(far), [[0], [5]], "their siblings are not allowed");
        assert_eq!(list(&[0, 1]).cores_by(|_| None), [[0], [1]]);
        assert_eq!(list(&[3]).cores_by(|_| Some("x-9".to_owned())), [[3]]);
        let all: Vec<usize> = CpuList::allowed().unwrap().cores().concat();
        assert_eq!(all.len(), CpuList::allowed().unwrap().as_slice().len());
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["", "a", "1,", "-1", "99999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text:?} was accepted");
        }
    }
}
