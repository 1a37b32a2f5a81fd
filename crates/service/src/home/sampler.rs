//! The thread that takes the samples of all figures.

use crate::ops::thread::Joined;
use crossbeam_channel::{Sender, bounded};
use std::time::{Duration, Instant};

/// Time between two ticks.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Ticks until it is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    // Before the thread: dropping it ends the thread.
    _stop: Sender<()>,
    _thread: Joined,
}

impl Sampler {
    pub(super) fn start(mut tick: impl FnMut() + Send + 'static) -> std::io::Result<Sampler> {
        let (stop, stopped) = bounded::<()>(0);
        let run = move || {
            let mut next = Instant::now() + INTERVAL;
            while stopped.recv_deadline(next).is_err_and(|error| error.is_timeout()) {
                next = Instant::now() + INTERVAL;
                tick();
            }
        };
        Ok(Sampler { _stop: stop, _thread: Joined::spawn("figures", run)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    #[test]
    fn dropping_the_sampler_ends_its_thread_at_once() {
        let held = Arc::new(());
        let by_thread = Arc::clone(&held);
        let sampler = Sampler::start(move || drop(Arc::clone(&by_thread))).unwrap();
        drop(sampler);
        assert_eq!(Arc::strong_count(&held), 1, "the thread held the other one");
    }
}
