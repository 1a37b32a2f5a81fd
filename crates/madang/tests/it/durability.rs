//! What was answered is on the disk: each kind of write that promises it, one test for all of them.
//!
//! A server runs under strace. Writes of every kind take turns, each waiting for its answer, so each answer
//! needs a sync of its own that follows its pages. Then the server is killed, and its log is cut at every
//! length a crash may leave: whatever was answered when the log was so long is there.

use crate::harness::{Connection, Person, Server, Setup, command, database, eventually};
use madang_service::app::App;
use madang_service::config::{Origin, Sources};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Writes of each kind.
const EACH: usize = 12;
/// Places at which the log is cut.
const CUTS: usize = 60;

/// A kind of write that is answered when it is durable.
struct Kind {
    name: &'static str,
    /// Does the n-th write, on a connection of its own kind.
    write: fn(&mut Connection, &[Person], usize),
    /// Writes of this kind in a store.
    count: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "likes",
        write: |connection, people, n| {
            let path = format!("/v1/articles/{}/like", n + 1);
            let answer = connection.json("PUT", &path, people.first(), &json!({}));
            assert_eq!(answer.status, 200, "{}", answer.text());
        },
        count: "SELECT count(*) FROM article_likes",
    },
    Kind {
        name: "log-outs",
        write: |connection, people, n| {
            let bearer = people[1 + n].bearer();
            let headers = [("Authorization", bearer.as_str())];
            let answer = connection.request("POST", "/v1/auth/user/logout", &headers);
            assert_eq!(answer.status, 204, "{}", answer.text());
        },
        count: "SELECT count(*) FROM revoked_tokens",
    },
    Kind {
        name: "creates with a key",
        write: |connection, people, n| {
            let (bearer, key) = (people[0].bearer(), format!("key-{n}"));
            let headers = [
                ("Content-Type", "application/json"),
                ("Authorization", bearer.as_str()),
                ("Idempotency-Key", key.as_str()),
            ];
            let run = json!({"durationSeconds": 60 + n}).to_string();
            let answer = connection.send_body("POST", "/v1/tracks/1/records", &headers, run);
            assert_eq!(answer.status, 201, "{}", answer.text());
        },
        // Both or neither: an outcome without its row would never be made, a row without its key twice.
        count: "SELECT CASE WHEN (SELECT count(*) FROM track_records) = count(*) THEN count(*) ELSE -1 END
                FROM idempotency_keys",
    },
    Kind {
        name: "tracks",
        write: |connection, people, n| {
            let answer = connection.json("POST", "/v1/tracks", people.first(), &track(n + 1));
            assert_eq!(answer.status, 201, "{}", answer.text());
        },
        count: "SELECT count(*) - 1 FROM tracks",
    },
];

fn track(n: usize) -> Value {
    json!({"name": format!("track {n}"), "segments": [[[37, 127], [37.001, 127]]]})
}

/// A closed store with a track, articles, and a person who is logged in often enough.
fn prepared(dir: &Path) -> Vec<Person> {
    let server = Setup::new().cheap_hash().data(dir).start();
    let mut people = vec![server.somebody("mina")];
    people.extend((0..EACH).map(|_| server.log_in("mina")));
    assert_eq!(server.post("/v1/tracks", people.first(), &track(0)).status, 201);
    for n in 0..EACH {
        let body = json!({"title": format!("article {n}"), "content": "text"});
        assert_eq!(server.post("/v1/articles", people.first(), &body).status, 201);
    }
    server.stop();
    people
}

/// A server whose writes and syncs are written to a file, in their order.
fn traced(dir: &Path, trace: &Path) -> Server {
    let mut strace = command::clean("strace");
    // The server is the child; the tracer leaves with it.
    strace.args(["-D", "-f", "-y", "-o"]).arg(trace).args([
        "-e",
        "trace=pwrite64,write,writev,sendto,sendmsg,fdatasync,fsync",
        command::program(),
    ]);
    Setup::new().cheap_hash().data(dir).start_through(strace)
}

#[test]
fn every_answered_write_follows_its_sync_and_survives_a_log_cut_after_it() {
    let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let people = prepared(dir.path());
    let trace = beside.path().join("trace");
    let mut server = traced(dir.path(), &trace);
    let log = dir.path().join("madang.db-wal");
    let mut connection = server.connect();
    assert_eq!(connection.get("/before").status, 404);
    // The length of the log when each was answered.
    let mut answered = Vec::new();
    for n in 0..EACH {
        for kind in &KINDS {
            (kind.write)(&mut connection, &people, n);
            answered.push(fs::metadata(&log).unwrap().len());
        }
    }
    let copied = server.metric("madang_store_checkpoints_total", &[]);
    assert!(copied.abs() < f64::EPSILON, "the log was copied: the test needs all of it");
    server.signal(Signal::KILL);
    server.wait();
    eventually("the end of the trace", || {
        fs::read_to_string(&trace).unwrap().contains("+++ killed by SIGKILL +++").then_some(())
    });
    let early = early_answers(&fs::read_to_string(&trace).unwrap(), answered.len());
    let early: Vec<_> = early.iter().map(|at| KINDS[at % KINDS.len()].name).collect();
    assert!(early.is_empty(), "answered before the sync of their commits: {early:?}");
    cut_anywhere(dir.path(), &fs::read(&log).unwrap(), &answered);
}

/// Answers, by number, before which no sync returned that had begun after a write to the log; both since
/// the answer before.
fn early_answers(trace: &str, expected: usize) -> Vec<usize> {
    let (mut early, mut answers) = (Vec::new(), None);
    let mut syncing: HashMap<&str, bool> = HashMap::new();
    let (mut written, mut synced) = (false, false);
    for line in trace.lines() {
        let (thread, call) = line.split_once(' ').unwrap_or((line, ""));
        let call = call.trim_start();
        let is_log = call.contains(".db-wal>");
        if call.starts_with("pwrite64(") && is_log {
            written = true;
        } else if call.starts_with("fdatasync(") || call.starts_with("fsync(") {
            if call.ends_with("<unfinished ...>") {
                syncing.insert(thread, is_log && written);
            } else {
                synced |= is_log && written;
            }
        } else if call.starts_with("<... fdatasync resumed>")
            || call.starts_with("<... fsync resumed>")
        {
            synced |= syncing.remove(thread).unwrap_or(false);
        } else if call.contains("HTTP/1.1 404") {
            answers = Some(0);
            (written, synced) = (false, false);
        } else if let Some(answers) = &mut answers
            && call.contains("HTTP/1.1 20")
            // The page of metrics comes after the last of them.
            && *answers < expected
        {
            if !synced {
                early.push(*answers);
            }
            *answers += 1;
            (written, synced) = (false, false);
            // A sync that is under way does not count for the next.
            syncing.clear();
        }
    }
    assert_eq!(answers, Some(expected), "not all answers are in the trace");
    early
}

/// Opens copies of a killed server's store with shorter logs, some followed by noise as a torn sector is.
fn cut_anywhere(dir: &Path, whole: &[u8], answered: &[u64]) {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..CUTS {
        let cut = random.usize(..=whole.len());
        let copy = tempfile::tempdir().unwrap();
        for name in ["madang.db", "token.key"] {
            fs::copy(dir.join(name), copy.path().join(name)).unwrap();
        }
        let mut log = whole[..cut].to_vec();
        if random.bool() {
            log.extend((0..random.usize(..9000)).map(|_| random.u8(..)));
        }
        fs::write(copy.path().join("madang.db-wal"), log).unwrap();
        opened(copy.path());
        let found: Vec<_> =
            KINDS.iter().map(|kind| database::number(copy.path(), kind.count).unwrap()).collect();
        let promised = answered.iter().filter(|length| **length <= cut as u64).count();
        let total = found.iter().sum::<i64>();
        assert!(
            total >= promised as i64,
            "cut at {cut}: {promised} were answered, found {found:?}"
        );
        // They took turns: what is there is what came first.
        for (place, (kind, count)) in KINDS.iter().zip(&found).enumerate() {
            let wanted = (total + (KINDS.len() - 1 - place) as i64) / KINDS.len() as i64;
            assert_eq!(*count, wanted, "cut at {cut}: {} of {found:?}", kind.name);
        }
    }
}

/// Opens a store as a server does, and closes it: likes that are in their log alone are then in their table.
fn opened(dir: &Path) {
    let mut sources = Sources::new();
    let flag = Origin::Flag("test".to_owned());
    sources.set("data.dir", &dir.to_string_lossy(), flag).unwrap();
    drop(App::open(&sources.resolve().unwrap()).unwrap());
}
