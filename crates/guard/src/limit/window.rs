//! A sliding window in eighths.

/// Steps per window.
pub(super) const STEPS: u64 = 8;
/// The whole steps of a window and the one that has begun.
const CELLS: usize = STEPS as usize + 1;

/// Failures of the last eight steps and the current one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    cells: [u16; CELLS],
    /// The step of the newest cell; the cell of step `s` is `s % CELLS`.
    head: u64,
}

impl Window {
    /// Expires failures that are too old at this step. Returns the newest step. An earlier step changes nothing: of
    /// two threads, the one that read the clock first may get here last.
    pub(super) fn advance(&mut self, step: u64) -> u64 {
        if step <= self.head {
            return self.head;
        }
        let passed = (step - self.head).min(CELLS as u64);
        for back in 0..passed {
            self.cells[cell(step - back)] = 0;
        }
        self.head = step;
        step
    }

    /// Failures that still count, as of the last [`advance`](Self::advance).
    pub(super) fn count(&self) -> u32 {
        self.cells.iter().map(|&n| u32::from(n)).sum()
    }

    pub(super) fn add(&mut self) {
        let newest = &mut self.cells[cell(self.head)];
        *newest = newest.saturating_add(1);
    }

    /// Removes the newest failure.
    pub(super) fn remove(&mut self) {
        for back in 0..(CELLS as u64).min(self.head + 1) {
            let failures = &mut self.cells[cell(self.head - back)];
            if *failures > 0 {
                *failures -= 1;
                return;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.cells = [0; CELLS];
    }

    /// The first step, from the current one on, at which fewer than `limit` failures count if none is added.
    pub(super) fn below_at(&self, limit: u32) -> u64 {
        let mut left = self.count();
        let oldest = self.head.saturating_sub(STEPS);
        for step in oldest..=self.head {
            if left < limit {
                break;
            }
            left -= u32::from(self.cells[cell(step)]);
            if left < limit {
                return step + CELLS as u64;
            }
        }
        self.head
    }
}

fn cell(step: u64) -> usize {
    (step % CELLS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_counts_in_its_step_and_the_eight_after_it() {
        let mut window = Window::default();
        window.advance(5);
        window.add();
        window.advance(13);
        assert_eq!(window.count(), 1);
        assert_eq!(window.below_at(1), 14);
        window.advance(14);
        assert_eq!(window.count(), 0);
    }

    #[test]
    fn the_oldest_failures_make_room_first() {
        let mut window = Window::default();
        for step in [0, 0, 3, 8] {
            window.advance(step);
            window.add();
        }
        assert_eq!(window.count(), 4);
        assert_eq!([window.below_at(5), window.below_at(4), window.below_at(3)], [8, 9, 9]);
        assert_eq!([window.below_at(2), window.below_at(1)], [12, 17]);
    }

    #[test]
    fn a_leap_forgets_everything_and_a_step_back_nothing() {
        let mut window = Window::default();
        window.advance(u64::MAX / 2);
        window.add();
        window.advance(3);
        assert_eq!(window.count(), 1);
        window.advance(u64::MAX - 20);
        assert_eq!(window.count(), 0);
    }

    #[test]
    fn taking_back_takes_the_newest() {
        let mut window = Window::default();
        window.add();
        window.advance(4);
        window.add();
        window.remove();
        assert_eq!(window.below_at(1), 9);
        window.remove();
        window.remove();
        assert_eq!(window.count(), 0);
    }
}
