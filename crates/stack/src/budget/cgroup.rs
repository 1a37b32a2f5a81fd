//! A cgroup with a CPU quota, in version 2 or version 1 of the kernel's interface
//! (Documentation/admin-guide/cgroup-v2.rst; scheduler/sched-bwc.rst and cgroup-v1/cpuacct.rst).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

use super::BudgetError;
use crate::mounts::Mount;

/// The quota's period.
const PERIOD_US: u32 = 20_000;
/// The kernel's minimum.
const LEAST_QUOTA_US: f64 = 1_000.0;
/// Prefix of our cgroups' names, followed by the owner's process id.
const PREFIX: &str = "stack-";
/// A cgroup whose last process has just ended may be busy for a moment.
const REMOVE_TIME: Duration = Duration::from_secs(2);
const REMOVE_PAUSE: Duration = Duration::from_millis(5);

/// A cgroup, removed when dropped.
#[derive(Debug)]
pub(crate) struct Group {
    version: Version,
    /// Directory with the quota.
    pub(super) quota: PathBuf,
    /// Directory with the usage, if another: version 1 may mount the two apart.
    usage: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The caller's own cgroups.
#[derive(Debug, PartialEq, Eq)]
struct CallerGroups {
    version: Version,
    quota: PathBuf,
    usage: PathBuf,
    /// Mount point of the hierarchy: nothing above it is used.
    mount: PathBuf,
}

impl Group {
    /// Makes an empty cgroup below the caller's own or, in version 2, usually beside it: see [`delegating`].
    pub(crate) fn create() -> Result<Self, BudgetError> {
        let read = |path: &str| {
            let file = |source| BudgetError::File { what: "read", path: path.into(), source };
            fs::read_to_string(path).map_err(file)
        };
        let callers =
            CallerGroups::find(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
                .ok_or(BudgetError::NoController)?;
        Self::create_in(&callers)
    }

    fn create_in(callers: &CallerGroups) -> Result<Self, BudgetError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{count}", std::process::id());
        let parent = match callers.version {
            Version::One => callers.quota.clone(),
            Version::Two => delegating(&callers.quota, &callers.mount)?,
        };
        remove_orphans(&parent);
        let quota = make(&parent, &name)?;
        let mut group = Self { version: callers.version, quota, usage: None };
        if callers.usage != callers.quota {
            remove_orphans(&callers.usage);
            group.usage = Some(make(&callers.usage, &name)?);
        }
        Ok(group)
    }

    /// Sets the quota, in cores.
    pub(crate) fn limit(&self, cores: f64) -> Result<(), BudgetError> {
        let quota = (cores * f64::from(PERIOD_US)).round().max(LEAST_QUOTA_US);
        match self.version {
            Version::Two => write(&self.quota.join("cpu.max"), &format!("{quota} {PERIOD_US}")),
            Version::One => {
                write(&self.quota.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                write(&self.quota.join("cpu.cfs_quota_us"), &quota.to_string())
            }
        }
    }

    /// CPU time of all processes that are or were in the cgroup.
    pub(crate) fn usage(&self) -> Result<Duration, BudgetError> {
        let dir = self.usage.as_ref().unwrap_or(&self.quota);
        let (name, key) = match self.version {
            Version::Two => ("cpu.stat", "usage_usec "),
            Version::One => ("cpuacct.usage", ""),
        };
        let path = dir.join(name);
        let file = |source| BudgetError::File { what: "read", path: path.clone(), source };
        let text = fs::read_to_string(&path).map_err(file)?;
        let number = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        let number: u64 = number.ok_or_else(|| file(io::ErrorKind::InvalidData.into()))?;
        Ok(match self.version {
            Version::Two => Duration::from_micros(number),
            Version::One => Duration::from_nanos(number),
        })
    }

    /// Files to which a process writes its id to join.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        self.dirs().map(|dir| dir.join("cgroup.procs")).collect()
    }

    fn dirs(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.quota).chain(&self.usage)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let deadline = Instant::now() + REMOVE_TIME;
        for dir in self.dirs() {
            while fs::remove_dir(dir).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
                && Instant::now() < deadline
            {
                std::thread::sleep(REMOVE_PAUSE);
            }
        }
    }
}

impl CallerGroups {
    /// Reads `/proc/self/mountinfo` and `/proc/self/cgroup` (proc(5), cgroups(7)). Version 1 wins if
    /// its CPU controller is mounted: version 2 does not have it then.
    fn find(mounts: &str, own: &str) -> Option<Self> {
        let v1 = |name: &str| {
            let mut mounts = mounts.lines().filter_map(Mount::parse);
            let mount = mounts.find(|mount| mount.has_controller(name))?;
            let path = own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let has = parts.next()?.split(',').any(|controller| controller == name);
                has.then(|| parts.next())?
            });
            Some((mount.own(path.unwrap_or("/")), mount.point))
        };
        if let (Some((quota, mount)), Some((usage, _))) = (v1("cpu"), v1("cpuacct")) {
            return Some(Self { version: Version::One, quota, usage, mount });
        }
        let mount =
            mounts.lines().filter_map(Mount::parse).find(|mount| mount.kind == "cgroup2")?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::"));
        let quota = mount.own(path.unwrap_or("/"));
        let usage = quota.clone();
        Some(Self { version: Version::Two, quota, usage, mount: mount.point })
    }
}

/// The parent of our cgroup in version 2: the caller's own cgroup, or the one above. It has to
/// delegate the CPU controller to its children, or accept an order to: a cgroup with processes does
/// not, unless it is the root, so it is usually the one above.
///
/// Never further up, whatever the caller's rights: each level that delegates does so to all of its
/// children, unrelated services included, and a tree made there escapes every limit below. In the
/// caller's parent it escapes only those of the caller's own cgroup (a unit's `CPUQuota=` and
/// `MemoryMax=`). Delegation is not undone: limits of others may have come to depend on it.
fn delegating(own: &Path, mount: &Path) -> Result<PathBuf, BudgetError> {
    let mut why = None;
    for dir in own.ancestors().take(2).take_while(|dir| dir.starts_with(mount)) {
        let control = dir.join("cgroup.subtree_control");
        let has_cpu = |text: String| text.split_whitespace().any(|name| name == "cpu");
        if fs::read_to_string(&control).is_ok_and(has_cpu) {
            return Ok(dir.to_owned());
        }
        match fs::write(&control, "+cpu") {
            Ok(()) => return Ok(dir.to_owned()),
            Err(error) => drop(why.get_or_insert(error)),
        }
    }
    let source = why.unwrap_or_else(|| io::ErrorKind::NotFound.into());
    Err(BudgetError::NotHandedDown { path: own.to_owned(), source })
}

/// Removes the empty cgroups of dead owners; the kernel keeps those that are not empty.
fn remove_orphans(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let owner = owner.and_then(|owner| owner.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn make(parent: &Path, name: &str) -> Result<PathBuf, BudgetError> {
    let path = parent.join(name);
    match fs::create_dir(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(BudgetError::File { what: "make the cgroup", path, source }),
    }
}

fn write(path: &Path, text: &str) -> Result<(), BudgetError> {
    let file = |source| BudgetError::File { what: "write", path: path.to_owned(), source };
    fs::write(path, text).map_err(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
30 29 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
31 29 0:27 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
32 29 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn version_1_is_found_with_its_controllers_apart_or_together() {
        let callers = CallerGroups::find(V1, "2:cpuacct:/\n1:cpu:/\n0::/").unwrap();
        assert_eq!(callers.version, Version::One);
        assert_eq!(callers.quota, Path::new("/sys/fs/cgroup/cpu/"));
        assert_ne!(callers.quota, callers.usage);
        let together = "30 29 0:26 / /nowhere rw - cgroup cgroup rw,cpu,cpuacct";
        let callers = CallerGroups::find(together, "4:cpu,cpuacct:/user").unwrap();
        // It does not exist, so the mount's top is used.
        assert_eq!((&callers.quota, &callers.usage), (&PathBuf::from("/nowhere"), &callers.mount));
    }

    #[test]
    fn version_2_is_taken_where_version_1_has_no_cpu_controller() {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().display();
        fs::create_dir_all(dir.path().join("user/session")).unwrap();
        let mounts = format!(
            "30 29 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             31 29 0:27 /outer {point} rw shared:1 - cgroup2 cgroup2 rw"
        );
        let callers = CallerGroups::find(&mounts, "5:memory:/x\n0::/outer/user/session").unwrap();
        assert_eq!(callers.version, Version::Two);
        assert_eq!(callers.quota, dir.path().join("user/session"));
        assert_eq!(CallerGroups::find("1 2 0:1 / / rw - ext4 /dev/x rw", "0::/"), None);
    }

    fn version_2(dir: &tempfile::TempDir, own: &Path) -> CallerGroups {
        let (quota, usage, mount) = (own.to_owned(), own.to_owned(), dir.path().to_owned());
        CallerGroups { version: Version::Two, quota, usage, mount }
    }

    /// A directory stands in for the file system.
    #[test]
    fn version_2_is_made_where_the_controller_is_handed_down() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("user/session");
        fs::create_dir_all(&own).unwrap();
        let callers = version_2(&dir, &own);
        // A directory cannot be written, as in a cgroup with processes.
        fs::create_dir(own.join("cgroup.subtree_control")).unwrap();
        fs::create_dir(dir.path().join("user/cgroup.subtree_control")).unwrap();
        fs::create_dir(dir.path().join("cgroup.subtree_control")).unwrap();
        let error = Group::create_in(&callers).unwrap_err();
        assert!(matches!(error, BudgetError::NotHandedDown { .. }), "{error}");
        fs::remove_dir(dir.path().join("user/cgroup.subtree_control")).unwrap();
        fs::write(dir.path().join("user/cgroup.subtree_control"), "memory cpu\n").unwrap();
        let group = Group::create_in(&callers).unwrap();
        assert_eq!(group.quota.parent(), Some(dir.path().join("user").as_path()));
        group.limit(0.5).unwrap();
        let max = group.quota.join("cpu.max");
        assert_eq!(fs::read_to_string(&max).unwrap(), "10000 20000");
        group.limit(0.001).unwrap();
        assert_eq!(fs::read_to_string(&max).unwrap(), "1000 20000");
        let stat = group.quota.join("cpu.stat");
        fs::write(&stat, "usage_usec 1500000\nuser_usec 1\n").unwrap();
        assert_eq!(group.usage().unwrap(), Duration::from_millis(1500));
        let made = group.quota.to_owned();
        fs::remove_file(max).unwrap();
        fs::remove_file(stat).unwrap();
        drop(group);
        assert!(!made.exists());
    }

    #[test]
    fn version_2_is_refused_rather_than_made_or_changed_above_the_parent() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("slice/user/session");
        fs::create_dir_all(&own).unwrap();
        // Neither can be written, as in a cgroup with processes.
        fs::create_dir(own.join("cgroup.subtree_control")).unwrap();
        fs::create_dir(dir.path().join("slice/user/cgroup.subtree_control")).unwrap();
        // These could be written, and one delegates already.
        let above = dir.path().join("slice/cgroup.subtree_control");
        let top = dir.path().join("cgroup.subtree_control");
        let callers = version_2(&dir, &own);
        for said in ["memory\n", "memory cpu\n"] {
            fs::write(&above, said).unwrap();
            fs::write(&top, said).unwrap();
            let error = Group::create_in(&callers).unwrap_err();
            assert!(error.to_string().contains("nor by its parent"), "{error}");
            assert_eq!(fs::read_to_string(&above).unwrap(), said);
            assert_eq!(fs::read_to_string(&top).unwrap(), said);
        }
    }

    #[test]
    fn only_empty_groups_of_dead_owners_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let own = format!("stack-{}-0", std::process::id());
        // Beyond the largest process id Linux gives.
        for name in ["stack-4194305-0", "stack-4194305-1/full", "other-4194305-0", "stack-x", &own]
        {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        remove_orphans(dir.path());
        let exists = |name: &str| dir.path().join(name).exists();
        assert!(!exists("stack-4194305-0") && exists("stack-4194305-1") && exists(&own));
        assert!(exists("other-4194305-0") && exists("stack-x"));
    }
}
