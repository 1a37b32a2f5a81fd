//! 503 says that nothing was done; where that cannot be said the answer is 504 `outcome-unknown`.

use crate::harness::client::head;
use crate::harness::{Answer, Connection, Person, Server, Setup, database, eventually, stores};
use crate::schedules::plan;
use crate::track_detail::LONG;
use crate::{articles, track_uploads};

const UNKNOWN: &str = "urn:madang:problem:outcome-unknown";

/// Sends a write on a connection of its own and leaves its answer for later.
fn begin(server: &Server, by: &Person, what: (&str, &str), key: Option<&str>) -> Connection {
    let (bearer, body) = (by.bearer(), plan("walk", 1).to_string());
    let length = body.len().to_string();
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("Authorization", bearer.as_str()),
        ("Content-Length", length.as_str()),
    ];
    headers.extend(key.map(|key| ("Idempotency-Key", key)));
    let mut connection = server.connect();
    connection.send([head(what.0, what.1, &headers).as_bytes(), body.as_bytes()].concat());
    connection
}

fn is_unknown(answer: &Answer) {
    assert_eq!(answer.problem(504)["type"], UNKNOWN);
}

#[test]
fn a_write_that_is_given_up_is_not_said_to_have_failed() {
    let dir = tempfile::tempdir().unwrap();
    // In two parts: the time is for what the lock keeps from its end, and for nothing that comes before.
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    let like = format!("/v1/articles/{}/like", articles::write(&server, &mina, "hello"));
    server.stop();
    let setup = Setup::new().cheap_hash().data(dir.path());
    let server = setup.set("server.request_timeout", "2s").start();

    let lock = database::lock(dir.path());
    let [mut alone, mut keyed, mut liked] = [
        begin(&server, &mina, ("POST", "/v1/schedules"), None),
        begin(&server, &mina, ("POST", "/v1/schedules"), Some("once")),
        begin(&server, &mina, ("PUT", &like), None),
    ];
    for connection in [&mut alone, &mut liked] {
        let answer = connection.answer().unwrap();
        is_unknown(&answer);
        assert_eq!(answer.header("retry-after"), None, "sent again, it would be done twice");
    }
    let answer = keyed.answer().unwrap();
    is_unknown(&answer);
    assert!(answer.header("retry-after").is_some());
    drop(lock);

    // They were the writer's by then, and it has done them.
    eventually("both schedules", || {
        let rows = database::number(dir.path(), "SELECT count(*) FROM schedules");
        (rows == Some(2)).then_some(())
    });
    let again = eventually("an answer in time", || {
        let mut again = begin(&server, &mina, ("POST", "/v1/schedules"), Some("once"));
        again.answer().filter(|answer| !matches!(answer.status, 503 | 504))
    });
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!(database::number(dir.path(), "SELECT count(*) FROM schedules"), Some(2));
    eventually("the like", || {
        (articles::read(&server, 1, Some(&mina)).json()["liked"] == true).then_some(())
    });
    server.is_well();
}

#[test]
fn what_is_given_up_before_anything_was_written_is_answered_503() {
    let dir = stores::bundled();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let (mina, id) = (server.somebody("mina"), server.track_of(LONG));
    let tracks = server.tracks().len();
    server.stop();
    let setup = Setup::new().cheap_hash().data(dir.path());
    let server = setup.set("server.request_timeout", "1ms").start();
    let read = server.get(&format!("/v1/tracks/{id}?detail=full"));
    assert_eq!(read.problem(503)["type"], "urn:madang:problem:unavailable");
    // Reading it takes many times longer, and it is read before it is handed over.
    let line = track_uploads::line(40_000);
    let upload = server.post("/v1/tracks", Some(&mina), &line);
    assert_eq!(upload.problem(503)["type"], "urn:madang:problem:unavailable");
    server.stop();
    let server = Setup::new().data(dir.path()).start();
    assert_eq!(server.tracks().len(), tracks);
}

/// A server whose writer cannot sync the log of its database from its second commit on, for a few times.
fn with_a_disk_that_fails(dir: &std::path::Path) -> Server {
    let log = database::file(&dir.canonicalize().unwrap()).with_extension("db-wal");
    let mut strace = crate::harness::command::clean("strace");
    // As a grandchild: the process that the test watches and kills is the server.
    strace.args(["-D", "-f", "-qq", "-o", "/dev/null", "-P", log.to_str().unwrap()]);
    strace.args(["-e", "trace=fdatasync,fsync"]);
    strace.args(["-e", "inject=fdatasync,fsync:error=EIO:when=4..6"]);
    strace.arg(crate::harness::command::program());
    Setup::new().cheap_hash().data(dir).start_through(strace)
}

#[test]
fn a_commit_whose_sync_fails_is_answered_504_and_the_server_is_not_ready_until_writes_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().cheap_hash().data(dir.path()).start();
    let mina = server.somebody("mina");
    server.stop();
    let server = with_a_disk_that_fails(dir.path());
    let mut made = 0;
    let failed = loop {
        let answer = server.post("/v1/schedules", Some(&mina), &plan("walk", made));
        if answer.status != 201 {
            break answer;
        }
        made += 1;
        assert!(made < 20, "no sync has failed: does strace inject faults here?");
    };
    // Its pages are in the log, and after a crash they may count.
    is_unknown(&failed);
    let ready = server.get("/health/ready").problem(503);
    assert!(ready["detail"].as_str().unwrap().contains("cannot write"), "{ready}");
    assert_eq!(server.get("/health/live").status, 200);
    // Nobody writes: it finds out by itself.
    eventually("ready", || (server.get("/health/ready").status == 200).then_some(()));
    assert!(server.metric("madang_store_commit_failures_total", &[]) >= 1.0);
    assert_eq!(server.post("/v1/schedules", Some(&mina), &plan("walk", made)).status, 201);
    let rows = database::number(dir.path(), "SELECT count(*) FROM schedules");
    assert_eq!(rows, Some(i64::from(made) + 1), "what failed is not visible");
    server.is_well();
}
