//! Runs and the ranking: one personal best for each runner, whoever sends what at the same time.

use crate::harness::{Person, Server, Setup};
use serde_json::{Value, json};

const RANKING: &str = "/v1/tracks/1/records";

fn start() -> Server {
    Setup::new().cheap_hash().demo().start()
}

fn run(server: &Server, by: &Person, seconds: f64) -> Value {
    let answer = server.post(RANKING, Some(by), &json!({"durationSeconds": seconds}));
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.header("location"), Some(RANKING));
    answer.json()
}

/// Rank, name and time of everybody, through pages of this size.
fn ranking(server: &Server, limit: usize) -> Vec<(u64, String, f64)> {
    let mut all = Vec::new();
    let mut next = format!("{RANKING}?limit={limit}");
    loop {
        let page = server.get(&next).json();
        all.extend(page["items"].as_array().unwrap().iter().map(|item| {
            assert!(item["id"].is_i64());
            let text = |field: &str| item[field].as_str().unwrap().to_owned();
            (
                item["rank"].as_u64().unwrap(),
                text("nickname"),
                item["durationSeconds"].as_f64().unwrap(),
            )
        }));
        match page["nextCursor"].as_str() {
            Some(cursor) => next = format!("{RANKING}?limit={limit}&cursor={cursor}"),
            None => return all,
        }
    }
}

#[test]
fn the_fastest_run_of_each_runner_is_ranked() {
    let server = start();
    let (ann, bob, eve) = (server.somebody("ann"), server.somebody("bob"), server.somebody("eve"));
    assert!(ranking(&server, 20).is_empty());
    assert_eq!(run(&server, &ann, 3600.5)["personalBest"], true);
    assert_eq!(run(&server, &ann, 3700.0)["personalBest"], false);
    assert_eq!(run(&server, &ann, 3600.5)["personalBest"], false, "an equal time is no better");
    assert_eq!(run(&server, &bob, 3500.0)["personalBest"], true);
    assert_eq!(run(&server, &eve, 3600.5)["personalBest"], true);
    let named = |rank, name: &str, seconds| (rank, name.to_owned(), seconds);
    let expected = [named(1, "bob", 3500.0), named(2, "ann", 3600.5), named(2, "eve", 3600.5)];
    assert_eq!(ranking(&server, 20), expected);
    assert_eq!(ranking(&server, 1), expected, "ranks do not begin anew on a page");
    run(&server, &ann, 3000.25);
    assert_eq!(ranking(&server, 20)[0], named(1, "ann", 3000.25), "the cached page is gone");
    assert_eq!(ranking(&server, 2)[2], named(3, "eve", 3600.5));
}

#[test]
fn runs_of_one_runner_at_the_same_time_leave_exactly_one_best_the_fastest() {
    let server = start();
    let runner = server.somebody("runner");
    for round in 0..5u32 {
        // The fastest is somewhere in the middle, and faster each round.
        let seconds: Vec<f64> = (0..16)
            .map(|n| 5000.0 - 100.0 * f64::from(round) + f64::from((n * 7 + 3) % 16))
            .collect();
        let barrier = std::sync::Barrier::new(seconds.len());
        let bests: usize = std::thread::scope(|scope| {
            let sent: Vec<_> = seconds
                .iter()
                .map(|&seconds| {
                    let (server, runner, barrier) = (&server, &runner, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        usize::from(run(server, runner, seconds)["personalBest"] == true)
                    })
                })
                .collect();
            sent.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(bests >= 1);
        let fastest = seconds.iter().copied().fold(f64::MAX, f64::min);
        assert_eq!(ranking(&server, 20), [(1, "runner".to_owned(), fastest)]);
    }
}

#[test]
fn a_ranking_goes_with_its_track() {
    let server = start();
    let owner = server.somebody("owner");
    let track = json!({"name": "mine", "segments": [[[1, 2], [3, 4]]]});
    let path =
        server.post("/v1/tracks", Some(&owner), &track).header("location").unwrap().to_owned();
    let records = format!("{path}/records");
    let body = json!({"durationSeconds": 60, "ranAt": "2026-01-01T09:00:00+09:00"});
    let sent = server.post(&records, Some(&owner), &body);
    assert_eq!(sent.json()["ranAt"], "2026-01-01T00:00:00.000Z", "{}", sent.text());
    assert_eq!(server.get(&records).json()["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.delete(&path, Some(&owner)).status, 204);
    server.get(&records).problem(404);
    server.post(&records, Some(&owner), &body).problem(404);
}

#[test]
fn runs_that_cannot_be_are_refused() {
    let server = start();
    let runner = server.somebody("runner");
    let wrong = |body: Value| server.post(RANKING, Some(&runner), &body).wrong_fields();
    assert_eq!(wrong(json!({})), ["durationSeconds"]);
    for seconds in
        [json!(0), json!(-1), json!(0.0009), json!(604_800.001), json!("60"), json!(null)]
    {
        assert_eq!(wrong(json!({"durationSeconds": seconds})), ["durationSeconds"], "{seconds}");
    }
    for at in [
        json!("2026-13-01T00:00:00Z"),
        json!("2026-01-01T00:00:00"),
        json!("9999-01-01T00:00:00Z"),
        json!(1),
    ] {
        assert_eq!(wrong(json!({"durationSeconds": 60, "ranAt": at})), ["ranAt"], "{at}");
    }
    assert_eq!(run(&server, &runner, 0.001)["durationSeconds"], 0.001);
    assert_eq!(run(&server, &runner, 604_800.0)["durationSeconds"], 604_800.0);

    server.post(RANKING, None, &json!({"durationSeconds": 60})).problem(401);
    let missing =
        server.post("/v1/tracks/999999/records", Some(&runner), &json!({"durationSeconds": 60}));
    missing.problem(404);
    server.get("/v1/tracks/999999/records").problem(404);
    assert_eq!(
        server.get(&format!("{RANKING}?limit=0&cursor=x")).wrong_fields(),
        ["limit", "cursor"]
    );
}

#[test]
fn a_cursor_of_another_ranking_is_refused() {
    let server = start();
    for name in ["ann", "bob"] {
        run(&server, &server.somebody(name), 60.0);
    }
    let page = server.get(&format!("{RANKING}?limit=1")).json();
    let cursor = page["nextCursor"].as_str().unwrap();
    assert_eq!(
        server.get(&format!("/v1/tracks/2/records?cursor={cursor}")).wrong_fields(),
        ["cursor"]
    );
    assert_eq!(server.get(&format!("/v1/tracks?cursor={cursor}")).wrong_fields(), ["cursor"]);
}

#[test]
fn a_run_or_a_track_sent_again_with_its_key_is_stored_once_and_answered_alike() {
    let server = start();
    let runner = server.somebody("runner");
    let send = |path: &str, key: &str, body: &Value| {
        let bearer = runner.bearer();
        let headers = [
            ("Content-Type", "application/json"),
            ("Authorization", bearer.as_str()),
            ("Idempotency-Key", key),
        ];
        server.connect().send_body("POST", path, &headers, body.to_string())
    };
    let track = json!({"name": "mine", "segments": [[[1, 2], [3, 4]]]});
    for (path, body) in [("/v1/tracks", &track), (RANKING, &json!({"durationSeconds": 60}))] {
        let first = send(path, "once", body);
        assert_eq!((first.status, first.header("idempotent-replayed")), (201, None));
        let again = send(path, "once", body);
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
        assert_eq!(
            (again.json(), again.header("location")),
            (first.json(), first.header("location"))
        );
        let other = json!({"name": "other", "segments": [[[1, 2], [3, 4]]], "durationSeconds": 61});
        send(path, "once", &other).problem(422);
    }
    assert_eq!(run(&server, &runner, 60.0)["personalBest"], false, "the first one stands");
    assert_eq!(server.tracks().iter().filter(|track| track["name"] == "mine").count(), 1);
}
