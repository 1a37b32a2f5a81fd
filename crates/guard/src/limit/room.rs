//! Where attempts wait for others that are in flight.
//!
//! One queue per allowance. Only the head of a queue asks the store again, each time its bell
//! rings: when an attempt under that allowance ends, and when the one before it leaves. So there is
//! no wake-up to lose: a bell rung before its waiter listens is kept ([`Notify::notify_one`]), the
//! waiter asks the store after it has taken its place, and whoever leaves a head's place (admitted,
//! refused, timed out or dropped) rings for the next.

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
    bounds: Waiting,
    queues: Mutex<Queues>,
    /// Waiters in all queues; changed only under the lock, read without it.
    waiters: AtomicUsize,
}

impl Room {
    pub(crate) fn new(bounds: Waiting) -> Self {
        Self { bounds, queues: Mutex::default(), waiters: AtomicUsize::new(0) }
    }

    pub(crate) fn bounds(&self) -> &Waiting {
        &self.bounds
    }

    pub(crate) fn waiters(&self) -> usize {
        self.waiters.load(Ordering::SeqCst)
    }

    /// The first of these allowances for which somebody waits.
    pub(crate) fn queued(&self, of: impl Iterator<Item = Allowance>) -> Option<Allowance> {
        if self.waiters() == 0 {
            return None;
        }
        let queues = self.queues.lock();
        of.into_iter().find(|allowance| queues.contains_key(allowance))
    }

    /// Takes the last place in the queue, unless there is none left.
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

    /// An attempt under these allowances has ended.
    pub(crate) fn ring(&self, of: impl Iterator<Item = Allowance>) {
        // An attempt that enters after this look asks the store after the end that is rung for.
        if self.waiters() == 0 {
            return;
        }
        let queues = self.queues.lock();
        for allowance in of {
            if let Some(head) = queues.get(&allowance).and_then(VecDeque::front) {
                head.notify_one();
            }
        }
    }
}

/// A place in a queue; dropping it leaves.
pub(crate) struct QueuePlace<'a> {
    room: &'a Room,
    allowance: Allowance,
    bell: Arc<Notify>,
}

impl QueuePlace<'_> {
    pub(crate) fn allowance(&self) -> Allowance {
        self.allowance
    }

    pub(crate) fn is_head(&self) -> bool {
        let queues = self.room.queues.lock();
        let head = queues.get(&self.allowance).and_then(VecDeque::front);
        head.is_some_and(|head| Arc::ptr_eq(head, &self.bell))
    }

    /// Rings this place's own bell.
    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Until it is worth asking the store again.
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
        let at = queue.iter().position(|bell| Arc::ptr_eq(bell, &self.bell));
        if let Some(at) = at {
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
