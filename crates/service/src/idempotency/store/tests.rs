//! Idempotency keys, on a real store.

use super::super::Idempotency;
use super::*;
use crate::config::Sources;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Bench {
    store: Store,
    _dir: tempfile::TempDir,
}

/// A create with a key.
#[derive(Clone, Copy)]
struct Make {
    user: i64,
    route: &'static str,
    key: &'static str,
    body: &'static str,
    keep_ms: i64,
}

const MAKE: Make = Make { user: 1, route: "/r", key: "k", body: "{}", keep_ms: 86_400_000 };

impl Make {
    fn once(self) -> Once {
        let mut fingerprint = [0; 32];
        fingerprint[..self.body.len()].copy_from_slice(self.body.as_bytes());
        let (route, key) = (self.route.into(), self.key.into());
        let Make { user, keep_ms, .. } = self;
        Once(Some(Box::new(Claim { user, route, key, fingerprint, keep_ms })))
    }
}

/// A table of things without properties.
const MADE: Sql<'_> = Sql::each(
    "CREATE TABLE made (id INTEGER PRIMARY KEY)",
    "CREATE TABLE made (id INTEGER PRIMARY KEY AUTO_INCREMENT)",
);

fn insert(tx: &Tx<'_>) -> Result<i64> {
    tx.insert("INSERT INTO made (id) VALUES (NULL)", &[])
}

impl Bench {
    async fn new() -> Bench {
        let (store, dir) = Store::fresh(&Sources::of_test());
        let made: Result<()> = store.write(|tx| tx.run(MADE, &[]).map(drop)).await;
        made.unwrap();
        Bench { store, _dir: dir }
    }

    async fn make(&self, make: Make) -> Result<Done<i64>> {
        self.store.write(move |tx| make.once().run(tx, |tx| insert(tx))).await
    }

    async fn rows(&self) -> (i64, i64) {
        let keys = self.store.number("SELECT count(*) FROM idempotency_keys").await;
        (self.store.number("SELECT count(*) FROM made").await, keys)
    }
}

#[tokio::test]
async fn a_retry_makes_nothing_and_has_the_first_outcome() {
    let bench = Bench::new().await;
    assert_eq!(bench.make(MAKE).await, Ok(Done::now(1)));
    assert_eq!(bench.make(MAKE).await, Ok(Done { outcome: 1, replayed: true }));
    assert_eq!(bench.rows().await, (1, 1));
    let found: Option<i64> = bench
        .store
        .write(|tx| MAKE.once().find(tx))
        .await
        .unwrap_or_else(|e: StoreError| panic!("{e}"));
    assert_eq!(found, Some(1));
}

#[tokio::test]
async fn without_a_key_every_request_makes_one() {
    let bench = Bench::new().await;
    for id in 1..4 {
        let made: Result<_> =
            bench.store.write(|tx| Once::default().run(tx, |tx| insert(tx))).await;
        assert_eq!(made, Ok(Done::now(id)));
    }
    assert_eq!(bench.rows().await, (3, 0));
}

#[tokio::test]
async fn another_user_route_or_key_is_another_create() {
    let bench = Bench::new().await;
    for (id, make) in (1..).zip([
        MAKE,
        Make { user: 2, ..MAKE },
        Make { route: "/s", ..MAKE },
        Make { key: "l", ..MAKE },
    ]) {
        assert_eq!(bench.make(make).await, Ok(Done::now(id)));
    }
}

#[tokio::test]
async fn a_key_with_another_request_is_refused_and_makes_nothing() {
    let bench = Bench::new().await;
    bench.make(MAKE).await.unwrap();
    let other = Make { body: "{\"a\":1}", ..MAKE };
    assert_eq!(bench.make(other).await, Err(StoreError::KeyReused));
    assert_eq!(bench.rows().await, (1, 1));
}

#[tokio::test]
async fn retries_that_arrive_together_make_one_row() {
    let bench = Arc::new(Bench::new().await);
    let mut tries = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let bench = Arc::clone(&bench);
        tries.spawn(async move { bench.make(MAKE).await.unwrap() });
    }
    let done = tries.join_all().await;
    assert!(done.iter().all(|done| done.outcome == 1));
    assert_eq!(done.iter().filter(|done| !done.replayed).count(), 1);
    assert_eq!(bench.rows().await, (1, 1));
}

#[tokio::test]
async fn refusals_and_failures_are_forgotten() {
    let bench = Bench::new().await;
    let failed: Result<Done<i64>> =
        bench.store.write(|tx| MAKE.once().run(tx, |_| Err(StoreError::Busy))).await;
    assert_eq!(failed, Err(StoreError::Busy));
    let refused: Result<Done<Option<i64>>> =
        bench.store.write(|tx| MAKE.once().run(tx, |_| Ok(None))).await;
    assert_eq!(refused, Ok(Done::now(None)));
    // The create succeeds, and a later statement of its transaction fails.
    let undone: Result<()> = bench
        .store
        .write(|tx| {
            let done = MAKE.once().run(tx, |tx| insert(tx))?;
            assert!(!done.replayed);
            Err(StoreError::Busy)
        })
        .await;
    assert_eq!(undone, Err(StoreError::Busy));
    assert_eq!(bench.rows().await, (0, 0));
    // A server does not reuse an id of an undone transaction.
    let id = if bench.store.is_shared() { 2 } else { 1 };
    assert_eq!(bench.make(MAKE).await, Ok(Done::now(id)));
}

#[tokio::test]
async fn the_latest_keys_of_a_user_are_kept_and_no_more() {
    let bench = Bench::new().await;
    let most = i64::from(KEYS_PER_USER);
    let kept: Result<()> = bench
        .store
        .write(move |tx| {
            Make { user: 2, ..MAKE }.once().run(tx, |tx| insert(tx))?;
            for n in 0..most + 5 {
                let Once(claim) = MAKE.once();
                let key = n.to_string().into();
                Once(claim.map(|c| Box::new(Claim { key, ..*c })))
                    .run(tx, |_| Ok::<_, StoreError>(n))?;
            }
            Ok(())
        })
        .await;
    kept.unwrap();
    assert_eq!(bench.rows().await, (1, most + 1), "nothing of another user goes");
    for (key, found) in [("4", None), ("5", Some(5)), ("1004", Some(1004))] {
        let make = Make { key, ..MAKE };
        let look: Result<Option<i64>> = bench.store.write(move |tx| make.once().find(tx)).await;
        assert_eq!(look, Ok(found), "{key}");
    }
}

#[tokio::test]
async fn an_expired_key_is_free_again_and_its_row_is_swept() {
    let bench = Bench::new().await;
    let expired = Make { keep_ms: -1, ..MAKE };
    assert_eq!(bench.make(expired).await, Ok(Done::now(1)));
    assert_eq!(bench.make(MAKE).await, Ok(Done::now(2)), "expired");
    assert_eq!(bench.make(MAKE).await, Ok(Done { outcome: 2, replayed: true }));
    for key in ["a", "b", "c"] {
        bench.make(Make { key, ..expired }).await.unwrap();
    }
    assert_eq!(sweep(&bench.store, now_ms(), 2).await, Ok(2));
    assert_eq!(sweep(&bench.store, now_ms(), 2).await, Ok(1));
    assert_eq!(bench.rows().await, (5, 1), "the live one stays");
}

#[tokio::test]
async fn a_keyed_request_starts_a_sweep_and_the_next_ones_do_not() {
    let bench = Bench::new().await;
    let idempotency = Idempotency::new(Duration::from_secs(60));
    let expired = Make { keep_ms: -1, ..MAKE };
    bench.make(expired).await.unwrap();
    bench.make(Make { key: "live", ..MAKE }).await.unwrap();
    idempotency.sweep_when_due(&bench.store);
    let end = Instant::now() + Duration::from_secs(30);
    while bench.rows().await.1 != 1 {
        assert!(Instant::now() < end, "the expired row stays");
    }
    bench.make(expired).await.unwrap();
    let before = bench.store.metrics().committed_jobs;
    idempotency.sweep_when_due(&bench.store);
    // Writes of a new sweep would be counted before this one.
    tokio::task::yield_now().await;
    bench.make(Make { key: "other", ..MAKE }).await.unwrap();
    assert_eq!(bench.store.metrics().committed_jobs, before + 1);
}
