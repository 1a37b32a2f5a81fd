//! The real MariaDB and Redis, as installed by Debian.

use madang_testing::{Finish as _, until};
use std::net::TcpStream;
use std::process::Command;

use madang_stack::mariadb::{Account, Login, MariaDb, MariaDbSettings, Role};
use madang_stack::redis::Redis;

use crate::help::{signal, supervisor};

/// Output of a command.
#[track_caller]
fn output(program: &str, arguments: &[&str]) -> String {
    let ended = Command::new(program).args(arguments).finish();
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(ended.stdout).unwrap().trim().to_owned()
}

#[test]
fn mariadb_answers_queries_until_it_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let server = MariaDb::start(&supervisor(), dir.path()).unwrap();
    let ask = |server: &MariaDb, sql| {
        let port = format!("--port={}", server.port());
        let client = ["--no-defaults", "--host=127.0.0.1", &port, "--user=root", "--batch"];
        output(
            "mariadb",
            &[&client[..], &["--skip-column-names", "test", "--execute", sql]].concat(),
        )
    };
    let sql = "create table t (n int); insert into t values (3); select n from t";
    assert_eq!(ask(&server, sql), "3");
    assert_eq!(server.sample().unwrap().processes, 1);
    server.stop().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    let again = MariaDb::start(&supervisor(), dir.path()).unwrap();
    let count = ask(&again, "select count(*) from t");
    assert_eq!(count, "1", "a directory that has a store keeps it");
}

fn login(user: &str) -> Login {
    Login { user: user.to_owned(), password: format!("{user}_password") }
}

fn of_a_cluster(role: Role) -> MariaDbSettings {
    let account = Some(Account { database: "shop".to_owned(), login: login("clerk") });
    MariaDbSettings { account, role, ..MariaDbSettings::default() }
}

/// Output of a statement in the account's session, or the client's error.
fn query(server: &MariaDb, sql: &str) -> Result<String, String> {
    let port = format!("--port={}", server.port());
    let client = Command::new("mariadb")
        .args(["--no-defaults", "--host=127.0.0.1", &port, "--user=clerk", "--batch"])
        .args(["--password=clerk_password", "--skip-column-names", "shop", "--execute", sql])
        .finish();
    let [out, error] = [client.stdout, client.stderr].map(|text| String::from_utf8(text).unwrap());
    if client.status.success() { Ok(out.trim().to_owned()) } else { Err(error) }
}

fn until_it_has(server: &MariaDb, rows: &str) {
    until(&format!("{rows} on {}", server.port()), || {
        let found = query(server, "select group_concat(n order by n) from t");
        (found.as_deref() == Ok(rows)).then_some(())
    });
}

#[test]
fn an_account_needs_its_password_and_root_does_not_come_in_without_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = MariaDb::with(&supervisor(), dir.path(), &of_a_cluster(Role::Alone)).unwrap();
    let port = server.port();
    assert_eq!(server.url(), format!("mysql://clerk:clerk_password@127.0.0.1:{port}/shop"));
    let sql = "select @@character_set_server, @@collation_server, @@innodb_flush_log_at_trx_commit";
    assert_eq!(query(&server, sql).unwrap(), "utf8mb4\tutf8mb4_bin\t1");
    query(&server, "create table t (n int)").unwrap();
    assert!(query(&server, "create database another").is_err());
    for user in ["--user=clerk", "--user=root"] {
        let port = format!("--port={port}");
        let args = ["--no-defaults", "--host=127.0.0.1", &port, user, "--execute", "select 1"];
        let refused = Command::new("mariadb").args(args).finish();
        assert!(!refused.status.success(), "{user}");
    }
}

#[test]
fn a_killed_primary_comes_back_at_its_port_with_its_rows_and_its_replica_goes_on() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let role = Role::Primary { server_id: 1, replication: login("copier") };
    let mut primary = MariaDb::with(&supervisor(), dir.path(), &of_a_cluster(role)).unwrap();
    let sql = "select @@server_id, @@log_bin, @@sync_binlog, @@binlog_format, @@gtid_strict_mode";
    assert_eq!(query(&primary, sql).unwrap(), "1\t1\t1\tROW\t1");
    query(&primary, "create table t (n int primary key); insert into t values (1)").unwrap();

    let role =
        Role::Replica { server_id: 2, primary_port: primary.port(), replication: login("copier") };
    let mut replica = MariaDb::with(&supervisor(), copy.path(), &of_a_cluster(role)).unwrap();
    until_it_has(&replica, "1");
    let refused = query(&replica, "insert into t values (9)").unwrap_err();
    assert!(refused.contains("--read-only"), "{refused}");

    let port = primary.port();
    signal(primary.pid(), rustix::process::Signal::KILL);
    until("its end is seen", || primary.exit());
    primary.restart(&supervisor()).unwrap();
    assert_eq!(primary.port(), port);
    until_it_has(&primary, "1");
    query(&primary, "insert into t values (2)").unwrap();
    until_it_has(&replica, "1,2");

    replica.restart(&supervisor()).unwrap();
    query(&primary, "insert into t values (3)").unwrap();
    until_it_has(&replica, "1,2,3");
}

#[test]
fn servers_of_a_galera_cluster_are_killed_and_join_again_and_all_of_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let settings = of_a_cluster(Role::Alone);
    let mut servers = MariaDb::galera(&supervisor(), dir.path(), 3, &settings).unwrap();
    query(&servers[0], "create table t (n int primary key); insert into t values (1)").unwrap();
    let list = "set wsrep_sync_wait = 7; select group_concat(n order by n) from t";
    assert_eq!(query(&servers[2], list).unwrap(), "1");
    signal(servers[0].pid(), rustix::process::Signal::KILL);
    until("its end is seen", || servers[0].exit());
    query(&servers[1], "insert into t values (2)").unwrap();
    servers[0].restart(&supervisor()).unwrap();
    assert_eq!(query(&servers[0], list).unwrap(), "1,2");
    // It was sent what it had missed, not everything.
    let log = std::fs::read_to_string(dir.path().join("1/mariadb.log")).unwrap();
    assert!(log.contains("IST received"), "{log}");
    query(&servers[0], "insert into t values (3)").unwrap();
    // All of them at once, as when the machine fails.
    for server in &servers {
        signal(server.pid(), rustix::process::Signal::KILL);
    }
    drop(servers);
    let servers = MariaDb::galera(&supervisor(), dir.path(), 3, &settings).unwrap();
    for server in &servers {
        assert_eq!(query(server, list).unwrap(), "1,2,3");
    }
}

#[test]
fn redis_answers_until_it_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Redis::start(&supervisor(), dir.path()).unwrap();
    let port = server.port().to_string();
    let ask = |words: &[&str]| output("redis-cli", &[&["-p", &port][..], words].concat());
    assert_eq!((ask(&["SADD", "s", "a", "b"]), ask(&["SCARD", "s"])), ("2".into(), "2".into()));
    assert_eq!(server.sample().unwrap().processes, 1);
    server.restart(&supervisor()).unwrap();
    assert_eq!(ask(&["SCARD", "s"]), "0", "at the same address, and empty");
    server.stop().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it saved something");
}
