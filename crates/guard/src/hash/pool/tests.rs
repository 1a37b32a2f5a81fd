//! The pool with jobs that block until they are released, which makes every order of events possible. `tests/hash`
//! tests the same pool with real hashes.

use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::bounded::Bounded;
use super::unbounded::Unbounded;
use super::{Class, Engine, PoolError, PoolMetrics, PoolOptions, Scheme, Ticket, submit};

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);

/// A pool under test and the ends of its jobs, in order of settling.
struct Harness {
    engine: Arc<dyn Engine>,
    settled: Arc<Mutex<Vec<(u32, End)>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    NotRun,
}

/// A job that has begun and blocks until it is released.
struct Running {
    ticket: Ticket<u32>,
    release: Sender<()>,
}

impl Running {
    async fn finish(self) -> Result<u32, PoolError> {
        self.release.send(()).unwrap();
        self.ticket.await
    }
}

async fn all_done(tickets: impl IntoIterator<Item = Ticket<u32>>) {
    for ticket in tickets {
        ticket.await.unwrap();
    }
}

impl Harness {
    fn bounded(threads: usize, queue: usize, max_wait: Duration, hash_time: Duration) -> Self {
        let options = PoolOptions {
            scheme: Scheme::default(),
            threads: NonZeroUsize::new(threads).unwrap(),
            queue,
            max_wait,
            idle: NEVER,
        };
        Self::over(Arc::new(Bounded::start(&options, hash_time, 0).unwrap()))
    }

    fn unbounded(threads: usize) -> Self {
        let threads = NonZeroUsize::new(threads).unwrap();
        Self::over(Arc::new(Unbounded::new(threads)))
    }

    fn over(engine: Arc<dyn Engine>) -> Self {
        Self { engine, settled: Arc::default() }
    }

    fn job(&self, name: u32, work: impl FnOnce() + Send + 'static) -> Ticket<u32> {
        self.job_of(Class::Check, name, work)
    }

    fn job_of(&self, class: Class, name: u32, work: impl FnOnce() + Send + 'static) -> Ticket<u32> {
        let settled = Arc::clone(&self.settled);
        submit(
            &self.engine,
            class,
            move |_| {
                work();
                Ok(name)
            },
            move |result| {
                let end = match result {
                    Ok(_) => End::Done,
                    Err(PoolError::Panicked | PoolError::Hash(_)) => End::Failed,
                    Err(_) => End::NotRun,
                };
                settled.lock().push((name, end));
            },
        )
    }

    fn running(&self, name: u32) -> Running {
        self.begun(name).expect("a thread is free")
    }

    /// `None` if it was ended before it began.
    fn begun(&self, name: u32) -> Option<Running> {
        let (begin, began) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let ticket = self.job(name, move || {
            begin.send(()).unwrap();
            released.recv().unwrap();
        });
        began.recv().ok().map(|()| Running { ticket, release })
    }

    fn settled(&self) -> Vec<(u32, End)> {
        self.settled.lock().clone()
    }

    fn metrics(&self) -> PoolMetrics {
        self.engine.metrics()
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.engine.close();
    }
}

/// The result of a job that was refused at once.
fn at_once(ticket: Ticket<u32>) -> Result<u32, PoolError> {
    match pin!(ticket).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it was admitted"),
    }
}

fn is_busy<T>(result: &Result<T, PoolError>) -> bool {
    matches!(result, Err(PoolError::Busy { .. }))
}

#[tokio::test]
async fn new_passwords_wait_in_half_of_the_queue_only() {
    // By number, then by the time that is expected: 75 of 100 s for checks.
    for (queue, hash_time) in [(4, Duration::ZERO), (100, Duration::from_secs(18))] {
        let pool = Harness::bounded(1, queue, Duration::from_secs(100), hash_time);
        let running = pool.running(0);
        let new = |name| pool.job_of(Class::New, name, || {});
        let mut admitted = vec![new(1), new(2)];
        assert!(is_busy(&at_once(new(3))));
        admitted.extend([pool.job(4, || {}), pool.job(5, || {})]);
        assert!(is_busy(&at_once(pool.job(6, || {}))));
        running.finish().await.unwrap();
        all_done(admitted).await;
        let free = new(7);
        assert_eq!(free.await, Ok(7), "an idle thread takes it");
    }
}

#[tokio::test]
async fn jobs_begin_in_the_order_they_came() {
    let pool = Harness::bounded(1, 64, NEVER, Duration::ZERO);
    let first = pool.running(0);
    let rest: Vec<_> = (1..50).map(|name| pool.job(name, || ())).collect();
    first.finish().await.unwrap();
    all_done(rest).await;
    let expected: Vec<_> = (0..50).map(|name| (name, End::Done)).collect();
    assert_eq!(pool.settled(), expected);
    let metrics = pool.metrics();
    assert_eq!((metrics.done, metrics.running, metrics.queued), (50, 0, 0));
    assert_eq!(metrics.running_max, 1);
}

#[tokio::test]
async fn no_more_jobs_wait_than_the_queue_is_long() {
    let pool = Harness::bounded(2, 3, NEVER, Duration::ZERO);
    let running = [pool.running(0), pool.running(1)];
    let waiting: Vec<_> = (2..5).map(|name| pool.job(name, || ())).collect();
    let refused = at_once(pool.job(5, || panic!("a refused job never runs")));
    assert!(is_busy(&refused), "{refused:?}");
    assert_eq!(pool.settled(), [(5, End::NotRun)]);
    assert_eq!((pool.metrics().queued, pool.metrics().refused), (3, 1));
    for job in running {
        job.finish().await.unwrap();
    }
    all_done(waiting).await;
    pool.job(6, || ()).await.unwrap();
    assert_eq!((pool.metrics().done, pool.metrics().queued_max), (6, 3));
}

#[tokio::test]
async fn a_job_that_would_wait_too_long_is_refused_at_once_and_told_when_to_return() {
    // 100 s a job on two threads, 400 s of patience of which three quarters may be expected: with both
    // threads busy, the sixth in the queue would be expected to wait 300 s, the seventh 350 s.
    let hash_time = Duration::from_secs(100);
    let pool = Harness::bounded(2, 1000, Duration::from_secs(400), hash_time);
    let running = [pool.running(0), pool.running(1)];
    let waiting: Vec<_> = (2..8).map(|name| pool.job(name, || ())).collect();
    assert_eq!(pool.metrics().refused, 0);
    let refused = at_once(pool.job(8, || ()));
    let Err(PoolError::Busy { retry_after }) = refused else { panic!("{refused:?}") };
    // Eight jobs of 100 s on two threads, once to twice.
    assert!((400..=800).contains(&retry_after.as_secs()), "{retry_after:?}");
    for job in running {
        job.finish().await.unwrap();
    }
    all_done(waiting).await;
}

#[tokio::test]
async fn a_free_thread_takes_a_job_however_slow_jobs_have_been() {
    let pool = Harness::bounded(2, 0, NEVER, 10 * NEVER);
    let running = pool.running(0);
    pool.job(1, || ()).await.unwrap();
    running.finish().await.unwrap();
}

#[tokio::test]
async fn a_job_not_begun_by_its_deadline_is_answered_then_and_never_runs() {
    let pool = Harness::bounded(1, 64, Duration::from_millis(20), Duration::ZERO);
    // The job may itself expire on a machine that stalls for 20 ms: try until one begins.
    let running = loop {
        if let Some(running) = pool.begun(0) {
            break running;
        }
    };
    let before = pool.metrics().expired;
    // The only thread stands still, so only the deadline can answer.
    let late = pool.job(1, || panic!("an expired job never runs")).await;
    assert!(is_busy(&late), "{late:?}");
    assert!(pool.settled().contains(&(1, End::NotRun)));
    assert_eq!((pool.metrics().expired - before, pool.metrics().queued), (1, 0));
    running.finish().await.unwrap();
    assert_eq!(pool.metrics().failed, 0);
}

#[tokio::test]
async fn a_job_abandoned_before_it_began_is_settled_at_once_and_never_runs() {
    let pool = Harness::bounded(1, 2, NEVER, Duration::ZERO);
    let running = pool.running(0);
    let leaver = pool.job(1, || panic!("an abandoned job never runs"));
    let stayer = pool.job(2, || ());
    drop(leaver);
    assert_eq!(pool.settled(), [(1, End::NotRun)]);
    // Its place is free again.
    let next = pool.job(3, || ());
    assert_eq!((pool.metrics().abandoned, pool.metrics().refused), (1, 0));
    running.finish().await.unwrap();
    stayer.await.unwrap();
    next.await.unwrap();
    assert_eq!(pool.metrics().failed, 0);
}

#[tokio::test]
async fn a_job_abandoned_after_it_began_keeps_its_thread_and_is_settled() {
    let pool = Harness::bounded(1, 64, NEVER, Duration::ZERO);
    let running = pool.running(0);
    drop(running.ticket);
    let next = pool.job(1, || ());
    assert_eq!(pool.settled(), [], "the thread is still taken");
    assert_eq!((pool.metrics().running, pool.metrics().queued), (1, 1));
    running.release.send(()).unwrap();
    next.await.unwrap();
    assert_eq!(pool.settled(), [(0, End::Done), (1, End::Done)]);
    assert_eq!(pool.metrics().abandoned, 0);
}

#[tokio::test]
async fn callers_that_leave_at_once_leave_nothing_behind() {
    let pool = Harness::bounded(1, 64, NEVER, Duration::ZERO);
    let running = pool.running(0);
    for name in 1..100_000 {
        drop(pool.job(name, || ()));
        assert_eq!(pool.metrics().queued, 0);
    }
    assert_eq!(pool.settled().len(), 99_999);
    running.finish().await.unwrap();
}

#[tokio::test]
async fn a_panic_ends_one_job_and_no_thread() {
    let pool = Harness::bounded(1, 64, NEVER, Duration::ZERO);
    for name in 0..10 {
        let result = pool.job(name, || panic!("on purpose")).await;
        assert_eq!(result, Err(PoolError::Panicked));
    }
    pool.job(10, || ()).await.unwrap();
    assert_eq!((pool.metrics().failed, pool.metrics().done), (10, 1));
    assert_eq!(pool.settled().iter().filter(|(_, end)| *end == End::Failed).count(), 10);
}

#[tokio::test]
async fn a_settle_that_panics_harms_nobody() {
    let pool = Harness::bounded(1, 64, NEVER, Duration::ZERO);
    let settle = |_: &Result<u32, PoolError>| panic!("on purpose");
    assert_eq!(submit(&pool.engine, Class::Check, |_| Ok(1), settle).await, Ok(1));
    pool.job(2, || ()).await.unwrap();
}

#[tokio::test]
async fn closing_ends_what_waits_and_finishes_what_has_begun() {
    let pool = Harness::bounded(1, 64, NEVER, Duration::ZERO);
    let first = pool.running(0);
    let waiting = pool.job(1, || panic!("never runs"));
    let engine = Arc::clone(&pool.engine);
    let closing = std::thread::spawn(move || engine.close());
    assert_eq!(waiting.await, Err(PoolError::Closed));
    assert_eq!(at_once(pool.job(2, || ())), Err(PoolError::Closed));
    assert_eq!(first.finish().await, Ok(0));
    closing.join().unwrap();
    let mut settled = pool.settled();
    settled.sort_by_key(|(name, _)| *name);
    assert_eq!(settled, [(0, End::Done), (1, End::NotRun), (2, End::NotRun)]);
    assert_eq!((pool.metrics().closed, pool.metrics().done), (2, 1));
}

#[tokio::test]
async fn a_settle_may_submit_and_close() {
    let pool = Harness::bounded(1, 64, NEVER, Duration::ZERO);
    let engine = Arc::clone(&pool.engine);
    let ticket = submit(
        &pool.engine,
        Class::Check,
        |_| Ok(()),
        move |_| {
            drop(submit(&engine, Class::Check, |_| Ok(()), |_: &Result<(), _>| {}));
            engine.close();
        },
    );
    ticket.await.unwrap();
    assert_eq!(pool.job(1, || ()).await, Err(PoolError::Closed));
}

#[tokio::test]
async fn every_job_is_settled_exactly_once_whatever_happens() {
    let pool = Harness::bounded(2, 8, Duration::from_millis(2), Duration::from_micros(100));
    let mut random = fastrand::Rng::with_seed(7);
    let mut kept = Vec::new();
    for name in 0..5_000 {
        let kind = random.u32(0..10);
        let ticket = pool.job(name, move || match kind {
            0 => panic!("on purpose"),
            1 => std::thread::yield_now(),
            _ => {}
        });
        match random.u32(0..4) {
            0 => drop(ticket),
            1 => drop(ticket.await),
            _ => kept.push(ticket),
        }
        if kept.len() > 40 {
            drop(kept.swap_remove(random.usize(..kept.len())));
        }
    }
    drop(kept);
    pool.engine.close();
    let mut names: Vec<_> = pool.settled().into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(names, (0..5_000).collect::<Vec<_>>());
    let m = pool.metrics();
    let ends = m.done + m.failed + m.refused + m.expired + m.abandoned + m.closed;
    assert_eq!(ends, 5_000, "each job is counted under one end: {m:?}");
    assert_eq!((m.running, m.queued), (0, 0));
    assert!(m.queued_max <= 8 + 2, "{m:?}");
}

#[tokio::test]
async fn unbounded_takes_a_thread_for_each_job_up_to_its_most() {
    let pool = Harness::unbounded(3);
    let running: Vec<_> = (0..3).map(|name| pool.running(name)).collect();
    let fourth = pool.job(3, || ());
    assert_eq!((pool.metrics().running, pool.metrics().queued), (3, 1));
    for job in running {
        job.finish().await.unwrap();
    }
    fourth.await.unwrap();
    assert_eq!((pool.metrics().done, pool.metrics().refused), (4, 0));
}

#[tokio::test]
async fn unbounded_hashes_for_callers_that_have_left_and_settles_on_closing() {
    let pool = Harness::unbounded(1);
    let running = pool.running(0);
    drop(pool.job(1, || ()));
    running.finish().await.unwrap();
    pool.job(2, || ()).await.unwrap();
    assert_eq!(pool.settled(), [(0, End::Done), (1, End::Done), (2, End::Done)]);
    pool.engine.close();
    assert_eq!(pool.job(3, || ()).await, Err(PoolError::Closed));
    assert_eq!(pool.settled().last(), Some(&(3, End::NotRun)));
}

/// Closing wakes the conductor once, and a `settle` that waits at that moment takes the wake-up.
#[test]
fn a_settle_that_waits_does_not_keep_the_pool_from_closing() {
    let pool = Harness::bounded(1, 4, NEVER, Duration::ZERO);
    let (tell, told) = mpsc::channel();
    let settle = move |_: &Result<u32, PoolError>| {
        // The worker's wake-up first, if it is still there.
        std::thread::park_timeout(Duration::ZERO);
        tell.send(()).unwrap();
        std::thread::park();
    };
    let _ticket = submit(&pool.engine, Class::Check, |_| Ok(0), settle);
    told.recv().unwrap();
    let engine = Arc::clone(&pool.engine);
    let (end, ended) = mpsc::channel();
    std::thread::spawn(move || {
        engine.close();
        let _ = end.send(());
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("the pool is closed");
}
