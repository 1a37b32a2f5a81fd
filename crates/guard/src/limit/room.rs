//! Queues of attempts that wait for others in flight.
//!
//! One queue per allowance. Only the head of a queue asks the store again, each time its bell rings: when an attempt
//! under that allowance ends, and when the previous head leaves. No wake-up is lost: a bell rung before its waiter
//! listens is kept ([`Notify::notify_one`]), the waiter asks the store after it has taken its place, and a head that
//! leaves (admitted, refused, timed out or dropped) rings for the next.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::{Axis, Id};
use crate::config::Waiting;

type Allowance = (Axis, Id);
type Queues = HashMap<Allowance, VecDeque<Arc<Notify>>>;

pub(crate) struct Room {
    pub(crate) bounds: Waiting,
    queues: Mutex<Queues>,
    /// Waiters in all queues; changed only under the lock, read without it.
    waiters: AtomicUsize,
}

impl Room {
    pub(crate) fn new(bounds: Waiting) -> Self {
        Self { bounds, queues: Mutex::default(), waiters: AtomicUsize::new(0) }
    }

    pub(crate) fn waiters(&self) -> usize {
        self.waiters.load(Ordering::SeqCst)
    }

    /// The first of these allowances with a queue.
    pub(crate) fn queued(
        &self,
        mut allowances: impl Iterator<Item = Allowance>,
    ) -> Option<Allowance> {
        if self.waiters() == 0 {
            return None;
        }
        let queues = self.queues.lock();
        allowances.find(|allowance| queues.contains_key(allowance))
    }

    /// Takes the last place in the queue; `None` if the queue or the room is full.
    pub(crate) fn enter(&self, allowance: Allowance) -> Option<QueuePlace<'_>> {
        if self.bounds.longest.is_zero() {
            return None;
        }
        let mut queues = self.queues.lock();
        let before = queues.get(&allowance).map_or(0, VecDeque::len);
        if before >= self.bounds.per_key || self.waiters() >= self.bounds.total {
            return None;
        }
        let bell = Arc::new(Notify::new());
        queues.entry(allowance).or_default().push_back(bell.clone());
        self.waiters.fetch_add(1, Ordering::SeqCst);
        Some(QueuePlace { room: self, allowance, bell })
    }

    /// Wakes the heads of these queues: an attempt under these allowances has ended.
    pub(crate) fn ring(&self, allowances: impl Iterator<Item = Allowance>) {
        // An attempt that enters after this check asks the store after that end.
        if self.waiters() == 0 {
            return;
        }
        let queues = self.queues.lock();
        for allowance in allowances {
            if let Some(head) = queues.get(&allowance).and_then(VecDeque::front) {
                head.notify_one();
            }
        }
    }
}

/// A place in a queue; dropping it leaves.
pub(crate) struct QueuePlace<'a> {
    room: &'a Room,
    pub(crate) allowance: Allowance,
    bell: Arc<Notify>,
}

impl QueuePlace<'_> {
    pub(crate) fn is_head(&self) -> bool {
        let queues = self.room.queues.lock();
        let head = queues.get(&self.allowance).and_then(VecDeque::front);
        head.is_some_and(|head| Arc::ptr_eq(head, &self.bell))
    }

    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut queues = self.room.queues.lock();
        let Some(queue) = queues.get_mut(&self.allowance) else {
            return;
        };
        if let Some(at) = queue.iter().position(|bell| Arc::ptr_eq(bell, &self.bell)) {
            queue.remove(at);
            self.room.waiters.fetch_sub(1, Ordering::SeqCst);
            if let (0, Some(next)) = (at, queue.front()) {
                next.notify_one();
            }
        }
        if queue.is_empty() {
            queues.remove(&self.allowance);
        }
    }
}
