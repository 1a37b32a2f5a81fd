//! The requests of a virtual user that wait for their answers, and since when.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// They are kept here and not by the calls that wait for them: an asynchronous one is dropped some
/// time after its iteration, when its scenario may be over.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    next: Cell<u64>,
    /// Few at a time: one, but for batches and asynchronous requests.
    since: RefCell<Vec<(u64, Instant)>>,
}

impl PendingRequests {
    /// A request is sent; gives the number to [`end`](Self::end) it with.
    pub(crate) fn begin(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        self.since.borrow_mut().push((number, Instant::now()));
        number
    }

    /// It came to something at `end`; gives how long it took.
    pub(crate) fn end(&self, number: u64, end: Instant) -> Option<Duration> {
        let mut since = self.since.borrow_mut();
        let at = since.iter().position(|(known, _)| *known == number)?;
        let (_, begun) = since.swap_remove(at);
        Some(end.saturating_duration_since(begun))
    }

    /// Forgets all of them, and gives how long each has waited.
    pub(crate) fn give_up(&self) -> Vec<Duration> {
        let now = Instant::now();
        self.since.take().into_iter().map(|(_, begun)| now - begun).collect()
    }
}
