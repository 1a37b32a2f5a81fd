//! The few files of `/proc` this crate reads. Every reader treats a process that ends meanwhile
//! as absent, because between two reads any process may.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// The fields of `/proc/PID/stat` (proc(5)) that are used here. Times are in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub parent: u32,
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// Of children that ended and were waited for.
    pub reaped_user_ticks: u64,
    pub reaped_system_ticks: u64,
    pub threads: u64,
    /// When it started, in ticks since the machine did: tells it from a later one of its number.
    pub start: u64,
    pub rss_pages: u64,
}

impl Stat {
    pub fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// With the command's name, of which the kernel keeps 15 bytes.
    pub fn named(pid: u32) -> Option<(String, Self)> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let name = text.split_once('(')?.1.rsplit_once(')')?.0.to_owned();
        Some((name, Self::parse(&text)?))
    }

    pub fn rss_bytes(&self) -> u64 {
        self.rss_pages.saturating_mul(rustix::param::page_size() as u64)
    }

    /// Whether a process is a zombie or gone.
    pub fn has_no_memory(pid: u32) -> bool {
        Self::read(pid).is_none_or(|stat| stat.rss_pages == 0)
    }

    /// CPU time of children that ended and were waited for, and of theirs: two sums, each rounded
    /// down to a tick.
    pub fn reaped(&self) -> Duration {
        ticks(self.reaped_user_ticks + self.reaped_system_ticks)
    }

    /// The second field is the command's name in parentheses and may itself contain spaces and
    /// parentheses, so the fields are counted from the last closing one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // `fields[0]` is field 3 of proc(5), the state.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(number(4)?).ok()?,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            reaped_user_ticks: number(16)?,
            reaped_system_ticks: number(17)?,
            threads: number(20)?,
            start: number(22)?,
            rss_pages: number(24)?,
        })
    }
}

/// CPU time, user and system, of a process with all its threads, those that ended included. By its
/// clock, in nanoseconds; where there is none, from `stat`, which rounds user and system time down
/// to a tick each: of sixteen processes that use little, most of it would be lost.
pub fn cpu_time(pid: u32, stat: &Stat) -> Duration {
    clock(pid).unwrap_or_else(|| ticks(stat.user_ticks + stat.system_ticks))
}

fn clock(pid: u32) -> Option<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    Some(Duration::from(clock_gettime(clock).ok()?))
}

/// Clock ticks (`_SC_CLK_TCK`, 100 a second on Linux) as time.
pub fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_millis(count * 1000 / per_second)
}

/// All process ids that exist now.
pub fn all_pids() -> io::Result<Vec<u32>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// The threads of a process; empty when it is gone.
pub fn thread_ids(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of a process, found by looking at every process's parent: slow and complete.
pub fn children_by_scan(parent: u32) -> io::Result<Vec<u32>> {
    let is_child = |pid: &u32| Stat::read(*pid).is_some_and(|stat| stat.parent == parent);
    Ok(all_pids()?.into_iter().filter(is_child).collect())
}

/// The children of a process from its threads' `children` files: fast, and may miss one that
/// appears or ends meanwhile, which sampling can bear and killing cannot. A kernel built without
/// `CONFIG_PROC_CHILDREN` has no such files; then every process is looked at.
pub fn children(pid: u32, threads: &[u32]) -> Vec<u32> {
    let mut children = Vec::new();
    for thread in threads {
        match fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")) {
            Ok(text) => {
                children
                    .extend(text.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            }
            // Either that thread has ended meanwhile, or the kernel has no such files.
            Err(_) if kernel_has_children_files() => {}
            Err(_) => return children_by_scan(pid).unwrap_or_default(),
        }
    }
    children
}

fn kernel_has_children_files() -> bool {
    let own = std::process::id();
    fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap_or(false)
}

/// Processes whose environment, as it was when they were executed, holds `name=value`.
pub fn with_environment(name: &str, value: &str) -> io::Result<Vec<u32>> {
    let wanted = format!("{name}={value}");
    let holds = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    Ok(all_pids()?.into_iter().filter(holds).collect())
}

/// Whether a process ignores SIGCHLD, so that the kernel forgets its children as they end, and with
/// them the CPU time they used.
pub fn ignores_children(pid: u32) -> bool {
    const SIGCHLD: u32 = 17;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (SIGCHLD - 1)) != 0)
}

/// A process's share of the memory it has, in bytes: a page that several processes have counts for
/// each by the part of one. `None` where this user may not look.
pub fn pss_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(status_field(&text, "Pss")? * 1024)
}

/// TCP ports at which these processes listen, each once, in order.
pub fn listening_ports(pids: &[u32]) -> Vec<u16> {
    let mut ports = BTreeSet::new();
    for pid in pids {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        let inode = |link: PathBuf| {
            let number = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(number.to_owned())
        };
        let sockets: HashSet<String> = links.filter_map(inode).collect();
        for table in ["tcp", "tcp6"] {
            let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
            let listening = text.lines().filter_map(listening_socket);
            let theirs = listening.filter(|(_, inode)| sockets.contains(*inode));
            ports.extend(theirs.map(|(port, _)| port));
        }
    }
    ports.into_iter().collect()
}

/// Every TCP port of this network namespace at which something listens.
pub fn all_listening_ports() -> BTreeSet<u16> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets = texts.iter().flat_map(|text| text.lines()).filter_map(listening_socket);
    sockets.map(|(port, _)| port).collect()
}

/// The port and the inode of a listening socket, from a line of `/proc/net/tcp` (proc_net(5)).
fn listening_socket(line: &str) -> Option<(u16, &str)> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (_, port) = local.rsplit_once(':')?;
    if *state != LISTEN {
        return None;
    }
    Some((u16::from_str_radix(port, 16).ok()?, inode))
}

/// The number after `name:` in a `/proc/…/status` text, without its unit.
pub fn status_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = "42 (a b) c) S 7 42 42 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 5 0 100 9999 77 \
                    18446744073709551615 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.parent, stat.user_ticks, stat.system_ticks), (7, 11, 12));
        assert_eq!((stat.reaped_user_ticks, stat.reaped_system_ticks), (13, 14));
        assert_eq!((stat.threads, stat.start, stat.rss_pages), (5, 100, 77));
    }

    #[test]
    fn a_cut_line_is_absent_not_a_panic() {
        for text in ["", "1", "1 (x", "1 (x) S 1 2 3"] {
            assert_eq!(Stat::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_status_field_is_not_confused_with_a_longer_name() {
        let text = "VmHWMx:\t1 kB\nVmHWM:\t  5120 kB\n";
        assert_eq!(status_field(text, "VmHWM"), Some(5120));
        assert_eq!(status_field(text, "VmRSS"), None);
    }

    #[test]
    fn a_connection_is_no_listening_socket() {
        let line = |state: &str| {
            format!(
                "   0: 0100007F:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 77 1"
            )
        };
        assert_eq!(listening_socket(&line("0A")), Some((8080, "77")));
        assert_eq!(listening_socket(&line("01")), None);
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(all_listening_ports().contains(&own.local_addr().unwrap().port()));
    }
}
