//! Limits on how often a user and an address may do what costs something (`limits.*`).

use crate::beside::Beside;
use crate::harness::client::head;
use crate::harness::{Answer, Connection, Person, Setup, eventually, stores};
use crate::posts::bicycle;
use crate::track_uploads::line;
use rustix::process::Signal;
use serde_json::{Value, json};

fn setup() -> Setup {
    Setup::new().cheap_hash()
}

/// The state that an answer gives of a limit: its name, what is left, seconds until all is there.
fn state(answer: &Answer) -> (String, u32, u32) {
    let text = answer.header("ratelimit").unwrap_or_else(|| panic!("no limit: {answer:?}"));
    let mut parts = text.split(';');
    let name = parts.next().unwrap().trim_matches('"').to_owned();
    let mut number = |name: &str| {
        let part = parts.next().and_then(|part| part.strip_prefix(name)?.strip_prefix('='));
        part.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    };
    (name, number("r"), number("t"))
}

/// Asserts what is left, and when all of it is there again: with the first of several requests, it is sooner.
fn has(answer: &Answer, name: &str, left: u32, full: u32) {
    let (found, found_left, found_full) = state(answer);
    assert_eq!((found.as_str(), found_left), (name, left));
    assert!((full - 60..=full).contains(&found_full), "{found_full} of {full}");
}

fn refused(answer: &Answer) -> String {
    let problem = answer.problem(429);
    assert_eq!(problem["type"], "urn:madang:problem:rate-limited", "{problem}");
    let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    let (name, left, full) = state(answer);
    assert!(left == 0 && (1..=full).contains(&wait), "{answer:?}");
    name
}

#[test]
fn a_user_writes_as_often_as_allowed_and_another_is_not_held_up() {
    let server = setup().set("limits.write", "3/1h").start();
    let (greedy, modest) = (server.somebody("mina"), server.somebody("juno"));
    for left in [2, 1, 0] {
        let made = server.post("/v1/posts", Some(&greedy), &bicycle());
        assert_eq!(made.status, 201);
        assert_eq!(made.header("ratelimit-policy"), Some("\"write\";q=3;w=3600"));
        has(&made, "write", left, (3 - left) * 1200);
    }
    for _ in 0..3 {
        assert_eq!(refused(&server.post("/v1/posts", Some(&greedy), &bicycle())), "write");
    }
    assert_eq!(server.post("/v1/posts", Some(&modest), &bicycle()).status, 201);
    assert_eq!(server.metric("madang_rate_limited_total", &["gate=\"writes\""]), 3.0);
    // Not overload, which an operator would have to do something about.
    assert_eq!(server.metric("madang_work_shed_total", &["gate=\"writes\""]), 0.0);
    // What was refused was not done.
    let posts = server.get("/v1/posts").json();
    assert_eq!(posts["items"].as_array().unwrap().len(), 4);
}

#[test]
fn reads_from_the_cache_are_free_and_others_are_not() {
    let dir = stores::bundled();
    let server = setup().data(dir.path()).set("limits.read_address", "5/1h").start();
    let track = format!("/v1/tracks/{}", server.tracks()[0]["id"]);
    // The list of tracks, and this.
    let made = server.get(&track);
    has(&made, "read-address", 3, 1440);
    for _ in 0..20 {
        let cached = server.get(&track);
        assert_eq!((cached.status, cached.header("ratelimit")), (200, None));
    }
    let mut other = server.connect_from(2);
    let uncached = |n: usize| format!("/v1/posts?limit={}", n + 1);
    for n in 0..3 {
        assert_eq!(server.get(&uncached(n)).status, 200);
    }
    assert_eq!(refused(&server.get(&uncached(3))), "read-address");
    // A client that is over its limit still gets what costs nothing.
    assert_eq!(server.get(&track).status, 200);
    assert_eq!(other.get(&uncached(3)).status, 200);
}

#[test]
fn an_address_is_counted_whoever_logs_in_from_it_and_an_exempt_one_is_not() {
    let server = setup()
        .set("limits.write", "100/1h")
        .set("limits.write_address", "2/1h")
        .set("guard.exempt", "127.0.0.9")
        .start();
    let people: Vec<Person> = (0..3).map(|n| server.somebody(&format!("user{n}"))).collect();
    let offers = |connection: &mut Connection| -> Vec<Answer> {
        let send = |by| connection.json("POST", "/v1/posts", Some(by), &bicycle());
        people.iter().map(send).collect()
    };
    let answers = offers(&mut server.connect_from(2));
    let policy = "\"write\";q=100;w=3600, \"write-address\";q=2;w=3600";
    assert_eq!(answers[0].header("ratelimit-policy"), Some(policy));
    has(&answers[0], "write-address", 1, 1800);
    assert_eq!(answers[1].status, 201);
    assert_eq!(refused(&answers[2]), "write-address");
    for answer in
        offers(&mut server.connect_from(9)).iter().chain(&offers(&mut server.connect_from(9)))
    {
        assert_eq!((answer.status, answer.header("ratelimit")), (201, None));
    }
}

#[test]
fn without_limits_no_answer_speaks_of_them() {
    let server = setup().start();
    let by = server.somebody("mina");
    let made = server.post("/v1/posts", Some(&by), &bicycle());
    assert_eq!(
        (made.status, made.header("ratelimit"), made.header("ratelimit-policy")),
        (201, None, None)
    );
    assert!(!server.metrics_page().contains("rate_limit"), "{}", server.metrics_page());
}

#[test]
fn nodes_count_together_and_alone_while_their_server_is_away() {
    let shared = Beside::new();
    let node = || {
        let setup = shared.cluster.setup().cheap_hash().set("guard.url", &shared.redis.url());
        setup.set("limits.write", "4/1h").start()
    };
    let nodes = [node(), node()];
    let alone =
        || nodes.iter().map(|node| node.metric("madang_rate_limit_alone_total", &[])).sum::<f64>();
    let mut users = 0;
    let over = eventually(
        "their server counts each in time, as on a machine that is not too busy",
        || {
            users += 1;
            let (before, by) = (alone(), nodes[0].somebody(&format!("mina{users}")));
            let write = |n: usize| nodes[n % 2].post("/v1/posts", Some(&by), &bicycle());
            let statuses: Vec<u16> = (0..4).map(|n| write(n).status).collect();
            assert_eq!(statuses, [201; 4]);
            let over = [write(0), write(1)];
            (alone() - before < 0.5).then_some(over)
        },
    );
    over.iter().for_each(|answer| assert_eq!(refused(answer), "write"));
    shared.signal(Signal::KILL);
    let (before, another) = (alone(), nodes[1].somebody("juno"));
    let posts = |n: usize| nodes[n].post("/v1/posts", Some(&another), &bicycle()).status;
    let statuses: Vec<u16> = (0..5).map(|_| posts(0)).collect();
    assert_eq!(statuses, [201, 201, 201, 201, 429], "each node still counts");
    assert!(alone() - before > 0.5);
    assert_eq!(posts(1), 201);
}

#[test]
fn a_page_of_another_origin_may_read_what_is_left() {
    let server = setup().set("server.cors_origins", "https://app.example").start();
    let request = head("GET", "/v1/posts", &[("origin", "https://app.example")]);
    let answer = server.connect().send(request).answer().unwrap();
    let exposed = answer.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("ratelimit, ratelimit-policy"), "{exposed}");
}

#[test]
fn a_user_has_as_many_rows_of_each_kind_as_the_quota_says() {
    let server = setup().set("limits.rows", "2").start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let article = json!({ "title": "Rain", "content": "It rains." });
    let written = server.post("/v1/articles", Some(&juno), &article);
    let comments = format!("{}/comments", written.header("location").unwrap());
    let uploaded = server.post("/v1/tracks", Some(&juno), &line(3));
    assert_eq!((written.status, uploaded.status), (201, 201));
    let runs = format!("{}/records", uploaded.header("location").unwrap());
    let mut points = 3;
    let mut track = || {
        points += 1;
        line(points)
    };
    let run = json!({ "durationSeconds": 600 });
    let comment = json!({ "content": "Here, too." });
    let kinds: [(&str, &mut dyn FnMut() -> Value); 5] = [
        ("/v1/posts", &mut bicycle),
        ("/v1/articles", &mut || article.clone()),
        (&comments, &mut || comment.clone()),
        ("/v1/tracks", &mut track),
        (&runs, &mut || run.clone()),
    ];
    for (path, body) in kinds {
        let made: Vec<Answer> = (0..2).map(|_| server.post(path, Some(&mina), &body())).collect();
        assert!(made.iter().all(|made| made.status == 201), "{path}: {made:?}");
        let one_more = server.post(path, Some(&mina), &body());
        assert_eq!(one_more.problem(409)["type"], "urn:madang:problem:quota-exceeded", "{path}");
        assert_eq!(server.post(path, Some(&juno), &body()).status, 201, "{path}");
        if path.ends_with("records") {
            // A run stays with its track.
            continue;
        }
        let first = format!("{path}/{}", made[0].json()["id"]);
        assert_eq!(server.delete(&first, Some(&mina)).status, 204, "{first}");
        assert_eq!(server.post(path, Some(&mina), &body()).status, 201, "{path}");
    }
}

#[test]
fn the_answer_to_a_create_is_repeated_though_the_quota_is_used_up() {
    let server = setup().set("limits.rows", "1").start();
    let mina = server.somebody("mina");
    let body = bicycle().to_string();
    let headers = [
        ("authorization", mina.bearer()),
        ("content-type", "application/json".to_owned()),
        ("content-length", body.len().to_string()),
        ("idempotency-key", "\"one\"".to_owned()),
    ];
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (*name, &**value)).collect();
    let send = || {
        let request = head("POST", "/v1/posts", &headers) + &body;
        server.connect().send(request).answer().unwrap()
    };
    let (first, again) = (send(), send());
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(server.post("/v1/posts", Some(&mina), &bicycle()).status, 409);
}

#[test]
fn the_tracks_of_a_user_take_no_more_than_the_quota() {
    let server = setup().set("limits.track_bytes", "2000").start();
    let (mina, juno) = (server.somebody("mina"), server.somebody("juno"));
    let mut points = 100;
    let mut upload = |by| {
        points += 1;
        server.post("/v1/tracks", Some(by), &line(points))
    };
    let mut uploaded: Vec<String> = Vec::new();
    let refused = loop {
        let answer = upload(&mina);
        match answer.header("location") {
            Some(place) => uploaded.push(place.to_owned()),
            None => break answer,
        }
    };
    assert_eq!(refused.problem(409)["type"], "urn:madang:problem:quota-exceeded");
    assert!((1..20).contains(&uploaded.len()), "{uploaded:?}");
    assert_eq!(upload(&juno).status, 201);
    assert_eq!(server.delete(&uploaded[0], Some(&mina)).status, 204);
    assert_eq!(upload(&mina).status, 201);
}
