//! The application: all systems over one store and one cache, and their routes.

use crate::accounts::{self, Accounts, AccountsError, Caller};
use crate::admin::{Maintenance, Operated, Running};
use crate::articles::{self, Articles};
use crate::config::{CacheMode, CacheSettings, Settings};
use crate::exposition;
use crate::home::{self, Home};
use crate::housekeeping::Housekeeping;
use crate::http::edge::label_routes;
use crate::http::json::LARGEST_OBJECT;
use crate::http::limits::RateLimits;
use crate::http::server::{Routes, Signals};
use crate::http::{AnswerRoom, Gate, LargestBody, Problem, Proxies, SMALL_BODY, server};
use crate::idempotency::Idempotency;
use crate::markets::{self, Markets};
use crate::ops::metrics::ServerMetrics;
use crate::ops::record::Recorder;
use crate::ops::{health, openapi};
use crate::posts::{self, Posts};
use crate::response_cache::ResponseCache;
use crate::schedules::{self, Schedules};
use crate::store::{Pool, Store, StoreError};
use crate::tracks::{self, Tracks};
use axum::Router;
use madang_cache::{Cache, CacheConfig, ConfigError, RemoteConfig};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// State of all handlers.
#[derive(Debug)]
pub struct App {
    /// Accounts, tokens and regions.
    pub accounts: Accounts,
    /// Running tracks.
    pub tracks: Tracks,
    /// Schedules and their places.
    pub schedules: Schedules,
    /// Traditional markets.
    pub markets: Markets,
    /// Second-hand goods.
    pub posts: Posts,
    /// Articles, comments and likes.
    pub articles: Articles,
    pub(crate) store: Store,
    /// The cache of all systems.
    pub cache: Cache,
    pub(crate) responses: ResponseCache,
    /// Threads for CPU-heavy work.
    pub(crate) compute: Arc<Pool<()>>,
    /// Gate of uncached reads.
    pub(crate) reads: Gate,
    pub(crate) writes: Gate,
    /// Gate of parsing uploaded files, before their write.
    pub(crate) uploads: Gate,
    pub(crate) limits: RateLimits,
    pub(crate) idempotency: Idempotency,
    pub(crate) answers: AnswerRoom,
    pub(crate) proxies: Proxies,
    pub(crate) maintenance: Maintenance,
    /// True once the server drains.
    pub(crate) draining: Arc<AtomicBool>,
}

/// Error of opening the application.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The settings of the cache are invalid.
    #[error("cache: {0}")]
    Cache(#[from] ConfigError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// Accounts cannot be opened.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// The log of likes cannot be opened.
    #[error(transparent)]
    Likes(#[from] articles::StreamError),
}

/// Maximum number of waiting CPU-heavy jobs; further requests are answered 503.
const COMPUTE_QUEUE: usize = 1024;

/// Version of the response bodies that nodes share, part of their keys. Increment it when the body of the same rows
/// changes, so that nodes of two versions can run side by side.
const BODIES: u32 = 1;

/// Uncached reads in progress per core. A queue at the gate is observed and the queues behind it are not, which asks
/// for few; but a thread whose queue is empty goes to sleep, and waking it costs more than a small job. Measured with
/// 300 clients on a track of 464 points without a cache on two cores, CPU time of a request: 50 µs with 16 per core,
/// 43 with 32, 39 with 64, 37 without a limit.
const READS_PER_CORE: usize = 64;

fn open_cache(settings: &Settings, store: &Store) -> Result<Cache, AppError> {
    let CacheSettings { mode, url, capacity, .. } = &settings.cache;
    let local = CacheConfig::with_capacity(*capacity as u64);
    let remote = store.horizon().filter(|_| mode.is_remote());
    Ok(match (mode, remote) {
        (CacheMode::Off, _) => Cache::disabled(),
        (_, None) => Cache::new(&local)?,
        (mode, Some((identity, horizon))) => {
            let config = CacheConfig { local: *mode == CacheMode::LocalRemote, ..local };
            let prefix = format!("madang:{identity:x}:{BODIES}");
            let remote = RemoteConfig { urls: url.clone(), prefix };
            Cache::with_remote(&config, remote, horizon)?
        }
    })
}

impl App {
    /// Opens the store in the data directory. The caller holds the lock of that directory.
    ///
    /// # Errors
    /// When a part of the application cannot be opened.
    pub fn open(settings: &Settings) -> Result<App, AppError> {
        let store = Store::open(&settings.data_dir, &settings.database)?;
        let replayed = articles::replay(&store)?;
        if replayed.pairs > 0 {
            tracing::info!(likes = replayed.pairs, "applied the log of likes");
        }
        let cache = open_cache(settings, &store)?;
        store.remembered_in(&cache);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let compute = Arc::new(Pool::start("compute", vec![(); threads], COMPUTE_QUEUE)?);
        let accounts = Accounts::open(store.clone(), settings)?;
        let key = accounts.derived_key("madang rate limits 1");
        let limits = RateLimits::new(&settings.limits, &settings.guard, key)
            .map_err(AccountsError::GuardStore)?;
        let server = &settings.server;
        let gate = |most, limit: &Option<_>| {
            Gate::new(most, server.queue_time).limited_by(Option::clone(limit))
        };
        let reads = gate(server.max_in_flight.unwrap_or(READS_PER_CORE * threads), &limits.read);
        // One commit group in progress and one that fills.
        let writes = server.max_writes_in_flight.unwrap_or(2 * settings.database.commit_group);
        let writes = gate(writes, &limits.write);
        // Half of the compute threads: a flood of long files leaves the other half to reads. This also bounds the
        // memory of uploads whose clients have left.
        let uploads = gate((threads / 2).max(1), &limits.upload);
        let answers = AnswerRoom::new(server.answer_memory);
        let responses = ResponseCache::new(
            cache.clone(),
            Arc::clone(&compute),
            reads.clone(),
            answers.clone(),
            settings,
        );
        let proxies = Proxies::new(&server.trusted_proxies);
        Ok(App {
            tracks: Tracks::new(store.clone(), responses.clone(), settings)?,
            schedules: Schedules::new(store.clone(), responses.clone(), settings)?,
            markets: Markets::new(store.clone(), responses.clone(), accounts.clone(), settings)?,
            posts: Posts::new(store.clone(), responses.clone(), settings)?,
            articles: Articles::new(store.clone(), responses.clone(), settings, replayed)?,
            accounts,
            store,
            cache,
            responses,
            compute,
            reads,
            writes,
            uploads,
            answers,
            idempotency: Idempotency::new(settings.idempotency_keep),
            limits,
            proxies,
            maintenance: Maintenance::of(&settings.data_dir),
            draining: Arc::default(),
        })
    }
}

pub(crate) fn api() -> openapi::Api {
    openapi::Api::documented()
        .merge(accounts::router())
        .merge(tracks::router())
        .merge(schedules::router())
        .merge(markets::router())
        .merge(posts::router())
        .merge(articles::router())
        .merge(health::router())
}

/// Maximum size of a request body: 64 KiB, with a valid token that of a JSON object or of an uploaded track. An
/// upload without a token is refused before its body is read.
fn largest_body(app: Arc<App>, max_body: usize) -> LargestBody {
    Arc::new(move |parts| {
        let caller = Caller::of(parts, &app.accounts);
        if tracks::is_upload(parts) {
            caller.map(|_| max_body)
        } else {
            Ok(if caller.is_ok() { LARGEST_OBJECT } else { SMALL_BODY })
        }
    })
}

/// The OpenAPI document as JSON.
pub fn openapi_json() -> String {
    api().split().1.json()
}

/// Serves `app` and its operator's commands until `signals.stop` is notified. Blocks the calling thread.
///
/// # Errors
/// When a thread or an event loop cannot be started, and when acknowledged likes are lost (`likes.write = queue`).
pub fn serve(
    server: server::Server,
    settings: &Settings,
    app: App,
    signals: &Signals,
    operated: Option<Operated>,
) -> std::io::Result<()> {
    let mut registry = Registry::with_prefix("madang");
    let metrics = Arc::new(ServerMetrics::new(&mut registry));
    let (recorder, records) = Recorder::start(settings, server.address()?, &mut registry)?;
    let _counting = app.markets.start().map_err(std::io::Error::other)?;
    let app = Arc::new(App { draining: Arc::clone(&signals.draining), ..app });
    exposition::register(&mut registry, &app);
    let operations = exposition::router(registry);
    let (router, document) = api().split();
    for template in document.templates().chain(["/openapi.json", "/docs", "/docs/{*rest}"]) {
        metrics.add_route(template, true);
    }
    let home = Home::start(settings, &app, &metrics)?;
    let housekeeping = Housekeeping::start(&app.articles, settings.server.drain_timeout)?;
    let router: Router<Arc<App>> = router
        .merge(openapi::router(&document))
        .merge(home.as_ref().map_or_else(home::nothing, Home::router))
        .fallback(async || {
            Problem::not_found("there is nothing under this path; /docs lists the API")
        })
        .method_not_allowed_fallback(async || Problem::method_not_allowed());
    let largest_body = largest_body(Arc::clone(&app), settings.server.max_body);
    if app.maintenance.message().is_some() {
        tracing::warn!(
            "maintenance mode is on: writes are refused until `madang admin maintenance off`"
        );
    }
    let admin = operated.map(|operated| Running::start(operated, &app, settings)).transpose()?;
    let api = label_routes(router.with_state(Arc::clone(&app)), &metrics);
    let errors = home.as_ref().and_then(Home::errors);
    let routes = Routes { api, operations, metrics, largest_body, recorder, errors, app };
    let served = server.run(settings, routes, signals);
    // Before the recorder and the housekeeping, which outlast its commands.
    drop(admin);
    records.finish();
    // No request is left: write what was acknowledged and is not stored yet.
    let lost = housekeeping.finish();
    served?;
    if lost > 0 {
        let text = format!("{lost} acknowledged likes could not be written and are lost");
        return Err(std::io::Error::other(text));
    }
    Ok(())
}
