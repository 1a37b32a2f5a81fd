//! Behind the seam: a store that answers later, and one that does not answer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use madang_guard::{
    Guard, GuardConfig, Reason, Reservation, Stores,
    clock::ManualClock,
    limit::{
        Answer, AttemptStore, Decision, MemoryStore, Request, StoreError, StoreFigures, Subject,
        Verdict,
    },
};

use crate::kit::{at, config, unsuspecting};

/// Counts in memory, but answers in a later turn of the runtime, or not at all.
#[derive(Clone)]
struct Distant {
    counters: Arc<MemoryStore>,
    away: Arc<AtomicBool>,
}

impl Distant {
    fn answer(&self) -> Result<(), StoreError> {
        if self.away.load(Ordering::Relaxed) { Err(StoreError("away".into())) } else { Ok(()) }
    }
}

impl AttemptStore for Distant {
    fn reserve(&self, request: &Request) -> Answer<'_, Result<Decision, StoreError>> {
        let request = *request;
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
        verdict: Verdict,
    ) -> Answer<'static, Result<(), StoreError>> {
        let (store, subject) = (self.clone(), *subject);
        Answer::Later(Box::pin(async move {
            tokio::task::yield_now().await;
            store.answer()?;
            store.counters.settle(&subject, ticket, verdict).get().await
        }))
    }

    fn figures(&self) -> StoreFigures {
        self.counters.figures()
    }
}

fn end(reservation: Reservation, right: bool) {
    if right {
        reservation.succeed();
    } else {
        reservation.fail();
    }
}

fn distant(config: GuardConfig) -> (Guard, Arc<AtomicBool>) {
    let clock = Arc::new(ManualClock::new());
    let away = Arc::new(AtomicBool::new(false));
    let counters = Arc::new(MemoryStore::new(&config, clock.clone()));
    let store = Arc::new(Distant { counters, away: away.clone() });
    let stores = Stores { attempts: Some(store), proofs: None };
    (Guard::with_stores(config, stores, clock.clone(), clock).unwrap(), away)
}

#[tokio::test(start_paused = true)]
async fn fifty_logins_succeed_and_ten_guesses_fail_over_a_distant_store() {
    for right in [true, false] {
        let (guard, _) = distant(config());
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
async fn while_the_store_is_away_this_process_counts_alone() {
    let (guard, away) = distant(unsuspecting());
    guard.admit(&at("kim", 1).attempt()).await.unwrap().fail();
    for _ in 0..4 {
        tokio::task::yield_now().await; // The verdict is on its way.
    }
    away.store(true, Ordering::Relaxed);
    for _ in 0..10 {
        guard.admit(&at("kim", 1).attempt()).await.unwrap().fail();
    }
    let refused = guard.admit(&at("kim", 1).attempt()).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Pair);
    assert_eq!(guard.metrics().store_errors, 11);
    away.store(false, Ordering::Relaxed);
    guard.admit(&at("kim", 1).attempt()).await.unwrap().succeed();
}
