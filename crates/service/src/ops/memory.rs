//! Memory that threads return to the system after other threads have freed it (docs/decisions/0007-answer-budget.md).
//!
//! mimalloc returns a block to the thread that allocated it, which collects returned blocks only occasionally, while
//! it allocates. An idle thread never does: 1.4 GB of unread responses stayed for minutes. So pool threads collect a
//! few times while large responses are in progress and after, and otherwise sleep.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Time between two collections of an idle thread.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// Collections after the last response was freed. The first takes its blocks back and the second returns them to the
/// system, which mimalloc does a tenth of a second after they became free.
const LOOKS: u8 = 3;

/// Large responses of the process, which has one allocator.
pub(crate) static LARGE: Large = Large { held: AtomicUsize::new(0), freed: AtomicUsize::new(0) };

/// Numbers of large responses in progress and freed.
#[derive(Debug, Default)]
pub(crate) struct Large {
    held: AtomicUsize,
    freed: AtomicUsize,
}

impl Large {
    pub(crate) fn lent(&self) {
        self.held.fetch_add(1, Relaxed);
    }

    pub(crate) fn freed(&self) {
        self.held.fetch_sub(1, Relaxed);
        self.freed.fetch_add(1, Relaxed);
    }
}

/// The collections of one thread.
#[derive(Debug)]
pub(crate) struct Tidy<'a> {
    large: &'a Large,
    freed: usize,
    left: u8,
}

impl Default for Tidy<'static> {
    fn default() -> Self {
        Tidy::new(&LARGE)
    }
}

impl<'a> Tidy<'a> {
    fn new(large: &'a Large) -> Self {
        Tidy { large, freed: large.freed.load(Relaxed), left: 0 }
    }

    /// True if the thread should collect after [`EVERY`] without work.
    pub(crate) fn is_due(&self) -> bool {
        let Large { held, freed } = self.large;
        self.left > 0 || held.load(Relaxed) > 0 || freed.load(Relaxed) != self.freed
    }

    pub(crate) fn look(&mut self) {
        let freed = self.large.freed.load(Relaxed);
        if freed != self.freed {
            self.freed = freed;
            self.left = LOOKS;
        }
        if self.left > 0 {
            self.left -= 1;
            give_back();
        }
    }
}

/// Makes mimalloc collect: blocks freed by other threads at each hundredth allocation that is not tiny, and memory
/// for the system when it frees more than half a segment of 32 MiB. The memory is not touched, so this takes some
/// microseconds. With another allocator it has no effect.
fn give_back() {
    const ALLOCATIONS: usize = 100;
    const ORDINARY_BYTES: usize = 4096;
    const HUGE_BYTES: usize = 20 << 20;
    for _ in 0..ALLOCATIONS {
        black_box(Vec::<u8>::with_capacity(ORDINARY_BYTES));
    }
    let mut huge = Vec::<u8>::new();
    // If there is no room, mimalloc has just collected all it can return.
    let _ = huge.try_reserve_exact(HUGE_BYTES);
    black_box(huge);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_looks_a_few_times_after_the_last_answer_was_freed_and_then_sleeps() {
        let large = Large::default();
        let mut tidy = Tidy::new(&large);
        assert!(!tidy.is_due());
        large.lent();
        assert!(tidy.is_due(), "an answer is on its way");
        large.freed();
        let looks = (0..100).take_while(|_| {
            let due = tidy.is_due();
            tidy.look();
            due
        });
        assert_eq!(looks.count(), usize::from(LOOKS));
    }
}
