//! The queue of waiting jobs, and its admission.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::task::Task;
use super::{Class, PoolError, PoolMetrics, PoolOptions};

/// The part of the longest wait that an admitted job may be expected to wait. The rest is a margin for
/// low estimates: an admitted job that expires has waited for nothing.
const EXPECTED_SHARE: f64 = 0.75;

struct Waiting {
    task: Box<dyn Task>,
    deadline: Instant,
}

/// Jobs in order of arrival. Numbers only grow, so the first key is the oldest job and, since all wait
/// equally long, also the next to expire. A map, because a caller that leaves removes its job from
/// the middle: abandoned jobs left for the threads could pile up without limit.
pub(super) struct Queue {
    waiting: BTreeMap<u64, Waiting>,
    next_number: u64,
    threads: u32,
    most: usize,
    max_wait: Duration,
    max_expected_wait: Duration,
    pub(super) metrics: PoolMetrics,
    pub(super) closed: bool,
}

impl Queue {
    pub(super) fn new(options: &PoolOptions, hash_time: Duration) -> Self {
        Self {
            waiting: BTreeMap::new(),
            next_number: 0,
            threads: u32::try_from(options.threads.get()).unwrap_or(u32::MAX),
            most: options.queue,
            max_wait: options.max_wait,
            max_expected_wait: options.max_wait.mul_f64(EXPECTED_SHARE),
            metrics: PoolMetrics { hash_time, ..PoolMetrics::default() },
            closed: false,
        }
    }

    /// Takes a job and returns its number, or returns the job with the reason.
    pub(super) fn admit(
        &mut self,
        task: Box<dyn Task>,
        class: Class,
        now: Instant,
    ) -> Result<u64, (Box<dyn Task>, PoolError)> {
        if self.closed {
            self.metrics.closed += 1;
            return Err((task, PoolError::Closed));
        }
        if !self.has_room(class) {
            self.metrics.refused += 1;
            return Err((task, self.busy()));
        }
        let number = self.next_number;
        self.next_number += 1;
        self.waiting.insert(number, Waiting { task, deadline: now + self.max_wait });
        self.metrics.queued(self.waiting.len());
        Ok(number)
    }

    /// Returns true if a thread is free, or one more job fits the queue and is expected to begin in time; for a new
    /// password, within half of both bounds.
    pub(super) fn has_room(&self, class: Class) -> bool {
        let ahead = self.waiting.len() + self.metrics.running;
        if ahead < self.threads as usize {
            return true;
        }
        let share = match class {
            Class::Check => 1,
            Class::New => 2,
        };
        self.waiting.len() < self.most.div_ceil(share as usize)
            && self.time_for(self.waiting.len() + 1) <= self.max_expected_wait / share
    }

    /// Expected time of the threads for `jobs`.
    fn time_for(&self, jobs: usize) -> Duration {
        let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
        self.metrics.hash_time.saturating_mul(jobs) / self.threads
    }

    pub(super) fn busy(&self) -> PoolError {
        let backlog = self.time_for(self.waiting.len() + self.metrics.running);
        let backlog = backlog.max(Duration::from_secs(1));
        PoolError::Busy { retry_after: backlog.mul_f64(1.0 + fastrand::f64()) }
    }

    pub(super) fn begin(&mut self) -> Option<Box<dyn Task>> {
        let (_, waiting) = self.waiting.pop_first()?;
        self.metrics.begun();
        Some(waiting.task)
    }

    /// Removes the oldest job if its deadline has passed.
    pub(super) fn expire(&mut self, now: Instant) -> Option<(Box<dyn Task>, PoolError)> {
        let oldest = self.waiting.first_entry().filter(|oldest| oldest.get().deadline <= now)?;
        let task = oldest.remove().task;
        self.metrics.expired += 1;
        Some((task, self.busy()))
    }

    /// Removes a job whose caller has left, unless it has begun.
    pub(super) fn abandon(&mut self, number: u64) -> Option<Box<dyn Task>> {
        let waiting = self.waiting.remove(&number)?;
        self.metrics.abandoned += 1;
        Some(waiting.task)
    }

    pub(super) fn clear(&mut self) -> Vec<Box<dyn Task>> {
        let tasks: Vec<_> =
            std::mem::take(&mut self.waiting).into_values().map(|w| w.task).collect();
        self.metrics.closed += tasks.len() as u64;
        tasks
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(_, waiting)| waiting.deadline)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
