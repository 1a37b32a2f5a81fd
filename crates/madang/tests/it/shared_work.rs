//! How much work requests cause: what is cached is made once, what is not is made each time.

use crate::harness::{Server, Setup, stores};
use crate::track_detail::LONG;
use std::sync::Barrier;

const JOBS: &str = "madang_compute_jobs_total";
const LOADS: &str = "madang_cache_loads_total";

/// Store reads and compute jobs so far.
fn work(server: &Server) -> (f64, f64) {
    (server.reads(), server.metric(JOBS, &[]))
}

/// The work that `count` equal requests cause.
fn work_of(server: &Server, path: &str, count: usize) -> (f64, f64) {
    let before = work(server);
    let mut connection = server.connect();
    for _ in 0..count {
        assert_eq!(connection.get(path).status, 200);
    }
    let after = work(server);
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn a_hit_reads_no_store_and_computes_nothing() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let id = server.track_of(LONG);
    // A listing is kept when it is asked for the second time.
    for (path, first) in [(format!("/v1/tracks/{id}"), 1u8), ("/v1/tracks".to_owned(), 2)] {
        let work = f64::from(first);
        let of_first = work_of(&server, &path, usize::from(first));
        assert_eq!(of_first, (work, work), "the first of {path}");
        assert_eq!(work_of(&server, &path, 100), (0.0, 0.0), "the next hundred of {path}");
    }
}

#[test]
fn what_a_client_can_make_up_takes_no_place_in_the_cache() {
    let server = Setup::new().cheap_hash().demo().start();
    let entries = || server.metric("madang_cache_entries", &[]);
    let mut connection = server.connect();
    let mut get = |path: &str, status: u16| {
        let answer = connection.get(path);
        assert_eq!(answer.status, status, "{path}");
        answer
    };
    let before = entries();
    // Page sizes, places to go on from, texts, ids that are none.
    for n in 2..80 {
        for listing in [
            "/v1/tracks?", "/v1/tracks/1/records?", "/v1/locations?", "/v1/posts?",
            "/v1/posts?state=Seoul&", "/v1/articles?", "/v1/articles/1/comments?", "/v1/markets?",
        ] {
            let page = get(&format!("{listing}limit={n}"), 200).json();
            if let Some(cursor) = page["nextCursor"].as_str() {
                get(&format!("{listing}limit={n}&cursor={cursor}"), 200);
            }
        }
        get(&format!("/v1/posts?state=Seoul&city=Mapo-gu&town=t{n}"), 200);
        get(&format!("/v1/markets?q=t{n}"), 200);
        get(&format!("/v1/markets?near=37.{n:02}1,127.0"), 200);
        for thing in ["tracks", "posts", "articles"] {
            get(&format!("/v1/{thing}/{}", 1_000_000 + n), 404);
        }
    }
    assert_eq!(entries(), before);
    // What is asked for again is kept. (Of the many before, one or the other may have been forgotten.)
    for _ in 0..2 {
        get("/v1/posts?limit=90", 200);
        get("/v1/posts/2000000", 404);
    }
    assert_eq!(entries(), before + 2.0);
}

#[test]
fn an_answer_of_304_reads_no_store_and_computes_nothing() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let path = format!("/v1/tracks/{}", server.track_of(LONG));
    let tag = server.get(&path).header("etag").unwrap().to_owned();
    let before = work(&server);
    let mut connection = server.connect();
    for _ in 0..100 {
        let answer = connection.request("GET", &path, &[("If-None-Match", tag.as_str())]);
        assert_eq!(answer.status, 304);
    }
    assert_eq!(work(&server), before);
}

#[test]
fn without_a_cache_every_request_does_the_work() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("cache.mode", "off").start();
    let id = server.track_of(184);
    for path in [format!("/v1/tracks/{id}"), "/v1/tracks".to_owned()] {
        assert_eq!(work_of(&server, &path, 10), (10.0, 10.0), "{path}");
    }
}

#[test]
fn only_tracks_from_the_length_that_is_set_are_cached() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("tracks.cache_from_metres", "10000").start();
    // 2.7 km and 11.7 km.
    let (short, long) = (server.track_of(184), server.track_of(464));
    let (short, long) = (format!("/v1/tracks/{short}"), format!("/v1/tracks/{long}"));
    assert_eq!(work_of(&server, &short, 5), (5.0, 5.0));
    assert_eq!(work_of(&server, &long, 5), (1.0, 1.0));
}

#[test]
fn a_body_over_the_entry_limit_is_served_and_not_kept() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).set("cache.max_entry", "16KiB").start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    assert_eq!(work_of(&server, &path, 3), (3.0, 3.0));
    let refused = server.metric("madang_cache_refused_admissions_total", &["cache=\"tracks\""]);
    assert!((refused - 3.0).abs() < f64::EPSILON, "{refused}");
}

#[test]
fn five_hundred_readers_of_one_cold_track_cause_one_load() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n");
    const THREADS: usize = 10;
    const EACH: usize = 50;
    let ready = Barrier::new(THREADS);
    let bodies: Vec<usize> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut open: Vec<_> = (0..EACH).map(|_| server.connect()).collect();
                    ready.wait();
                    for connection in &mut open {
                        connection.send(&request);
                    }
                    let answers = open.iter_mut().map(|connection| connection.answer().unwrap());
                    answers
                        .map(|answer| {
                            assert_eq!(answer.status, 200);
                            answer.body.len()
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect()
    });
    assert_eq!(bodies.len(), THREADS * EACH);
    assert!(bodies.iter().all(|length| *length == bodies[0] && *length > 500_000));
    let loads = server.metric(LOADS, &["cache=\"tracks\""]);
    assert!((loads - 1.0).abs() < f64::EPSILON, "{loads} loads");
    server.is_well();
}

#[test]
fn a_cold_read_its_client_gives_up_does_not_spoil_the_next() {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    let path = format!("/v1/tracks/{}?detail=full", server.track_of(LONG));
    for round in 0..5 {
        // A format of its own each time, so that every read is a cold one.
        let path = format!("{path}&encoding={}", ["points", "polyline"][round % 2]);
        let accept = ["*/*", "application/geo+json", "application/gpx+xml"][round % 3];
        let headers = [("Accept", accept)];
        let mut gone = server.connect();
        gone.send(crate::harness::client::head("GET", &path, &headers));
        drop(gone);
        let answer = server.get_with(&path, &headers);
        assert_eq!(answer.status, 200);
        assert!(answer.body.len() > 50_000);
    }
    server.is_well();
}
