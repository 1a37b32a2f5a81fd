//! Taken ports, owned directories, damaged and foreign databases.

use crate::harness::{Madang, Output, Setup, database, eventually, stores};
use std::net::TcpListener;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// `madang serve` on this directory, which must be refused.
fn serve_fails(dir: &Path, code: i32) -> Output {
    let args = ["serve", "--listen", "127.0.0.1:0", "--data", dir.to_str().unwrap()];
    let output = Madang::new(args).fails_with(code);
    assert_eq!(output.stdout, "", "it never listened");
    output.is_calm();
    output
}

/// Names and contents of everything in a directory, but the lock that every start writes.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap() != "madang.lock")
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Asserts that neither serving nor importing changes a single byte of what it refuses.
fn is_refused_untouched(dir: &Path, parts: &[&str]) {
    let before = contents(dir);
    serve_fails(dir, 6).complains(parts);
    assert_eq!(contents(dir), before, "serve wrote to it");
    let file = crate::harness::data::bundled_track("us_ecology_trail_route_only.gpx");
    Madang::import(dir, [file]).fails_with(6).complains(parts);
    assert_eq!(contents(dir), before, "import wrote to it");
}

#[test]
fn a_taken_port_is_named_and_no_data_is_touched() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let args = ["serve", "--data", data.to_str().unwrap(), "--listen", &address];
    Madang::new(args).fails_with(4).complains(&[&address, "server.listen", "in use"]);
    assert!(!data.exists());
    let metrics = format!("server.metrics_listen={address}");
    let args = ["serve", "--listen", "127.0.0.1:0", "--set", &metrics];
    Madang::new(args).fails_with(4).complains(&[&address, "server.metrics_listen"]);
}

#[test]
fn an_address_of_another_machine_is_refused() {
    // TEST-NET-1 (RFC 5737): nobody's address.
    Madang::new(["serve", "--listen", "192.0.2.1:0"]).fails_with(4).complains(&["192.0.2.1"]);
}

#[test]
fn a_second_server_on_a_directory_is_refused_with_the_pid_of_the_first() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let pid = format!("process {}", server.child.id());
    serve_fails(dir.path(), 5).complains(&[&pid, "in use", "choose another directory"]);
    server.is_well();
}

#[test]
fn a_directory_is_free_again_when_its_server_is_killed() {
    let dir = stores::bundled();
    let mut server = Setup::new().data(dir.path()).start();
    server.child.kill().unwrap();
    server.wait();
    assert_eq!(Setup::new().data(dir.path()).start().tracks().len(), 14);
}

#[test]
fn a_directory_that_is_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, "mine").unwrap();
    serve_fails(&path, 6).complains(&[path.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    serve_fails(&path.join("below"), 6);
}

#[test]
fn a_database_whose_header_is_overwritten_is_refused_untouched() {
    let dir = stores::bundled();
    let file = std::fs::OpenOptions::new().write(true).open(database::file(dir.path())).unwrap();
    file.write_all_at(&[0xa5; 100], 0).unwrap();
    is_refused_untouched(dir.path(), &["damaged", "backup"]);
}

#[test]
fn a_text_file_in_place_of_the_database_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(database::file(dir.path()), "my notes, not a database\n".repeat(400)).unwrap();
    is_refused_untouched(dir.path(), &["damaged"]);
}

#[test]
fn a_database_cut_in_half_is_refused_untouched() {
    let dir = stores::bundled();
    let path = database::file(dir.path());
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    is_refused_untouched(dir.path(), &["damaged", "backup"]);
}

#[test]
fn an_overwritten_page_stops_the_start_or_does_no_harm() {
    const PAGE: u64 = 4096;
    let mut refused = 0;
    for round in 0..12u64 {
        let dir = stores::bundled();
        let path = database::file(dir.path());
        let pages = std::fs::metadata(&path).unwrap().len() / PAGE;
        // Spread over the file, never the header; the noise differs from round to round.
        let page = 1 + (round * 7919 + 13) % (pages - 1);
        let noise: Vec<u8> = (0..PAGE).map(|i| ((i * 31 + round * 57) >> 2) as u8).collect();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&noise, page * PAGE).unwrap();
        if database::integrity(dir.path()) != "ok" {
            is_refused_untouched(dir.path(), &["damaged", "backup"]);
            refused += 1;
        } else {
            Setup::new().data(dir.path()).start().is_well();
        }
    }
    assert!(refused >= 8, "only {refused} pages mattered: the test has lost its meaning");
}

#[test]
fn a_database_of_another_program_is_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let sql = "CREATE TABLE notes (body TEXT); INSERT INTO notes VALUES ('mine');";
    database::execute(dir.path(), sql);
    is_refused_untouched(dir.path(), &["another program"]);
    let marked = tempfile::tempdir().unwrap();
    database::execute(marked.path(), "PRAGMA application_id = 7; CREATE TABLE tracks (id);");
    is_refused_untouched(marked.path(), &["another program"]);
}

#[test]
fn a_database_of_a_newer_version_is_refused_untouched() {
    let dir = stores::bundled();
    database::execute(dir.path(), "PRAGMA user_version = 999");
    is_refused_untouched(dir.path(), &["999", "newer"]);
}

#[test]
fn a_stored_path_that_is_damaged_fails_its_own_requests_only() {
    let dir = stores::bundled();
    database::execute(dir.path(), "UPDATE track_paths SET path = x'ff00ff00' WHERE track_id = 3");
    let server = Setup::new().data(dir.path()).start();
    let problem = server.get("/v1/tracks/3").problem(500);
    assert!(!problem["detail"].as_str().unwrap().contains("path"), "causes stay in the log");
    let line = server.until_logged("track 3");
    assert!(line.contains("ERROR") && line.contains(problem["instance"].as_str().unwrap()));
    assert_eq!(server.get("/v1/tracks/4").status, 200);
    server.is_well();
}

#[test]
fn faults_that_repeat_are_logged_once_a_second_with_the_number_of_the_others() {
    let dir = stores::bundled();
    database::execute(dir.path(), "UPDATE track_paths SET path = x'ff00ff00'");
    let server = Setup::new().data(dir.path()).set("cache.mode", "off").start();
    let mut connection = server.connect();
    let mut asked = 0;
    let lines = || server.log().lines().filter(|line| line.contains("ERROR")).count();
    let line = eventually("a line that counts the others", || {
        for _ in 0..20 {
            connection.get("/v1/tracks/3").problem(500);
            asked += 1;
        }
        let counts = |line: &&str| line.contains("ERROR") && !line.contains("unsaid=0");
        server.log().lines().find(counts).map(str::to_owned)
    });
    assert!(line.contains("unsaid="), "{line}");
    assert!(lines() * 4 < asked, "{} lines of {asked} faults", lines());
}
