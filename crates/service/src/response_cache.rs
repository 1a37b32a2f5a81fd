//! The response cache: what every system does to answer from it, and to write past it.
//!
//! A hit costs one look-up and no task, no SQL and no JSON. A miss takes a place among the uncached
//! reads, reads the store, and is written and compressed on the compute pool. A write ends the responses that it
//! has changed between its commit and its answer ([`Effects`](crate::store::Effects)).

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

/// The cache and what responses are made with; cheap to clone.
#[derive(Clone, Debug)]
pub struct ResponseCache {
    cache: Cache,
    compute: Arc<Pool<()>>,
    reads: Gate,
    answers: AnswerRoom,
    settings: CacheSettings,
    compression: bool,
}

/// Why a body could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The threads for heavy work did not.
    #[error("compute pool: {0}")]
    Compute(#[from] PoolError),
    /// Answers take all the memory that they may.
    #[error("no memory for a large answer")]
    NoRoom,
    /// What is stored makes no sense.
    #[error("{0}")]
    Damaged(String),
}

/// The bodies of one kind: a part of the cache.
pub type Bodies = NamedCache<LoadError>;

/// Which cached body a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its key within its part of the cache.
    pub key: &'a str,
    /// What it depends on, one to four.
    pub stamps: &'a [Stamp],
    /// Whether it may be kept, as far as its part keeps it; a body that is not kept is shared by those who wait
    /// for it now.
    pub kept: bool,
}

/// Looks for what a body says, when it is not cached; finds nothing where there is none.
pub trait Find<T>: FnOnce() -> Self::Found {
    /// The search.
    type Found: Future<Output = Result<Option<T>, LoadError>> + Send + 'static;
}

impl<T, F: FnOnce() -> Found, Found> Find<T> for F
where
    Found: Future<Output = Result<Option<T>, LoadError>> + Send + 'static,
{
    type Found = Found;
}

impl ResponseCache {
    /// Responses in `cache`, written on `compute`, large ones within `answers`; loads pass `reads`.
    pub fn new(
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

    /// The part of the cache of this name, for things that have an id. Its entries are refreshed after `ttl`;
    /// under overload, or while the store fails, older ones are served until they are six times as old, or a
    /// minute. A change is seen at once whatever it says. Zero: nothing is kept.
    ///
    /// # Errors
    /// When the cache has a part of this name already, or the settings cannot work.
    pub fn things(&self, name: &str, ttl: Duration) -> Result<Bodies, ConfigError> {
        self.named(name, ttl, stale_until(ttl), Admission::Values)
    }

    /// [`things`](Self::things), for listings. Anybody can make up places to go on from, sizes of pages, towns
    /// and searches, so each page is kept when it is asked for the second time, and no listing has a rule of
    /// its own.
    pub fn listings(&self, name: &str, ttl: Duration) -> Result<Bodies, ConfigError> {
        self.named(name, ttl, stale_until(ttl), Admission::Nothing)
    }

    /// [`listings`](Self::listings) that are never served when older than `oldest`.
    ///
    /// # Errors
    /// As [`things`](Self::things), and when `oldest` is less than `ttl`.
    pub fn listings_within(
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

    /// Ends what depends on these, of which no transaction tells.
    pub fn forget(&self, stamps: &[Stamp]) {
        self.cache.invalidate(stamps);
    }

    /// The threads for heavy work.
    pub fn compute(&self) -> &Arc<Pool<()>> {
        &self.compute
    }

    /// What everything passes that is not in the cache.
    pub fn reads(&self) -> &Gate {
        &self.reads
    }

    /// The memory that the making of large responses may take.
    pub fn answers(&self) -> &AnswerRoom {
        &self.answers
    }

    /// Whether pages behind the first may be kept (setting `cache.first_pages_only`).
    pub fn keeps_later_pages(&self) -> bool {
        !self.settings.first_pages_only
    }

    /// Which encodings to make for this client of a body that is, or is not, `kept`.
    pub fn compress(&self, kept: bool, headers: &HeaderMap) -> Compress {
        let kept_within = kept.then_some(self.settings.max_entry);
        Compress::plan(self.compression, kept_within, Encodings::accepted(headers))
    }

    /// The finished body: from the cache without any other work, else made of what `make` finds; nothing
    /// when that finds nothing.
    ///
    /// Each encoding is an entry of its own, made quickly and only when somebody asks for it. To make
    /// all of them thoroughly, as for a track, cost more than the cache saved where writes end listings
    /// or searches are seldom repeated: under 100 writes a second less than half as many answers as
    /// without a cache (lesson 1 in docs/lessons).
    ///
    /// # Errors
    /// As a problem, when the store or the compute pool cannot answer.
    pub async fn get<T: Serialize + Send + 'static>(
        &self,
        part: &Bodies,
        wanted: Wanted<'_>,
        headers: &HeaderMap,
        make: impl Find<T>,
    ) -> Result<Option<Value>, Problem> {
        let compress = self.compress(false, headers);
        let encoding = Encodings::accepted(headers).by_preference().next();
        let Some(encoding) = encoding.filter(|_| self.compression) else {
            return self.load(part, wanted, make, (plain, compress)).await;
        };
        // No key has this character.
        let key = format!("{}\u{2}{}", wanted.key, encoding.as_str());
        let wanted = Wanted { key: &key, ..wanted };
        self.load(part, wanted, make, (plain, compress)).await
    }

    /// [`get`](Self::get) as an answer; that it is `absent` when there is nothing.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn answer<T: Serialize + Send + 'static>(
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

    /// [`get`](Self::get) for an object that is answered with members of the moment, which are in no cache.
    pub async fn get_dynamic<T: Serialize + Send + 'static>(
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

    /// JSON on the compute pool: a page is up to 100 items, and is compressed.
    pub async fn json(
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

    /// The answer with something of the caller's own: no cache that others share may keep it.
    pub async fn private(
        &self,
        body: impl Serialize + Send + 'static,
        headers: &HeaderMap,
    ) -> Result<Response, LoadError> {
        let value = self.json(body, self.compress(false, headers)).await?;
        let mut response = respond(&value, headers);
        make_private(&mut response);
        Ok(response)
    }

    /// [`private`](Self::private) for the answer to a write that is committed, which cannot fail. When the
    /// pool takes no more it is not compressed, since 503 would say that nothing was done.
    pub async fn of_write(&self, body: impl Serialize, headers: &HeaderMap) -> Response {
        let finish = |json, compress| finish(json, "application/json", compress);
        let value = self.committed(body, headers, finish).await;
        answer_to_write(headers, |headers| respond(&value, headers))
    }

    /// [`of_write`](Self::of_write) with members of the moment, and so with the tag that a read gives.
    pub async fn of_write_dynamic(
        &self,
        body: impl Serialize,
        members: &[(&'static str, Member)],
        headers: &HeaderMap,
    ) -> Response {
        let finish = |json, compress| {
            DynamicObject::value(json, compress).expect("bodies with members are objects")
        };
        let dynamic = DynamicObject::new(self.committed(body, headers, finish).await);
        answer_to_write(headers, |headers| dynamic.respond(members, headers))
    }

    async fn committed(
        &self,
        body: impl Serialize,
        headers: &HeaderMap,
        finish: fn(Vec<u8>, Compress) -> Value,
    ) -> Value {
        // Numbers and strings into memory: cannot fail.
        let json = serde_json::to_vec(&body).unwrap_or_default();
        let (copy, compress) = (json.clone(), self.compress(false, headers));
        let finished = self.compute.run(move |()| finish(copy, compress)).await;
        finished.unwrap_or_else(|_| finish(json, Compress::NO))
    }
}

/// A listing may be empty, but there always is one.
pub(crate) fn no_listing() -> Problem {
    Problem::internal("a listing was absent")
}

/// The age until which an old body is served under overload, or while the store fails.
fn stale_until(ttl: Duration) -> Duration {
    ttl.saturating_mul(6).max(Duration::from_secs(60))
}

/// What JSON is kept as.
type Write = fn(Vec<u8>, Compress) -> Result<Value, LoadError>;

fn plain(json: Vec<u8>, compress: Compress) -> Result<Value, LoadError> {
    Ok(finish(json, "application/json", compress))
}

fn dynamic(json: Vec<u8>, compress: Compress) -> Result<Value, LoadError> {
    DynamicObject::value(json, compress).map_err(|error| LoadError::Damaged(error.to_string()))
}

/// The answer to a write, which is never "you have that already": `If-None-Match` was its condition.
fn answer_to_write(request: &HeaderMap, answer: impl FnOnce(&HeaderMap) -> Response) -> Response {
    let mut request = request.clone();
    request.remove(header::IF_NONE_MATCH);
    let mut response = answer(&request);
    make_private(&mut response);
    response
}

/// Marks an answer as its caller's own.
pub fn make_private(response: &mut Response) {
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
        // One job runs until this ends, and one waits.
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
