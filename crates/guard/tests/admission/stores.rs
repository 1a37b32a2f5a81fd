//! Shared stores: one that answers later, and one that does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use madang_guard::clock::ManualClock;
use madang_guard::limit::{
    Answer, AttemptOutcome, AttemptStore, Decision, MemoryStore, Request, StoreError, StoreMetrics,
    Subject,
};
use madang_guard::{Guard, GuardConfig, Reason, Refused, Reservation, Stores, Suspect};

use crate::kit::{at, config, unsuspecting};

/// Counts in memory, but answers in a later turn of the runtime, or not at all.
#[derive(Clone)]
struct Distant {
    counters: Arc<MemoryStore>,
    away: Arc<AtomicBool>,
    /// Requests for reservations.
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

async fn admit(guard: &Guard, account: &str, address: u32) -> Result<Reservation, Refused> {
    guard.admit(&at(account, address).attempt()).await
}

async fn reason(guard: &Guard, account: &str, address: u32) -> Reason {
    admit(guard, account, address).await.unwrap_err().reason
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
        // Like the hash pool: a thread outside of the runtime.
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
                if let Ok(reservation) = admit(&guard, "kim", 1).await {
                    queue.send(reservation).unwrap();
                }
            });
        }
        drop(queue);
        // The hashing thread is outside of the paused timer: this keeps the timer from advancing.
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
        admit(&guard, "kim", 1).await.unwrap().fail();
    }
    settled().await;
    away.store(true, Ordering::Relaxed);
    for _ in 0..6 {
        admit(&guard, "kim", 1).await.unwrap().fail();
    }
    assert_eq!(reason(&guard, "kim", 1).await, Reason::Pair);
    assert_eq!(guard.metrics().store_errors, 7);
    away.store(false, Ordering::Relaxed);
    admit(&guard, "kim", 1).await.unwrap().succeed();
    settled().await;
    // The right password clears both.
    away.store(true, Ordering::Relaxed);
    admit(&guard, "kim", 1).await.unwrap().cancel();
}

#[tokio::test(start_paused = true)]
async fn what_was_suspicious_stays_so_while_the_store_is_away() {
    let Two { guards, store, .. } = two_processes(&config());
    // Only one of the processes sees the failures; both get one more attempt.
    for n in 0..config().address.accounts {
        admit(&guards[0], &format!("user-{n}"), 1).await.unwrap().fail();
        settled().await;
    }
    for guard in &guards {
        assert_eq!(reason(guard, "kim", 1).await, Reason::Suspicious(Suspect::Address));
    }
    store.away.store(true, Ordering::Relaxed);
    for guard in &guards {
        assert_eq!(reason(guard, "kim", 1).await, Reason::Suspicious(Suspect::Address));
        admit(guard, "kim", 2).await.unwrap().cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_suspicious_is_asked_about_once_a_second() {
    let Two { guards: [guard, _], store: Distant { asked, .. }, clock } = two_processes(&config());
    for n in 0..config().address.accounts {
        admit(&guard, &format!("user-{n}"), 1).await.unwrap().fail();
        settled().await;
    }
    let before = asked.load(Ordering::Relaxed);
    for _ in 0..100 {
        let refused = admit(&guard, "kim", 1).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Suspicious(Suspect::Address));
        assert!(refused.challenge.is_some());
    }
    assert_eq!(asked.load(Ordering::Relaxed), before + 1);
    clock.advance(Duration::from_secs(1));
    admit(&guard, "kim", 1).await.unwrap_err();
    assert_eq!(asked.load(Ordering::Relaxed), before + 2);
    // The suspicion ends in this process as well.
    clock.advance(Duration::from_secs(3600));
    admit(&guard, "kim", 1).await.unwrap().cancel();
}

/// Lets the store settle an outcome.
async fn settled() {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}
