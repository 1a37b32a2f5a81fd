//! The counts of the articles that are asked for, in memory: a cached article is answered without SQL.
//!
//! The truth is a row of the store. It is read when it is asked for first ([`CountMemory::fill`]), and
//! set again after every transaction that changes it ([`CountMemory::set`]). [Effects](crate::store::Effects) follow on
//! the writer's thread in the order of commits and set what their transaction has left in the row, never a
//! difference, so what is here cannot drift.
//!
//! **A reader and a commit at once.** A reader notes a version before it opens its transaction, and what it
//! finds is kept only if that is still the version. Effects take the version further, also that of
//! an article which is not here. So a reader whose transaction began before a commit, and which is done
//! after that commit's effects, finds another version and keeps nothing: their value stays. If it is
//! done before them, they replace what it kept. A reader whose transaction began after a commit
//! whose effects have not followed keeps nothing or what they are about to set.
//!
//! Likes that are acknowledged and not in the row yet are added by the [`PendingLikes`](super::likes::PendingLikes),
//! through which those fill and set who know nothing of them.
//!
//! Where other processes change rows, too, nothing is remembered: each look is a look into the store.
//!
//! Bounded: sets of eight, chosen by a hash of the id; the version belongs to a set. In a full set the one
//! goes that was not asked for since the hand last passed (Corbató 1968, "clock").

use super::types::{ArticleId, Counts};
use crate::store::Store;
use parking_lot::{Mutex, MutexGuard};

/// Slots of a set.
const WAYS: usize = 8;
/// Sets: 32,768 articles in about 1 MB.
const SETS: usize = 4096;

/// Counts of articles.
pub(super) struct CountMemory {
    sets: Box<[Mutex<Set>]>,
    remembers: bool,
}

/// How often the articles of a set were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(u64);

#[derive(Clone, Copy, Default)]
struct Slot {
    /// 0: free.
    article: ArticleId,
    counts: Counts,
    asked_for: bool,
}

#[derive(Default)]
struct Set {
    version: u64,
    slots: [Slot; WAYS],
    hand: usize,
}

impl CountMemory {
    fn new() -> Self {
        Self { sets: (0..SETS).map(|_| Mutex::default()).collect(), remembers: true }
    }

    pub(super) fn of(store: &Store) -> Self {
        if store.is_shared() {
            Self { sets: Box::new([Mutex::default()]), remembers: false }
        } else {
            Self::new()
        }
    }

    /// The counts of an article, if they are here.
    pub(super) fn get(&self, article: ArticleId) -> Option<Counts> {
        let mut set = self.set_of(article);
        let slot = set.find(article)?;
        slot.asked_for = true;
        Some(slot.counts)
    }

    /// To be noted before the store is read for [`fill`](Self::fill).
    pub(super) fn version(&self, article: ArticleId) -> Version {
        Version(self.set_of(article).version)
    }

    /// Keeps what a reader has found, unless something has changed since it noted the version; answers
    /// whether it did.
    pub(super) fn fill(&self, article: ArticleId, counts: Counts, since: Version) -> bool {
        if !self.remembers {
            return true;
        }
        let mut set = self.set_of(article);
        let unchanged = set.version == since.0;
        if unchanged {
            set.put(article, counts);
        }
        unchanged
    }

    /// Sets what a transaction has left; for what follows it alone.
    pub(super) fn set(&self, article: ArticleId, counts: Counts) {
        if !self.remembers {
            return;
        }
        let mut set = self.set_of(article);
        set.version += 1;
        set.put(article, counts);
    }

    /// Forgets an article that a transaction has deleted; for what follows it alone.
    pub(super) fn forget(&self, article: ArticleId) {
        let mut set = self.set_of(article);
        set.version += 1;
        if let Some(slot) = set.find(article) {
            *slot = Slot::default();
        }
    }

    fn set_of(&self, article: ArticleId) -> MutexGuard<'_, Set> {
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4): ids that follow each other are spread evenly.
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
        // Not asked for until it is: what comes and is never asked for again goes first.
        self.slots[index] = Slot { article, counts, asked_for: false };
    }

    /// A slot for another article: a free one, else that of one which was not asked for lately.
    fn free(&mut self) -> usize {
        if let Some(free) = self.slots.iter().position(|slot| slot.article == 0) {
            return free;
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % WAYS;
            // Ends within two turns: the first takes every mark away.
            if !std::mem::take(&mut self.slots[at].asked_for) {
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
