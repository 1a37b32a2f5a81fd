//! Observed databases beside the server: real MariaDB and Redis.

use madang_testing::Finish as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use madang_lab::{Conclusion, Failure, FailureKind, Host, Report};
use madang_stack::mariadb::MariaDb;
use madang_stack::nginx::{Balancer, Nginx, Profile};
use madang_stack::redis::Redis;

use crate::help::{FIXTURE, Lab, measured, two};
use crate::host::TestHost;
use crate::report_schema::assert_right;

const SERVE: &str = "serve = { delay_ms = 1 }";

/// A server per test, because counters are global.
pub struct Database<S> {
    pub server: S,
    _dir: tempfile::TempDir,
}

impl<S> Database<S> {
    fn start(
        start: fn(&madang_stack::Supervisor, &Path) -> Result<S, madang_stack::Error>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let supervisor = TestHost::new(Path::new(FIXTURE)).supervisor();
        Self { server: start(&supervisor, dir.path()).unwrap(), _dir: dir }
    }
}

pub fn mariadb() -> Database<MariaDb> {
    Database::start(MariaDb::start)
}

pub fn redis() -> Database<Redis> {
    Database::start(Redis::start)
}

/// Debian's configuration with one worker. Its node does not listen: it returns status 502.
fn nginx() -> Database<Nginx> {
    Database::start(|supervisor, dir| {
        let (nodes, profile) = (vec![(Ipv4Addr::LOCALHOST, 1).into()], Profile::Stock);
        let balancer = Balancer { nodes, profile, workers: Some(1), certificate: None };
        Nginx::balancer(supervisor, dir, &balancer)
    })
}

/// A command that sends these statements.
fn sql(server: &MariaDb, statements: &str) -> String {
    let port = server.port();
    format!(
        "mariadb --no-defaults --host=127.0.0.1 --port={port} --user=root --batch test \
         --execute '{statements}'"
    )
}

/// Runs a command line now.
#[track_caller]
fn shell(line: &str) {
    let output = std::process::Command::new("sh").args(["-c", line]).finish();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A hook that runs a command line during the load.
fn during(line: &str) -> String {
    format!(
        "[hooks]\ntime_limit = \"60s\"\nduring = {{ at = \"20ms\", command = [\"sh\", \"-c\", {line:?}] }}\n"
    )
}

/// An experiment of one block, whose broken rounds are not repeated.
fn lab(lines: &str) -> Lab {
    // Long enough for actions during it, even on a busy machine.
    let text = two(SERVE, SERVE, 1, lines).replace("[rounds]", "[rounds]\nretries = 0");
    let text = text.replace("\"300ms\"", "\"2s\"");
    Lab::new("get", &text)
}

/// Failure of the first round.
#[track_caller]
pub fn failure(report: &Report) -> &Failure {
    report.rounds[0].failure().unwrap_or_else(|| panic!("nothing broke: {}", report.to_text()))
}

#[test]
fn what_happened_in_the_databases_is_counted_to_the_statement() {
    let (mariadb, redis) = (mariadb(), redis());
    shell(&sql(&mariadb.server, "create table t (id int primary key, n int) engine = innodb"));
    let statements = "insert into t values (1, 1); insert into t values (2, 2); \
                      update t set n = 3 where id = 1; select * from t; \
                      begin; delete from t where id = 1; rollback; \
                      begin; delete from t where id < 9; commit";
    // A client that reads commands from a pipe would ask for help first.
    let line = format!(
        "{}; for command in 'SET a 1' 'GET a' 'GET a' 'GET b' 'DEL a'; do \
         redis-cli -p {} $command > /dev/null; done",
        sql(&mariadb.server, statements),
        redis.server.port()
    );
    let lines = format!(
        "[observe]\nmysql = {:?}\nredis = {:?}\n{}",
        mariadb.server.url(),
        redis.server.url(),
        during(&line)
    );
    let report = lab(&lines).run();
    assert_eq!(report.conclusion(), Conclusion::Done, "{}", report.to_text());
    assert_eq!(report.rounds.len(), 2);
    for round in &report.rounds {
        let databases = &measured(round).databases;
        assert_eq!(databases.len(), 16, "{databases:?}");
        for (name, expected) in [
            // Ten statements and the client's quit.
            ("mysql.Questions", 11.0),
            ("mysql.Com_insert", 2.0),
            ("mysql.Com_update", 1.0),
            ("mysql.Com_select", 1.0),
            ("mysql.Com_delete", 2.0),
            ("mysql.Com_commit", 1.0),
            ("mysql.Com_rollback", 1.0),
            ("mysql.Innodb_row_lock_waits", 0.0),
            ("mysql.Innodb_deadlocks", 0.0),
            ("redis.total_commands_processed", 5.0),
            ("redis.keyspace_hits", 2.0),
            ("redis.keyspace_misses", 1.0),
            ("redis.evicted_keys", 0.0),
        ] {
            assert_eq!(databases[name], expected, "{name} of {databases:?}");
        }
        assert!(databases["redis.used_memory.max"] > 100_000.0, "{databases:?}");
        assert!(databases["mysql.Threads_running.max"] <= 1.0, "{databases:?}");
    }
    let text = report.to_text();
    assert!(text.contains("mysql.Com_insert") && text.contains("redis.used_memory.max"), "{text}");
}

#[test]
fn waiting_for_a_row_and_threads_that_run_are_seen() {
    let mariadb = mariadb();
    shell(&sql(
        &mariadb.server,
        "create table t (id int primary key, n int) engine = innodb; insert into t values (1, 1)",
    ));
    // One transaction holds the row until another one waits for it, as seen in the process list: InnoDB's own tables do
    // not change while they are read. It holds on for a while: a wait of less than a millisecond counts as 0 ms.
    let connect = sql(&mariadb.server, "").replace("--execute ''", "--unbuffered");
    let dirty = "set session transaction isolation level read uncommitted; select n from t";
    let busy = "select state from information_schema.processlist where state = \"Updating\"";
    let (locked, waiting) = (sql(&mariadb.server, dirty), sql(&mariadb.server, busy));
    let waiter = sql(&mariadb.server, "update t set n = 3; do sleep(1)");
    let line = format!(
        "(echo 'begin; update t set n = 2;'; until {locked} | grep -q 2; do :; done; {waiter} & \
         until {waiting} | grep -q Updating; do :; done; echo 'do sleep(0.3); commit;'; wait) | {connect}"
    );
    let lines = format!("[observe]\nmysql = {:?}\n{}", mariadb.server.url(), during(&line));
    let report = lab(&lines).run();
    let databases = &measured(&report.rounds[0]).databases;
    assert_eq!(databases["mysql.Innodb_row_lock_waits"], 1.0, "{databases:?}");
    let waited = databases["mysql.Innodb_row_lock_time"];
    assert!(waited >= 1.0, "{databases:?}");
    assert!(databases["mysql.Threads_running.max"] >= 1.0, "{databases:?}");
}

/// Each of two transactions holds a row, and then requests the row of the other one once both are held.
#[test]
fn a_deadlock_is_counted() {
    let mariadb = mariadb();
    let create = "create table t (id int primary key, n int) engine = innodb";
    shell(&sql(&mariadb.server, &format!("{create}; insert into t values (1, 1), (2, 1)")));
    let connect = sql(&mariadb.server, "").replace("--execute ''", "--unbuffered");
    let dirty = "set session transaction isolation level read uncommitted; \
                 select count(*) from t where n = 2";
    let held = sql(&mariadb.server, dirty);
    let session = |own: u8, other: u8| {
        format!(
            "(echo 'begin; update t set n = 2 where id = {own};'; until {held} | grep -q 2; do :; done; \
             echo 'update t set n = 2 where id = {other}; commit;') | {connect}"
        )
    };
    // The client that is rolled back fails.
    let line = format!("{} & {}; wait", session(1, 2), session(2, 1));
    let lines = format!("[observe]\nmysql = {:?}\n{}", mariadb.server.url(), during(&line));
    let lines = lines.replace("[hooks]", "[hooks]\nreset = [\"sh\", \"-c\", RESET]");
    let reset = format!("{:?}", sql(&mariadb.server, "update t set n = 1"));
    let report = lab(&lines.replace("RESET", &reset)).run();
    for round in &report.rounds {
        let databases = &measured(round).databases;
        assert_eq!(databases["mysql.Innodb_deadlocks"], 1.0, "{databases:?}");
        assert!(databases["mysql.Innodb_row_lock_waits"] >= 1.0, "{databases:?}");
    }
}

/// Opens connections one after the other and holds them for a second or until the last one is closed. Each one sends a
/// body, so that nginx does not close it in favour of others.
const CROWD: &str = "
import socket, sys
from contextlib import suppress
port, count = map(int, sys.argv[1:])
def client():
    connection = socket.create_connection(('127.0.0.1', port))
    with suppress(OSError):
        connection.sendall(b'POST / HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 1\\r\\n')
        connection.sendall(b'Expect: 100-continue\\r\\n\\r\\n')
        connection.recv(99)
    return connection
clients = [client() for _ in range(count)]
clients[-1].settimeout(1)
with suppress(OSError): clients[-1].recv(1)
";

/// The lab's own queries are in no figure.
#[test]
fn what_nginx_answered_is_counted_to_the_request_and_so_is_what_it_dropped() {
    let nginx = nginx();
    let (page, nginx) = (nginx.server.status_url().unwrap(), &nginx.server);
    let ask = format!("curl -s -o /dev/null http://127.0.0.1:{}/[1-7]", nginx.port());
    let crowd = format!("python3 -c \"{CROWD}\" {}", nginx.port());
    let line = format!("{ask}; case $LAB_VARIANT in fast) {crowd} 1000;; *) {crowd} 30;; esac");
    let lines = format!("[observe]\nnginx = {page:?}\n{}", during(&line));
    let report = lab(&lines).run();
    for round in &report.rounds {
        let figures = &measured(round).databases;
        let count = |name: &str| figures[&format!("nginx.{name}")];
        if round.variant == "fast" {
            assert_eq!(count("accepted"), 1001.0, "{figures:?}");
            assert!((200.0..300.0).contains(&count("dropped")), "768 have room: {figures:?}");
            // A request of the lab may have been closed instead of dropped.
            let dropped = 1007.0 - count("requests");
            assert!((count("dropped") - dropped).abs() <= 1.0, "{dropped}: {figures:?}");
        } else {
            assert_eq!((count("accepted"), count("dropped")), (31.0, 0.0), "{figures:?}");
            assert_eq!((count("active.max"), count("requests")), (30.0, 37.0), "{figures:?}");
        }
        assert_eq!(count("handled"), count("accepted") - count("dropped"), "{figures:?}");
    }
    assert!(report.to_text().contains("nginx.dropped"), "{}", report.to_text());
}

#[test]
fn a_variant_can_have_a_database_of_its_own_and_predictions_can_be_about_it() {
    let (first, second) = (redis(), redis());
    let fill = format!(
        "for n in 1 2 3; do redis-cli -u $LAB_REDIS SADD s $n; done; \
         test $LAB_VARIANT = slow || redis-cli -p {} SADD s 4",
        second.server.port()
    );
    let lines = format!(
        "[observe]\nredis = {:?}\n{}\
         [[invariants]]\nname = \"all members\"\ncommand = [\"SCARD\", \"s\"]\nat_least = 3\n",
        first.server.url(),
        during(&fill)
    );
    let own = format!("{SERVE}\nredis = {:?}", second.server.url());
    let claim = "metric = \"http_req_duration.p50\", variant = \"fast\", ratio_at_most = 0.5";
    let text = two(SERVE, &own, 2, &lines).replace(
        claim,
        "metric = \"redis.total_commands_processed\", variant = \"fast\", at_least = 4",
    );
    let report = Lab::new("get", &text).run();
    assert!(report.broken.is_empty(), "{}", report.to_text());
    for round in &report.rounds {
        let commands = measured(round).databases["redis.total_commands_processed"];
        let expected = if round.variant == "slow" { 3.0 } else { 4.0 };
        assert_eq!(commands, expected, "{round:?}");
    }
    assert_eq!(report.predictions[0].verdict.to_string(), "supported", "{}", report.to_text());
}

#[test]
fn a_database_that_is_not_there_breaks_the_round_and_says_which() {
    for (key, start) in
        [("mysql", "mysql://root:secret@"), ("redis", "redis://:secret@"), ("nginx", "http://")]
    {
        let free = madang_stack::PortReservation::new().unwrap();
        let address = format!("{start}127.0.0.1:{}", free.port());
        let lab = lab(&format!("[observe]\n{key} = {address:?}\n"));
        let report = lab.run();
        let failure = failure(&report);
        assert_eq!(failure.kind, FailureKind::Database, "{failure:?}");
        let scheme = start.split_once("//").unwrap().0;
        let place = format!("{scheme}//127.0.0.1:{}", free.port());
        assert!(failure.message.contains(&place), "{failure:?}");
        assert!(failure.message.contains("refused"), "{failure:?}");
        assert!(!failure.message.contains("secret"), "{failure:?}");
        assert_eq!(report.conclusion(), Conclusion::SystemBroken);
    }
}

#[test]
fn an_nginx_that_ends_in_the_middle_of_a_round_breaks_it() {
    let nginx = nginx();
    let page = nginx.server.status_url().unwrap();
    let kill = during(&format!("kill {}", nginx.server.pid()));
    let report = lab(&format!("[observe]\nnginx = {page:?}\n{kill}")).run();
    let failure = failure(&report);
    assert_eq!(failure.kind, FailureKind::Database, "{failure:?}");
    assert!(failure.message.contains(&page) && failure.message.contains("refused"), "{failure:?}");
}

#[test]
fn a_database_that_hangs_in_the_middle_of_a_round_ends_it_in_time() {
    let (mariadb, redis) = (mariadb(), redis());
    for (key, url, pid) in [
        ("mysql", mariadb.server.url(), mariadb.server.pid()),
        ("redis", redis.server.url(), redis.server.pid()),
    ] {
        let begun = Instant::now();
        let lines = format!("[observe]\n{key} = {url:?}\n{}", during(&format!("kill -STOP {pid}")));
        let report = lab(&lines).run();
        let failure = failure(&report);
        assert_eq!(failure.kind, FailureKind::Database, "{failure:?}");
        assert!(failure.message.contains("no answer in time"), "{failure:?}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        shell(&format!("kill -CONT {pid}"));
    }
}

#[test]
fn something_else_in_place_of_a_database_is_told_from_it_in_time() {
    // Accepts and does not respond, like a database that hangs.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (key, scheme) in [("mysql", "mysql"), ("redis", "redis"), ("nginx", "http")] {
            scope.spawn(move || {
                let lab = lab(&format!("[observe]\n{key} = \"{scheme}://127.0.0.1:{port}\"\n"));
                let report = lab.run();
                let failure = failure(&report);
                assert_eq!(failure.kind, FailureKind::Database, "{failure:?}");
                assert!(failure.message.contains("no answer"), "{failure:?}");
            });
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn rows_of_mysql_and_members_of_redis_must_be_as_claimed() {
    let (mariadb, redis) = (mariadb(), redis());
    shell(&sql(&mariadb.server, "create table t (n int); insert into t values (2), (3)"));
    let add = format!(
        "{}; redis-cli -p {} SADD s a b > /dev/null",
        sql(&mariadb.server, "insert into t values (4)"),
        redis.server.port()
    );
    let (mysql, redis) = (mariadb.server.url(), redis.server.url());
    let lines = format!(
        "{}[values.rows]\nmysql = {mysql:?}\nsql = \"select count(*) from t\"\n\
         [[invariants]]\nname = \"one more\"\nmysql = {mysql:?}\nsql = \"select sum(n) / 1 from t\"\n\
         change = true\nequals = \"4 * (after.rows - before.rows)\"\n\
         [[invariants]]\nname = \"members\"\nredis = {redis:?}\ncommand = [\"SCARD\", \"s\"]\n\
         equals = 2\n",
        during(&add)
    );
    let lab = lab(&lines);
    let report = lab.run();
    assert!(report.broken.is_empty(), "{}", report.to_text());
    assert_eq!(report.invariants.len(), 2);
    let json = lab.json();
    assert_right(&json);
    assert_eq!(json["experiment"]["invariants"][1]["command"][0], "SCARD");
    assert!(measured(&report.rounds[0]).databases.is_empty(), "asked, but not observed");
}

#[test]
fn a_number_that_a_database_does_not_give_breaks_the_round_and_says_why() {
    let (mariadb, redis) = (mariadb(), redis());
    shell(&sql(
        &mariadb.server,
        "create table t (n int, c char(9)); insert into t values (1, \"x\")",
    ));
    shell(&format!("redis-cli -p {} RPUSH list a b > /dev/null", redis.server.port()));
    let (mysql, redis) = (mariadb.server.url(), redis.server.url());
    let other_user = mysql.replace("root@", "nobody:secret@");
    for (source, part) in [
        (format!("mysql = {mysql:?}\nsql = \"select n from missing\""), "doesn't exist"),
        (format!("mysql = {mysql:?}\nsql = \"select c from t\""), "gives a text"),
        (format!("mysql = {mysql:?}\nsql = \"select max(n) from t where n > 9\""), "gives NULL"),
        (format!("mysql = {mysql:?}\nsql = \"select n from t where n > 9\""), "no row"),
        (format!("mysql = {mysql:?}\nsql = \"delete from t\""), "READ ONLY"),
        (format!("mysql = {other_user:?}\nsql = \"select 1\""), "Access denied"),
        (format!("redis = {redis:?}\ncommand = [\"GET\", \"missing\"]"), "no such key"),
        (format!("redis = {redis:?}\ncommand = [\"LRANGE\", \"list\", \"0\", \"9\"]"), "list of 2"),
        (format!("redis = {redis:?}\ncommand = [\"LINDEX\", \"list\", \"0\"]"), "no number but"),
        (format!("redis = {redis:?}\ncommand = [\"SCARD\", \"list\"]"), "WRONGTYPE"),
        (format!("redis = {redis:?}\ncommand = [\"OOPS\"]"), "unknown command"),
        (format!("redis = \"{redis}/99\"\ncommand = [\"DBSIZE\"]"), "DB index"),
    ] {
        let report =
            lab(&format!("[[invariants]]\nname = \"it holds\"\n{source}\nequals = 1\n")).run();
        let failure = failure(&report);
        assert_eq!(failure.kind, FailureKind::Value, "{failure:?}");
        assert!(failure.message.contains(part), "no {part:?} in: {failure:?}");
        assert!(!failure.message.contains("secret"), "{failure:?}");
    }
    let rows = format!("mysql = {mysql:?}\nsql = \"select count(*) from t\"");
    let report = lab(&format!("[[invariants]]\nname = \"kept\"\n{rows}\nequals = 1\n")).run();
    assert!(report.broken.is_empty(), "something was deleted: {}", report.to_text());
}
