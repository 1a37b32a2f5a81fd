//! What a node says of a database that it cannot use.

use crate::harness::{Madang, eventually};
use crate::nodes::{Cluster, run};
use madang_stack::PortReservation;
use rustix::process::Signal;

fn serve(url: &str) -> (Madang, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let serve = Madang::new(["serve", "--listen", "127.0.0.1:0", "--data", data]);
    (serve.env("MADANG_DATABASE_URL", url), dir)
}

fn check(url: &str) -> Madang {
    Madang::new(["check"]).env("MADANG_DATABASE_URL", url)
}

#[test]
fn a_database_that_cannot_be_used_ends_the_start_with_its_reason() {
    let cluster = Cluster::new();
    let url = cluster.database.url();
    let refused = |url: &str, reasons: &[&str]| {
        let (serve, _dir) = serve(url);
        serve.fails_with(6).complains(reasons);
        check(url).fails_with(6).complains(reasons);
    };
    run(
        &cluster.database,
        "CREATE USER clerk IDENTIFIED BY 'right'; GRANT SELECT ON test.* TO clerk",
    );
    let port = cluster.database.port();
    let host = format!("127.0.0.1:{port}");
    refused(&format!("mysql://clerk:wrong@{host}/test"), &["Access denied for user 'clerk'"]);
    refused(&format!("mysql://clerk:right@{host}/mysql"), &["Access denied for user 'clerk'"]);
    refused(&format!("mysql://root@{host}/nothing"), &["Unknown database 'nothing'"]);
    let nobody = PortReservation::new().unwrap();
    let url_of_nobody = format!("mysql://root@127.0.0.1:{}/test", nobody.port());
    refused(&url_of_nobody, &["the database cannot be reached", "refused"]);

    let (serve, _dir) = serve(&format!("mysql://clerk:right@{host}/test"));
    serve.fails_with(6).complains(&["command denied to user 'clerk'"]);

    run(&cluster.database, "SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    refused(&url, &["set innodb_flush_log_at_trx_commit = 1"]);
    run(&cluster.database, "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    run(&cluster.database, "SET GLOBAL read_only = 1");
    refused(&url, &["the server is read-only: database.url must name the primary"]);
    run(&cluster.database, "SET GLOBAL read_only = 0");

    run(&cluster.database, "CREATE TABLE theirs (a INT)");
    let (another, _dir) = self::serve(&url);
    another.fails_with(6).complains(&["the database belongs to another program"]);
    run(&cluster.database, "DROP TABLE theirs");
    drop(cluster.node());
    run(&cluster.database, "UPDATE madang_schema SET version = 99, oldest = 99");
    let (newer, _dir) = self::serve(&url);
    newer.fails_with(6).complains(&["schema version 99", "use a newer program"]);
}

#[test]
fn a_wrong_url_is_wrong_usage_and_is_not_repeated() {
    let refused = check("mysql://root:secret@127.0.0.1").fails_with(2);
    refused.complains(&["database.url", "mysql://USER:PASSWORD@HOST:PORT/DATABASE"]);
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
}

#[test]
fn a_check_says_what_is_there_and_changes_nothing() {
    let cluster = Cluster::new();
    let empty = check(&cluster.database.url()).succeeds().stdout;
    assert!(empty.contains("settings: right") && empty.contains("no tables"), "{empty}");
    assert!(check(&cluster.database.url()).succeeds().stdout.contains("no tables"));
    drop(cluster.node());
    let filled = check(&cluster.database.url()).succeeds().stdout;
    assert!(filled.contains("MariaDB") && filled.contains("schema version"), "{filled}");
}

#[test]
fn a_node_without_its_database_is_not_ready_and_says_why() {
    let cluster = Cluster::new();
    let node = cluster.node();
    assert_eq!(node.get("/health/ready").status, 200);
    cluster.signal(Signal::STOP);
    let unready = eventually("it is not ready", || {
        Some(node.get("/health/ready")).filter(|answer| answer.status == 503)
    });
    assert_eq!(unready.json()["detail"], "the database cannot be reached");
    assert_eq!(node.get("/health/live").status, 200);
    cluster.signal(Signal::CONT);
    eventually("it is ready", || (node.get("/health/ready").status == 200).then_some(()));
}
