//! Sets of CPUs that a process may run on.

use std::{fmt, io, str::FromStr};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPU numbers as the kernel counts them, ascending and without repeats. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// A list of the given CPUs. `None` when it names none, or one beyond what the kernel's
    /// fixed-size set can hold (1,024).
    #[must_use]
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Option<Self> {
        let mut cpus: Vec<usize> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        let largest = *cpus.last()?;
        (largest < CpuSet::MAX_CPU).then_some(Self(cpus))
    }

    /// The CPUs the calling thread may use: fewer than the machine has, in a container.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub fn allowed() -> io::Result<Self> {
        let set = sched_getaffinity(None)?;
        Self::new((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)))
            .ok_or_else(|| io::Error::other("no CPU is allowed"))
    }

    /// The CPUs, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// Pins the calling thread; processes it starts afterwards inherit the set.
    pub(crate) fn apply(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            set.set(*cpu);
        }
        Ok(sched_setaffinity(None, &set)?)
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, cpu) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{cpu}")?;
        }
        Ok(())
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refusal = || format!("`{text}` is not a list of CPU numbers such as `0,2`");
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
    fn what_is_no_list_is_refused() {
        for text in ["", "a", "1,", "-1", "99999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text:?} was accepted");
        }
    }
}
