//! Order and refusals of a gate, with a paused clock.

use super::*;
use crate::current::Current;
use crate::store::Handover;
use std::future::pending;
use tokio::task::yield_now;
use tokio::time::{advance, timeout};

const QUEUE_TIME: Duration = Duration::from_millis(50);

type Waiting = tokio::task::JoinHandle<Result<Permit, Shed>>;

fn gate(most: usize) -> Gate {
    Gate::new(most, QUEUE_TIME)
}

/// A gate for one, and the permit that fills it.
async fn full() -> (Gate, Permit) {
    let gate = gate(1);
    let held = gate.enter().await.unwrap();
    (gate, held)
}

/// Starts a wait and lets it begin.
async fn waiter(gate: &Gate) -> Waiting {
    waiting(gate, Current::default()).await
}

/// Starts a wait of one address.
async fn waiter_of(gate: &Gate, n: u8) -> Waiting {
    waiting(gate, of(n)).await
}

/// Starts so many waits of one address.
async fn waiters_of(gate: &Gate, n: u8, count: usize) -> Vec<Waiting> {
    let mut waiters = Vec::new();
    for _ in 0..count {
        waiters.push(waiter_of(gate, n).await);
    }
    waiters
}

async fn waiting(gate: &Gate, on_behalf: Current) -> Waiting {
    let gate = gate.clone();
    let waiter = tokio::spawn(on_behalf.run(async move { gate.enter().await }));
    yield_now().await;
    waiter
}

fn of(n: u8) -> Current {
    Current { client: Some([10, 0, 0, n].into()), ..Current::default() }
}

fn reason(entered: Result<Permit, Shed>) -> ShedReason {
    entered.unwrap_err().reason
}

#[tokio::test(start_paused = true)]
async fn turns_come_in_order_of_arrival() {
    let (gate, first) = full().await;
    let second = waiter(&gate).await;
    let third = waiter(&gate).await;
    assert_eq!((gate.metrics().in_flight, gate.metrics().waiting), (1, 2));
    drop(first);
    let second = second.await.unwrap().unwrap();
    assert!(!third.is_finished());
    drop(second);
    drop(third.await.unwrap().unwrap());
    assert_eq!((gate.metrics().in_flight, gate.metrics().waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_waiter_too_many_is_refused_at_once() {
    let (gate, _held) = full().await;
    let mut waiters = Vec::new();
    for _ in 0..MOST_WAITING {
        waiters.push(waiter(&gate).await);
    }
    let before = Instant::now();
    let refused = gate.enter().await.unwrap_err();
    assert_eq!((refused.reason, before.elapsed()), (ShedReason::Full, Duration::ZERO));
    assert!(RETRY_AFTER_SECONDS.contains(&refused.retry_after_seconds));
    assert_eq!(gate.metrics().shed_full, 1);
    // One that leaves makes room for another.
    waiters.pop().unwrap().abort();
    yield_now().await;
    assert!(!waiter(&gate).await.is_finished());
}

#[tokio::test(start_paused = true)]
async fn an_address_with_one_request_waits_for_one_turn_of_each_other_address() {
    let (gate, held) = full().await;
    let mut greedy = waiters_of(&gate, 1, 100).await;
    let modest = waiter_of(&gate, 2).await;
    drop(held);
    drop(greedy.remove(0).await.unwrap().unwrap());
    drop(modest.await.unwrap().unwrap());
    yield_now().await;
    let served = greedy.iter().filter(|waiter| waiter.is_finished()).count();
    assert!(served <= 1, "{served} were served before it");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_of_one_address_makes_room_for_another() {
    let (gate, held) = full().await;
    let mut greedy = waiters_of(&gate, 1, MOST_WAITING).await;
    let modest = waiter_of(&gate, 2).await;
    assert_eq!(reason(greedy.pop().unwrap().await.unwrap()), ShedReason::Full, "its newest");
    assert_eq!(gate.metrics().waiting, MOST_WAITING);
    assert_eq!(reason(waiter_of(&gate, 1).await.await.unwrap()), ShedReason::Full);
    drop(held);
    drop(greedy.remove(0).await.unwrap().unwrap());
    drop(modest.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn work_in_another_task_waits_on_behalf_of_the_client_that_started_it() {
    let (gate, held) = full().await;
    let greedy = [waiter_of(&gate, 1).await, waiter_of(&gate, 1).await];
    let passed = of(2).run(async { gate.for_current_client() }).await;
    let modest = waiter(&passed).await;
    drop(held);
    let [first, second] = greedy;
    drop(first.await.unwrap().unwrap());
    let turn = modest.await.unwrap().unwrap();
    assert!(!second.is_finished());
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn a_burst_may_wait_and_a_standing_queue_may_not() {
    let (gate, _held) = full().await;
    let start = Instant::now();
    let burst = waiter(&gate).await;
    advance(INTERVAL + Duration::from_millis(1)).await;
    assert!(!burst.is_finished(), "more than the queue time, and still waiting");
    // A request has waited for the whole interval.
    let late = gate.enter().await;
    assert_eq!(reason(late), ShedReason::Late);
    assert_eq!(start.elapsed(), INTERVAL + Duration::from_millis(1) + QUEUE_TIME);
    assert_eq!(reason(burst.await.unwrap()), ShedReason::Late);
    assert_eq!(start.elapsed(), QUEUE_TIME * BURST);
    assert_eq!(gate.metrics().shed_late, 2);
}

#[tokio::test(start_paused = true)]
async fn a_quick_turn_does_not_end_the_haste_but_an_empty_queue_does() {
    let (gate, held) = full().await;
    let burst = waiter(&gate).await;
    advance(INTERVAL * 2).await;
    let quick = waiter(&gate).await;
    let hasty = waiter(&gate).await;
    drop(held);
    drop(burst.await.unwrap().unwrap());
    let held = quick.await.unwrap().unwrap();
    advance(QUEUE_TIME * 2).await;
    assert_eq!(reason(hasty.await.unwrap()), ShedReason::Late);
    let patient = waiter(&gate).await;
    let another = waiter(&gate).await;
    advance(QUEUE_TIME * 2).await;
    assert!(!patient.is_finished() && !another.is_finished());
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn under_steady_overload_waits_stay_within_the_queue_time() {
    // Ten can be served in the time in which fifty come, for thirty intervals.
    const WORK: Duration = Duration::from_millis(10);
    const BETWEEN: Duration = Duration::from_millis(2);
    const ARRIVALS: u32 = 1500;
    let gate = gate(1);
    let start = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..ARRIVALS {
        let gate = gate.clone();
        clients.spawn(async move {
            let arrived = Instant::now();
            let permit = gate.enter().await.ok()?;
            let waited = arrived.elapsed();
            tokio::time::sleep(WORK).await;
            drop(permit);
            Some((arrived - start, waited))
        });
        tokio::time::sleep(BETWEEN).await;
    }
    let served: Vec<_> = clients.join_all().await.into_iter().flatten().collect();
    let longest = |standing: bool| {
        let of = served.iter().filter(|(arrived, _)| (*arrived > INTERVAL + BETWEEN) == standing);
        of.map(|(_, waited)| *waited).max().unwrap()
    };
    assert!(longest(false) > QUEUE_TIME, "at first it may be a burst: {:?}", longest(false));
    assert!(longest(true) <= QUEUE_TIME, "{:?}", longest(true));
    // And no turn is lost to it.
    let most = (BETWEEN * ARRIVALS).as_millis() / WORK.as_millis();
    assert!(served.len() as u128 >= most - 1, "{} of {most}", served.len());
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_is_no_standing_one_however_long_the_work_takes() {
    let (gate, held) = full().await;
    advance(INTERVAL * 50).await;
    let patient = waiter(&gate).await;
    advance(QUEUE_TIME * 2).await;
    assert!(!patient.is_finished());
    drop(held);
    drop(patient.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn work_keeps_its_place_when_its_client_leaves() {
    let gate = gate(1);
    let (finish, finished) = oneshot::channel::<()>();
    let work = gate.run(finished);
    assert!(timeout(Duration::from_millis(1), work).await.is_err(), "the client leaves");
    assert_eq!(gate.metrics().in_flight, 1);
    finish.send(()).unwrap();
    drop(gate.enter().await.unwrap());
    assert_eq!(gate.metrics().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn work_without_a_turn_is_not_begun() {
    let (gate, _held) = full().await;
    let run = gate
        .run(async {
            panic!("begun");
        })
        .await;
    assert!(matches!(run, Err(NotRun::Shed(Shed { reason: ShedReason::Late, .. }))));
    let load = gate.load(pending::<Result<Loaded, ()>>()).await;
    assert!(matches!(load, Ok(Loaded::NoTurn { .. })));
}

#[tokio::test]
#[should_panic(expected = "of the work")]
async fn a_panic_of_the_work_reaches_its_caller() {
    let _ = gate(1).run(async { panic!("of the work") }).await;
}

/// A write may take long before it reaches the writer. It is done even if its client gives up meanwhile.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_given_up_before_it_is_handed_over_may_have_been_written() {
    let gate = gate(1);
    let handover = Handover::default();
    let current = Current { handover: Some(handover.clone()), ..Current::default() };
    let (release, released) = oneshot::channel::<()>();
    let work = gate.run(async move { released.await.is_ok() });
    let given_up = current.clone().run(timeout(QUEUE_TIME, work)).await;
    assert!(given_up.is_err() && handover.may_have_written());
    release.send(()).unwrap();
    drop(gate.enter().await.unwrap());
    assert!(!handover.may_have_written(), "it has handed nothing over");
    // A refused one has done nothing.
    let _held = gate.enter().await.unwrap();
    let refused = current.run(gate.run(async {})).await;
    assert!(matches!(refused, Err(NotRun::Shed(_))) && !handover.may_have_written());
}
