//! The response cache: answering from it, and invalidating it after writes.
//!
//! A hit costs one lookup and no task, SQL or JSON. A miss enters the gate of uncached reads, reads the store, and is
//! serialized and compressed on the compute pool. A write invalidates the responses it changes between its commit and
//! its response (`Effects`).

use crate::config::{CacheMode, CacheSettings, Settings};
use crate::current;
use crate::http::body::{Compress, finish, respond};
use crate::http::dynamic_members::{DynamicObject, Member};
use crate::http::negotiate::Encodings;
use crate::http::{AnswerRoom, Gate, Problem};
use crate::ops::record::Part;
use crate::store::{Pool, PoolError, StoreError, load_with};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use madang_cache::{
    Admission, Cache, CacheError, ConfigError, Loaded, NamedCache, Policy, Stamp, Value,
};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// The cache, and what makes its entries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ResponseCache {
    cache: Cache,
    compute: Arc<Pool<()>>,
    reads: Gate,
    answers: AnswerRoom,
    settings: CacheSettings,
    compression: bool,
}

/// Error of making a response body.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The compute pool failed.
    #[error("compute pool: {0}")]
    Compute(#[from] PoolError),
    /// Large responses use up their memory.
    #[error("no memory for a large answer")]
    NoRoom,
    /// The stored data is inconsistent.
    #[error("{0}")]
    Damaged(String),
}

/// The part of the cache for bodies of one kind.
pub type Bodies = NamedCache<LoadError>;

/// The cached body of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Key within its part of the cache.
    pub(crate) key: &'a str,
    /// Dependencies, one to four.
    pub(crate) stamps: &'a [Stamp],
    /// True if the body may be kept. A body that is not kept is still shared by the requests that wait for it.
    pub(crate) kept: bool,
}

/// Finds the value of an uncached body; `None` when there is none.
pub(crate) trait Find<T>: FnOnce() -> Self::Found {
    type Found: Future<Output = Result<Option<T>, LoadError>> + Send + 'static;
}

impl<T, F: FnOnce() -> Found, Found> Find<T> for F
where
    Found: Future<Output = Result<Option<T>, LoadError>> + Send + 'static,
{
    type Found = Found;
}

impl ResponseCache {
    pub(crate) fn new(
        cache: Cache,
        compute: Arc<Pool<()>>,
        reads: Gate,
        answers: AnswerRoom,
        settings: &Settings,
    ) -> Self {
        Self {
            cache,
            compute,
            reads,
            answers,
            settings: settings.cache.clone(),
            compression: settings.compression,
        }
    }

    /// Creates a part of the cache for items with an id. Entries are refreshed after `ttl`; under overload, or while
    /// the store fails, stale ones are served up to six times that age, at least a minute. Writes invalidate them at
    /// once. Zero: nothing is kept.
    pub(crate) fn things(&self, name: &str, ttl: Duration) -> Result<Bodies, ConfigError> {
        self.named(name, ttl, stale_until(ttl), Admission::Values)
    }

    /// [`things`](Self::things) for listings. Clients can invent cursors, page sizes, towns and searches, so a page
    /// is kept only when it is requested a second time.
    pub(crate) fn listings(&self, name: &str, ttl: Duration) -> Result<Bodies, ConfigError> {
        self.named(name, ttl, stale_until(ttl), Admission::Nothing)
    }

    /// [`listings`](Self::listings) that are never served when older than `oldest`, which must be at least `ttl`.
    pub(crate) fn listings_within(
        &self,
        name: &str,
        ttl: Duration,
        oldest: Duration,
    ) -> Result<Bodies, ConfigError> {
        self.named(name, ttl, oldest, Admission::Nothing)
    }

    fn named(
        &self,
        name: &str,
        ttl: Duration,
        oldest: Duration,
        admission: Admission,
    ) -> Result<Bodies, ConfigError> {
        let policy = if self.settings.mode == CacheMode::Off || ttl.is_zero() {
            Policy::off()
        } else {
            Policy {
                max_entry_bytes: self.settings.max_entry as u64,
                admission,
                // Loads queue at the gate alone.
                max_loads_in_flight: self.reads.capacity(),
                ..Policy::with_ttl(ttl, oldest)
            }
        };
        self.cache.named(name, policy)
    }

    /// Invalidates entries that no transaction invalidates.
    pub(crate) fn forget(&self, stamps: &[Stamp]) {
        self.cache.invalidate(stamps);
    }

    pub(crate) fn compute(&self) -> &Arc<Pool<()>> {
        &self.compute
    }

    pub(crate) fn reads(&self) -> &Gate {
        &self.reads
    }

    pub(crate) fn answers(&self) -> &AnswerRoom {
        &self.answers
    }

    /// True if pages after the first are kept (`cache.first_pages_only`).
    pub(crate) fn keeps_later_pages(&self) -> bool {
        !self.settings.first_pages_only
    }

    /// Encodings to make of a body for this client.
    pub(crate) fn compress(&self, kept: bool, headers: &HeaderMap) -> Compress {
        let kept_within = kept.then_some(self.settings.max_entry);
        Compress::plan(self.compression, kept_within, Encodings::accepted(headers))
    }

    /// The finished body: a cached one, or one made of what `make` finds; `None` when it finds nothing. Each encoding
    /// is an entry of its own, made quickly on demand (docs/decisions/0016-entry-per-encoding.md).
    async fn get<T: Serialize + Send + 'static>(
        &self,
        part: &Bodies,
        wanted: Wanted<'_>,
        headers: &HeaderMap,
        make: impl Find<T>,
    ) -> Result<Option<Value>, Problem> {
        let compress = self.compress(false, headers);
        // No key contains this character.
        let key = compress.once.map(|one| format!("{}\u{2}{}", wanted.key, one.as_str()));
        let wanted = Wanted { key: key.as_deref().unwrap_or(wanted.key), ..wanted };
        self.load(part, wanted, make, (plain, compress)).await
    }

    /// [`get`](Self::get) as a response; `absent` when there is nothing.
    pub(crate) async fn answer<T: Serialize + Send + 'static>(
        &self,
        part: &Bodies,
        wanted: Wanted<'_>,
        headers: &HeaderMap,
        make: impl Find<T>,
        absent: impl FnOnce() -> Problem,
    ) -> Result<Response, Problem> {
        let value = self.get(part, wanted, headers, make).await?.ok_or_else(absent)?;
        Ok(respond(&value, headers))
    }

    /// [`get`](Self::get) for an object whose response has uncached members.
    pub(crate) async fn get_dynamic<T: Serialize + Send + 'static>(
        &self,
        part: &Bodies,
        wanted: Wanted<'_>,
        headers: &HeaderMap,
        make: impl Find<T>,
    ) -> Result<Option<DynamicObject>, Problem> {
        let kept = wanted.kept && part.policy().enabled;
        let compress = self.compress(kept, headers);
        let value = self.load(part, wanted, make, (dynamic, compress)).await?;
        Ok(value.map(DynamicObject::new))
    }

    async fn load<T: Serialize + Send + 'static>(
        &self,
        part: &Bodies,
        wanted: Wanted<'_>,
        make: impl Find<T>,
        (write, compress): (Write, Compress),
    ) -> Result<Option<Value>, Problem> {
        if let Some(value) = part.peek_fresh(wanted.key) {
            current::cached(true);
            return Ok(Some(value));
        }
        self.reads.take_token().await?;
        current::cached(false);
        let _time = current::time(Part::Load);
        let kept = wanted.kept && part.policy().enabled;
        let stamps = wanted.stamps.to_vec();
        let (found, this) = (make(), self.clone());
        let make = async move {
            let Some(body) = load_with(stamps, found).await? else {
                return Ok::<_, LoadError>(Loaded::Absent);
            };
            let value = this.written(body, compress, write).await?;
            Ok(if kept { Loaded::Store(value) } else { Loaded::Bypass(value) })
        };
        let reads = self.reads.for_current_client();
        let load = move || async move { reads.load(make).await };
        Ok(part.get(wanted.key, wanted.stamps, load).await?.value)
    }

    /// Serializes and compresses on the compute pool: a page has up to 100 items.
    pub(crate) async fn json(
        &self,
        body: impl Serialize + Send + 'static,
        compress: Compress,
    ) -> Result<Value, LoadError> {
        self.written(body, compress, plain).await
    }

    async fn written(
        &self,
        body: impl Serialize + Send + 'static,
        compress: Compress,
        write: Write,
    ) -> Result<Value, LoadError> {
        let value = self.compute.run(move |()| {
            // Numbers and strings into memory: cannot fail.
            let json = serde_json::to_vec(&body).unwrap_or_default();
            write(json, compress)
        });
        value.await?
    }

    /// A response with data of the caller: shared caches must not keep it.
    pub(crate) async fn private(
        &self,
        body: impl Serialize + Send + 'static,
        headers: &HeaderMap,
    ) -> Result<Response, LoadError> {
        let value = self.json(body, self.compress(false, headers)).await?;
        let mut response = respond(&value, headers);
        make_private(&mut response);
        Ok(response)
    }

    /// [`private`](Self::private) for the response to a committed write, which cannot fail: when the pool is full it
    /// is sent uncompressed, since 503 would mean that nothing was done.
    pub(crate) async fn of_write(&self, body: impl Serialize, headers: &HeaderMap) -> Response {
        let value = self.committed(body, headers, plain).await;
        answer_to_write(headers, |headers| respond(&value, headers))
    }

    /// [`of_write`](Self::of_write) with uncached members, so with the ETag that a read returns.
    pub(crate) async fn of_write_dynamic(
        &self,
        body: impl Serialize,
        members: &[(&'static str, Member)],
        headers: &HeaderMap,
    ) -> Response {
        let dynamic = DynamicObject::new(self.committed(body, headers, dynamic).await);
        answer_to_write(headers, |headers| dynamic.respond(members, headers))
    }

    async fn committed(&self, body: impl Serialize, headers: &HeaderMap, write: Write) -> Value {
        // Numbers and strings into memory: cannot fail.
        let json = serde_json::to_vec(&body).unwrap_or_default();
        let (copy, compress) = (json.clone(), self.compress(false, headers));
        let written = self.compute.run(move |()| write(copy, compress)).await;
        let written = written.unwrap_or_else(|_| write(json, Compress::NO));
        written.expect("bodies with members are objects")
    }
}

/// A listing may be empty but always exists.
pub(crate) fn no_listing() -> Problem {
    Problem::internal("a listing was absent")
}

/// Age up to which a stale body is served under overload or while the store fails.
fn stale_until(ttl: Duration) -> Duration {
    ttl.saturating_mul(6).max(Duration::from_secs(60))
}

/// Turns JSON into a cache value.
type Write = fn(Vec<u8>, Compress) -> Result<Value, LoadError>;

fn plain(json: Vec<u8>, compress: Compress) -> Result<Value, LoadError> {
    Ok(finish(json, "application/json", compress))
}

fn dynamic(json: Vec<u8>, compress: Compress) -> Result<Value, LoadError> {
    let value = DynamicObject::value(json, compress);
    value
        .ok_or_else(|| LoadError::Damaged("members can be added to a JSON object alone".to_owned()))
}

/// The response to a write, never 304: `If-None-Match` was a condition of the write.
fn answer_to_write(request: &HeaderMap, answer: impl FnOnce(&HeaderMap) -> Response) -> Response {
    let mut request = request.clone();
    request.remove(header::IF_NONE_MATCH);
    let mut response = answer(&request);
    make_private(&mut response);
    response
}

/// Marks a response as the caller's own.
pub(crate) fn make_private(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.append(header::VARY, HeaderValue::from_static("authorization"));
}

impl From<LoadError> for Problem {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Store(error) => error.into(),
            LoadError::Compute(error) => StoreError::from(error).into(),
            no_room @ LoadError::NoRoom => Problem::unavailable(
                "too many large answers are being sent; try again later",
                1,
                no_room.to_string(),
            ),
            damaged @ LoadError::Damaged(_) => Problem::internal(damaged.to_string()),
        }
    }
}

impl From<CacheError<LoadError>> for Problem {
    fn from(error: CacheError<LoadError>) -> Self {
        let temporary = match error.load_error() {
            Some(LoadError::Store(store)) => store.is_temporary(),
            Some(LoadError::Compute(pool)) => !matches!(pool, PoolError::Panicked(_)),
            Some(LoadError::NoRoom) => true,
            Some(LoadError::Damaged(_)) => false,
            None => !matches!(error, CacheError::Panicked | CacheError::StampCount { .. }),
        };
        if temporary {
            let wait =
                error.retry_after().map_or(1, |d| u32::try_from(d.as_secs()).unwrap_or(60) + 1);
            Problem::unavailable(
                "the answer cannot be computed now; try again later",
                wait,
                error.to_string(),
            )
        } else {
            Problem::internal(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;
    use axum::body::to_bytes;
    use http::StatusCode;
    use madang_testing::until_async;

    #[tokio::test]
    async fn a_committed_write_is_answered_though_the_pool_takes_no_more() {
        let settings = Sources::new().resolve().unwrap();
        let compute = Arc::new(Pool::start("compute", vec![()], 1).unwrap());
        let reads = Gate::new(1, Duration::from_secs(1));
        let room = AnswerRoom::new(1 << 20);
        let responses =
            ResponseCache::new(Cache::disabled(), Arc::clone(&compute), reads, room, &settings);
        let headers = [(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"))];
        let (headers, body) = (headers.into_iter().collect(), "long ".repeat(1000));
        let usual = responses.of_write(&body, &headers).await;
        assert_eq!(usual.headers()[header::CONTENT_ENCODING], "gzip");
        // One job runs until `release` is dropped, and one waits.
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (started, running) = tokio::sync::oneshot::channel();
        let busy = Arc::clone(&compute);
        tokio::spawn(async move {
            let hold = move |(): &mut ()| {
                let _ = started.send(());
                let _ = held.recv();
            };
            busy.run(hold).await
        });
        running.await.unwrap();
        let waits = Arc::clone(&compute);
        tokio::spawn(async move { waits.run(|()| ()).await });
        until_async("one waits", || compute.waiting() > 0).await;
        let answer = responses.of_write(&body, &headers).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(!answer.headers().contains_key(header::CONTENT_ENCODING));
        let text = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert_eq!(serde_json::from_slice::<String>(&text).unwrap(), body);
        drop(release);
    }
}
