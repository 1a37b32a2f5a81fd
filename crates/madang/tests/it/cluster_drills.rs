//! Faults of several nodes under load ([`cluster_load`](crate::cluster_load)), and what clients see of them.
//!
//! Three drills run with the tests, all of them with `make drills`, which writes the table in docs/OPERATIONS.md.

use crate::cluster_load::{Load, Seen};
use crate::harness::client::head;
use crate::harness::namespace::{Machine, in_own_network};
use crate::harness::up::{Up, to};
use crate::harness::{Connection, eventually};
use crate::nodes::Cluster;
use madang_testing::drill;
use rustix::process::Signal;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Writes a drill's row of the table, and asserts what holds in every one.
pub fn holds(fault: &str, seen: &Seen) {
    let (reads, writes) = (seen.reads.load(SeqCst), seen.writes.load(SeqCst));
    let (older, lost) = (seen.older.load(SeqCst), seen.lost.load(SeqCst));
    let slowest = seen.slowest.lock().unwrap().as_secs_f64();
    let errors = seen.errors();
    let line =
        format!("| {fault} | {reads} | {writes} | {errors} | {slowest:.1} | {older} | {lost} |\n");
    row(&line);
    sound(seen).unwrap_or_else(|()| panic!("older answers or lost writes: {line}"));
}

/// Writes a row of the table where that is wanted.
pub fn row(line: &str) {
    if let Some(table) = std::env::var_os("MADANG_DRILL_TABLE") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(table);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Nothing is older than it may be, and nothing lost.
fn sound(seen: &Seen) -> Result<(), ()> {
    let bad = seen.older.load(SeqCst) + seen.lost.load(SeqCst);
    if bad == 0 { Ok(()) } else { Err(()) }
}

/// Asserts that clients saw no other errors than these.
pub fn only(seen: &Seen, allowed: &[&str]) {
    let errors = seen.errors.lock().unwrap();
    let others: Vec<_> = errors.keys().filter(|what| !allowed.contains(&what.as_str())).collect();
    assert!(others.is_empty(), "{errors:?}");
}

pub fn two_nodes(more: &[&str]) -> Up {
    Up::start(&[&["--nodes", "2", "--database", "mariadb", "--balance", "nginx"], more].concat())
}

pub fn until_answered(up: &Up) {
    eventually("nginx and nodes answer", || {
        let all = std::iter::once(&up.url).chain(&up.nodes);
        let mut ready = all.map(|at| {
            let mut connection = Connection::try_open(*at).ok()?;
            connection.try_send(head("GET", "/health/ready", &[])).then_some(())?;
            connection.answer().filter(|answer| answer.status == 200)
        });
        ready.all(|answer| answer.is_some()).then_some(())
    });
}

#[test]
fn a_rolling_restart_under_load_is_no_error() {
    let up = two_nodes(&[]);
    let before = [up.node(1), up.node(2)];
    let mut said = String::new();
    // Twice: nginx still leaves out the node that the first restart ended with when the second one begins.
    let seen = Load::at(up.url).run(|_| said = up.restart() + &up.restart());
    assert_eq!(said.matches("restarted").count(), 4, "{said}");
    assert!(said.contains("node-1 restarted") && said.contains("node-2 restarted"), "{said}");
    assert!(before[0] != up.node(1) && before[1] != up.node(2));
    holds("rolling restart of all nodes (`madang up restart`)", &seen);
    only(&seen, &[]);
}

#[test]
fn a_node_that_is_killed_under_load_loses_nothing() {
    let up = two_nodes(&[]);
    let keeper = up.nodes.iter().zip(&up.metrics).position(|(_, at)| {
        let page = Connection::open(*at).get("/metrics").text();
        crate::harness::sum(&page, "madang_cluster_housekeeper", &[]) > 0.5
    });
    let seen = Load::at(up.url).run(|_| {
        to(up.node(keeper.unwrap_or(0) + 1), Signal::KILL);
        until_answered(&up);
    });
    holds("`kill -9` of the node that does the housekeeping", &seen);
    // What was on its way through it.
    only(&seen, &["502", "504", "cut off"]);
}

#[test]
fn a_primary_that_is_killed_under_load_loses_nothing() {
    let up = two_nodes(&["--replicas", "1"]);
    let seen = Load::at(up.url).run(|_| {
        let pid = up.primary();
        to(pid, Signal::KILL);
        eventually("it is started again", || (up.primary() != pid).then_some(()));
        until_answered(&up);
    });
    holds("`kill -9` of the primary, started again", &seen);
    only(&seen, &["503", "504"]);
}

#[test]
fn a_replica_that_is_killed_under_load_is_no_error() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&["--replicas", "1", "--set", "cache.mode=off"]);
    let used = |wanted: f64| {
        eventually("the replica is used by so many", || {
            ((up.metric("madang_replica_used") - wanted).abs() < 0.1).then_some(())
        });
    };
    used(2.0);
    let seen = Load::at(up.url).run(|_| {
        to(up.replica(), Signal::KILL);
        used(0.0);
        used(2.0);
    });
    holds("`kill -9` of the replica, started again", &seen);
    only(&seen, &[]);
}

/// Stops a process for a while, by the clock: that is the fault.
pub fn stopped(pid: rustix::process::Pid, time: Duration) {
    to(pid, Signal::STOP);
    std::thread::sleep(time);
    to(pid, Signal::CONT);
}

#[test]
fn a_node_that_stands_still_under_load_answers_nothing_from_before() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&[]);
    let seen = Load::at(up.url).run(|_| {
        stopped(up.node(1), Duration::from_secs(10));
        until_answered(&up);
    });
    holds("SIGSTOP of a node for 10 s", &seen);
    only(&seen, &["502", "503", "504", "cut off"]);
}

#[test]
fn a_primary_that_stands_still_under_load_loses_nothing() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&[]);
    let seen = Load::at(up.url).run(|_| {
        stopped(up.primary(), Duration::from_secs(5));
        until_answered(&up);
    });
    holds("SIGSTOP of the primary for 5 s", &seen);
    only(&seen, &["503", "504"]);
}

/// Waits until nginx sends requests to a node that was started again.
pub fn used_again(up: &Up, number: usize) {
    let asked = |at| {
        let page = Connection::try_open(at).ok()?.get("/metrics").text();
        Some(crate::harness::sum(&page, "madang_http_server_requests_total", &[]))
    };
    eventually("nginx sends it requests", || {
        asked(up.metrics[number - 1]).filter(|count| *count > 20.0)
    });
}

#[test]
fn nodes_that_are_stopped_one_by_one_are_no_error() {
    if !drill!() {
        return;
    }
    let up = two_nodes(&[]);
    let seen = Load::at(up.url).run(|_| {
        for number in 1..=2 {
            let pid = up.node(number);
            to(pid, Signal::TERM);
            eventually("it is started again", || (up.node(number) != pid).then_some(()));
            used_again(&up, number);
        }
    });
    holds("SIGTERM of the nodes one by one", &seen);
    only(&seen, &[]);
}

/// A way to a server that listens on 127.0.0.1 alone, at an address that other machines reach.
fn way(ip: IpAddr, server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the process, as do those of its connections.
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(server).unwrap());
            for (from, to) in [(&near, &far), (&far, &near)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    address
}

#[test]
fn a_node_that_is_cut_off_from_its_database_answers_nothing_from_before() {
    if !drill!() {
        return;
    }
    in_own_network(
        "cluster_drills::a_node_that_is_cut_off_from_its_database_answers_nothing_from_before",
        cut_off,
    );
}

fn cut_off() {
    let cluster = Cluster::new();
    let machine = Machine::new();
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, cluster.database.port()));
    let url = format!("mysql://root@{}/test", way(machine.database(), server));
    // As long as the default: how long clients are refused is what is measured.
    let setup = || cluster.setup().set("cluster.wait", "1s");
    let far = setup().set("database.url", &url).at(machine.address());
    let nodes = [setup().start(), far.start_through(machine.madang())];
    let both = vec![nodes[0].api, nodes[1].api];
    let seen = Load::on(both).run(|seen| {
        machine.cut();
        eventually("its clients are refused", || {
            (seen.errors.lock().unwrap().get("503")? > &20).then_some(())
        });
        let reads = seen.reads.load(SeqCst);
        eventually("the other one serves", || {
            (seen.reads.load(SeqCst) > reads + 200).then_some(())
        });
        machine.mend();
        eventually("it is ready", || (nodes[1].get("/health/ready").status == 200).then_some(()));
    });
    holds("a node's network to the database cut, without nginx", &seen);
    only(&seen, &["503", "504"]);
}

/// The checker finds what is to be found: a node that acknowledges too early.
#[test]
fn an_answer_from_before_fails_a_drill() {
    let cluster = Cluster::new();
    let patient = cluster.node();
    crate::nodes::run(&cluster.database, "UPDATE madang_cluster SET delay_ms = 0");
    let hasty = cluster.setup().set("cluster.delay", "0").start();
    let load = Load { writes_to: vec![hasty.api], ..Load::at(patient.api) };
    let seen = load.run(|seen| {
        eventually("an old answer", || (seen.older.load(SeqCst) > 0).then_some(()));
    });
    assert!(sound(&seen).is_err(), "no answer was old: the drills prove nothing");
}
