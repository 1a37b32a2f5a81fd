//! Which reads a replica may answer.
//!
//! A replica is behind the primary, and how far changes all the time. A read that fills the cache is right on a replica
//! that contains whatever this node knows to have ended the stamps of that read: everything acknowledged is among it,
//! as the request waited for a poll of the primary. So each time that something ends, this node counts its *version*
//! up and notes two things: the version at the buckets of what has ended, and the numbers of the outbox that something
//! must contain to have that version. A replica is asked for the numbers that it contains, which tells the version that
//! it has reached. It may answer a read whose buckets all have that version or an older one.
//!
//! A body is thus read from a replica that lags as soon as it has what the body depends on. A body that nobody changes
//! needs nothing of it.
//!
//! Responses in a shared cache are judged in the same way, by the numbers that had been seen without a gap when they were
//! loaded. Numbers begin anew where a server has forgotten some, so a body also says of which history they are.

use crate::store::Effects;
use madang_cache::{Horizon, Stamp};
use madang_positions::{Position, Versions};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// Stamps are hashed onto so many; two that share one only ask for more than necessary. A power of two.
const BUCKETS: usize = 1 << 14;

/// What this node knows to have ended.
#[derive(Debug)]
pub(super) struct Reach {
    /// Version at which each bucket last ended.
    buckets: Box<[AtomicU64]>,
    state: Mutex<ReachState>,
    /// Told of each new version.
    news: Condvar,
}

#[derive(Debug, Default)]
struct ReachState {
    /// With the time since when.
    versions: Versions<Instant>,
    /// The highest numbers known.
    highest: Position,
    /// Those of this node's own transactions.
    own: Position,
    /// History, and the numbers up to which nothing is missing; unknown until the first complete poll.
    closed: Option<(u64, Position)>,
}

impl Default for Reach {
    fn default() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, state: Mutex::default(), news: Condvar::new() }
    }
}

impl Reach {
    /// The transaction of this number has ended these; to be noted before the cache forgets them.
    pub(super) fn ended(&self, lane: u8, number: u64, effects: &Effects) {
        self.ended_together([(lane, number, effects)].into_iter());
    }

    /// The same of several, under one version: it asks for all of their numbers where some would do.
    pub(super) fn ended_together<'e>(
        &self,
        rows: impl Iterator<Item = (u8, u64, &'e Effects)> + Clone,
    ) {
        let mut state = self.state.lock();
        rows.clone().for_each(|(lane, number, _)| state.highest.raise(lane, number));
        let version = state.next();
        for (_, _, effects) in rows {
            match effects.stamps() {
                None => self.buckets.iter().for_each(|bucket| bucket.store(version, Release)),
                Some(stamps) => {
                    for stamp in stamps {
                        self.buckets[bucket(*stamp)].fetch_max(version, AcqRel);
                    }
                }
            }
        }
        drop(state);
        self.news.notify_all();
    }

    /// A complete poll has shown that up to these numbers nothing is missing.
    pub(super) fn closed(&self, history: u64, closed: &Position) {
        let mut state = self.state.lock();
        if state.closed.as_ref().is_none_or(|known| *known != (history, closed.clone())) {
            state.closed = Some((history, closed.clone()));
        }
    }

    /// What is known may be wrong until the next beginning.
    pub(super) fn lost(&self) {
        self.state.lock().closed = None;
    }

    /// The same of a transaction of this node.
    pub(super) fn committed(&self, lane: u8, number: u64, effects: &Effects) {
        self.state.lock().own.raise(lane, number);
        self.ended(lane, number, effects);
    }

    /// Marks everything up to these deletion marks as ended, because the primary is another one or this node starts; the
    /// caller adds later rows. Commits of this node, which may be later than the poll, stay required. (If the primary has lost
    /// them, replicas answer nothing until numbers are that high again.)
    pub(super) fn began(&self, marks: Position) {
        let mut state = self.state.lock();
        state.highest = marks;
        let own: Vec<_> = state.own.lanes().collect();
        own.into_iter().for_each(|(lane, number)| state.highest.raise(lane, number));
        state.versions.forget();
        let version = state.next();
        self.buckets.iter().for_each(|bucket| bucket.store(version, Release));
        drop(state);
        self.news.notify_all();
    }

    /// The version that is needed for a read with these stamps, which have been read.
    pub(super) fn needed(&self, stamps: &[Stamp]) -> u64 {
        stamps
            .iter()
            .map(|stamp| self.buckets[bucket(*stamp)].load(Acquire))
            .max()
            .unwrap_or(u64::MAX)
    }

    /// The version of what contains these numbers.
    pub(super) fn version_of(&self, closed: &Position) -> Option<u64> {
        self.state.lock().versions.of(closed)
    }

    /// For how long there has been something newer than this version.
    pub(super) fn lag(&self, version: u64) -> Duration {
        let state = self.state.lock();
        state.versions.after(version).map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Waits until there is a newer version than this one, at most so long, and not when it is to stop.
    pub(super) fn until_newer(&self, version: u64, longest: Duration, stop: &AtomicBool) {
        let waits =
            |state: &mut ReachState| state.versions.latest() <= version && !stop.load(Relaxed);
        self.news.wait_while_for(&mut self.state.lock(), waits, longest);
    }

    /// Ends such a wait, when it is to stop.
    pub(super) fn wake(&self) {
        let _between_its_look_and_its_wait = self.state.lock();
        self.news.notify_all();
    }
}

impl Horizon for Reach {
    fn label(&self) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let (history, closed) = state.closed.as_ref()?;
        let numbers = closed.lanes().flat_map(|(_, number)| number.to_le_bytes());
        Some(history.to_le_bytes().into_iter().chain(numbers).collect())
    }

    fn admits(&self, label: &[u8], stamps: &[Stamp]) -> bool {
        let (words, rest) = label.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let Some(history) = words.next().filter(|_| rest.is_empty()) else { return false };
        let mut position = Position::default();
        (0..madang_positions::LANES)
            .zip(words)
            .for_each(|(lane, number)| position.raise(lane, number));
        // Under one lock: another history may begin between two.
        let state = self.state.lock();
        let is_ours = state.closed.as_ref().is_some_and(|(known, _)| *known == history);
        is_ours && state.versions.of(&position) >= Some(self.needed(stamps))
    }
}

impl ReachState {
    fn next(&mut self) -> u64 {
        self.versions.next(self.highest.clone(), Instant::now())
    }
}

fn bucket(stamp: Stamp) -> usize {
    usize::try_from(stamp.to_bits()).unwrap_or_default() & (BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(numbers: &[(u8, u64)]) -> Position {
        let mut position = Position::default();
        numbers.iter().for_each(|(lane, number)| position.raise(*lane, *number));
        position
    }

    fn ends(name: &str) -> Effects {
        let mut effects = Effects::default();
        effects.end([Stamp::new(name)]);
        effects
    }

    #[test]
    fn a_replica_needs_what_the_read_depends_on_and_no_more() {
        let reach = Reach::default();
        reach.began(position(&[(0, 4)]));
        assert_eq!(reach.version_of(&position(&[(0, 3)])), None);
        let then = reach.version_of(&position(&[(0, 4)])).unwrap();
        reach.ended(0, 5, &ends("post:1"));
        reach.ended(1, 1, &ends("post:2"));
        let (one, other) = (Stamp::new("post:1"), Stamp::new("post:2"));
        assert_eq!(reach.needed(&[Stamp::new("post:3")]), then, "nobody changed it");
        let with_one = reach.version_of(&position(&[(0, 5)])).unwrap();
        assert!(reach.needed(&[one]) <= with_one && reach.needed(&[other]) > with_one);
        let with_both = reach.version_of(&position(&[(0, 5), (1, 1)])).unwrap();
        assert!(reach.needed(&[one, other]) <= with_both);
        assert!(reach.lag(with_one) > Duration::ZERO);
        assert_eq!(reach.lag(with_both), Duration::ZERO);
        assert_eq!(reach.needed(&[]), u64::MAX, "what has no stamps is read from the primary");
    }

    #[test]
    fn a_number_that_is_missing_before_another_holds_a_replica_back() {
        let reach = Reach::default();
        reach.began(Position::default());
        // Of the lane, the second has been seen, and the first not yet.
        reach.ended(0, 2, &ends("post:1"));
        let closed = position(&[(0, 1)]);
        assert!(reach.version_of(&closed).unwrap() < reach.needed(&[Stamp::new("post:1")]));
    }

    #[test]
    fn after_a_new_beginning_nothing_that_was_reached_counts() {
        let reach = Reach::default();
        reach.began(position(&[(0, 9)]));
        reach.ended(0, 10, &ends("post:1"));
        let before = reach.version_of(&position(&[(0, 10)])).unwrap();
        reach.began(position(&[(0, 3)]));
        assert!(reach.needed(&[Stamp::new("post:2")]) > before);
        assert!(reach.version_of(&position(&[(0, 3)])).unwrap() > before);
    }

    #[test]
    fn what_this_node_committed_after_the_poll_of_a_beginning_is_not_forgotten() {
        let reach = Reach::default();
        reach.committed(0, 7, &ends("post:1"));
        // The poll was answered before that commit.
        reach.began(position(&[(0, 6), (1, 2)]));
        assert_eq!(reach.version_of(&position(&[(0, 6), (1, 2)])), None);
        let with_own = reach.version_of(&position(&[(0, 7), (1, 2)])).unwrap();
        assert!(reach.needed(&[Stamp::new("post:1")]) <= with_own);
    }

    #[test]
    fn a_body_of_another_node_needs_what_has_ended_its_stamps_and_the_same_history() {
        let reach = Reach::default();
        let post = [Stamp::new("post:1")];
        let label = |history, numbers: &[(u8, u64)]| {
            let other = Reach::default();
            other.closed(history, &position(numbers));
            other.label().unwrap()
        };
        assert_eq!(reach.label(), None, "nothing is known yet");
        reach.began(position(&[(0, 2)]));
        reach.closed(7, &position(&[(0, 2)]));
        assert!(reach.admits(&label(7, &[(0, 2)]), &post));
        assert!(
            !reach.admits(&label(7, &[(0, 1)]), &post),
            "rows before the marks may have ended it"
        );
        assert!(!reach.admits(&label(8, &[(0, 2)]), &post), "another history");
        reach.ended(1, 4, &ends("post:1"));
        assert!(!reach.admits(&label(7, &[(0, 9)]), &post));
        assert!(reach.admits(&label(7, &[(0, 2), (1, 4)]), &post));
        assert!(reach.admits(&label(7, &[(0, 2)]), &[Stamp::new("post:2")]), "nobody changed it");
        assert!(!reach.admits(&[], &post) && !reach.admits(&[7; 9], &post));
        reach.lost();
        assert!(!reach.admits(&label(7, &[(0, 2), (1, 4)]), &post));
    }

    #[test]
    fn what_is_behind_all_that_is_known_answers_nothing() {
        let reach = Reach::default();
        reach.began(Position::default());
        for number in 1..=Versions::<Instant>::KNOWN as u64 {
            reach.ended(0, number, &ends("post:1"));
        }
        assert_eq!(reach.version_of(&Position::default()), None);
    }
}
