//! The real MariaDB and Redis, as installed by Debian.

use madang_testing::Finish as _;
use std::{net::TcpStream, process::Command};

use madang_stack::{mariadb::MariaDb, redis::Redis};

use crate::help::supervisor;

/// What a command prints.
#[track_caller]
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).finish();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn mariadb_answers_queries_until_it_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let server = MariaDb::start(&supervisor(), dir.path()).unwrap();
    let port = format!("--port={}", server.port());
    let ask = |sql| {
        let client = ["--no-defaults", "--host=127.0.0.1", &port, "--user=root", "--batch"];
        said("mariadb", &[&client[..], &["--skip-column-names", "test", "--execute", sql]].concat())
    };
    assert_eq!(ask("create table t (n int); insert into t values (3); select n from t"), "3");
    assert_eq!(server.sample().unwrap().processes, 1);
    server.stop().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    let again = MariaDb::start(&supervisor(), dir.path()).unwrap();
    let port = format!("--port={}", again.port());
    let client = ["--no-defaults", "--host=127.0.0.1", &port, "--user=root", "--batch", "test"];
    let count =
        said("mariadb", &[&client[..], &["--execute", "select count(*) as n from t"]].concat());
    assert_eq!(count, "n\n1", "a directory that has a store keeps it");
}

#[test]
fn redis_answers_until_it_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let server = Redis::start(&supervisor(), dir.path()).unwrap();
    let port = server.port().to_string();
    let ask = |words: &[&str]| said("redis-cli", &[&["-p", &port][..], words].concat());
    assert_eq!((ask(&["SADD", "s", "a", "b"]), ask(&["SCARD", "s"])), ("2".into(), "2".into()));
    assert_eq!(server.sample().unwrap().processes, 1);
    let server = server.again(&supervisor(), dir.path()).unwrap();
    assert_eq!(ask(&["SCARD", "s"]), "0", "at the same address, and empty");
    server.stop().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it saved something");
}
