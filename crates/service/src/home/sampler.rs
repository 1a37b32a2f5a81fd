//! The one thread that takes the samples of all figures, each second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two ticks.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Ticks until it is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts its thread.
    ///
    /// # Errors
    /// When the system has none.
    pub(super) fn start(tick: impl FnMut() + Send + 'static) -> std::io::Result<Sampler> {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("figures".to_owned())
            .spawn(move || run(tick, &stopped))?;
        Ok(Sampler { stop, thread: Some(thread) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It panics nowhere, and if it did there would be nothing left to do.
            let _ = thread.join();
        }
    }
}

fn run(mut tick: impl FnMut(), stop: &AtomicBool) {
    let mut last = Instant::now();
    loop {
        while let Some(wait) = (last + INTERVAL).checked_duration_since(Instant::now()) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            std::thread::park_timeout(wait);
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        last = Instant::now();
        tick();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_sampler_ends_its_thread_at_once() {
        let held = Arc::new(());
        let by_thread = Arc::clone(&held);
        let sampler = Sampler::start(move || drop(Arc::clone(&by_thread))).unwrap();
        drop(sampler);
        assert_eq!(Arc::strong_count(&held), 1, "the thread held the other one");
    }
}
