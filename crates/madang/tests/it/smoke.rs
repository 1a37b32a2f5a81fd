//! What any build of the program has to do. `make dist` runs these on the one that is given away, by
//! naming it in `MADANG_BIN`.

use crate::articles::write;
use crate::harness::{Server, Setup};
use rustix::process::Signal;

#[test]
fn a_filled_server_answers_from_its_cache() {
    let server = Setup::new().demo().start();
    let first = server.get("/v1/tracks/1?detail=medium");
    assert_eq!(first.status, 200);
    let hits = || server.metric("madang_cache_hits_total", &[]);
    let before = hits();
    assert_eq!(server.get("/v1/tracks/1?detail=medium").body, first.body);
    assert!(hits() > before);
    for list in ["/v1/tracks", "/v1/markets", "/v1/posts", "/v1/articles"] {
        let page = server.get(&format!("{list}?limit=1")).json();
        assert_eq!(page["items"].as_array().unwrap().len(), 1, "{list}: {page}");
    }
}

#[test]
fn a_log_in_and_a_like_outlive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Setup::new().data(dir.path()).start();
    let mina = server.somebody("mina");
    let article = write(&server, &mina, "봄");
    let path = format!("/v1/articles/{article}/like");
    let like = |server: &Server| {
        let bearer = mina.bearer();
        let answer = server.connect().request("PUT", &path, &[("Authorization", bearer.as_str())]);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    assert_eq!(like(&server)["likeCount"], 1);
    server.signal(Signal::KILL);
    server.wait();
    let server = Setup::new().data(dir.path()).start();
    assert_eq!(server.get(&format!("/v1/articles/{article}")).json()["likeCount"], 1);
    // The token of before is still good, and the like is still that of the same person.
    assert_eq!(like(&server)["likeCount"], 1);
    server.log_in("mina");
}
