//! Every optimisation is a setting that can be switched off, and then the answers are the same.

use crate::harness::{Answer, Madang, Person, Server, Setup, stores};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Settings that are experiments, each with the values that are compared with its default. The answers that
/// are asked for here are the same with all of them.
const OPTIMISATIONS: &[(&str, &[&str])] = &[
    ("tracks.detail", &["full", "low"]),
    ("tracks.simplify", &["degrees:0.0005"]),
    ("tracks.cache_from_metres", &["10000"]),
    ("http.compression", &["off"]),
    ("cache.mode", &["off"]),
    ("cache.capacity", &["64KiB"]),
    ("cache.first_pages_only", &["on"]),
    ("cache.ttl.tracks", &["0"]),
    ("cache.ttl.lists", &["0"]),
    ("cache.ttl.categories", &["0"]),
    ("cache.ttl.posts", &["0"]),
    ("cache.ttl.articles", &["0"]),
    ("cache.ttl.markets", &["0"]),
    ("database.max_connections", &["2", "50"]),
    ("database.commit_group", &["1"]),
    ("accounts.hash", &["bcrypt:10", "argon2id:m=19456,t=2,p=1"]),
    ("accounts.hash_pool", &["unbounded"]),
    ("accounts.guard", &["off", "ip"]),
    ("schedules.limit_check", &["load-all", "count", "insert-select", "row-lock"]),
    // Not `discard`, which stores nothing to measure the rest.
    ("likes.write", &["direct", "queue"]),
];

/// Settings that are none: how much, how long, where. What is not here and not of a section that has only
/// such (limits and defences, addresses, the log) must be among the [`OPTIMISATIONS`]. `cache.url`, where the shared
/// tier is, is tested with `cache.mode` in remote_cache.rs, and `likes.url` with `likes.write` in like_stream.rs.
const OTHERS: &[&str] = &[
    "cache.url", "likes.url", "unsafe_experiments", "database.queue", "cluster.delay",
    "cluster.poll", "cluster.wait", "database.replicas", "database.url", "database.log_limit",
    "schedules.limit", "cache.max_entry", "likes.queue_flush", "accounts.hash_threads",
    "accounts.hash_queue", "accounts.hash_wait", "accounts.token_key", "accounts.token_ttl",
];
const SECTIONS: &[&str] =
    &["data.", "guard.", "home.", "idempotency.", "limits.", "log.", "server.", "trace."];

/// Every key that `madang config` prints.
fn keys() -> BTreeSet<String> {
    fn walk(prefix: &str, value: &toml::Value, keys: &mut BTreeSet<String>) {
        match value {
            toml::Value::Table(table) => {
                for (name, value) in table {
                    let dot = if prefix.is_empty() { "" } else { "." };
                    walk(&format!("{prefix}{dot}{name}"), value, keys);
                }
            }
            _ => drop(keys.insert(prefix.to_owned())),
        }
    }
    let printed: toml::Table = Madang::new(["config"]).succeeds().stdout.parse().unwrap();
    let mut keys = BTreeSet::new();
    walk("", &toml::Value::Table(printed), &mut keys);
    keys
}

#[test]
fn every_setting_is_an_optimisation_that_is_tested_or_known_to_be_none() {
    let keys = keys();
    let named = OPTIMISATIONS.iter().map(|(key, _)| *key).chain(OTHERS.iter().copied());
    let named: BTreeSet<String> = named.map(str::to_owned).collect();
    let gone: Vec<_> = named.difference(&keys).collect();
    assert!(gone.is_empty(), "no such settings any more: {gone:?}");
    let is_plain = |key: &&String| SECTIONS.iter().any(|section| key.starts_with(section));
    let new: Vec<_> = keys.difference(&named).filter(|key| !is_plain(key)).collect();
    assert!(new.is_empty(), "neither in OPTIMISATIONS nor in OTHERS: {new:?}");
}

/// What an answer says, without what no two runs have in common.
fn told(what: &str, answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.decoded()).unwrap_or_default();
    format!("{what}: {} {}", answer.status, timeless(body))
}

fn timeless(value: Value) -> Value {
    const OF_THE_MOMENT: [&str; 6] =
        ["createdAt", "updatedAt", "expiresAt", "ranAt", "token", "instance"];
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(name, _)| !OF_THE_MOMENT.contains(&name.as_str()))
            .map(|(name, value)| (name, timeless(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(timeless).collect(),
        other => other,
    }
}

/// One client's session: each body is read cold and again, before and after the writes that change it.
struct Session {
    server: Server,
    told: Vec<String>,
}

impl Session {
    fn reads(&mut self, paths: &[&str]) {
        for path in paths {
            for encoding in ["identity", "gzip", "gzip", "gzip"] {
                let answer = self.server.get_with(path, &[("Accept-Encoding", encoding)]);
                self.told.push(told(path, &answer));
            }
        }
    }

    fn sends(&mut self, method: &str, path: &str, by: Option<&Person>, body: &Value) -> Value {
        let answer = self.server.connect().json(method, path, by, body);
        self.told.push(told(&format!("{method} {path}"), &answer));
        serde_json::from_slice(&answer.decoded()).unwrap_or_default()
    }

    /// The second page of a listing, cold and again.
    fn second_page(&mut self, path: &str) {
        let first = self.server.get(path).json();
        let next = format!("{path}&cursor={}", first["nextCursor"].as_str().unwrap());
        self.reads(&[path, &next]);
    }

    fn tracks_and_markets(&mut self, person: &Person) {
        self.reads(&[
            "/v1/tracks?limit=5",
            "/v1/tracks/4?detail=full",
            "/v1/tracks/999999",
            "/v1/markets?q=%EC%A4%91%EC%95%99%EC%8B%9C%EC%9E%A5",
            "/v1/markets?near=37.5,127.0&limit=3",
            "/v1/categories",
            "/v1/locations?limit=3",
        ]);
        self.second_page("/v1/tracks?limit=4");
        self.second_page("/v1/markets?limit=4");
        for seconds in [4210.5, 4000.0, 4300.0] {
            let run = json!({"durationSeconds": seconds});
            self.sends("POST", "/v1/tracks/4/records", Some(person), &run);
            self.reads(&["/v1/tracks/4/records"]);
        }
    }

    fn posts(&mut self, person: &Person) {
        let post = |title: &str, price: i64| {
            json!({"title": title, "content": "3년 탔습니다", "itemName": "자전거", "price": price, "stock": 1,
                   "category": "sports", "state": "서울", "city": "마포구", "town": "망원동"})
        };
        let mut last = 0;
        for n in 0..5 {
            let made = self.sends("POST", "/v1/posts", Some(person), &post(&format!("{n}"), n));
            last = made["id"].as_i64().unwrap();
            self.reads(&["/v1/posts?state=Seoul&limit=3", "/v1/posts?sort=-price&limit=2"]);
        }
        self.second_page("/v1/posts?limit=2");
        let one = format!("/v1/posts/{last}");
        self.reads(&[&one]);
        self.sends("PATCH", &one, Some(person), &json!({"price": 9}));
        self.reads(&[&one, "/v1/posts?sort=price&limit=2"]);
        self.sends("DELETE", &one, Some(person), &Value::Null);
        self.reads(&[&one, "/v1/posts?sort=price&limit=2"]);
    }

    fn articles(&mut self, person: &Person) {
        let article = json!({"title": "비 온 뒤", "content": "흙냄새가 난다"});
        let made = self.sends("POST", "/v1/articles", Some(person), &article);
        let one = format!("/v1/articles/{}", made["id"]);
        self.reads(&[&one]);
        for method in ["PUT", "PUT", "DELETE", "POST", "POST", "PUT"] {
            self.sends(method, &format!("{one}/like"), Some(person), &json!({}));
            self.reads(&[&one]);
        }
        let comment = json!({"content": "좋아요"});
        for _ in 0..3 {
            self.sends("POST", &format!("{one}/comments"), Some(person), &comment);
            self.reads(&[&format!("{one}/comments?limit=2")]);
        }
        self.second_page(&format!("{one}/comments?limit=2"));
        self.reads(&[&one]);
        // Counts of a listing follow. Two likes are those of the end; one was there before, too.
        let other = self.server.somebody("hana");
        self.sends("PUT", &format!("{one}/like"), Some(&other), &json!({}));
        let listing = "/v1/articles?limit=3";
        crate::harness::eventually("the listing shows both likes", || {
            (self.server.get(listing).json()["items"][0]["likeCount"] == 2).then_some(())
        });
        self.reads(&[listing]);
    }

    fn schedules(&mut self, person: &Person) {
        let plan = json!({"title": "한강 달리기", "locationId": 1,
            "startAt": "2026-12-01T19:00:00+09:00", "endAt": "2026-12-01T20:00:00+09:00"});
        let ids: Vec<Value> = (0..4)
            .map(|_| self.sends("POST", "/v1/schedules", Some(person), &plan)["scheduleId"].clone())
            .collect();
        let gone = format!("/v1/schedules/{}", ids[0]);
        self.sends("DELETE", &gone, Some(person), &Value::Null);
        self.sends("DELETE", &gone, Some(person), &Value::Null);
        self.sends("POST", "/v1/schedules", Some(person), &plan);
        self.sends("GET", "/v1/schedules", Some(person), &Value::Null);
    }

    fn accounts(&mut self) {
        for password in ["wrong horse", crate::harness::PASSWORD] {
            let body = json!({"nickname": "mina", "password": password});
            self.sends("POST", "/v1/auth/user/login", None, &body);
        }
        let again = json!({"nickname": "mina", "password": "another horse", "region_name": "서울"});
        self.sends("POST", "/v1/auth/user/register", None, &again);
        self.reads(&["/v1/users/me"]);
    }
}

/// Everything that a server says with this setting.
fn answers(setting: Option<(&str, &str)>) -> Vec<String> {
    let dir = stores::demo();
    // The hash of a test account is cheap unless it is what is asked about. Threads that hash give way to all
    // others: on a machine whose cores are busy, one hash at full cost takes longer than a request may by default.
    let setup = Setup::new()
        .data(dir.path())
        .cheap_hash()
        .set("server.request_timeout", "60s")
        .set("accounts.hash_wait", "60s")
        .set("schedules.limit", "3")
        .set("likes.queue_flush", "100ms");
    let setup = setting.into_iter().fold(setup, |setup, (key, value)| setup.set(key, value));
    let server = setup.start();
    let person = server.somebody("mina");
    let mut session = Session { server, told: Vec::new() };
    // What these say of a path is what they are for; that of the full one is the same.
    if setting.is_none_or(|(key, _)| key != "tracks.simplify") {
        session.reads(&["/v1/tracks/4?detail=medium", "/v1/tracks/4?detail=low&encoding=polyline"]);
    }
    session.tracks_and_markets(&person);
    session.posts(&person);
    session.articles(&person);
    session.schedules(&person);
    session.accounts();
    session.server.is_well();
    session.told
}

#[test]
fn answers_are_the_same_with_each_optimisation_off() {
    let wanted = answers(None);
    assert!(wanted.len() > 200, "{} answers", wanted.len());
    let all =
        OPTIMISATIONS.iter().flat_map(|(key, values)| values.iter().map(|value| (*key, *value)));
    let all: Vec<_> = all.collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((key, value)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let told = answers(Some((key, value)));
                    let wanted = &wanted[wanted.len() - told.len()..];
                    for (told, wanted) in told.iter().zip(wanted) {
                        assert_eq!(told, wanted, "with {key} = {value}");
                    }
                }
            });
        }
    });
}
