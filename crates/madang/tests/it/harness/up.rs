//! `madang up`, running.

use super::command::clean;
use super::{Connection, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use tempfile::TempDir;

/// Nodes, their database and nginx. Dropped, it is killed, and all of it with it.
pub struct Up {
    child: Child,
    /// Where clients go.
    pub url: SocketAddr,
    pub nodes: Vec<SocketAddr>,
    pub metrics: Vec<SocketAddr>,
    /// What it has printed.
    pub line: Value,
    pub dir: TempDir,
}

fn address(url: &Value) -> SocketAddr {
    let (_, rest) = url.as_str().unwrap().split_once("://").unwrap();
    let host = rest.rsplit('@').next().unwrap();
    host.split('/').next().unwrap().parse().unwrap()
}

impl Up {
    /// Starts it with these flags and waits until it is ready.
    pub fn start(flags: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), flags)
    }

    pub fn start_in(dir: TempDir, flags: &[&str]) -> Self {
        let log = std::fs::File::create(dir.path().join("up.log")).unwrap();
        let mut child = clean(env!("CARGO_BIN_EXE_madang"))
            .args(["up", "--json", "--dir"])
            .arg(dir.path())
            .args(["--set", "unsafe_experiments=true", "--set", "accounts.hash=bcrypt:4"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let said = || std::fs::read_to_string(dir.path().join("up.log")).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", said()));
        let all = |key: &str| -> Vec<_> {
            line["nodes"].as_array().unwrap().iter().map(|node| address(&node[key])).collect()
        };
        let (nodes, metrics) = (all("url"), all("metrics"));
        Self { child, url: address(&line["url"]), nodes, metrics, line, dir }
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("up.log")).unwrap()
    }

    /// The process of a node, counted from 1.
    pub fn node(&self, number: usize) -> Pid {
        let data = self.dir.path().canonicalize().unwrap().join(format!("node-{number}"));
        eventually(&format!("a node with {}", data.display()), || {
            processes_with(&data).into_iter().find(|(_, command)| command == "serve")
        })
        .0
    }

    pub fn primary(&self) -> Pid {
        self.database("mariadb")
    }

    pub fn replica(&self) -> Pid {
        self.database("replica-1")
    }

    /// The process of a server that listens at this address, and names it in its title.
    pub fn listening(&self, url: &str) -> Pid {
        let port = url.rsplit(':').next().unwrap();
        let title = format!(":{port}");
        eventually(&format!("a server at {url}"), || {
            self.descendants().into_iter().find(|pid| {
                let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
                let line = std::fs::read_to_string(path).unwrap_or_default();
                line.split(['\0', ' ']).any(|word| word.ends_with(&title))
            })
        })
    }

    fn database(&self, name: &str) -> Pid {
        let file = self.dir.path().join(name).join("data/mariadb.pid");
        eventually(&format!("a process id in {}", file.display()), || {
            let pid = std::fs::read_to_string(&file).ok()?.trim().parse().ok()?;
            Pid::from_raw(pid)
        })
    }

    /// Restarts the nodes one by one, and waits for it.
    pub fn restart(&self) -> String {
        let asked = clean(env!("CARGO_BIN_EXE_madang"))
            .args(["up", "restart", "--dir"])
            .arg(self.dir.path())
            .output()
            .unwrap();
        assert!(asked.status.success(), "{asked:?}\n{}", self.log());
        String::from_utf8(asked.stdout).unwrap()
    }

    /// The sum of a metric over all nodes that answer.
    pub fn metric(&self, name: &str) -> f64 {
        let pages = self.metrics.iter().filter_map(|at| Connection::try_open(*at).ok());
        pages.map(|mut page| super::sum(&page.get("/metrics").text(), name, &[])).sum()
    }

    /// Every address that it has printed.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let databases = self.line["replicas"].as_array().unwrap().iter();
        let databases = databases.chain([&self.line["database"]]).map(address);
        let nodes = self.nodes.iter().chain(&self.metrics).copied();
        databases.chain(nodes).chain([self.url]).collect()
    }

    /// Its servers, what supervises them, and what they have started.
    pub fn descendants(&self) -> Vec<Pid> {
        let all: Vec<(Pid, Pid)> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| parent(&entry))
            .collect();
        let mut found = vec![Pid::from_child(&self.child)];
        let mut at = 0;
        while let Some(above) = found.get(at).copied() {
            found.extend(all.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
            at += 1;
        }
        found.split_off(1)
    }

    pub fn signal(&self, signal: Signal) {
        to(Pid::from_child(&self.child), signal);
    }

    pub fn wait(&mut self) -> ExitStatus {
        eventually("`madang up` ends", || self.child.try_wait().unwrap())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn to(pid: Pid, signal: Signal) {
    kill_process(pid, signal).unwrap();
}

/// A process and its parent.
fn parent(entry: &std::fs::DirEntry) -> Option<(Pid, Pid)> {
    let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
    let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
    // Its name may have blanks and brackets; then come its state and its parent (proc_pid_stat(5)).
    let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
    Some((pid, Pid::from_raw(parent)?))
}

/// Processes with something of this directory among their arguments, and the first word after their name.
pub fn processes_with(dir: &Path) -> Vec<(Pid, String)> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let names = words.iter().any(|word| word.contains(dir.to_str().unwrap()));
        names.then(|| {
            (Pid::from_raw(pid).unwrap(), words.get(1).map(ToString::to_string).unwrap_or_default())
        })
    })
    .collect()
}
