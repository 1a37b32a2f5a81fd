//! `kill -9` in the middle of likes: what was acknowledged is there, and counts are rows.
//!
//! `SOAK_ROUNDS` says how often; `make soak` asks for many.

use crate::articles::{read, write};
use crate::harness::{Connection, Person, Server, database};
use crate::likes::{counts_are_rows, server_with};
use rustix::process::Signal;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

const USERS: usize = 16;
const ARTICLES: usize = 12;
/// Likes that each round lets through before it kills.
const ACKNOWLEDGED: usize = 400;

/// What a client knows of its pairs: the last state it was told, and another that may have come after
/// it, for the request that was never answered.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    told: bool,
    maybe: Option<bool>,
}

fn rounds() -> usize {
    std::env::var("SOAK_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap())
}

#[test]
fn a_server_killed_in_mid_load_has_every_acknowledged_like_and_counts_that_are_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server_with("behind", dir.path());
    let people: Vec<_> = (0..USERS).map(|n| server.somebody(&format!("user-{n}"))).collect();
    let ids: Vec<_> =
        (0..ARTICLES).map(|n| write(&server, &people[0], &format!("a {n}"))).collect();
    let mut known = vec![vec![Known::default(); ARTICLES]; USERS];
    for round in 0..rounds() {
        let wanted = ACKNOWLEDGED + 37 * round;
        under_fire(&mut server, &people, &ids, &mut known, round, |_, told| told >= wanted);
        server = server_with("behind", dir.path());
        compare(&server, dir.path(), &people, &ids, &mut known, round);
    }
}

#[test]
fn a_server_killed_while_likes_of_many_articles_are_applied_has_every_acknowledged_like() {
    const MANY: usize = 400;
    let dir = tempfile::tempdir().unwrap();
    let mut server = server_with("behind", dir.path());
    let people: Vec<_> = (0..USERS).map(|n| server.somebody(&format!("user-{n}"))).collect();
    let ids: Vec<_> = (0..MANY).map(|n| write(&server, &people[0], &format!("a {n}"))).collect();
    let mut known = vec![vec![Known::default(); MANY]; USERS];
    let mut halfway = 0;
    for round in 0..rounds() {
        // Some slices of a pass are in the tables, others are not.
        let applied = |server: &Server, _| {
            server.metric("madang_likes_applied_total", &[]) > 100.0 * round as f64
        };
        under_fire(&mut server, &people, &ids, &mut known, round, applied);
        let logged = database::number(dir.path(), "SELECT count(*) FROM like_log");
        halfway += usize::from(logged > Some(0));
        server = server_with("behind", dir.path());
        assert_eq!(database::number(dir.path(), "SELECT count(*) FROM like_log"), Some(0));
        compare(&server, dir.path(), &people, &ids, &mut known, round);
    }
    assert!(halfway > 0, "no round was killed while the log held anything");
}

/// Every user asks for random changes of random likes until the server is gone.
fn under_fire(
    server: &mut Server,
    people: &[Person],
    ids: &[i64],
    known: &mut [Vec<Known>],
    round: usize,
    enough: impl Fn(&Server, usize) -> bool,
) {
    let acknowledged = AtomicUsize::new(0);
    let api = server.api;
    std::thread::scope(|scope| {
        for (number, (person, known)) in people.iter().zip(known).enumerate() {
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed((round * USERS + number) as u64);
                let Ok(mut connection) = Connection::try_open(api) else { return };
                loop {
                    let at = random.usize(..ids.len());
                    let method = ["PUT", "DELETE", "POST"][random.usize(..3)];
                    let next = match method {
                        "PUT" => true,
                        "DELETE" => false,
                        _ => !known[at].told,
                    };
                    let head = crate::harness::client::head(
                        method,
                        &format!("/v1/articles/{}/like", ids[at]),
                        &[("Authorization", &person.bearer())],
                    );
                    let answer = if connection.try_send(head) { connection.answer() } else { None };
                    let Some(answer) = answer else {
                        known[at].maybe = Some(next);
                        return;
                    };
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    assert_eq!(answer.json()["liked"], next);
                    known[at].told = next;
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        crate::harness::eventually("enough likes", || {
            enough(server, acknowledged.load(Ordering::Relaxed)).then_some(())
        });
        server.signal(Signal::KILL);
    });
    server.wait();
}

/// Compares file and API with what the clients know, and settles what they could not know.
fn compare(
    server: &Server,
    dir: &Path,
    people: &[Person],
    ids: &[i64],
    known: &mut [Vec<Known>],
    round: usize,
) {
    // Wrong counts are mended from the start on: a pass that found none is what says that none were wrong.
    crate::harness::eventually("all articles were checked", || {
        (server.metric("madang_article_check_passes_total", &[]) >= 1.0).then_some(())
    });
    let checked = server.metric("madang_article_counts_checked_total", &[]);
    assert!(checked >= ids.len() as f64, "round {round}: {checked} articles checked");
    let repaired = server.metric("madang_article_counts_repaired_total", &[]);
    assert!(repaired.abs() < f64::EPSILON, "round {round}: {repaired} counts were wrong");
    counts_are_rows(dir);
    let rows = "SELECT ifnull(group_concat(article_id || ' ' || nickname, ','), '')
                FROM article_likes JOIN users ON id = user_id";
    let rows = database::text(dir, rows);
    let rows: HashSet<&str> = rows.split(',').collect();
    for (person, known) in people.iter().zip(known.iter_mut()) {
        for (id, known) in ids.iter().zip(known) {
            let stored = rows.contains(format!("{id} {}", person.nickname).as_str());
            assert!(
                stored == known.told || Some(stored) == known.maybe,
                "round {round}: {} on {id}: {known:?}, stored {stored}",
                person.nickname
            );
            *known = Known { told: stored, maybe: None };
        }
    }
    for (at, id) in ids.iter().enumerate() {
        let likes = known.iter().filter(|known| known[at].told).count();
        assert_eq!(read(server, *id, None).json()["likeCount"], likes, "round {round}: {id}");
    }
    let article = read(server, ids[0], Some(&people[0])).json();
    assert_eq!(article["liked"], known[0][0].told);
}
