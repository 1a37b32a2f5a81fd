//! `madang up`: what it starts, what it starts again, and what it leaves.

use crate::harness::up::{Up, processes_with, to};
use crate::harness::{Connection, Madang, eventually};
use rustix::process::{Pid, Signal};
use std::net::SocketAddr;

fn status(at: SocketAddr, path: &str) -> Option<u16> {
    let mut connection = Connection::try_open(at).ok()?;
    connection.try_send(crate::harness::client::head("GET", path, &[]));
    connection.answer().map(|answer| answer.status)
}

/// The processes of its servers, also of those that say nothing of its directory.
fn all_of(up: &Up) -> Vec<Pid> {
    let mut all: Vec<_> = processes_with(up.dir.path()).into_iter().map(|(pid, _)| pid).collect();
    all.extend([up.primary(), up.node(1)]);
    all
}

fn until_gone(pids: &[Pid]) {
    for pid in pids {
        eventually("a process is gone", || rustix::process::test_kill_process(*pid).err());
    }
}

#[test]
fn all_of_it_is_ready_with_sample_data_and_ends_with_ctrl_c() {
    let mut up =
        Up::start(&["--database", "mariadb", "--nodes", "1", "--balance", "nginx", "--demo"]);
    assert_eq!(status(up.url, "/health/ready"), Some(200));
    let markets = Connection::open(up.url).get("/v1/markets?limit=1");
    assert_eq!(markets.json()["items"].as_array().unwrap().len(), 1);
    assert!(up.line["database"].as_str().unwrap().starts_with("mysql://madang:"));

    // Whatever ends is started again at its address, also what ended in order.
    for signal in [Signal::KILL, Signal::TERM] {
        let node = up.node(1);
        to(node, signal);
        eventually("another process serves", || {
            (up.node(1) != node && status(up.nodes[0], "/health/ready") == Some(200)).then_some(())
        });
    }
    assert!(up.log().contains("node-1 is ready again"), "{}", up.log());

    let all = all_of(&up);
    up.signal(Signal::INT);
    assert!(up.wait().success(), "{}", up.log());
    until_gone(&all);
}

#[test]
fn nothing_of_it_outlives_a_kill() {
    let mut up = Up::start(&["--database", "mariadb", "--nodes", "1"]);
    let (all, at) = (all_of(&up), up.nodes[0]);
    up.signal(Signal::KILL);
    up.wait();
    until_gone(&all);
    assert!(Connection::try_open(at).is_err());

    // Its data are there for the next one.
    let dir = std::mem::replace(&mut up.dir, tempfile::tempdir().unwrap());
    let again = Up::start_in(dir, &["--database", "mariadb", "--nodes", "1"]);
    assert_eq!(status(again.url, "/health/ready"), Some(200));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_started() {
    for (flags, reason) in [
        (["--nodes", "2", "--database", "sqlite"], "several nodes cannot share a file"),
        (["--replicas", "1", "--database", "sqlite"], "a file has none"),
        (["--nodes", "1", "--set", "cache.mode=sometimes"], "cache.mode"),
    ] {
        Madang::new(["up"].iter().chain(&flags)).fails_with(2).complains(&[reason]);
    }
    let nowhere = tempfile::tempdir().unwrap();
    let asked = ["up", "restart", "--dir", nowhere.path().to_str().unwrap()];
    Madang::new(asked).fails_with(1).complains(&["no `madang up` runs in"]);
}
