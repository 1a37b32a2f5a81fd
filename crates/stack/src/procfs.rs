//! Readers of `/proc`. A process that ends between two reads counts as absent.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustix::process::Signal;

/// Fields of `/proc/PID/stat` (proc(5)). Times are in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub parent: u32,
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// Those of ended children that were waited for.
    pub reaped_user_ticks: u64,
    pub reaped_system_ticks: u64,
    pub threads: u64,
    /// Start in ticks since boot, which distinguishes it from a later process with its id.
    pub start: u64,
    pub rss_pages: u64,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// With the command's name, at most 15 bytes.
    pub(crate) fn named(pid: u32) -> Option<(String, Self)> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let name = text.split_once('(')?.1.rsplit_once(')')?.0.to_owned();
        Some((name, Self::parse(&text)?))
    }

    pub(crate) fn rss_bytes(&self) -> u64 {
        self.rss_pages.saturating_mul(rustix::param::page_size() as u64)
    }

    /// CPU time of ended descendants that were waited for: two sums, each rounded down to a tick.
    pub(crate) fn reaped(&self) -> Duration {
        ticks(self.reaped_user_ticks + self.reaped_system_ticks)
    }

    /// The second field, the command's name in parentheses, may contain spaces and parentheses, so
    /// fields are counted from the last closing one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // `fields[0]` is field 3 of proc(5).
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

/// CPU time, user and system, of all threads of a process, ended ones included. From its clock, in
/// nanoseconds; without one from `stat`, which rounds user and system time down to a tick each: with
/// many processes that use little, most would be lost.
pub(crate) fn cpu_time(pid: u32, stat: &Stat) -> Duration {
    clock(pid).unwrap_or_else(|| ticks(stat.user_ticks + stat.system_ticks))
}

fn clock(pid: u32) -> Option<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    Some(Duration::from(clock_gettime(clock).ok()?))
}

/// Clock ticks (`_SC_CLK_TCK`, 100 a second on Linux) as time.
pub(crate) fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second();
    Duration::from_millis(count * 1000 / per_second)
}

pub(crate) fn all_pids() -> io::Result<Vec<u32>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// Threads of a process; empty if it is gone.
pub(crate) fn thread_ids(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Children of a process, from the parent of every process: slow but complete.
pub(crate) fn children_by_scan(parent: u32) -> io::Result<Vec<u32>> {
    let is_child = |pid: &u32| Stat::read(*pid).is_some_and(|stat| stat.parent == parent);
    Ok(all_pids()?.into_iter().filter(is_child).collect())
}

/// Children of a process from its threads' `children` files: fast, but may miss one that appears or
/// ends meanwhile, which is acceptable for samples and not for killing. Scans all processes if the
/// kernel has no such files (`CONFIG_PROC_CHILDREN`).
pub(crate) fn children(pid: u32, threads: &[u32]) -> Vec<u32> {
    let mut children = Vec::new();
    for thread in threads {
        match fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")) {
            Ok(text) => {
                children
                    .extend(text.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            }
            // Either the thread has ended, or the kernel has no such files.
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

/// Processes whose initial environment contains `name=value`.
pub(crate) fn with_environment(name: &str, value: &str) -> io::Result<Vec<u32>> {
    let wanted = format!("{name}={value}");
    let holds = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    Ok(all_pids()?.into_iter().filter(holds).collect())
}

/// Whether a process ignores SIGCHLD: the kernel then discards the CPU time of its ended children.
pub(crate) fn ignores_children(pid: u32) -> bool {
    ignores_signal(pid, Signal::CHILD)
}

/// Whether a process ignores a signal, as SIGHUP under `nohup`.
pub fn ignores_signal(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal.as_raw() - 1)) != 0)
}

/// Proportional memory (PSS) of a process in bytes: a page of n processes counts 1/n for each. `None`
/// without permission.
pub(crate) fn pss_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(status_field(&text, "Pss")? * 1024)
}

/// TCP ports at which these processes listen, in ascending order.
pub(crate) fn listening_ports(pids: &[u32]) -> Vec<u16> {
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

/// All listening TCP ports of this network namespace.
pub fn all_listening_ports() -> BTreeSet<u16> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let texts = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
    let sockets = texts.iter().flat_map(|text| text.lines()).filter_map(listening_socket);
    sockets.map(|(port, _)| port).collect()
}

/// Port and inode of a listening socket, from a line of `/proc/net/tcp` (proc_net(5)).
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

/// The number after `name:` in the text of `/proc/…/status`, without its unit.
pub(crate) fn status_field(text: &str, name: &str) -> Option<u64> {
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
