//! Several nodes on one database: nobody is answered what is older than a write that was acknowledged to anybody
//! before the request, on any node.

use crate::harness::database::{directory_of_a_server, supervisor};
use crate::harness::{Answer, Person, Server, Setup, eventually};
use crate::posts::{bicycle, made, patch};
use crate::schedules::plan;
use madang_stack::mariadb::{MariaDb, MariaDbSettings};
use mysql::prelude::Queryable as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A key that all nodes sign tokens with.
pub const KEY: &str = "5f1c7a0e9d3b48266a17c4f0b2e85d9135a8d06c7e94f2b1038dc56e7fa94b21";

pub struct Cluster {
    pub database: MariaDb,
    _dir: tempfile::TempDir,
}

impl Cluster {
    pub fn new() -> Self {
        Self::with(&MariaDbSettings::default())
    }

    pub fn with(settings: &MariaDbSettings) -> Self {
        let dir = directory_of_a_server();
        Self { database: MariaDb::with(&supervisor(), dir.path(), settings).unwrap(), _dir: dir }
    }

    /// A busy machine has its requests wait for the database rather than refused.
    pub fn setup(&self) -> Setup {
        let setup = Setup::new().cheap_hash().set("accounts.token_key", KEY);
        let setup = setup.set("cluster.wait", "9s").set("accounts.hash_wait", "9s");
        setup.set("database.url", &self.database.url()).set("database.max_connections", "24")
    }

    pub fn node(&self) -> Server {
        self.setup().start()
    }

    pub fn signal(&self, signal: Signal) {
        to(&self.database, signal);
    }

    fn sql(&self, sql: &str) {
        run(&self.database, sql);
    }
}

pub fn to(server: &MariaDb, signal: Signal) {
    let pid = i32::try_from(server.pid()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

pub fn run(server: &MariaDb, sql: &str) {
    mysql::Conn::new(server.url().as_str()).unwrap().query_drop(sql).unwrap();
}

pub fn price(answer: &Answer) -> u64 {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["price"].as_u64().unwrap()
}

/// Changes the price of a post on the nodes in turn, to 1, 2 and so on, while clients of all nodes read it; gives how
/// many reads were older than what had been acknowledged before they began, and how many there were.
pub fn older_than_acknowledged(
    nodes: &[&Server],
    mina: &Person,
    id: i64,
    writes: u64,
) -> (u64, u64) {
    let (acknowledged, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (older, reads) = (AtomicU64::new(0), AtomicU64::new(0));
    let path = format!("/v1/posts/{id}");
    std::thread::scope(|scope| {
        for node in nodes.iter().chain(nodes) {
            let (acknowledged, over, older, reads, path) =
                (&acknowledged, &over, &older, &reads, &path);
            scope.spawn(move || {
                let mut connection = node.connect();
                while !over.load(SeqCst) {
                    let floor = acknowledged.load(SeqCst);
                    let found = price(&connection.get(path));
                    older.fetch_add(u64::from(found < floor), SeqCst);
                    reads.fetch_add(1, SeqCst);
                }
            });
        }
        for (write, node) in (1..=writes).zip(nodes.iter().cycle()) {
            let changed = patch(node, mina, id, &json!({ "price": write }));
            assert_eq!(changed.status, 200, "{}", changed.text());
            acknowledged.store(write, SeqCst);
        }
        over.store(true, SeqCst);
    });
    (older.into_inner(), reads.into_inner())
}

#[test]
fn no_node_answers_what_is_older_than_a_write_that_was_acknowledged_on_another() {
    let cluster = Cluster::new();
    let (one, other) = (cluster.node(), cluster.node());
    let mina = one.somebody("mina");
    let id = made(&one, &mina, &bicycle());
    patch(&one, &mina, id, &json!({ "price": 0 }));
    let (older, reads) = older_than_acknowledged(&[&one, &other], &mina, id, 100);
    assert_eq!(older, 0, "of {reads} reads");
    for node in [&one, &other] {
        let hits = node.metric("madang_cache_hits_total", &[]);
        assert!(hits > 100.0, "answered from memory {hits} times: nothing was tested");
        assert!(node.metric("madang_cluster_polls_total", &[]) > 10.0);
    }
}

/// The same with a node that does not wait: the test above can fail.
#[test]
fn a_node_that_acknowledges_too_early_is_found_out() {
    let cluster = Cluster::new();
    let patient = cluster.node();
    let mina = patient.somebody("mina");
    let id = made(&patient, &mina, &bicycle());
    patch(&patient, &mina, id, &json!({ "price": 0 }));
    cluster.sql("UPDATE madang_cluster SET delay_ms = 0");
    let hasty = cluster.setup().set("cluster.delay", "0").start();
    // Only the patient one is asked, which trusts polls of 20 ms ago.
    let path = format!("/v1/posts/{id}");
    let mut connection = patient.connect();
    let mut older = 0;
    for write in 1..=200 {
        connection.get(&path);
        assert_eq!(patch(&hasty, &mina, id, &json!({ "price": write })).status, 200);
        older += u64::from(price(&connection.get(&path)) < write);
    }
    assert!(older > 0, "no answer was old: the other test proves nothing");
}

/// The schema is one version newer than this program, or older: what another version leaves.
#[test]
fn programs_of_two_versions_run_side_by_side_where_the_schema_allows_it() {
    let cluster = Cluster::new();
    let old = cluster.node();
    let dir = tempfile::tempdir().unwrap();
    let refused = |parts: &[&str]| {
        let data = dir.path().to_str().unwrap();
        crate::harness::Madang::new(["serve", "--listen", "127.0.0.1:0", "--data", data])
            .env("MADANG_DATABASE_URL", &cluster.database.url())
            .env("MADANG_ACCOUNTS_TOKEN_KEY", KEY)
            .fails_with(6)
            .complains(parts);
    };
    // A newer program has added a table, and says that programs of this version go with it.
    cluster.sql("UPDATE madang_schema SET version = version + 1");
    let new = cluster.node();
    let mina = old.somebody("mina");
    let id = made(&new, &mina, &bicycle());
    assert_eq!(
        price(&old.get(&format!("/v1/posts/{id}"))),
        price(&new.get(&format!("/v1/posts/{id}")))
    );
    // It has changed what this program relies on.
    cluster.sql("UPDATE madang_schema SET oldest = version");
    refused(&["the database has schema version", "use a newer program"]);
    // This program would change what nodes of an older one rely on, and they run.
    cluster.sql("UPDATE madang_schema SET version = 1, oldest = 1");
    cluster.sql(
        "UPDATE outbox_lanes SET leased_until = NOW(6) + INTERVAL 1 HOUR, program = 1 LIMIT 3",
    );
    refused(&["do not go with", "nodes of such programs run: stop them first"]);
    cluster
        .sql("UPDATE outbox_lanes SET leased_until = NOW(6) - INTERVAL 1 SECOND WHERE program = 1");
    drop((old, new));
    let brought = cluster.node();
    assert_eq!(brought.get(&format!("/v1/posts/{id}")).status, 200);
}

#[test]
fn a_node_with_another_delay_is_refused() {
    let cluster = Cluster::new();
    let _node = cluster.node();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", data, "--set", "cluster.delay=40ms"];
    let refused = crate::harness::Madang::new(serve)
        .env("MADANG_DATABASE_URL", &cluster.database.url())
        .fails_with(6);
    refused.complains(&["cluster.delay is 40ms here and 25ms in the database"]);
}

#[test]
fn a_token_that_is_logged_out_on_one_node_is_valid_on_none() {
    let cluster = Cluster::new();
    let (one, other) = (cluster.node(), cluster.node());
    one.somebody("mina");
    for _ in 0..20 {
        let mina = one.log_in("mina");
        assert_eq!(other.post("/v1/schedules", Some(&mina), &plan("walk", 1)).status, 201);
        assert_eq!(one.post("/v1/auth/user/logout", Some(&mina), &json!({})).status, 204);
        other.post("/v1/schedules", Some(&mina), &plan("walk", 1)).problem(401);
    }
}

#[test]
fn the_limit_of_schedules_is_exact_over_two_nodes() {
    let cluster = Cluster::new();
    let (one, other) = (cluster.node(), cluster.node());
    for round in 0..crate::schedules_limit::rounds() {
        let mina = one.somebody(&format!("mina-{round}"));
        let made = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for client in 0..64 {
                let (mina, made) = (&mina, &made);
                let node = if client % 2 == 0 { &one } else { &other };
                scope.spawn(move || {
                    let answer = node.post("/v1/schedules", Some(mina), &plan("walk", client));
                    assert!([201, 409].contains(&answer.status), "{}", answer.text());
                    made.fetch_add(u64::from(answer.status == 201), SeqCst);
                });
            }
        });
        assert_eq!(made.into_inner(), 30, "round {round}");
    }
}

#[test]
fn a_node_that_was_stopped_for_a_while_answers_nothing_from_before() {
    let cluster = Cluster::new();
    let (one, other) = (cluster.node(), cluster.node());
    let mina = one.somebody("mina");
    let id = made(&one, &mina, &bicycle());
    let path = format!("/v1/posts/{id}");
    for write in 1..=5 {
        other.get(&path);
        let mut waiting = other.connect();
        other.signal(Signal::STOP);
        assert_eq!(patch(&one, &mina, id, &json!({ "price": write })).status, 200);
        waiting.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        other.signal(Signal::CONT);
        let answer = waiting.answer_to("GET").unwrap();
        assert_eq!(price(&answer), write);
    }
}

#[test]
fn without_its_database_a_node_says_so_and_comes_back_by_itself() {
    let cluster = Cluster::new();
    let node = cluster.setup().set("cluster.wait", "3s").start();
    let mina = node.somebody("mina");
    let id = made(&node, &mina, &bicycle());
    // As if the network were cut: the server is there and does not answer.
    cluster.signal(Signal::STOP);
    let path = format!("/v1/posts/{id}");
    eventually("reads are refused", || (node.get(&path).status == 503).then_some(()));
    assert_eq!(node.get("/health/live").status, 200);
    cluster.signal(Signal::CONT);
    eventually("reads are answered", || (node.get(&path).status == 200).then_some(()));
}

#[test]
fn one_node_keeps_house_and_another_one_when_it_dies() {
    let cluster = Cluster::new();
    let mut nodes = vec![cluster.node(), cluster.node()];
    let keeps = |node: &Server| node.metric("madang_cluster_housekeeper", &[]) > 0.5;
    let keeper = eventually("one of them does it", || nodes.iter().position(keeps));
    assert_eq!(nodes.iter().filter(|node| keeps(node)).count(), 1);
    let mut dead = nodes.remove(keeper);
    dead.signalled_until_it_ends(Signal::KILL);

    let node = nodes.remove(0);
    let mina = node.somebody("mina");
    let article = json!({ "title": "a", "content": "b" });
    let article = node.post("/v1/articles", Some(&mina), &article).json()["id"].to_string();
    let comments = format!("/v1/articles/{article}/comments");
    assert_eq!(node.post(&comments, Some(&mina), &json!({ "content": "c" })).status, 201);
    assert_eq!(node.delete(&format!("/v1/articles/{article}"), Some(&mina)).status, 204);
    let mut conn = mysql::Conn::new(cluster.database.url().as_str()).unwrap();
    eventually("the comment is swept away", || {
        let left: Option<u64> = conn.query_first("SELECT count(*) FROM article_comments").unwrap();
        (left == Some(0)).then_some(())
    });
    assert!(keeps(&node));
}

#[test]
fn markets_that_are_imported_while_they_are_served_are_seen_on_all_nodes() {
    let cluster = Cluster::new();
    let nodes = [cluster.node(), cluster.node()];
    let found = |node: &Server| {
        let page = node.get("/v1/markets?limit=1&q=%EC%A4%91%EC%95%99").json();
        page["items"].as_array().unwrap().len()
    };
    // Kept, so that a body that is not ended is found out.
    for node in [&nodes, &nodes, &nodes].into_iter().flatten() {
        assert_eq!(found(node), 0);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut import: Vec<std::ffi::OsString> =
        ["import", "markets", "--data"].map(Into::into).to_vec();
    import.push(dir.path().into());
    import.extend(crate::harness::data::bundled_markets().into_iter().map(Into::into));
    let import = crate::harness::Madang::new(import);
    import.env("MADANG_DATABASE_URL", &cluster.database.url()).succeeds();
    for node in &nodes {
        eventually("the node has read them", || (found(node) == 1).then_some(()));
    }
    let market = nodes[0].get("/v1/markets?limit=1").json()["items"][0]["id"].to_string();
    assert_eq!(nodes[1].get(&format!("/v1/markets/{market}")).status, 200);
}

#[test]
fn a_node_that_signs_tokens_with_another_key_is_refused() {
    let cluster = Cluster::new();
    let _node = cluster.node();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", data];
    let refused = crate::harness::Madang::new(serve)
        .env("MADANG_DATABASE_URL", &cluster.database.url())
        .fails_with(6);
    refused
        .complains(&["another key than the other nodes of this database: set accounts.token_key"]);
}
