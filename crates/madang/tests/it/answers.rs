//! Large answers and readers that take nothing of them: bounded memory, shared buffers, a share for each
//! address, and memory that comes back.

use crate::harness::client::head;
use crate::harness::{Connection, Madang, Server, Setup, database, eventually};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, prlimit};
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;

const HELD: &str = "madang_answer_bytes";
const REFUSED: &str = "madang_answers_refused_total";
const JOBS: &str = "madang_compute_jobs_total";
const BUSY: &str = "madang_http_server_requests_in_flight";

/// Points of a track: as GPX more than all buffers between two sockets of one machine take.
const POINTS: u32 = 130_000;
/// Tracks of so many points.
const TRACKS: usize = 8;

/// A fresh data directory with them.
fn store() -> tempfile::TempDir {
    static FILLED: [OnceLock<tempfile::TempDir>; 2] = [OnceLock::new(), OnceLock::new()];
    let filled = FILLED[usize::from(database::on_server())].get_or_init(|| {
        let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files: Vec<_> = (0..TRACKS)
            .map(|number| {
                let path = files.path().join(format!("{number}.gpx"));
                std::fs::write(&path, long_gpx(number)).unwrap();
                path
            })
            .collect();
        Madang::import(dir.path(), &files).succeeds();
        dir
    });
    let copy = tempfile::tempdir().unwrap();
    database::copy(filled.path(), copy.path());
    copy
}

fn long_gpx(number: usize) -> String {
    let mut text = format!("<gpx version=\"1.1\"><trk><name>long {number}</name><trkseg>");
    for at in 0..POINTS {
        let (lat, lon) = (330_000 + at, 1_270_000 + u32::try_from(number).unwrap() * 11 + at % 7);
        let _ = write!(
            text,
            "<trkpt lat=\"{}.{:04}\" lon=\"{}.{:04}\"/>",
            lat / 10_000,
            lat % 10_000,
            lon / 10_000,
            lon % 10_000
        );
    }
    text + "</trkseg></trk></gpx>"
}

/// Nothing is compressed, and so large a body is not kept.
fn start(dir: &Path, memory: &str) -> Setup {
    Setup::new()
        .data(dir)
        .set("http.compression", "off")
        .set("cache.max_entry", "1MiB")
        .set("server.answer_memory", memory)
        .set("server.queue_time", "400ms")
}

fn gpx(track: usize) -> String {
    let path = format!("/v1/tracks/{}?detail=full", track + 1);
    head("GET", &path, &[("Accept", "application/gpx+xml")])
}

/// A connection from this address of this machine.
fn from(source: [u8; 4], server: &Server) -> Connection {
    let connection = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&connection, &SocketAddr::from((source, 0))).unwrap();
    connect(&connection, &server.api).unwrap();
    Connection::over(TcpStream::from(connection))
}

/// A line of the process's `status`, in bytes.
pub fn memory(server: &Server, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().unwrap() * 1024
}

#[test]
fn a_thousand_readers_that_take_nothing_leave_the_process_and_the_others_alone() {
    const MIB: u64 = 1 << 20;
    const ROOM: u64 = 32 * MIB;
    let dir = store();
    // No share: the whole is tested here.
    let server = start(dir.path(), "32MiB").set("guard.exempt", "127.0.0.0/8").start();
    let most = memory(&server, "VmSize") + 256 * MIB;
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    prlimit(Some(server.pid()), Resource::As, limit).unwrap();
    let before = memory(&server, "VmRSS");

    // Twice: what the first readers leave behind does not add up.
    for _ in 0..2 {
        let refused = || server.metric(REFUSED, &["reason=\"all\""]);
        let refused_before = refused();
        // Again where a slow machine made too few bodies in the time that requests may wait.
        let readers = eventually("there is no room for one more answer", || {
            let readers: Vec<_> = (0..1000)
                .map(|number| {
                    let mut reader = server.connect();
                    reader.send(gpx(number % TRACKS));
                    reader
                })
                .collect();
            // All are answered, though nobody has read: what can be held, and refusals.
            server.until_metric("madang_http_server_connections", &[], 1000.0);
            eventually("nothing is in work", || (server.metric(BUSY, &[]) == 0.0).then_some(()));
            let held = server.metric(HELD, &[]);
            assert!(held <= ROOM as f64);
            // Nothing is held where the kernel has taken everything.
            if held > 0.0 && refused() > refused_before {
                return Some(readers);
            }
            drop(readers);
            server.until_metric("madang_http_server_connections", &[], 0.0);
            None
        });
        // What made the answers is given back as soon as they are made.
        eventually("the memory is what is held and what the connections take", || {
            (memory(&server, "VmRSS") < before + 4 * ROOM).then_some(())
        });
        assert_eq!(server.get("/v1/tracks").status, 200);
        server.is_well();

        drop(readers);
        eventually("no answer is on its way", || (server.metric(HELD, &[]) == 0.0).then_some(()));
        // The event loops keep what 1,000 connections took besides, some 50 MB, for the next ones. What is free goes back to
        // the system when a thread next has something to do.
        eventually("the memory is back", || {
            assert_eq!(server.get("/v1/tracks").status, 200);
            (memory(&server, "VmRSS") < before + 2 * ROOM).then_some(())
        });
    }
    server.is_well();
}

#[test]
fn a_body_too_large_to_be_kept_is_made_once_for_all_who_read_it_at_a_time() {
    let dir = store();
    let server = start(dir.path(), "128MiB").start();
    let readers: Vec<_> = (0..50)
        .map(|_| {
            let mut reader = server.connect();
            reader.send(gpx(0));
            // Its head is there: the body is on its way, and stays there.
            let mut byte = [0];
            reader.stream.peek(&mut byte).unwrap();
            reader
        })
        .collect();
    assert_eq!(server.metric(JOBS, &[]), 1.0);
    let one = server.metric(HELD, &[]);
    assert!(one > 1e6 && one < 16e6, "{one}");
    drop(readers);
    server.until_metric(HELD, &[], 0.0);
    let mut reader = server.connect();
    assert_eq!(reader.send(gpx(0)).answer().unwrap().status, 200);
    assert_eq!(server.metric(JOBS, &[]), 2.0, "nobody had it any more");
}

#[test]
fn an_address_that_holds_its_share_is_refused_and_another_is_served() {
    let dir = store();
    let server = start(dir.path(), "48MiB").start();
    let mut held: Vec<Connection> = Vec::new();
    let refused = loop {
        let mut reader = from([127, 0, 0, 2], &server);
        reader.send(gpx(held.len() % TRACKS));
        let mut byte = [0; 12];
        while reader.stream.peek(&mut byte).unwrap() < byte.len() {}
        if !byte.ends_with(b"200") {
            break reader.answer().unwrap();
        }
        held.push(reader);
        assert!(held.len() < TRACKS, "it was never refused");
    };
    assert!(held.len() >= 2, "{}", held.len());
    assert!(refused.problem(503)["detail"].as_str().unwrap().contains("your address"));
    assert_eq!(server.metric(REFUSED, &["reason=\"share\""]), 1.0);
    let answer = from([127, 0, 0, 3], &server).send(gpx(TRACKS - 1)).answer().unwrap();
    assert_eq!(answer.status, 200);
    // What it holds already costs nothing more, and small answers are not counted.
    let mut again = from([127, 0, 0, 2], &server);
    assert_eq!(again.send(gpx(0)).answer().unwrap().status, 200);
    assert_eq!(again.get("/v1/tracks").status, 200);
    server.is_well();
}

#[test]
fn a_connection_holds_one_answer_however_many_it_has_asked_for() {
    let dir = store();
    let server = start(dir.path(), "128MiB").set("guard.exempt", "127.0.0.0/8").start();
    let mut reader = server.connect();
    let all: String = (0..TRACKS).map(gpx).collect();
    reader.send(all);
    let mut byte = [0];
    reader.stream.peek(&mut byte).unwrap();
    assert!(server.metric(HELD, &[]) < 10e6, "{}", server.metric(HELD, &[]));
    assert_eq!(server.metric(JOBS, &[]), 1.0, "the second is begun when the first is written");
    for _ in 0..TRACKS {
        assert_eq!(reader.answer().unwrap().status, 200);
    }
    server.until_metric(HELD, &[], 0.0);
}
