//! `madang up`: what it starts, what it starts again, and what it leaves.

use crate::harness::command::clean;
use crate::harness::up::{Up, to};
use crate::harness::{Connection, Madang, PASSWORD, eventually, namespace, stores};
use mysql::prelude::Queryable as _;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// One of each kind of server.
const ALL: [&str; 8] =
    ["--nodes", "2", "--database", "mariadb", "--replicas", "1", "--balance", "nginx"];

fn status(at: SocketAddr, path: &str) -> Option<u16> {
    let mut connection = Connection::try_open(at).ok()?;
    connection.try_send(crate::harness::client::head("GET", path, &[]));
    connection.answer().map(|answer| answer.status)
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
    for (round, signal) in (1..).zip([Signal::KILL, Signal::TERM]) {
        let node = up.node(1);
        to(node, signal);
        eventually("another process serves", || {
            (up.node(1) != node && status(up.nodes[0], "/health/ready") == Some(200)).then_some(())
        });
        eventually("that is said", || {
            (up.log().matches("node-1 is ready again").count() == round).then_some(())
        });
    }

    let all = up.descendants();
    up.signal(Signal::INT);
    assert!(up.wait().success(), "{}", up.log());
    until_gone(&all);
}

#[test]
fn the_line_names_every_server_and_settings_reach_every_node() {
    let can_limit = madang_testing::can_make_cgroups();
    let budget: &[_] = if can_limit { &["--node-cpus", "1.5"] } else { &[] };
    let up = Up::start(&[&ALL[..], &["--set", "log.format=json"], budget].concat());
    let keys: Vec<_> = up.line.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        ["url", "nodes", "database", "replicas", "cache", "counts", "nginx", "dir", "processes"]
    );
    assert!(up.line["cache"].is_null());
    assert_eq!(up.line["dir"], up.dir.path().canonicalize().unwrap().to_str().unwrap());
    for (number, node) in (1..).zip(up.line["nodes"].as_array().unwrap()) {
        assert_eq!(node["pid"], up.node(number).as_raw_nonzero().get());
        assert_eq!(status(up.nodes[number - 1], "/health/ready"), Some(200));
        assert_eq!(status(up.metrics[number - 1], "/metrics"), Some(200));
        let log = std::fs::read_to_string(up.dir.path().join(format!("node-{number}.log")));
        assert!(log.unwrap().starts_with('{'), "--set reaches node {number}");
    }
    assert_eq!(up.nodes.len(), 2);
    // The name of the cgroup that a process with a budget is in.
    let budget_of = |pid: &Value| {
        let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        cgroups.lines().find_map(|line| Some(line[line.find("stack-")?..].to_owned()))
    };
    let processes = up.line["processes"].as_array().unwrap();
    let budgets: Vec<_> = processes.iter().filter_map(|one| budget_of(&one["pid"])).collect();
    if can_limit {
        let own = [1, 2].map(|node| budget_of(&json!(up.node(node).as_raw_nonzero())).unwrap());
        assert!(own[0] != own[1] && budgets.len() == 2, "{own:?} {budgets:?}");
    } else {
        madang_testing::skip!(can_limit, "the budgets of nodes: no cgroups here");
    }
    let replica = up.line["replicas"][0].as_str().unwrap();
    eventually("the replica has the tables and the login", || {
        let mut conn = mysql::Conn::new(replica).ok()?;
        conn.query_first::<u64, _>("SELECT count(*) FROM users").ok()?
    });

    let dir = up.dir.path().to_str().unwrap();
    let another = Madang::new(["up", "--dir", dir]).fails_with(5);
    another.complains(&[dir, "is in use by process", "choose another directory"]);
}

#[test]
fn nothing_of_it_outlives_a_kill_and_the_next_one_goes_on_with_its_data() {
    let mut up = Up::start(&ALL);
    let mut connection = Connection::open(up.url);
    let body = json!({"nickname": "mina", "password": PASSWORD, "region_name": "서울특별시"});
    assert_eq!(connection.json("POST", "/v1/auth/user/register", None, &body).status, 201);
    let answer = connection.json("POST", "/v1/auth/user/login", None, &body);
    let bearer = format!("Bearer {}", answer.json()["token"].as_str().unwrap());

    let (all, addresses) = (up.descendants(), up.addresses());
    assert!(
        all.len() > 2 * 5,
        "five servers, each with a supervisor, and nginx has workers: {all:?}"
    );
    up.signal(Signal::KILL);
    up.wait();
    until_gone(&all);
    for address in addresses {
        assert!(Connection::try_open(address).is_err(), "somebody listens at {address}");
    }

    let dir = std::mem::replace(&mut up.dir, tempfile::tempdir().unwrap());
    let key = dir.path().join("token.key").metadata().unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let again = Up::start_in(dir, &ALL);
    for node in &again.nodes {
        let me =
            Connection::open(*node).request("GET", "/v1/users/me", &[("Authorization", &bearer)]);
        assert_eq!(me.status, 200, "{}", me.text());
    }
}

#[test]
fn a_start_that_is_killed_while_it_makes_its_database_can_be_repeated() {
    let flags = ["--nodes", "1", "--database", "mariadb"];
    // In another directory where this thread was held up, and the database was made meanwhile.
    let dir = eventually("it is killed while it makes its database", || {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let (mut child, _home) = Madang::new(["up", "--dir", path].iter().chain(&flags)).spawn();
        let mariadb = dir.path().join("mariadb");
        eventually("its system tables are begun", || {
            let begun = mariadb.join("data.new").join("mysql").exists();
            (begun || mariadb.join("data").exists()).then_some(())
        });
        to(Pid::from_child(&child), Signal::KILL);
        child.wait().unwrap();
        (!mariadb.join("data").exists()).then_some(dir)
    });
    let again = Up::start_in(dir, &flags);
    assert_eq!(status(again.url, "/health/ready"), Some(200));
}

#[test]
fn the_data_of_a_directory_are_served_by_several_nodes() {
    let from = stores::bundled();
    let path = from.path().to_str().unwrap();
    let tracks = |up: &Up, node: usize| {
        let list = Connection::open(up.nodes[node]).get("/v1/tracks").json();
        list["items"].as_array().unwrap().len()
    };
    let up = Up::start(&["--nodes", "2", "--balance", "off", "--from", path]);
    assert!(tracks(&up, 0) > 0 && tracks(&up, 0) == tracks(&up, 1));
    let file = Up::start(&["--nodes", "1", "--database", "sqlite", "--from", path]);
    assert_eq!(tracks(&file, 0), tracks(&up, 0));
    let empty = tempfile::tempdir().unwrap();
    let refused = Madang::new(["up", "--from", empty.path().to_str().unwrap()]).fails_with(2);
    refused.complains(&["holds no madang.db"]);
}

/// A variant may be a stack: it has the data of the experiment, and each part of it has figures.
#[test]
fn a_variant_may_be_a_stack() {
    let dir = tempfile::tempdir().unwrap();
    let script = "import http from 'k6/http'; import { check } from 'k6';
        export const options = { vus: 2, duration: '3s' };
        export default () => {
          const tracks = http.get(`${__ENV.BASE_URL}/v1/tracks?near=54.4,-3.2`);
          check(tracks, { 'data are there': (r) => r.json('items').length > 0 });
        };";
    std::fs::write(dir.path().join("s.js"), script).unwrap();
    let experiment = "name = 'stacks'
        reference = 'alone'
        [data]
        samples = true
        [load]
        script = 's.js'
        [rounds]
        blocks = 1
        warm_up = '0s'
        accept = ['steal', 'foreign_cpu']
        [observe]
        metrics = ['madang_store_reads_total']
        [variants.alone]
        serve = { 'cache.mode' = 'off' }
        [variants.stack]
        stack = { nodes = 2, replicas = 1, cache = 'valkey', balance = 'nginx' }
        serve = { 'cache.mode' = 'remote', 'likes.write' = 'stream' }
        ";
    let file = dir.path().join("e.toml");
    std::fs::write(&file, experiment).unwrap();
    let (file, out) = (file.to_str().unwrap(), dir.path().join("out"));
    let run = Madang::new(["compare", file, "--out", out.to_str().unwrap()]).run();
    assert!(matches!(run.code, Some(0 | 3)), "{} {}", run.stdout, run.stderr);
    let report = std::fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let value = |variant: usize, name: &str| {
        let metrics = report["variants"][variant]["metrics"].as_array().unwrap();
        let row = metrics.iter().find(|row| row["metric"] == name);
        row.unwrap_or_else(|| panic!("{name}: {report}"))["value"].as_f64()
    };
    assert_eq!(report["variants"][1]["name"], "stack");
    for figure in ["cpu_per_good_request", "peak_memory"] {
        let of = |name: &str| {
            let used = value(1, &format!("{figure}.{name}")).unwrap_or_default();
            assert!(used > 0.0, "{figure}.{name}: {report}");
            used
        };
        let whole = value(1, figure).unwrap();
        let sum = of("nodes") + of("nginx") + of("mariadb") + of("valkey");
        // `madang up` itself belongs to no part; peaks of memory need not be at the same moment.
        let most = if figure == "peak_memory" { 1.2 } else { 1.001 };
        assert!((whole / 2.0..=whole * most).contains(&sum), "{figure}: {sum} of {whole}");
        for (part, processes) in [
            ("nodes", ["node-1", "node-2"]),
            ("mariadb", ["primary", "replica-1"]),
            ("valkey", ["cache", "counts"]),
        ] {
            let sum: f64 = processes.map(of).iter().sum();
            // Peaks of processes need not be at the same moment.
            assert!((1.0 - 1e-6..1.2).contains(&(sum / of(part))), "{figure}.{part}: {sum}");
        }
    }
    let [requests, accepted] = ["nginx.requests", "nginx.accepted"].map(|name| value(1, name));
    assert!(requests > Some(10.0) && accepted >= Some(2.0), "{report}");
    assert_eq!(value(1, "nginx.dropped"), Some(0.0));
    for counted in ["mysql.Questions", "redis.used_memory.max", "nginx.active.max"] {
        assert!(value(1, counted).is_some_and(|count| count > 0.0), "{counted}: {report}");
    }
    assert!(value(0, "cpu_per_good_request.nodes").is_some_and(|used| used > 0.0));
    for other in ["nginx", "node-1"] {
        assert!(value(0, &format!("cpu_per_good_request.{other}")).is_none(), "{other}: {report}");
    }
    for (stack, reason) in [
        ("nodes = 2, database = 'sqlite'", "cannot share a file"),
        ("ports = 3", "`stack` has no `ports`"),
    ] {
        let wrong = experiment
            .replace("nodes = 2, replicas = 1, cache = 'valkey', balance = 'nginx'", stack);
        std::fs::write(file, wrong).unwrap();
        Madang::new(["compare", file, "--check"]).fails_with(2).complains(&[reason]);
    }
}

#[test]
fn one_node_with_a_file_is_served_over_tls() {
    let up = Up::start(&["--tls"]);
    let url = up.line["url"].as_str().unwrap();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    assert!(up.line["database"].as_str().unwrap().starts_with("sqlite:/"));
    let certificate = up.dir.path().join("tls.crt");
    let asked = Madang::from_command({
        let mut curl = clean("curl");
        curl.args(["-sS", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", "--cacert"]);
        curl.arg(certificate).arg(format!("{url}/health/ready"));
        curl
    });
    assert_eq!(asked.succeeds().stdout, "2 200");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_started() {
    for (flags, reason) in [
        (["--nodes", "0", "--balance", "off"], "there is nothing to start"),
        (["--nodes", "2", "--database", "sqlite"], "several nodes cannot share a file"),
        (["--replicas", "1", "--database", "sqlite"], "a file has no replicas"),
        (["--nodes", "1", "--set", "cache.mode=sometimes"], "cache.mode"),
    ] {
        Madang::new(["up"].iter().chain(&flags)).fails_with(2).complains(&[reason]);
    }
    let many = Madang::new(["up", "--nodes", "17", "--database", "mariadb"]).fails_with(2);
    assert!(many.stderr.contains("17 is not in 0..=16"), "{}", many.stderr);
    let nowhere = tempfile::tempdir().unwrap();
    let asked = ["up", "restart", "--dir", nowhere.path().to_str().unwrap()];
    Madang::new(asked).fails_with(1).complains(&["no `madang up` runs in"]);
}

#[test]
fn all_packages_that_are_missing_are_named_at_once() {
    // Debian has both servers in this directory.
    let mut command = namespace::on_small_disk(Path::new("/usr/sbin"), "64k", "cd /");
    command.args(["up", "--nodes", "2"]);
    let refused = Madang::from_command(command).fails_with(1);
    refused.complains(&["apt-get install mariadb-server nginx-light"]);
}
