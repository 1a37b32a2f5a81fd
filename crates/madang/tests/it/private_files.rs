//! Who may read what a server keeps: its owner alone.

use crate::harness::{Setup, command, stores};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Names and modes of the files in a directory, sorted.
fn modes(dir: &Path) -> Vec<(String, u32)> {
    let mut all: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry.path())))
        .collect();
    all.sort();
    all
}

const FILES: [&str; 7] = [
    "admin.sock", "madang.db", "madang.db-shm", "madang.db-wal", "madang.lock", "madang.reserve",
    "token.key",
];

#[test]
fn what_a_server_makes_is_its_owners_alone_whatever_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("above").join("data");
    let mut shell = command::clean("sh");
    shell.args(["-c", "umask 0; exec \"$@\"", "sh", command::program()]);
    let server = Setup::new().data(&data).start_through(shell);
    assert_eq!(server.get("/health/ready").status, 200);
    assert_eq!(mode(&data), 0o700);
    assert_eq!(modes(&data), FILES.map(|name| (name.to_owned(), 0o600)));
    server.stop();
    let left = ["madang.db", "madang.lock", "madang.reserve", "token.key"];
    assert_eq!(modes(&data), left.map(|name| (name.to_owned(), 0o600)));
}

#[test]
fn files_that_others_may_read_are_closed_and_a_directory_that_is_there_is_left_alone() {
    let dir = stores::bundled();
    let mut server = Setup::new().data(dir.path()).start();
    // Killed, it leaves its log and the index of that behind.
    server.signal(Signal::KILL);
    server.wait();
    for name in &FILES[1..6] {
        fs::set_permissions(dir.path().join(name), Permissions::from_mode(0o644)).unwrap();
    }
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let server = Setup::new().data(dir.path()).start();
    assert_eq!(modes(dir.path()), FILES.map(|name| (name.to_owned(), 0o600)));
    assert_eq!(mode(dir.path()), 0o755);
    assert!(!server.log().contains("data directory"), "{}", server.log());
    server.stop();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let server = Setup::new().data(dir.path()).start();
    let line = server.until_logged("write to the data directory");
    assert!(line.contains("WARN") && line.contains("777"), "{line}");
    assert_eq!(mode(dir.path()), 0o777);
}
