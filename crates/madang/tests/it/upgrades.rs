//! A program on the tables of an older one, on MariaDB: what it keeps before it changes them, and the way back.

use crate::copy::Target;
use crate::harness::database::{number, text};
use crate::harness::{Madang, Setup};
use mysql::prelude::Queryable as _;
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A file for each version, the newest one included.
fn fixtures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../service/src/store/maria/fixtures");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// A database as the version before this one leaves it, with rows in all tables, and that version.
fn old_database() -> (Target, usize) {
    let files = fixtures();
    let version = files.len() - 1;
    let sql = zstd::decode_all(std::fs::File::open(&files[version - 1]).unwrap()).unwrap();
    let target = Target::new();
    let mut session = mysql::Conn::new(target.url().as_str()).unwrap();
    for statement in String::from_utf8(sql).unwrap().split(";\n").filter(|one| !one.is_empty()) {
        session.query_drop(statement).unwrap();
    }
    session.query_drop("UPDATE madang_cluster SET delay_ms = 25").unwrap();
    (target, version)
}

fn run(target: &Target, sql: &str) {
    mysql::Conn::new(target.url().as_str()).unwrap().query_drop(sql).unwrap();
}

fn version(target: &Target) -> usize {
    let mut session = mysql::Conn::new(target.url().as_str()).unwrap();
    session.query_first("SELECT version FROM madang_schema").unwrap().unwrap()
}

fn serve(target: &Target, data: &Path) -> Madang {
    Madang::new(["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()])
        .env("MADANG_DATABASE_URL", &target.url())
        .env("MADANG_ACCOUNTS_TOKEN_KEY", KEY)
}

fn node(target: &Target, data: &Path) -> Setup {
    target.node(data).set("accounts.token_key", KEY)
}

fn kept_in(data: &Path, version: usize) -> PathBuf {
    data.join(format!("mariadb.schema-{version}.tar.zst"))
}

fn manifest(archive: &Path) -> Value {
    let unpacked = zstd::decode_all(std::fs::File::open(archive).unwrap()).unwrap();
    let mut tar = tar::Archive::new(&*unpacked);
    let mut text = String::new();
    tar.entries().unwrap().next().unwrap().unwrap().read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn one_of_several_nodes_keeps_a_backup_before_an_upgrade_and_the_way_back_leads_to_the_old_rows() {
    let (target, old) = old_database();
    let dir = tempfile::tempdir().unwrap();
    let data = ["a", "b"].map(|name| dir.path().join(name));
    std::thread::scope(|scope| {
        for data in &data {
            scope.spawn(|| node(&target, data).start());
        }
    });
    assert_eq!(version(&target), old + 1);
    let kept: Vec<_> =
        data.iter().map(|data| kept_in(data, old)).filter(|one| one.exists()).collect();
    let [kept] = &kept[..] else { panic!("one node keeps a backup: {kept:?}") };
    let said = manifest(kept);
    assert_eq!(said["engine"], "mariadb");
    // What is written from here on is not in it.
    run(&target, "UPDATE posts SET title = 'changed'");

    let restored = dir.path().join("restored");
    let args = ["restore", "--from", kept.to_str().unwrap(), "--data", restored.to_str().unwrap()];
    Madang::new(args).succeeds();
    assert_eq!(number(&restored, "PRAGMA user_version"), said["schema"].as_i64());
    assert_eq!(text(&restored, "SELECT title FROM posts WHERE id = 1"), "자전거");
    let back = Target::new();
    back.copy(&restored).succeeds();
    let served = node(&back, &dir.path().join("served")).start();
    let post = served.get("/v1/posts/1");
    assert_eq!(post.status, 200);
    assert_eq!(post.json()["title"], "자전거");
}

#[test]
fn without_a_backup_the_tables_stay_as_they_are() {
    let (target, old) = old_database();
    let data = tempfile::tempdir().unwrap();
    let in_the_way = data.path().join(".madang-backup");
    std::fs::write(&in_the_way, "").unwrap();
    let refused = serve(&target, data.path()).fails_with(6).stderr;
    for part in ["madang: the schema was not changed", "the program that ran before"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(version(&target), old);
    std::fs::remove_file(in_the_way).unwrap();
    drop(node(&target, data.path()).start());
    let kept = kept_in(data.path(), old);
    assert!(kept.exists());

    // What the program that ran before says of the newer tables.
    run(&target, "UPDATE madang_schema SET version = version + 1, oldest = version");
    serve(&target, data.path()).fails_with(6).complains(&["use a newer program"]);
    std::fs::rename(kept, kept_in(data.path(), old + 1)).unwrap();
    let refused = serve(&target, data.path()).fails_with(6);
    refused.complains(&["as it was before the upgrade", "restore it into a new directory"]);
}

#[test]
fn an_upgrade_that_was_broken_off_keeps_the_backup_of_its_beginning() {
    let (target, old) = old_database();
    // As a node leaves it that was killed: a table of the next version is there, but not all of it.
    let half = "CREATE TABLE next_version (id BIGINT PRIMARY KEY) ENGINE = InnoDB";
    run(&target, half);
    run(&target, "ALTER TABLE users ADD COLUMN next_version BIGINT");
    run(&target, &format!("UPDATE madang_schema SET begun = {}", old + 1));
    let data = tempfile::tempdir().unwrap();
    let kept = kept_in(data.path(), old);
    drop(node(&target, data.path()).start());
    assert_eq!(manifest(&kept)["engine"], "mariadb", "a node without the first one makes one");
    run(&target, &format!("UPDATE madang_schema SET version = {old}, begun = {}", old + 1));
    std::fs::write(&kept, "the first one").unwrap();
    drop(node(&target, data.path()).start());
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "the first one");
    run(&target, &format!("UPDATE madang_schema SET version = {old}, begun = {old}"));
    drop(node(&target, data.path()).start());
    assert_eq!(manifest(&kept)["engine"], "mariadb", "another upgrade has a backup of its own");
}
