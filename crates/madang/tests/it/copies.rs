//! Copies of a data directory: the ways that are documented lose no acknowledged write, although the
//! server goes on writing.

use crate::articles::write;
use crate::harness::{Person, Server, Setup, database};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

/// Writes articles until told to stop, while `copy` is made halfway; gives how many had been
/// acknowledged when it began.
fn copied_under_load(server: &Server, by: &Person, copy: impl FnOnce() + Send) -> usize {
    const BEFORE: usize = 50;
    let stop = AtomicBool::new(false);
    for n in 0..BEFORE {
        write(server, by, &format!("before {n}"));
    }
    scope(|scope| {
        let writer = scope.spawn(|| {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) || count == 0 {
                write(server, by, &format!("meanwhile {count}"));
                count += 1;
            }
        });
        copy();
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
    BEFORE
}

fn articles(dir: &Path) -> usize {
    assert_eq!(database::integrity(dir), "ok");
    let count = database::number(dir, "SELECT count(*) FROM articles").unwrap();
    usize::try_from(count).unwrap()
}

/// What SQL can copy while the server runs, as `sqlite3 madang.db "VACUUM INTO 'copy.db'"` does.
#[test]
fn vacuum_into_copies_every_acknowledged_write_of_a_busy_server() {
    let (dir, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Setup::new().data(dir.path()).cheap_hash().start();
    let mina = server.somebody("mina");
    let copy = to.path().join("madang.db");
    let acknowledged = copied_under_load(&server, &mina, || {
        database::execute(dir.path(), &format!("VACUUM INTO '{}'", copy.display()));
    });
    assert!(articles(to.path()) >= acknowledged);
    // It is a data directory with the key of the tokens beside it.
    std::fs::copy(dir.path().join("token.key"), to.path().join("token.key")).unwrap();
    let restored = Setup::new().data(to.path()).cheap_hash().start();
    let page = restored.get("/v1/articles?limit=100").json();
    assert!(page["items"].as_array().unwrap().len() >= acknowledged, "{page}");
    write(&restored, &mina, "her token is still good");
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
