//! The changes that a node knows of, and the check that something from elsewhere contains them.
//!
//! A replica is behind the primary, and so may be a response in a shared cache. Either is right for a request if it
//! contains every write that this node knows to have ended the stamps that the request depends on: everything
//! acknowledged is among them, as the request waited for a poll of the primary. So each time that something ends, the
//! node begins a *version* and notes it at the buckets of what has ended, with the numbers of the outbox that something
//! must contain to have that version. The numbers that something contains give the version that it has reached. It may
//! be used if all buckets of the request have that version or an older one.
//!
//! A response is thus read from a replica that lags as soon as the replica has what the response depends on. A response
//! that nobody changes needs nothing of it. The versions at the buckets are atomics, so that a read takes no lock.

use crate::follower::Row;
use crate::planted::{Mistake, planted};
use crate::position::{Label, Position};
use crate::versions::Versions;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The changes that one node knows of. Stamps are 64-bit hashes of names.
#[derive(Debug)]
pub struct Reach {
    /// Version at which each bucket last ended. Stamps that share a bucket only require more than necessary.
    buckets: Box<[AtomicU64]>,
    state: Mutex<ReachState>,
    /// Signals each new version.
    news: Condvar,
}

#[derive(Debug, Default)]
struct ReachState {
    /// Each with the time at which it began.
    versions: Versions<Instant>,
    /// The highest numbers known.
    highest: Position,
    /// The highest numbers of this node's own transactions.
    own: Position,
    /// The numbers up to which nothing is missing; `None` until the first complete poll.
    closed: Option<Label>,
}

impl Reach {
    /// A node that knows nothing yet. The number of buckets is a power of two.
    pub fn new(buckets: usize) -> Self {
        debug_assert!(buckets.is_power_of_two());
        let buckets = (0..buckets).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, state: Mutex::default(), news: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, ReachState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bucket(&self, stamp: u64) -> &AtomicU64 {
        &self.buckets[usize::try_from(stamp).unwrap_or_default() & (self.buckets.len() - 1)]
    }

    /// Notes that a transaction of this node has ended these stamps, all with `None`; before the cache drops them.
    pub fn committed(&self, lane: u8, number: u64, ends: Option<impl Iterator<Item = u64>>) {
        let mut state = self.state();
        state.own.raise(lane, number);
        state.highest.raise(lane, number);
        let version = state.next();
        self.end(version, ends);
        self.announce(state);
    }

    /// Notes what other transactions have ended, under one version, which requires all of their numbers.
    pub(crate) fn ended<P>(&self, rows: &[Row<P>]) {
        let mut state = self.state();
        rows.iter().for_each(|row| state.highest.raise(row.lane, row.number));
        let version = state.next();
        for row in rows {
            self.end(version, row.ends.as_ref().map(|stamps| stamps.iter().copied()));
        }
        self.announce(state);
    }

    /// Marks everything up to these deletion marks as ended, because the primary is another one or this node starts;
    /// later rows follow. Commits of this node, which may be later than the poll, stay required. (If the primary has
    /// lost them, replicas answer nothing until numbers are that high again.)
    pub(crate) fn began(&self, marks: Position) {
        let mut state = self.state();
        state.highest = marks;
        let own = state.own.clone();
        own.lanes().for_each(|(lane, number)| state.highest.raise(lane, number));
        state.versions.forget();
        let version = state.next();
        self.end(version, None::<std::iter::Empty<u64>>);
        self.announce(state);
    }

    fn end(&self, version: u64, ends: Option<impl Iterator<Item = u64>>) {
        match ends {
            None => self.buckets.iter().for_each(|bucket| bucket.store(version, Release)),
            Some(stamps) => stamps.for_each(|stamp| {
                self.bucket(stamp).fetch_max(version, AcqRel);
            }),
        }
    }

    fn announce(&self, state: MutexGuard<'_, ReachState>) {
        drop(state);
        self.news.notify_all();
    }

    /// A complete poll has shown that nothing up to these numbers is missing.
    pub(crate) fn closed(&self, label: Label) {
        self.state().closed = Some(label);
    }

    /// This node's knowledge may be wrong until the next start.
    pub(crate) fn lost(&self) {
        self.state().closed = None;
    }

    /// The label of a load that begins now; `None` until the first complete poll.
    pub fn label(&self) -> Option<Label> {
        self.state().closed.clone()
    }

    /// The version required of a read with these stamps, which were read before. Without stamps none suffices.
    pub fn needed(&self, stamps: impl Iterator<Item = u64>) -> u64 {
        stamps.map(|stamp| self.bucket(stamp).load(Acquire)).max().unwrap_or(u64::MAX)
    }

    /// Whether something with this label contains every write that this node knows to have ended these stamps. Only a
    /// node that has a [recent](crate::Timing::covers) poll for a request may decide so for it.
    pub fn admits(&self, label: &Label, stamps: impl Iterator<Item = u64>) -> bool {
        // Under one lock: another history may begin between two.
        let state = self.state();
        let is_ours = state.closed.as_ref().is_some_and(|known| known.history == label.history);
        (is_ours || planted(Mistake::AnyHistory))
            && state.versions.of(&label.position) >= Some(self.needed(stamps))
    }

    /// The version of something that contains these numbers.
    pub fn version_of(&self, contained: &Position) -> Option<u64> {
        self.state().versions.of(contained)
    }

    /// Time since there has been something newer than this version.
    pub fn lag(&self, version: u64) -> Duration {
        self.state().versions.after(version).map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Blocks until there is a newer version than this one, `longest` has passed, or `stop` is set.
    pub fn until_newer(&self, version: u64, longest: Duration, stop: &AtomicBool) {
        let waits =
            |state: &mut ReachState| state.versions.latest() <= version && !stop.load(Relaxed);
        drop(self.news.wait_timeout_while(self.state(), longest, waits));
    }

    /// Ends such waits, after `stop` was set.
    pub fn wake(&self) {
        // With the lock, because a waiter may be between its look and its wait.
        self.announce(self.state());
    }
}

impl ReachState {
    fn next(&mut self) -> u64 {
        let closed = self.closed.as_ref().filter(|_| planted(Mistake::EndAtClosed));
        let needed = closed.map_or(&self.highest, |label| &label.position).clone();
        self.versions.next(needed, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(numbers: &[(u8, u64)]) -> Position {
        let mut position = Position::default();
        numbers.iter().for_each(|(lane, number)| position.raise(*lane, *number));
        position
    }

    fn label(history: u64, numbers: &[(u8, u64)]) -> Label {
        Label { history, position: position(numbers) }
    }

    fn began(marks: &[(u8, u64)]) -> Reach {
        let reach = Reach::new(1 << 14);
        reach.began(position(marks));
        reach
    }

    impl Reach {
        fn ended_post(&self, lane: u8, number: u64, post: u64) {
            self.ended(&[Row { lane, number, ends: Some(vec![post]), payload: () }]);
        }

        fn needed_by(&self, posts: &[u64]) -> u64 {
            self.needed(posts.iter().copied())
        }

        fn has(&self, numbers: &[(u8, u64)]) -> Option<u64> {
            self.version_of(&position(numbers))
        }

        fn takes(&self, label: &Label, post: u64) -> bool {
            self.admits(label, [post].into_iter())
        }
    }

    #[test]
    fn a_replica_needs_what_the_read_depends_on_and_no_more() {
        let reach = began(&[(0, 4)]);
        assert_eq!(reach.has(&[(0, 3)]), None);
        let then = reach.has(&[(0, 4)]).unwrap();
        reach.ended_post(0, 5, 1);
        reach.ended_post(1, 1, 2);
        assert_eq!(reach.needed_by(&[3]), then, "nobody changed it");
        let with_one = reach.has(&[(0, 5)]).unwrap();
        assert!(reach.needed_by(&[1]) <= with_one && reach.needed_by(&[2]) > with_one);
        let with_both = reach.has(&[(0, 5), (1, 1)]).unwrap();
        assert!(reach.needed_by(&[1, 2]) <= with_both);
        assert!(reach.lag(with_one) > Duration::ZERO);
        assert_eq!(reach.lag(with_both), Duration::ZERO);
        assert_eq!(reach.needed_by(&[]), u64::MAX, "what has no stamps is read from the primary");
    }

    #[test]
    fn a_number_that_is_missing_before_another_holds_a_replica_back() {
        let reach = began(&[]);
        // The second number of the lane was seen, and the first was not.
        reach.ended_post(0, 2, 1);
        assert!(reach.has(&[(0, 1)]).unwrap() < reach.needed_by(&[1]));
    }

    #[test]
    fn after_a_new_beginning_nothing_that_was_reached_counts() {
        let reach = began(&[(0, 9)]);
        reach.ended_post(0, 10, 1);
        let before = reach.has(&[(0, 10)]).unwrap();
        reach.began(position(&[(0, 3)]));
        assert!(reach.needed_by(&[2]) > before);
        assert!(reach.has(&[(0, 3)]).unwrap() > before);
    }

    #[test]
    fn what_this_node_committed_after_the_poll_of_a_beginning_is_not_forgotten() {
        let reach = Reach::new(1 << 14);
        reach.committed(0, 7, Some([1].into_iter()));
        // The poll was answered before that commit.
        reach.began(position(&[(0, 6), (1, 2)]));
        assert_eq!(reach.has(&[(0, 6), (1, 2)]), None);
        let with_own = reach.has(&[(0, 7), (1, 2)]).unwrap();
        assert!(reach.needed_by(&[1]) <= with_own);
    }

    #[test]
    fn a_response_of_another_node_needs_what_has_ended_its_stamps_and_the_same_history() {
        let reach = Reach::new(1 << 14);
        assert_eq!(reach.label(), None, "nothing is known yet");
        reach.began(position(&[(0, 2)]));
        reach.closed(label(7, &[(0, 2)]));
        assert!(reach.takes(&label(7, &[(0, 2)]), 1));
        assert!(!reach.takes(&label(7, &[(0, 1)]), 1), "rows before the marks may have ended it");
        assert!(!reach.takes(&label(8, &[(0, 2)]), 1), "another history");
        reach.ended_post(1, 4, 1);
        assert!(!reach.takes(&label(7, &[(0, 9)]), 1));
        assert!(reach.takes(&label(7, &[(0, 2), (1, 4)]), 1));
        assert!(reach.takes(&label(7, &[(0, 2)]), 2), "nobody changed it");
        reach.lost();
        assert!(!reach.takes(&label(7, &[(0, 2), (1, 4)]), 1));
    }

    #[test]
    fn what_is_behind_all_that_is_known_answers_nothing() {
        let reach = began(&[]);
        for number in 1..=Versions::<Instant>::KNOWN as u64 {
            reach.ended_post(0, number, 1);
        }
        assert_eq!(reach.version_of(&Position::default()), None);
    }
}
