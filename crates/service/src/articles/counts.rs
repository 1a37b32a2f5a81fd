//! Counts of recently read articles, in memory: a cached article is answered without SQL.
//!
//! The row in the store is authoritative. It is read at the first request ([`CountMemory::fill`]), and set again
//! after every transaction that changes it ([`CountMemory::set`]). [Effects](crate::store::Effects) follow on the
//! writer's thread in the order of commits and set the final state of the row, never a difference, so the memory
//! cannot drift.
//!
//! **A reader and a commit at once.** A reader notes a version before it opens its transaction, and its result is
//! kept only if the version is still the same. Effects move the version on, also for an article that is not here. So
//! a reader whose transaction began before a commit, and which ends after that commit's effects, keeps nothing, and
//! their value stays. If it ends before them, they replace what it kept. A reader whose transaction began after a
//! commit whose effects have not followed keeps nothing, or what they are about to set.
//!
//! Acknowledged likes that the row does not count yet are added by [`PendingLikes`](super::likes::PendingLikes).
//!
//! If other processes change rows too, nothing is kept: every read goes to the store.
//!
//! Bounded: sets of eight, chosen by a hash of the id; the version belongs to a set. A full set evicts the first
//! article that was not read since the hand last passed (Corbató 1968, "clock").

use super::types::{ArticleId, Counts};
use crate::store::Store;
use parking_lot::{Mutex, MutexGuard};

/// Slots of a set.
const WAYS: usize = 8;
/// Sets: 32,768 articles in about 1 MB.
const SETS: usize = 4096;

pub(super) struct CountMemory {
    sets: Box<[Mutex<Set>]>,
    /// False if other processes change rows.
    is_enabled: bool,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// 0: free.
    article: ArticleId,
    counts: Counts,
    was_read: bool,
}

#[derive(Default)]
struct Set {
    /// Number of changes of its articles.
    version: u64,
    slots: [Slot; WAYS],
    hand: usize,
}

impl CountMemory {
    fn new() -> Self {
        Self { sets: (0..SETS).map(|_| Mutex::default()).collect(), is_enabled: true }
    }

    pub(super) fn of(store: &Store) -> Self {
        if store.is_shared() {
            Self { sets: Box::new([Mutex::default()]), is_enabled: false }
        } else {
            Self::new()
        }
    }

    pub(super) fn get(&self, article: ArticleId) -> Option<Counts> {
        let mut set = self.set_of(article);
        let slot = set.find(article)?;
        slot.was_read = true;
        Some(slot.counts)
    }

    /// Version to be noted before the store is read for [`fill`](Self::fill).
    pub(super) fn version(&self, article: ArticleId) -> u64 {
        self.set_of(article).version
    }

    /// Keeps what a reader has found, unless the version has moved on; returns whether it has not.
    pub(super) fn fill(&self, article: ArticleId, counts: Counts, since: u64) -> bool {
        if !self.is_enabled {
            return true;
        }
        let mut set = self.set_of(article);
        let unchanged = set.version == since;
        if unchanged {
            set.put(article, counts);
        }
        unchanged
    }

    /// Sets what a commit has left in the row.
    pub(super) fn set(&self, article: ArticleId, counts: Counts) {
        if !self.is_enabled {
            return;
        }
        let mut set = self.set_of(article);
        set.version += 1;
        set.put(article, counts);
    }

    /// Forgets an article that a commit has deleted.
    pub(super) fn forget(&self, article: ArticleId) {
        let mut set = self.set_of(article);
        set.version += 1;
        if let Some(slot) = set.find(article) {
            *slot = Slot::default();
        }
    }

    fn set_of(&self, article: ArticleId) -> MutexGuard<'_, Set> {
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4) spreads consecutive ids evenly.
        let hash = article.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = usize::try_from(hash >> 32).unwrap_or(0) % self.sets.len();
        self.sets[index].lock()
    }
}

impl Set {
    fn find(&mut self, article: ArticleId) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.article == article && article != 0)
    }

    fn put(&mut self, article: ArticleId, counts: Counts) {
        if let Some(slot) = self.find(article) {
            slot.counts = counts;
            return;
        }
        let index = self.free();
        // An article that is never read after it came in is evicted first.
        self.slots[index] = Slot { article, counts, was_read: false };
    }

    /// A slot for another article: a free one, else that of an article that was not read lately.
    fn free(&mut self) -> usize {
        if let Some(free) = self.slots.iter().position(|slot| slot.article == 0) {
            return free;
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % WAYS;
            // Ends within two turns: the first clears every mark.
            if !std::mem::take(&mut self.slots[at].was_read) {
                return at;
            }
        }
    }
}

crate::opaque_debug!(CountMemory);

#[cfg(test)]
mod tests {
    use super::*;

    fn likes(likes: u64) -> Counts {
        Counts { likes, comments: 0 }
    }

    #[test]
    fn a_reader_that_began_before_a_commit_keeps_nothing_after_its_effects() {
        let memory = CountMemory::new();
        let before = memory.version(7);
        memory.set(7, likes(2));
        memory.fill(7, likes(1), before);
        assert_eq!(memory.get(7), Some(likes(2)));
        // Neither when the article was not here, or is gone.
        let before = memory.version(8);
        memory.set(8, likes(5));
        memory.forget(8);
        memory.fill(8, likes(4), before);
        assert_eq!(memory.get(8), None);
    }

    #[test]
    fn what_a_reader_kept_is_replaced_by_the_effects_that_follow() {
        let memory = CountMemory::new();
        memory.fill(7, likes(1), memory.version(7));
        assert_eq!(memory.get(7), Some(likes(1)));
        memory.set(7, likes(2));
        assert_eq!(memory.get(7), Some(likes(2)));
        // A second look of a reader finds what somebody else's connection has changed.
        memory.fill(7, likes(9), memory.version(7));
        assert_eq!(memory.get(7), Some(likes(9)));
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_asked_for() {
        let memory = CountMemory::new();
        for article in 1..=1_000_000 {
            memory.set(article, likes(1));
            if article % 100 == 0 {
                assert!(memory.get(1).is_some(), "at {article}");
            }
        }
        let kept = (1..=1_000_000).filter(|article| memory.get(*article).is_some()).count();
        assert!(kept <= SETS * WAYS, "{kept}");
    }

    #[test]
    fn there_is_no_article_0() {
        let memory = CountMemory::new();
        assert_eq!(memory.get(0), None);
    }
}
