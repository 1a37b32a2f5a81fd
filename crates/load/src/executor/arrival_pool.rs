//! The virtual users of an open model over all event loops.
//!
//! Every event loop starts its part of the iterations, on its own free virtual users or else on those of other loops.
//! It first *claims* one by decrementing a loop's count of free virtual users: a claim guarantees a virtual user, and
//! an iteration is dropped exactly when none is free anywhere, as with k6's one pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::options::VuPool;

/// Message from one event loop to another one's part of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Start the iteration intended for this moment, for which a virtual user is claimed.
    Start(Instant),
    /// No iterations follow.
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A virtual user of the same event loop runs it.
    Own,
    HandedOver,
    NoneFree,
}

#[derive(Debug)]
pub(crate) struct ArrivalPool {
    loops: Vec<LoopSide>,
    /// Virtual users that may still be created.
    unplanned: AtomicU32,
    /// One is being created; as in k6 never two at once.
    spawning: AtomicBool,
    /// Event loops that still start iterations.
    starting: AtomicUsize,
    exhausted: AtomicBool,
}

#[derive(Debug)]
struct LoopSide {
    free: AtomicU32,
    orders: mpsc::UnboundedSender<Order>,
}

impl ArrivalPool {
    /// A pool over `loops` event loops, but not more than virtual users, with the receiver of each.
    pub(crate) fn new(
        config: VuPool,
        loops: usize,
    ) -> (Arc<Self>, Vec<mpsc::UnboundedReceiver<Order>>) {
        let loops = loops.min(config.max_vus as usize).max(1);
        let (sides, receivers): (Vec<LoopSide>, Vec<_>) = (0..loops)
            .map(|_| {
                let (orders, receiver) = mpsc::unbounded_channel();
                (LoopSide { free: AtomicU32::new(0), orders }, receiver)
            })
            .unzip();
        let pool = Self {
            loops: sides,
            unplanned: AtomicU32::new(config.max_vus - config.pre_allocated_vus),
            spawning: AtomicBool::new(false),
            starting: AtomicUsize::new(loops),
            exhausted: AtomicBool::new(false),
        };
        (Arc::new(pool), receivers)
    }

    pub(crate) fn parts(&self) -> usize {
        self.loops.len()
    }

    pub(crate) fn release(&self, part: usize) {
        self.loops[part].free.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn claim(&self, part: usize, intended: Instant) -> Claim {
        let parts = self.loops.len();
        for distance in 0..parts {
            let at = (part + distance) % parts;
            let taken =
                self.loops[at]
                    .free
                    .fetch_update(Ordering::Acquire, Ordering::Relaxed, |free| free.checked_sub(1));
            if taken.is_err() {
                continue;
            }
            if distance == 0 {
                return Claim::Own;
            }
            // Without a receiver the run has stopped.
            let _ = self.loops[at].orders.send(Order::Start(intended));
            return Claim::HandedOver;
        }
        Claim::NoneFree
    }

    /// True if a virtual user should be created now; [`Self::end_spawn`] must follow.
    pub(crate) fn begin_spawn(&self) -> bool {
        if self.spawning.swap(true, Ordering::AcqRel) {
            return false;
        }
        let left = self
            .unplanned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_err() {
            self.spawning.store(false, Ordering::Release);
        }
        left.is_ok()
    }

    pub(crate) fn end_spawn(&self) {
        self.spawning.store(false, Ordering::Release);
    }

    /// True once, after all allowed virtual users were created.
    pub(crate) fn is_exhausted_now(&self) -> bool {
        self.unplanned.load(Ordering::Relaxed) == 0
            && !self.spawning.load(Ordering::Acquire)
            && !self.exhausted.swap(true, Ordering::Relaxed)
    }

    /// An event loop has started its last iteration; the last loop closes all, after all orders.
    pub(crate) fn all_started(&self) {
        if self.starting.fetch_sub(1, Ordering::AcqRel) == 1 {
            for side in &self.loops {
                let _ = side.orders.send(Order::Close);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Orders = Vec<mpsc::UnboundedReceiver<Order>>;

    fn pool(pre_allocated_vus: u32, max_vus: u32, loops: usize) -> (Arc<ArrivalPool>, Orders) {
        ArrivalPool::new(VuPool { pre_allocated_vus, max_vus }, loops)
    }

    #[test]
    fn an_iteration_is_dropped_only_when_nobody_is_free_on_any_loop() {
        let (pool, mut orders) = pool(2, 2, 2);
        pool.release(0);
        pool.release(1);
        let now = Instant::now();
        assert_eq!(pool.claim(0, now), Claim::Own);
        assert_eq!(pool.claim(0, now), Claim::HandedOver);
        assert_eq!(orders[1].try_recv(), Ok(Order::Start(now)));
        assert_eq!(pool.claim(0, now), Claim::NoneFree);
        pool.release(0);
        assert_eq!(pool.claim(1, now), Claim::HandedOver);
        assert_eq!(orders[0].try_recv(), Ok(Order::Start(now)));
    }

    #[test]
    fn one_virtual_user_at_a_time_is_made_until_there_are_as_many_as_allowed() {
        let (pool, _orders) = pool(1, 3, 1);
        assert!(pool.begin_spawn() && !pool.begin_spawn() && !pool.is_exhausted_now());
        pool.end_spawn();
        assert!(pool.begin_spawn());
        pool.end_spawn();
        assert!(!pool.begin_spawn());
        assert!(pool.is_exhausted_now() && !pool.is_exhausted_now());
    }

    #[test]
    fn there_are_no_more_parts_than_virtual_users() {
        assert_eq!(pool(1, 1, 8).0.parts(), 1);
        assert_eq!(pool(0, 3, 8).0.parts(), 3);
        assert_eq!(pool(50, 50, 2).0.parts(), 2);
    }

    #[test]
    fn the_last_loop_to_finish_closes_all_parts() {
        let (pool, mut orders) = pool(2, 2, 2);
        pool.all_started();
        assert!(orders[0].try_recv().is_err());
        pool.all_started();
        assert_eq!(orders[0].try_recv(), Ok(Order::Close));
        assert_eq!(orders[1].try_recv(), Ok(Order::Close));
    }

    #[test]
    fn as_many_claims_succeed_as_were_released_whoever_asks_first() {
        let (pool, orders) = pool(4, 4, 4);
        (0..4).for_each(|part| (0..1000).for_each(|_| pool.release(part)));
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|part| {
                    let pool = &pool;
                    scope.spawn(move || {
                        let now = Instant::now();
                        (0..2000).filter(|_| pool.claim(part, now) != Claim::NoneFree).count()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 4000);
        drop(orders);
    }
}
