//! Behind the seam: a store that answers later, and one that does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use std::time::Duration;

use madang_guard::clock::ManualClock;
use madang_guard::limit::{
    Answer, AttemptOutcome, AttemptStore, Decision, MemoryStore, Request, StoreError, StoreMetrics,
    Subject,
};
use madang_guard::{Guard, GuardConfig, Reason, Reservation, Stores, Suspect};

use crate::kit::{at, config, unsuspecting};

/// Counts in memory, but answers in a later turn of the runtime, or not at all.
#[derive(Clone)]
struct Distant {
    counters: Arc<MemoryStore>,
    away: Arc<AtomicBool>,
    /// Reservations that were asked for.
    asked: Arc<AtomicUsize>,
}

impl Distant {
    fn answer(&self) -> Result<(), StoreError> {
        if self.away.load(Ordering::Relaxed) { Err(StoreError("away".into())) } else { Ok(()) }
    }
}

impl AttemptStore for Distant {
    fn reserve(&self, request: &Request) -> Answer<'_, Result<Decision, StoreError>> {
        let request = *request;
        self.asked.fetch_add(1, Ordering::Relaxed);
        Answer::Later(Box::pin(async move {
            tokio::task::yield_now().await;
            self.answer()?;
            self.counters.reserve(&request).get().await
        }))
    }

    fn settle(
        &self,
        subject: &Subject,
        ticket: u64,
        outcome: AttemptOutcome,
    ) -> Answer<'static, Result<(), StoreError>> {
        let (store, subject) = (self.clone(), *subject);
        Answer::Later(Box::pin(async move {
            tokio::task::yield_now().await;
            store.answer()?;
            store.counters.settle(&subject, ticket, outcome).get().await
        }))
    }

    fn metrics(&self) -> StoreMetrics {
        self.counters.metrics()
    }
}

fn end(reservation: Reservation, right: bool) {
    if right {
        reservation.succeed();
    } else {
        reservation.fail();
    }
}

fn distant(config: &GuardConfig) -> (Guard, Arc<AtomicBool>) {
    let Two { guards: [guard, _], store, .. } = two_processes(config);
    (guard, store.away)
}

/// Two processes that count in one store.
struct Two {
    guards: [Guard; 2],
    store: Distant,
    clock: Arc<ManualClock>,
}

fn two_processes(config: &GuardConfig) -> Two {
    let clock = Arc::new(ManualClock::default());
    let counters = Arc::new(MemoryStore::new(config, clock.clone()));
    let store = Distant { counters, away: Arc::default(), asked: Arc::default() };
    let guard = || {
        let stores = Stores { attempts: Some(Arc::new(store.clone())), proofs: None };
        Guard::with_stores(config.clone(), stores, clock.clone()).unwrap()
    };
    Two { guards: [guard(), guard()], store, clock }
}

#[tokio::test(start_paused = true)]
async fn fifty_logins_succeed_and_ten_guesses_fail_over_a_distant_store() {
    for right in [true, false] {
        let (guard, _) = distant(&config());
        let (queue, hash) = std::sync::mpsc::channel();
        // Like the hash pool: a thread that knows nothing of the runtime.
        let hasher = std::thread::spawn(move || {
            let mut hashed = 0;
            for reservation in hash {
                hashed += 1;
                end(reservation, right);
            }
            hashed
        });
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let (guard, queue) = (guard.clone(), queue.clone());
            tasks.spawn(async move {
                if let Ok(reservation) = guard.admit(&at("kim", 1).attempt()).await {
                    queue.send(reservation).unwrap();
                }
            });
        }
        drop(queue);
        // The hashing thread is outside of the paused timer: keep it from running out.
        let all_are_done = || {
            while tasks.try_join_next().is_some() {}
            tasks.is_empty()
        };
        madang_testing::until_async("all are admitted or refused", all_are_done).await;
        assert_eq!(hasher.join().unwrap(), if right { 50 } else { 10 });
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_this_process_goes_on_from_what_it_has_counted() {
    let (guard, away) = distant(&unsuspecting());
    for _ in 0..4 {
        guard.admit(&at("kim", 1).attempt()).await.unwrap().fail();
    }
    settled().await;
    away.store(true, Ordering::Relaxed);
    for _ in 0..6 {
        guard.admit(&at("kim", 1).attempt()).await.unwrap().fail();
    }
    let refused = guard.admit(&at("kim", 1).attempt()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Pair);
    assert_eq!(guard.metrics().store_errors, 7);
    away.store(false, Ordering::Relaxed);
    guard.admit(&at("kim", 1).attempt()).await.unwrap().succeed();
    settled().await;
    // The right password clears both.
    away.store(true, Ordering::Relaxed);
    guard.admit(&at("kim", 1).attempt()).await.unwrap().cancel();
}

#[tokio::test(start_paused = true)]
async fn what_was_suspicious_stays_so_while_the_store_is_away() {
    let Two { guards, store, .. } = two_processes(&config());
    let names: Vec<_> = (0..config().address.accounts).map(|n| format!("user-{n}")).collect();
    // Only one of the processes sees the failures; both are asked once more.
    for name in &names {
        guards[0].admit(&at(name, 1).attempt()).await.unwrap().fail();
        settled().await;
    }
    let reason = async |guard: &Guard, address| {
        guard
            .admit(&at("kim", address).attempt())
            .await
            .map(Reservation::cancel)
            .unwrap_err()
            .reason
    };
    for guard in &guards {
        assert_eq!(reason(guard, 1).await, Reason::Suspicious(Suspect::Address));
    }
    store.away.store(true, Ordering::Relaxed);
    for guard in &guards {
        assert_eq!(reason(guard, 1).await, Reason::Suspicious(Suspect::Address));
        guard.admit(&at("kim", 2).attempt()).await.unwrap().cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_suspicious_is_asked_about_once_a_second() {
    let Two { guards: [guard, _], store: Distant { asked, .. }, clock } = two_processes(&config());
    let failing = async |guard: &Guard, name: &str| {
        guard.admit(&at(name, 1).attempt()).await.map(Reservation::fail)
    };
    for n in 0..config().address.accounts {
        failing(&guard, &format!("user-{n}")).await.unwrap();
        settled().await;
    }
    let before = asked.load(Ordering::Relaxed);
    for _ in 0..100 {
        let refused = failing(&guard, "kim").await.unwrap_err();
        assert_eq!(refused.reason, Reason::Suspicious(Suspect::Address));
        assert!(refused.challenge.is_some());
    }
    assert_eq!(asked.load(Ordering::Relaxed), before + 1);
    clock.advance(Duration::from_secs(1));
    failing(&guard, "kim").await.unwrap_err();
    assert_eq!(asked.load(Ordering::Relaxed), before + 2);
    // When it is over it is over here as well.
    clock.advance(Duration::from_secs(3600));
    guard.admit(&at("kim", 1).attempt()).await.unwrap().cancel();
}

/// The outcome is on its way.
async fn settled() {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}
