//! Copies of a data directory by hand: what is one, and what is not.

use crate::articles::write;
use crate::harness::{Setup, database};
use std::path::Path;

fn articles(dir: &Path) -> usize {
    assert_eq!(database::integrity(dir), "ok");
    let count = database::number(dir, "SELECT count(*) FROM articles").unwrap();
    usize::try_from(count).unwrap()
}

#[test]
fn the_directory_of_a_stopped_server_is_a_whole_copy() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    let mina = server.somebody("mina");
    for n in 0..20 {
        write(&server, &mina, &format!("{n}"));
    }
    server.stop();
    for file in std::fs::read_dir(dir.path()).unwrap().flatten() {
        std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
    }
    assert_eq!(articles(to.path()), 20);
}

/// Why the documentation warns: what was acknowledged is in the log beside the file.
#[test]
fn madang_db_alone_is_not_a_copy() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    let mina = server.somebody("mina");
    for n in 0..20 {
        write(&server, &mina, &format!("{n}"));
    }
    std::fs::copy(database::file(dir.path()), database::file(to.path())).unwrap();
    let count = database::number(to.path(), "SELECT count(*) FROM articles");
    assert!(count.unwrap_or(0) < 20, "{count:?}: the log was applied: this test proves nothing");
}
