//! Replicas answer reads that need nothing which they do not have yet, and no others.

use crate::harness::browser::Page;
use crate::harness::database::{directory_of_a_server, supervisor};
use crate::harness::{Answer, Server, eventually};
use crate::home_operator::{self, enter, figures};
use crate::nodes::{Cluster, older_than_acknowledged, price, run, to};
use crate::posts::{bicycle, made, patch};
use madang_stack::mariadb::{Login, MariaDb, MariaDbSettings, Role};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

/// A primary and a server that follows it.
struct Pair {
    cluster: Cluster,
    replica: MariaDb,
    _dir: TempDir,
}

fn follow(primary: &MariaDb, server_id: u32) -> (MariaDb, TempDir) {
    let role = Role::Replica { server_id, primary_port: primary.port(), replication: copier() };
    let dir = directory_of_a_server();
    (MariaDb::with(&supervisor(), dir.path(), &of(role)).unwrap(), dir)
}

fn copier() -> Login {
    Login { user: "copier".to_owned(), password: "copies".to_owned() }
}

fn of(role: Role) -> MariaDbSettings {
    MariaDbSettings { role, ..MariaDbSettings::default() }
}

impl Pair {
    fn new() -> Self {
        let cluster = Cluster::with(&of(Role::Primary { server_id: 1, replication: copier() }));
        let (replica, dir) = follow(&cluster.database, 2);
        Self { cluster, replica, _dir: dir }
    }

    /// A node that loads each body anew, so that all its reads are made on a server; once the replica is used.
    fn node(&self) -> Server {
        let setup = self.cluster.setup().set("cache.mode", "off");
        let setup = setup.set("home.operator_token", home_operator::TOKEN);
        let node = setup.set("database.replicas", &self.replica.url()).start();
        until_used(&node, true);
        node
    }
}

fn until_used(node: &Server, is_used: bool) {
    node.until_metric("madang_replica_used", &[], f64::from(u8::from(is_used)));
}

fn reads(node: &Server) -> f64 {
    node.metric("madang_replica_reads_total", &[])
}

/// The replica's answer. What it does not answer in time the primary does.
fn is_read(node: &Server, path: &str) -> Answer {
    eventually("the replica answers", || {
        let before = reads(node);
        let answer = node.get(path);
        assert_eq!(answer.status, 200);
        (reads(node) - before > 0.5).then_some(answer)
    })
}

#[test]
fn reads_of_a_replica_are_never_older_than_what_was_acknowledged_on_any_node() {
    let pair = Pair::new();
    let (one, other) = (pair.node(), pair.node());
    let mina = one.somebody("mina");
    let id = made(&one, &mina, &bicycle());
    patch(&one, &mina, id, &json!({ "price": 0 }));
    let before = reads(&one) + reads(&other);
    eventually("answers of the replica were among what was read", || {
        let (older, all) = older_than_acknowledged(&[&one, &other], &mina, id, 100);
        assert_eq!(older, 0, "of {all} reads");
        (reads(&one) + reads(&other) - before > 10.0).then_some(())
    });
}

#[test]
fn a_replica_that_lags_answers_what_nobody_has_changed_since() {
    let pair = Pair::new();
    let node = pair.node();
    let mina = node.somebody("mina");
    let [id, other] = [0, 1].map(|_| made(&node, &mina, &bicycle()));
    let (path, other) = (format!("/v1/posts/{id}"), format!("/v1/posts/{other}"));
    eventually("the replica has both", || {
        let before = reads(&node);
        node.get(&path);
        node.get(&other);
        (reads(&node) - before > 1.5).then_some(())
    });

    run(&pair.replica, "STOP SLAVE SQL_THREAD");
    assert_eq!(patch(&node, &mina, id, &json!({ "price": 7 })).status, 200);
    let before = reads(&node);
    assert_eq!(price(&node.get(&path)), 7);
    assert!((reads(&node) - before).abs() < 0.5, "the replica does not have it");
    is_read(&node, &other);
    eventually("a lag", || (node.metric("madang_replica_lag_seconds", &[]) > 0.0).then_some(()));

    run(&pair.replica, "START SLAVE SQL_THREAD");
    node.until_metric("madang_replica_lag_seconds", &[], 0.0);
    assert_eq!(price(&is_read(&node, &path)), 7);
}

#[test]
fn the_operator_sees_how_far_a_replica_is_behind() {
    let pair = Pair::new();
    let node = pair.node();
    let mina = node.somebody("mina");
    let id = made(&node, &mina, &bicycle());
    run(&pair.replica, "STOP SLAVE SQL_THREAD");
    assert_eq!(patch(&node, &mina, id, &json!({ "price": 7 })).status, 200);
    let seen = eventually("a lag", || {
        let seen = figures(&node, 0)?;
        let lags = seen["replicas"][0]["lagSeconds"].as_array()?.clone();
        (lags.last()?.as_f64() > Some(0.0)).then_some(seen)
    });
    let [replica] = seen["replicas"].as_array().unwrap().as_slice() else { panic!("{seen}") };
    assert_eq!(replica["name"], format!("127.0.0.1:{}", pair.replica.port()));
    assert_eq!(seen["series"]["logBytes"][0], json!(null), "the log is the server's");
    let page = Page::new();
    enter(&page, &node, home_operator::TOKEN);
    page.until("document.querySelector('#replicas > svg path')");
    assert!(page.text("#replicas li").contains(replica["name"].as_str().unwrap()));
    page.until("parseFloat(document.querySelector('#replicas li b').textContent) > 0");
    assert_eq!(page.value("document.getElementById('log')"), json!(null));
    run(&pair.replica, "START SLAVE SQL_THREAD");
    page.until("document.querySelector('#replicas li b').textContent === '0 s'");
}

#[test]
fn a_replica_that_is_killed_or_hangs_is_no_error_and_is_used_again() {
    let mut pair = Pair::new();
    let node = pair.node();
    let mina = node.somebody("mina");
    let path = format!("/v1/posts/{}", made(&node, &mina, &bicycle()));

    to(&pair.replica, Signal::STOP);
    assert_eq!(node.get(&path).status, 200);
    until_used(&node, false);
    assert_eq!(node.get(&path).status, 200);
    to(&pair.replica, Signal::CONT);
    until_used(&node, true);

    to(&pair.replica, Signal::KILL);
    eventually("it is passed over", || {
        assert_eq!(node.get(&path).status, 200);
        (node.metric("madang_replica_used", &[]) < 0.5).then_some(())
    });
    pair.replica.restart(&supervisor()).unwrap();
    until_used(&node, true);
    is_read(&node, &path);
}

#[test]
fn a_replica_of_another_database_answers_nothing() {
    let (ours, theirs) = (Pair::new(), Pair::new());
    // Theirs has a schema of its own.
    drop(theirs.node());
    let node = ours.cluster.setup().set("database.replicas", &theirs.replica.url()).start();
    node.until_logged("database.replicas names a server with another database");
    let mina = node.somebody("mina");
    let path = format!("/v1/posts/{}", made(&node, &mina, &bicycle()));
    assert_eq!(node.get(&path).status, 200);
    assert!(reads(&node).abs() < 0.5);
}
