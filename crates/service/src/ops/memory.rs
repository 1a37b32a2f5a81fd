//! Memory that threads give back to the system when others have freed it.
//!
//! A large answer is written by a thread of a pool and freed by the event loop that has sent it. mimalloc
//! hands such a block back to the thread that allocated it, which looks at what came back only now and
//! then while it allocates. A thread without work never does: 1.4 GB of answers that nobody read stayed
//! for minutes. So pool threads look a few times while, and after, large answers are on their way, and
//! sleep otherwise.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Time between two looks of a thread without work.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// Looks after the last answer was freed. The first takes its blocks back and the second gives them to
/// the system, which mimalloc does a tenth of a second after they became free.
const LOOKS: u8 = 3;

/// Those of the process: it has one allocator.
pub(crate) static LARGE: Large = Large { held: AtomicUsize::new(0), freed: AtomicUsize::new(0) };

/// Large answers that are on their way, and those that were.
#[derive(Debug, Default)]
pub(crate) struct Large {
    held: AtomicUsize,
    freed: AtomicUsize,
}

impl Large {
    /// A large answer is on its way.
    pub(crate) fn lent(&self) {
        self.held.fetch_add(1, Relaxed);
    }

    pub(crate) fn freed(&self) {
        self.held.fetch_sub(1, Relaxed);
        self.freed.fetch_add(1, Relaxed);
    }
}

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

    /// Whether the thread should look again, if it has no work for [`EVERY`].
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

/// Makes mimalloc look: at what other threads have freed, at each hundredth allocation that is not tiny,
/// and at what can be given to the system, whenever it frees more than a segment of 32 MiB can hold two
/// of. Nothing of it is touched, so it costs some microseconds. With another allocator it does nothing.
fn give_back() {
    const ALLOCATIONS: usize = 100;
    const ORDINARY_BYTES: usize = 4096;
    const HUGE_BYTES: usize = 20 << 20;
    for _ in 0..ALLOCATIONS {
        black_box(Vec::<u8>::with_capacity(ORDINARY_BYTES));
    }
    let mut huge = Vec::<u8>::new();
    // Where there is no room for it, mimalloc has just looked for all that it can give back.
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
