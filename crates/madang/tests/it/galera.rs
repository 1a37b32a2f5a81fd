//! Nodes on a Galera cluster: three servers, of which any one may fail.

use crate::accounts_guard::at_once;
use crate::articles::{read, write};
use crate::cluster_drills::{holds, only, stopped, until_answered};
use crate::cluster_load::Load;
use crate::harness::database::{directory_of_a_server, supervisor};
use crate::harness::up::{Up, to};
use crate::harness::{Madang, Server, Setup, eventually};
use crate::likes::ask;
use crate::nodes::KEY;
use crate::posts::with;
use crate::schedules::plan;
use madang_stack::mariadb::{MariaDb, MariaDbSettings};
use madang_testing::drill;
use mysql::prelude::Queryable as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::time::Duration;

struct Cluster {
    servers: Vec<MariaDb>,
    _dir: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let settings = MariaDbSettings { max_connections: 300, ..MariaDbSettings::default() };
        let servers = MariaDb::galera(&supervisor(), dir.path(), 3, &settings).unwrap();
        Self { servers, _dir: dir }
    }

    /// A node whose list begins with this server.
    fn node(&self, first: usize) -> Server {
        let mut urls: Vec<_> = self.servers.iter().map(MariaDb::url).collect();
        urls.rotate_left(first);
        Setup::new()
            .cheap_hash()
            .set("accounts.token_key", KEY)
            .set("database.url", &urls.join(","))
            .set("database.max_connections", "24")
            .set("cluster.wait", "15s")
            .patient()
            .start()
    }

    fn number(&self, server: usize, sql: &str) -> i64 {
        let mut session = mysql::Conn::new(self.servers[server].url().as_str()).unwrap();
        session.query_drop("SET SESSION wsrep_sync_wait = 7").unwrap();
        session.query_first(sql).unwrap().unwrap()
    }
}

/// The two nodes write on two servers, so what they change meets there only by certification.
#[test]
fn what_two_nodes_do_on_two_servers_is_as_exact_as_on_one() {
    let cluster = Cluster::new();
    let nodes = [cluster.node(0), cluster.node(1)];
    let (mina, juno) = (nodes[0].somebody("mina"), nodes[1].somebody("juno"));

    // A name is taken once.
    let body =
        json!({"nickname": "yuna", "password": "correct horse", "region_name": "서울특별시"});
    let made = at_once(8, |i| nodes[i % 2].post("/v1/auth/user/register", None, &body).status);
    assert_eq!(made.iter().filter(|&&status| status == 201).count(), 1, "{made:?}");
    assert_eq!(made.iter().filter(|&&status| status == 409).count(), 7, "{made:?}");

    // Of 64 schedules at once 30 are taken, and the others refused.
    // With a key: what was not answered in time is sent again and done once.
    let (bearer, keys) = (mina.bearer(), (0..64).map(|i| format!("plan-{i}")).collect::<Vec<_>>());
    let statuses = at_once(64, |i| {
        eventually("the outcome is known", || {
            let headers = [
                ("Authorization", bearer.as_str()),
                ("Content-Type", "application/json"),
                ("Idempotency-Key", keys[i].as_str()),
            ];
            let body = plan("walk", i as u32).to_string();
            let mut connection = nodes[i % 2].connect();
            let answer = connection.send_body("POST", "/v1/schedules", &headers, body);
            (!matches!(answer.status, 503 | 504)).then_some(answer.status)
        })
    });
    let count = |status| statuses.iter().filter(|&&found| found == status).count();
    assert_eq!((count(201), count(409)), (30, 34), "{statuses:?}");
    let rows = "SELECT count(*) FROM schedules";
    assert_eq!([0, 1, 2].map(|server| cluster.number(server, rows)), [30; 3]);

    // A create with a key is done once, on whichever node it is repeated.
    let post = with("title", json!("once"));
    let ids = at_once(8, |i| {
        let node = &nodes[i % 2];
        eventually("the outcome is known", || {
            let mut connection = node.connect();
            let bearer = juno.bearer();
            let headers = [
                ("Authorization", bearer.as_str()),
                ("Content-Type", "application/json"),
                ("Idempotency-Key", "the-same"),
            ];
            let answer = connection.send_body("POST", "/v1/posts", &headers, post.to_string());
            // 409 while the first request is in progress.
            (answer.status == 201).then(|| answer.json()["id"].as_i64().unwrap())
        })
    });
    assert_eq!(ids, [ids[0]; 8]);

    // What one node acknowledges the other one shows.
    let path = format!("/v1/posts/{}", ids[0]);
    for price in 1..=20 {
        let writer = &nodes[price % 2];
        let change = writer.connect().json("PATCH", &path, Some(&juno), &json!({"price": price}));
        assert_eq!(change.status, 200, "{}", change.text());
        assert_eq!(nodes[1 - price % 2].get(&path).json()["price"], price);
    }

    // Likes of one article from both, and the count is that of the rows.
    let id = write(&nodes[0], &mina, "liked");
    let people: Vec<_> = (0..16).map(|n| nodes[n % 2].somebody(&format!("user-{n}"))).collect();
    let liked = at_once(32, |i| {
        let method = if i < 16 { "PUT" } else { "POST" };
        ask(&mut nodes[i % 2].connect(), method, id, &people[i % 16]).status
    });
    assert_eq!(liked, [200; 32]);
    let rows = format!("SELECT count(*) FROM article_likes WHERE article_id = {id}");
    let count = format!("SELECT like_count FROM articles WHERE id = {id}");
    assert_eq!(cluster.number(2, &rows), cluster.number(2, &count));
    assert_eq!(read(&nodes[1], id, None).json()["likeCount"], cluster.number(2, &rows));
}

#[test]
fn a_node_goes_on_with_another_server_when_its_own_dies() {
    if !drill!() {
        return;
    }
    let cluster = Cluster::new();
    let node = cluster.node(0);
    let mina = node.somebody("mina");
    let made =
        |n: usize| node.post("/v1/posts", Some(&mina), &with("title", json!(format!("{n}"))));
    assert_eq!(made(1).status, 201);
    let kill = |server: usize| {
        let pid = Pid::from_raw(cluster.servers[server].pid().cast_signed()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        eventually("it is gone", || cluster.servers[server].exit());
    };
    kill(0);
    let after = made(2);
    assert_eq!(after.status, 201, "{}", after.text());
    node.until_logged("this node goes on to 127.0.0.1");
    let path = format!("/v1/posts/{}", after.json()["id"]);
    assert_eq!(node.get(&path).status, 200);
    // One of three that is alone serves nobody: it cannot know what the others have.
    kill(1);
    eventually("it says so", || (node.get("/health/ready").status == 503).then_some(()));
}

#[test]
fn servers_that_are_no_cluster_are_refused() {
    let dirs = [0, 1].map(|_| directory_of_a_server());
    let servers = [0, 1].map(|at| MariaDb::start(&supervisor(), dirs[at].path()).unwrap());
    let urls = servers.each_ref().map(MariaDb::url).join(",");
    let dir = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data", dir.path().to_str().unwrap()];
    let refused = Madang::new(serve)
        .env("MADANG_DATABASE_URL", &urls)
        .env("MADANG_ACCOUNTS_TOKEN_KEY", KEY)
        .fails_with(6);
    refused.complains(&["belongs to no Galera cluster"]);
}

fn three_servers() -> Up {
    Up::start(&["--nodes", "2", "--database", "galera:3", "--balance", "nginx"])
}

/// The first server of the list, which both nodes use.
fn used(up: &Up) -> String {
    let urls = up.line["database"].as_str().unwrap();
    urls.split(',').next().unwrap().rsplit_once('/').unwrap().0.to_owned()
}

fn process(up: &Up) -> Pid {
    let file = up.dir.path().join("galera/1/data/mariadb.pid");
    eventually("a process id", || {
        let pid = std::fs::read_to_string(&file).ok()?.trim().parse().ok()?;
        Pid::from_raw(pid)
    })
}

#[test]
fn a_server_that_is_killed_under_load_and_joins_again_loses_nothing() {
    if !drill!() {
        return;
    }
    let up = three_servers();
    let seen = Load::at(up.url).run(|_| {
        let pid = process(&up);
        to(pid, Signal::KILL);
        eventually("it has joined again", || {
            let port = used(&up).rsplit(':').next().unwrap().to_owned();
            let is_new = process(&up) != pid;
            let joined = is_new.then(|| wsrep_ready(&up, &port)).flatten();
            joined.filter(|ready| ready == "ON")
        });
        until_answered(&up);
    });
    holds("`kill -9` of the Galera server that both nodes use, joining again", &seen);
    only(&seen, &[]);
}

fn wsrep_ready(up: &Up, port: &str) -> Option<String> {
    let login = up.line["database"].as_str().unwrap().split(',').find(|url| url.contains(port))?;
    let mut session = mysql::Conn::new(login).ok()?;
    let row: Option<(String, String)> =
        session.query_first("SHOW STATUS LIKE 'wsrep_ready'").ok()?;
    Some(row?.1)
}

#[test]
fn a_server_of_a_cluster_that_stands_still_under_load_loses_nothing() {
    if !drill!() {
        return;
    }
    let up = three_servers();
    let seen = Load::at(up.url).run(|_| {
        stopped(process(&up), Duration::from_secs(10));
        until_answered(&up);
    });
    holds("SIGSTOP of the Galera server that both nodes use for 10 s", &seen);
    only(&seen, &["503", "504"]);
}
