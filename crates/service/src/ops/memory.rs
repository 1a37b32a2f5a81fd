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

/// Bytes of large answers that are on their way.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Changes whenever one was freed.
static FREED: AtomicUsize = AtomicUsize::new(0);

/// Says that a large answer is on its way.
pub(crate) fn lent(bytes: usize) {
    HELD.fetch_add(bytes, Relaxed);
}

/// Says that it was freed.
pub(crate) fn freed(bytes: usize) {
    HELD.fetch_sub(bytes, Relaxed);
    FREED.fetch_add(1, Relaxed);
}

/// What one thread has seen of it.
#[derive(Debug, Default)]
pub(crate) struct Tidy {
    freed: usize,
    left: u8,
}

impl Tidy {
    /// Whether the thread should look again, if it has no work for [`EVERY`].
    pub(crate) fn is_due(&self) -> bool {
        self.left > 0 || HELD.load(Relaxed) > 0 || FREED.load(Relaxed) != self.freed
    }

    /// Looks.
    pub(crate) fn look(&mut self) {
        let freed = FREED.load(Relaxed);
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
        let mut tidy = Tidy::default();
        lent(100_000);
        assert!(tidy.is_due(), "an answer is on its way");
        freed(100_000);
        let looks = (0..100).take_while(|_| {
            let due = tidy.is_due();
            tidy.look();
            due
        });
        assert_eq!(looks.count(), usize::from(LOOKS));
    }
}
