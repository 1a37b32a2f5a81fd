//! Helpers of the tests.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use madang_cache::{
    Cache, CacheConfig, CacheError, Clock, Loaded, Lookup, ManualClock, MetricsSnapshot,
    NamedCache, Policy, Served, Stamp, Value,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The error of the tests' loaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("boom {0}")]
pub struct Boom(pub u32);

pub type Got = Result<Lookup, CacheError<Boom>>;

pub const SECOND: Duration = Duration::from_secs(1);
pub const MS: Duration = Duration::from_millis(1);

pub fn value(text: &str) -> Value {
    Value::new(Bytes::from(text.to_owned()), "text/plain", text)
}

pub fn body(text: &str) -> Result<Loaded, Boom> {
    Ok(Loaded::Store(value(text)))
}

pub fn text_of(value: &Value) -> String {
    String::from_utf8(value.identity().to_vec()).unwrap()
}

/// The body and how it was served, as `"text Miss"`; errors as their message.
pub fn told(got: &Got) -> String {
    match got {
        Ok(Lookup { value: Some(value), served, .. }) => format!("{} {served:?}", text_of(value)),
        Ok(Lookup { value: None, served, .. }) => format!("nothing {served:?}"),
        Err(error) => format!("error: {error}"),
    }
}

/// Sixty seconds soft, ten minutes hard, and nothing left to chance.
pub fn plain() -> Policy {
    Policy {
        soft_ttl: 60 * SECOND,
        hard_ttl: 600 * SECOND,
        jitter: 0.0,
        refresh_ahead: None,
        failure_backoff: Duration::ZERO,
        ..Policy::default()
    }
}

#[derive(Clone)]
pub struct Kit {
    pub cache: Cache,
    pub named: NamedCache<Boom>,
}

impl Kit {
    pub fn new(policy: Policy) -> Self {
        Self::part_of(&Cache::new(&CacheConfig::default()).unwrap(), "test", policy)
    }

    /// A kit of the plain policy in a cache of its own.
    pub fn with_config(config: &CacheConfig) -> Self {
        Self::part_of(&Cache::new(config).unwrap(), "test", plain())
    }

    pub fn part_of(cache: &Cache, name: &str, policy: Policy) -> Self {
        Self { cache: cache.clone(), named: cache.named(name, policy).unwrap() }
    }

    /// A kit with its own clock, for tests with several runtimes.
    pub fn with_manual_clock(config: &CacheConfig, policy: Policy) -> (Self, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        let as_clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let cache = Cache::with_clock(config, as_clock).unwrap();
        (Self::part_of(&cache, "test", policy), clock)
    }

    /// Every key depends on a stamp of the same name.
    pub async fn get_with<F, Fut>(&self, key: &str, loader: F) -> Got
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded, Boom>> + Send + 'static,
    {
        self.named.get(key, &[Stamp::new(key)], loader).await
    }

    /// Looks up with a loader that answers at once.
    pub async fn get(&self, key: &str, answer: Result<Loaded, Boom>) -> String {
        told(&self.get_with(key, move || async move { answer }).await)
    }

    /// Looks up with a loader that must not run.
    pub async fn hit(&self, key: &str) -> String {
        told(&self.get_with(key, || async { panic!("this look-up must not load") }).await)
    }

    pub fn peek(&self, key: &str) -> Option<String> {
        self.named.peek_fresh(key).map(|value| text_of(&value))
    }

    /// Begins a look-up whose loader stops at a gate.
    pub fn begin(&self, key: &str) -> Pending {
        let (loader, gate) = gated();
        let (kit, key) = (self.clone(), key.to_owned());
        let caller = tokio::spawn(async move { kit.get_with(&key, loader).await });
        Pending { caller, gate }
    }

    /// Begins a look-up, and waits until the loader stands at the gate.
    pub async fn begin_load(&self, key: &str) -> Pending {
        let mut pending = self.begin(key);
        pending.gate.reached().await;
        pending
    }

    /// Begins a look-up that must find a load to join, and waits until it has.
    pub async fn join_load(&self, key: &str) -> JoinHandle<String> {
        let before = self.metrics().coalesced;
        let (kit, key) = (self.clone(), key.to_owned());
        let caller = tokio::spawn(async move { kit.hit(&key).await });
        until(|| self.metrics().coalesced == before + 1).await;
        caller
    }

    /// Invalidates a key, as a write does after its commit.
    pub fn write(&self, key: &str) {
        self.cache.invalidate(&[Stamp::new(key)]);
    }

    pub fn metrics(&self) -> MetricsSnapshot {
        self.named.metrics()
    }
}

/// A look-up in progress.
pub struct Pending {
    pub caller: JoinHandle<Got>,
    pub gate: Gate,
}

impl Pending {
    /// Lets the loader answer, and returns the caller's answer.
    pub async fn answer(self, answer: Result<Loaded, Boom>) -> String {
        self.gate.open(answer);
        told(&self.caller.await.unwrap())
    }
}

/// Where a loader waits for the test.
pub struct Gate {
    reached: Option<oneshot::Receiver<()>>,
    answer: oneshot::Sender<Result<Loaded, Boom>>,
}

impl Gate {
    /// Waits until the loader stands at the gate.
    pub async fn reached(&mut self) {
        if let Some(reached) = self.reached.take() {
            reached.await.expect("the loader was dropped before it ran");
        }
    }

    pub fn open(self, answer: Result<Loaded, Boom>) {
        // The load may have been aborted.
        let _ = self.answer.send(answer);
    }

    /// Waits until the loader has been dropped.
    pub async fn dropped(mut self) {
        self.answer.closed().await;
    }
}

type BoxedLoad = std::pin::Pin<Box<dyn Future<Output = Result<Loaded, Boom>> + Send>>;

/// A loader that stops at a gate.
pub fn gated() -> (impl FnOnce() -> BoxedLoad + Send + 'static, Gate) {
    let (at_gate, reached) = oneshot::channel();
    let (answer, answered) = oneshot::channel();
    let loader = move || -> BoxedLoad {
        Box::pin(async move {
            let _ = at_gate.send(());
            answered.await.expect("the test dropped the gate without an answer")
        })
    };
    (loader, Gate { reached: Some(reached), answer })
}

/// Lets the other tasks of this runtime run until something holds.
pub async fn until(holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("what was waited for did not happen");
}

/// Lets ready tasks run until they wait.
pub async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

pub fn served(got: &Got) -> Served {
    got.as_ref().expect("an answer").served
}
