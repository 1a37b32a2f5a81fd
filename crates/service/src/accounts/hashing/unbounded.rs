//! As documented: every hash on a thread of its own, at the priority of everything else, as a servlet
//! container with its hundreds of threads does it. Here up to 512 at once for each worker, tokio's own
//! limit on blocking threads; the rest waits without a bound.

use madang_guard::hash::{
    Outcome, Password, PoolError, PoolMetrics, Scheme, StartError, StoredHash, Verdict,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Hashes each password on a thread of its own.
#[derive(Debug)]
pub struct Unbounded {
    scheme: Scheme,
    /// A hash that no password has, for unknown users.
    nobody: StoredHash,
    figures: Arc<Figures>,
}

#[derive(Debug, Default)]
struct Figures {
    waiting: AtomicUsize,
    running: AtomicUsize,
    done: AtomicU64,
    failed: AtomicU64,
    hashing_micros: AtomicU64,
}

impl Unbounded {
    pub(super) fn start(scheme: Scheme) -> Result<Self, StartError> {
        let random = (0..4).map(|_| fastrand::u64(..).to_string()).collect::<String>();
        let nobody = scheme.hash(&Password::from(random))?;
        Ok(Self { scheme, nobody, figures: Arc::default() })
    }

    pub(super) fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub(super) async fn hash(&self, password: Password) -> Result<StoredHash, PoolError> {
        let scheme = self.scheme;
        self.run(move || scheme.hash(&password).map_err(PoolError::from)).await
    }

    pub(super) async fn verify(
        &self,
        password: Password,
        stored: Option<StoredHash>,
        settle: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<Verdict, PoolError> {
        let (scheme, nobody) = (self.scheme, self.nobody.clone());
        self.run(move || {
            let same = stored.as_ref().unwrap_or(&nobody).verify(&password);
            let verdict = same.map(|same| match &stored {
                Some(stored) if same => {
                    Verdict::Right { needs_upgrade: stored.needs_upgrade(&scheme) }
                }
                _ => Verdict::Wrong,
            });
            settle(match &verdict {
                Ok(Verdict::Right { .. }) => Outcome::Right,
                Ok(Verdict::Wrong) => Outcome::Wrong,
                Err(_) => Outcome::Failed,
            });
            verdict.map_err(PoolError::from)
        })
        .await
    }

    pub(super) fn metrics(&self) -> PoolMetrics {
        let mut metrics = PoolMetrics::default();
        metrics.queued = self.figures.waiting.load(Ordering::Relaxed);
        metrics.running = self.figures.running.load(Ordering::Relaxed);
        metrics.done = self.figures.done.load(Ordering::Relaxed);
        metrics.failed = self.figures.failed.load(Ordering::Relaxed);
        let micros = self.figures.hashing_micros.load(Ordering::Relaxed);
        metrics.hashing = Duration::from_micros(micros);
        metrics
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, PoolError> + Send + 'static,
    ) -> Result<T, PoolError> {
        let figures = Arc::clone(&self.figures);
        figures.waiting.fetch_add(1, Ordering::Relaxed);
        let job = tokio::task::spawn_blocking(move || {
            figures.waiting.fetch_sub(1, Ordering::Relaxed);
            figures.running.fetch_add(1, Ordering::Relaxed);
            let begun = Instant::now();
            let result = work();
            let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            figures.hashing_micros.fetch_add(micros, Ordering::Relaxed);
            figures.running.fetch_sub(1, Ordering::Relaxed);
            let counted = if result.is_ok() { &figures.done } else { &figures.failed };
            counted.fetch_add(1, Ordering::Relaxed);
            result
        });
        job.await.unwrap_or(Err(PoolError::Panicked))
    }
}
