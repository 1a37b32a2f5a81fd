//! Many threads at once: never more than allowed.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use madang_guard::GuardConfig;
use madang_guard::config::Waiting;

use crate::kit::{Yard, at, unsuspecting};

fn impatient() -> GuardConfig {
    let waiting = Waiting { longest: std::time::Duration::ZERO, ..Waiting::default() };
    GuardConfig { waiting, ..unsuspecting() }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[test]
fn no_interleaving_admits_more_failures_than_allowed() {
    for round in 0..20 {
        let yard = Yard::new(impatient());
        let failed = Mutex::new(HashMap::<(u32, u32), u32>::new());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (yard, failed) = (&yard, &failed);
                let mut random = fastrand::Rng::with_seed(round * 8 + thread);
                scope.spawn(move || {
                    block_on(async {
                        for _ in 0..2_000 {
                            let (account, address) = (random.u32(..6), random.u32(..4));
                            let name = format!("user{account}");
                            let Ok(reservation) = yard.admit(at(&name, address)).await else {
                                continue;
                            };
                            if random.u8(..8) == 0 {
                                reservation.cancel();
                            } else {
                                *failed.lock().unwrap().entry((account, address)).or_default() += 1;
                                reservation.fail();
                            }
                        }
                    });
                });
            }
        });
        let failed = failed.into_inner().unwrap();
        assert!(failed.values().all(|pair| *pair <= 10), "{failed:?}");
        for account in 0..6 {
            let by_account: u32 =
                failed.iter().filter(|(key, _)| key.0 == account).map(|(_, n)| n).sum();
            assert_eq!(by_account, 20, "from four addresses at ten each");
        }
        assert_eq!(yard.guard.metrics().in_flight, 0);
    }
}

#[test]
fn failures_and_attempts_in_flight_never_exceed_the_limit_together() {
    let yard = Yard::new(impatient());
    // Counted before admission ends and after the end begins, so each is seen where it is or earlier.
    let in_flight = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                block_on(async {
                    for _ in 0..5_000 {
                        if let Ok(reservation) = yard.admit(at("kim", 1)).await {
                            if in_flight.fetch_add(1, Ordering::SeqCst) >= 10 {
                                over.store(true, Ordering::SeqCst);
                            }
                            std::thread::yield_now();
                            in_flight.fetch_sub(1, Ordering::SeqCst);
                            reservation.succeed();
                        }
                    }
                });
            });
        }
    });
    assert!(!over.into_inner());
    assert_eq!(yard.guard.metrics().entries, 0);
}

#[test]
fn nobody_is_left_waiting() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap();
    let long = Waiting { longest: std::time::Duration::from_secs(600), per_key: 500, total: 500 };
    for round in 0..50 {
        let yard = Yard::new(GuardConfig { waiting: long, ..unsuspecting() });
        let guard = yard.guard.clone();
        runtime.block_on(async move {
            let mut tasks = tokio::task::JoinSet::new();
            for task in 0..200u64 {
                let guard = guard.clone();
                let mut random = fastrand::Rng::with_seed(round * 200 + task);
                tasks.spawn(async move {
                    let waiter = at("kim", random.u32(..3)).attempt();
                    let admission = guard.admit(&waiter);
                    // One in four goes away after a few turns.
                    let patience = if random.u8(..4) == 0 { random.u32(..8) } else { u32::MAX };
                    let leave = async {
                        for _ in 0..patience {
                            tokio::task::yield_now().await;
                            if patience == u32::MAX {
                                std::future::pending::<()>().await;
                            }
                        }
                    };
                    tokio::select! {
                        admitted = admission => {
                            tokio::task::yield_now().await;
                            admitted.unwrap().succeed();
                        }
                        () = leave => {}
                    }
                });
            }
            tasks.join_all().await;
            let metrics = guard.metrics();
            assert_eq!((metrics.waiters, metrics.in_flight, metrics.entries), (0, 0, 0));
        });
    }
}
