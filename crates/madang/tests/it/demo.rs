//! The start: `--demo`, open files, and output that nobody reads.

use crate::harness::{Setup, command, data, stores};

#[test]
fn an_empty_store_is_filled_with_the_bundled_tracks() {
    let server = Setup::new().demo().start();
    let mut tracks = server.tracks();
    tracks.sort_by_key(|track| track["id"].as_i64());
    let found: Vec<_> = tracks.iter().map(|t| t["pointsTotal"].as_u64().unwrap()).collect();
    let mut rows = data::bundled_rows();
    rows.sort_by(|a, b| a.path.cmp(&b.path));
    let wanted: Vec<u64> = rows.iter().map(|row| row.points).collect();
    assert_eq!(found, wanted, "their ids are those that the README's commands name");
    let dir = server.stop();
    let server = Setup::new().data(&dir.path().join("data")).demo().start();
    assert_eq!(server.tracks().len(), wanted.len(), "not twice");
}

#[test]
fn a_store_that_holds_something_is_left_alone() {
    let dir = stores::small();
    let server = Setup::new().data(dir.path()).demo().start();
    let found = crate::track_lists::all_pages(&server, "", 100).len();
    assert_eq!(found, stores::SMALL as usize);
}

#[test]
fn the_soft_limit_on_open_files_is_raised_and_said() {
    let mut shell = command::clean("sh");
    let script = "ulimit -Sn 200 && ulimit -Hn 512 && exec \"$0\" \"$@\"";
    shell.args(["-c", script, command::program()]);
    let server = Setup::new().start_through(shell);
    assert_eq!(server.metric("process_max_fds", &[]), 512.0);
    assert!(server.until_logged("serving").contains("open_files=512"));
    server.until_logged("below server.max_connections");
    let mut open: Vec<_> = (0..300).map(|_| server.connect()).collect();
    for connection in &mut open {
        assert_eq!(connection.get("/health/live").status, 200);
    }
}

#[test]
fn running_out_of_open_files_ends_when_some_are_free_again() {
    let mut shell = command::clean("sh");
    shell.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", command::program()]);
    let server = Setup::new().start_through(shell);
    let open: Vec<_> = (0..100).map(|_| server.connect()).collect();
    server.until_logged("cannot accept");
    drop(open);
    crate::harness::eventually("it answers again", || {
        (server.get("/health/live").status == 200).then_some(())
    });
    assert!(!server.log().contains("panicked"));
}

#[test]
fn a_server_whose_log_nobody_reads_serves_all_the_same() {
    let mut server = Setup::new().set("log.level", "debug").start_unlogged();
    for _ in 0..10 {
        server.get("/v1/tracks/1").problem(404);
    }
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_server_whose_addresses_nobody_reads_serves_all_the_same() {
    let server = Setup::new().start_unheard();
    assert_eq!(server.get("/health/ready").status, 200);
    let address = server.api.to_string();
    assert!(server.log().contains(&address));
}
