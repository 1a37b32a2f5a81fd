use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use madang_guard::config::Waiting;
use madang_guard::{GuardConfig, Reason, Refused, Reservation};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::kit::{Yard, at, config, poll, unsuspecting};

/// Starts attempts at once; admitted ones go to the channel, refusals are results of the tasks.
fn rush(
    yard: &Yard,
    attempts: u32,
    address: impl Fn(u32) -> u32,
) -> (JoinSet<Option<Refused>>, mpsc::UnboundedReceiver<Reservation>) {
    let (queue, hash) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for attempt in 0..attempts {
        let (guard, queue, address) = (yard.guard.clone(), queue.clone(), address(attempt));
        tasks.spawn(async move {
            match guard.admit(&at("kim", address).attempt()).await {
                Ok(reservation) => queue.send(reservation).map_or(None, |()| None),
                Err(refused) => Some(refused),
            }
        });
    }
    (tasks, hash)
}

#[tokio::test(start_paused = true)]
async fn fifty_parallel_right_logins_of_one_account_all_succeed() {
    for address in [|_| 1, |attempt| attempt] {
        let yard = Yard::new(config());
        let (tasks, mut hash) = rush(&yard, 50, address);
        let mut succeeded = 0;
        while let Some(reservation) = hash.recv().await {
            reservation.succeed();
            succeeded += 1;
        }
        assert_eq!(succeeded, 50);
        assert!(tasks.join_all().await.iter().all(Option::is_none));
        assert_eq!(yard.guard.metrics().waited, if address(2) == 1 { 40 } else { 30 });
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_hundred_parallel_wrong_guesses_the_allowed_number_reach_the_hash() {
    for (address, allowed) in [((|_| 1) as fn(u32) -> u32, 10), (|attempt| attempt, 20)] {
        let yard = Yard::new(config());
        let begin = Instant::now();
        let (tasks, mut hash) = rush(&yard, 200, address);
        let mut hashed = 0;
        while let Some(reservation) = hash.recv().await {
            reservation.fail();
            hashed += 1;
        }
        assert_eq!(hashed, allowed);
        assert_eq!(tasks.join_all().await.iter().flatten().count(), 200 - allowed);
        assert_eq!(begin.elapsed(), Duration::ZERO, "refused as soon as the last one failed");
        let metrics = yard.guard.metrics();
        assert_eq!((metrics.waiters, metrics.in_flight), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn three_hundred_neighbours_who_log_in_at_once_all_succeed() {
    let yard = Yard::new(config());
    let (queue, mut hash) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for user in 0..300 {
        let (guard, queue) = (yard.guard.clone(), queue.clone());
        tasks.spawn(async move {
            let name = format!("user{user}");
            let admitted = guard.admit(&at(&name, 1).attempt()).await;
            admitted.map(|reservation| queue.send(reservation).unwrap())
        });
    }
    drop(queue);
    while let Some(reservation) = hash.recv().await {
        reservation.succeed();
    }
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    assert_eq!(yard.guard.metrics().waited, 250, "fifty accounts at once, the others wait");
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_after_two_seconds() {
    let yard = Yard::new(unsuspecting());
    let _held = yard.hold(10, at("kim", 1)).await;
    let begin = Instant::now();
    assert_eq!(yard.reason(at("kim", 1)).await, Reason::InFlight);
    assert_eq!(begin.elapsed(), Duration::from_secs(2));
    assert_eq!(yard.guard.metrics().waiters, 0);
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order_and_newcomers_stand_behind_them() {
    let yard = Yard::new(unsuspecting());
    let mut held = yard.hold(10, at("kim", 1)).await;
    let attempt = at("kim", 1).attempt();
    let mut first = Box::pin(yard.guard.admit(&attempt));
    let mut second = Box::pin(yard.guard.admit(&attempt));
    let mut third = Box::pin(yard.guard.admit(&attempt));
    for waiter in [&mut first, &mut second] {
        assert!(poll(waiter).is_none());
    }
    held.pop().unwrap().cancel(); // Room for one; wakes the first.
    assert!(poll(&mut third).is_none(), "a newcomer overtook");
    assert!(poll(&mut second).is_none(), "the second overtook the first");
    let one = poll(&mut first).unwrap().unwrap();
    assert!(poll(&mut third).is_none());
    one.cancel();
    let two = poll(&mut second).unwrap().unwrap();
    assert!(poll(&mut third).is_none());
    two.cancel();
    poll(&mut third).unwrap().unwrap().cancel();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_away_passes_its_turn_on() {
    let yard = Yard::new(unsuspecting());
    let mut held = yard.hold(10, at("kim", 1)).await;
    let attempt = at("kim", 1).attempt();
    let mut first = Box::pin(yard.guard.admit(&attempt));
    let mut second = Box::pin(yard.guard.admit(&attempt));
    let mut third = Box::pin(yard.guard.admit(&attempt));
    for waiter in [&mut first, &mut second, &mut third] {
        assert!(poll(waiter).is_none());
    }
    assert_eq!(yard.guard.metrics().waiters, 3);
    drop(second); // in the middle
    held.pop().unwrap().succeed();
    drop(first); // woken, but not yet polled
    assert_eq!(yard.guard.metrics().waiters, 1);
    poll(&mut third).unwrap().unwrap().cancel();
    assert_eq!(yard.guard.metrics().waiters, 0);
}

#[tokio::test(start_paused = true)]
async fn places_for_waiting_are_bounded() {
    let waiting = Waiting { per_key: 2, total: 3, ..Waiting::default() };
    let yard = Yard::new(GuardConfig { waiting, ..unsuspecting() });
    let _held = [yard.hold(10, at("kim", 1)).await, yard.hold(10, at("lee", 1)).await];
    let (kim, lee) = (at("kim", 1).attempt(), at("lee", 1).attempt());
    let mut waiting = Vec::new();
    for (attempt, waits) in [(&kim, true), (&kim, true), (&kim, false), (&lee, true), (&lee, false)]
    {
        let mut admission = Box::pin(yard.guard.admit(attempt));
        match poll(&mut admission) {
            None => assert!(waits),
            Some(answer) => {
                assert!(!waits);
                assert_eq!(answer.unwrap_err().reason, Reason::InFlight);
            }
        }
        waiting.push(admission);
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_one_allowance_may_have_to_wait_for_another() {
    let yard = Yard::new(unsuspecting());
    // Ten hold the pair, ten more the rest of the account.
    let (mut pair, mut account) = (Vec::new(), Vec::new());
    for address in 1..=10 {
        pair.push(yard.admit(at("kim", 0)).await.unwrap());
        account.push(yard.admit(at("kim", address)).await.unwrap());
    }
    let attempt = at("kim", 0).attempt();
    let mut waiter = Box::pin(yard.guard.admit(&attempt));
    assert!(poll(&mut waiter).is_none());
    let other = at("kim", 99).attempt();
    let mut ahead = Box::pin(yard.guard.admit(&other));
    assert!(poll(&mut ahead).is_none());
    pair.pop().unwrap().cancel(); // Room in both; wakes both.
    assert!(poll(&mut ahead).unwrap().is_ok());
    pair.drain(..).for_each(Reservation::cancel);
    poll(&mut waiter).unwrap().unwrap().cancel();
}

#[tokio::test(start_paused = true)]
async fn a_reservation_outlives_the_client_that_went_away() {
    let yard = Yard::new(unsuspecting());
    let hashing = Arc::new(AtomicUsize::new(0));
    let (finish, finished) = std::sync::mpsc::channel::<()>();
    let finished = Arc::new(std::sync::Mutex::new(finished));
    let mut jobs = Vec::new();
    for reservation in yard.hold(10, at("kim", 1)).await {
        let (hashing, finished) = (hashing.clone(), finished.clone());
        jobs.push(std::thread::spawn(move || {
            hashing.fetch_add(1, Ordering::Relaxed);
            let _ = finished.lock().unwrap().recv(); // The client has left meanwhile.
            reservation.fail();
        }));
    }
    assert_eq!(yard.reason(at("kim", 1)).await, Reason::InFlight);
    drop(finish);
    for job in jobs {
        job.join().unwrap();
    }
    assert_eq!(yard.reason(at("kim", 1)).await, Reason::Pair);
}
