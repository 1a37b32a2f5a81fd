//! CPU time and memory of an existing cgroup, such as a container's, in version 2 or version 1 of the kernel's
//! interface (Documentation/admin-guide/cgroup-v2.rst; cgroup-v1/cpuacct.rst, cgroup-v1/memory.rst).

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use crate::mounts::Mount;

/// An existing cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    cpu: Counter,
    memory: PathBuf,
    /// File and key of the count of inactive file pages, which the kernel would drop first.
    reclaimable: (PathBuf, &'static str),
    threads: Option<PathBuf>,
}

/// File with the CPU time.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Counter {
    /// `usage_usec` of `cpu.stat`.
    Two(PathBuf),
    /// Nanoseconds in `cpuacct.usage`.
    One(PathBuf),
}

/// Resources used by a cgroup's processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupUse {
    /// CPU time, user and system, of all processes that are or were in it.
    pub cpu: Duration,
    /// Memory in bytes without inactive file pages, as container tools count it.
    pub memory_bytes: u64,
    /// Threads; 0 where the kernel does not count them.
    pub threads: u64,
}

impl std::iter::Sum for CgroupUse {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            cpu: sum.cpu + one.cpu,
            memory_bytes: sum.memory_bytes + one.memory_bytes,
            threads: sum.threads + one.threads,
        })
    }
}

impl Cgroup {
    /// The cgroup at `path`, as in `/proc/PID/cgroup` or below `/sys/fs/cgroup`.
    ///
    /// # Errors
    /// When no cgroup there has counters of CPU time and memory.
    pub fn find(path: &str) -> io::Result<Self> {
        Self::find_in(&fs::read_to_string("/proc/self/mountinfo")?, path)
    }

    /// The cgroup of a process; for the first process of a container, that of the container.
    ///
    /// # Errors
    /// When this machine has no such process, or as for [`find`](Self::find).
    pub fn of_process(pid: u32) -> io::Result<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        Self::find(member_of(&groups).unwrap_or("/"))
    }

    fn find_in(mounts: &str, path: &str) -> io::Result<Self> {
        let mounts: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::parse).collect();
        let place = |mount: &Mount<'_>, file: &str| {
            let below = Path::new(path).strip_prefix(&mount.point).unwrap_or(Path::new(path));
            let below = below.strip_prefix("/").unwrap_or(below);
            Some(mount.point.join(below).join(file)).filter(|place| place.is_file())
        };
        let two = |file| {
            mounts
                .iter()
                .filter(|mount| mount.kind == "cgroup2")
                .find_map(|mount| place(mount, file))
        };
        let one = |controller, file| {
            let has = |mount: &&Mount<'_>| mount.has_controller(controller);
            mounts.iter().filter(has).find_map(|mount| place(mount, file))
        };
        let missing = |what: &str| {
            let why = format!("no cgroup `{path}` with a counter of {what} is mounted");
            io::Error::new(io::ErrorKind::NotFound, why)
        };
        let cpu = one("cpuacct", "cpuacct.usage").map(Counter::One);
        let cpu = cpu.or_else(|| two("cpu.stat").map(Counter::Two));
        let memory = two("memory.current").map(|place| (place, "inactive_file "));
        let memory = memory
            .or_else(|| Some((one("memory", "memory.usage_in_bytes")?, "total_inactive_file ")));
        let (memory, key) = memory.ok_or_else(|| missing("memory"))?;
        Ok(Self {
            cpu: cpu.ok_or_else(|| missing("CPU time"))?,
            reclaimable: (memory.with_file_name("memory.stat"), key),
            memory,
            threads: two("pids.current").or_else(|| one("pids", "pids.current")),
        })
    }

    /// Reads the counters.
    ///
    /// # Errors
    /// When a counter cannot be read.
    pub fn usage(&self) -> io::Result<CgroupUse> {
        let cpu = match &self.cpu {
            Counter::Two(place) => Duration::from_micros(number(place, "usage_usec ")?),
            Counter::One(place) => Duration::from_nanos(number(place, "")?),
        };
        let (stat, key) = &self.reclaimable;
        let threads = self.threads.as_ref().and_then(|place| number(place, "").ok());
        Ok(CgroupUse {
            cpu,
            memory_bytes: number(&self.memory, "")?.saturating_sub(number(stat, key)?),
            threads: threads.unwrap_or(0),
        })
    }
}

/// Path of the cgroup in `/proc/PID/cgroup`; with version 1 that of `cpuacct`, as container tools use one path for
/// all controllers.
pub(crate) fn member_of(groups: &str) -> Option<&str> {
    let lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let one = lines.clone().find(|(controllers, _)| controllers.split(',').any(|c| c == "cpuacct"));
    one.or_else(|| lines.clone().find(|(controllers, _)| controllers.is_empty()))
        .map(|(_, path)| path)
}

/// The number of the line that starts with `key`.
fn number(file: &Path, key: &str) -> io::Result<u64> {
    let text = fs::read_to_string(file)?;
    let found = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    found.ok_or_else(|| {
        let why = format!("no {key}in `{}`", file.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories stand in for the file systems.
    fn with(files: &[(&str, &str)], kind: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let point = dir.path().display();
        let line = |controllers: &str, at: &str| {
            format!("30 29 0:26 / {point}{at} rw - {kind} {kind} rw{controllers}\n")
        };
        let mounts = match kind {
            "cgroup2" => line("", ""),
            _ => line(",cpuacct", "/cpu") + &line(",memory", "/memory") + &line(",pids", "/pids"),
        };
        (dir, mounts)
    }

    #[test]
    fn version_2_is_read_wherever_its_path_begins() {
        let (dir, mounts) = with(
            &[
                ("a.slice/b/cpu.stat", "usage_usec 1500\nuser_usec 1000\n"),
                ("a.slice/b/memory.current", "9000\n"),
                ("a.slice/b/memory.stat", "anon 1\ninactive_file 4000\n"),
                ("a.slice/b/pids.current", "7\n"),
            ],
            "cgroup2",
        );
        let expected =
            CgroupUse { cpu: Duration::from_micros(1500), memory_bytes: 5000, threads: 7 };
        let whole = dir.path().join("a.slice/b");
        for path in ["a.slice/b", "/a.slice/b", whole.to_str().unwrap()] {
            assert_eq!(
                Cgroup::find_in(&mounts, path).unwrap().usage().unwrap(),
                expected,
                "{path}"
            );
        }
        let error = Cgroup::find_in(&mounts, "a.slice/c").unwrap_err().to_string();
        assert!(error.contains("no cgroup `a.slice/c`"), "{error}");
    }

    #[test]
    fn the_path_is_that_of_the_controller_that_counts() {
        assert_eq!(member_of("0::/user.slice/x\n"), Some("/user.slice/x"));
        let one = "9:name=systemd:/\n2:cpu,cpuacct:/libpod/a\n0::/elsewhere\n";
        assert_eq!(member_of(one), Some("/libpod/a"));
        assert_eq!(member_of(""), None);
    }

    #[test]
    fn version_1_is_read_from_the_mounts_of_its_controllers() {
        let (_dir, mounts) = with(
            &[
                ("cpu/x/cpuacct.usage", "2000000\n"),
                ("memory/x/memory.usage_in_bytes", "9000\n"),
                ("memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n"),
                ("pids/x/pids.current", "3\n"),
            ],
            "cgroup",
        );
        let used = Cgroup::find_in(&mounts, "/x").unwrap().usage().unwrap();
        let expected = CgroupUse { cpu: Duration::from_millis(2), memory_bytes: 8000, threads: 3 };
        assert_eq!(used, expected);
    }
}
