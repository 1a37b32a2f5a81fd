//! Settings: read once at start into typed values. `madang.toml` < environment < flags.
//!
//! Every setting is one row of [`KEYS`]: its name, default, what is accepted and what it means.
//! The same row parses it, prints it in `madang config` and explains it in an error.

mod accounts;
mod cache;
mod cors;
mod home;
mod keys;
mod likes;
mod limits;
mod log;
mod source;
pub mod value;

pub use accounts::{AccountSettings, GuardMode, GuardSettings, HashPoolKind, Rate};
pub use cache::{CacheMode, CacheSettings, Lifetimes};
pub use cors::CorsOrigins;
pub use home::{HomeSettings, OperatorToken};
pub use keys::{KEYS, Key};
pub use likes::{LikeSettings, LikesWrite};
pub use limits::{ClassLimits, LimitSettings};
pub use log::{AccessLog, Endpoint, LogFormat, LogSettings, TraceSettings, filter as log_filter};
pub use source::{ConfigError, Origin, Sources};

use madang_guard::net::Cidr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// All settings, typed. Built by [`Sources::resolve`]; handlers receive values, never the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `unsafe_experiments`: whether values that give up a promise of the service are allowed.
    pub unsafe_experiments: bool,
    /// Directory that holds the store; one process owns it.
    pub data_dir: PathBuf,
    /// Listener, worker threads, limits and deadlines.
    pub server: ServerSettings,
    /// `http.compression`: whether answers are compressed for clients that accept it.
    pub compression: bool,
    /// The embedded store.
    pub database: DatabaseSettings,
    /// The in-process cache.
    pub cache: CacheSettings,
    /// Tracks: default detail, way of simplifying, admission to the cache.
    pub tracks: TrackSettings,
    /// Schedules: their limit, and the way it is enforced.
    pub schedules: ScheduleSettings,
    /// How likes reach the store.
    pub likes: LikeSettings,
    /// `idempotency.keep`: how long the outcome of a create is kept beside its key.
    pub idempotency_keep: Duration,
    /// The log, with its lines for requests.
    pub log: LogSettings,
    /// Spans of requests.
    pub trace: TraceSettings,
    /// Password hashing and tokens.
    pub accounts: AccountSettings,
    /// Limits on log-in attempts and sign-ups.
    pub guard: GuardSettings,
    /// Limits on the rate of other requests.
    pub limits: LimitSettings,
    /// The home page.
    pub home: HomeSettings,
}

impl Settings {
    /// A key whose value needs another key, that key, and why.
    fn missing(&self) -> Option<(&'static str, &'static str, &'static str)> {
        let is_remote = self.cache.mode.is_remote();
        if is_remote && self.cache.url.is_empty() {
            return Some(("cache.mode", "cache.url", "the server that keeps the bodies"));
        }
        let has_server = !self.likes.url.is_empty();
        if self.likes.write == LikesWrite::Stream && !has_server {
            return Some(("likes.write", "likes.url", "the server that keeps the stream"));
        }
        if self.database.url.is_none() {
            let why = "without one, likes.write = behind does the same on this machine";
            match self.likes.write {
                LikesWrite::Stream => return Some(("likes.write", "database.url", why)),
                LikesWrite::Queue if has_server => return Some(("likes.url", "database.url", why)),
                _ => {}
            }
        }
        let positions = "a body says up to which writes it is new, and only that store counts them";
        (is_remote && self.database.url.is_none())
            .then_some(("cache.mode", "database.url", positions))
    }

    /// Keys whose values are allowed only with `unsafe_experiments`, and what each gives up.
    fn unsafe_values(&self) -> Vec<(&'static str, &'static str)> {
        let mut found = self.accounts.unsafe_values();
        found.extend(self.likes.unsafe_values());
        found
    }
}

/// `server.*`: the listener and its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    /// Address of the API.
    pub listen: SocketAddr,
    /// Address of `/metrics`, apart from the API so that it answers under load and is not public.
    pub metrics_listen: SocketAddr,
    /// Worker threads, each with an event loop of its own; `None` = one per core.
    pub workers: Option<usize>,
    /// Open client connections; one more takes the place of one that waits, or is answered 503.
    pub max_connections: usize,
    /// Open connections of one address; `None` = a quarter of `max_connections`.
    pub max_connections_per_address: Option<usize>,
    /// Reads that are not in the cache and may be worked on at once; `None` = 64 per core.
    pub max_in_flight: Option<usize>,
    /// Writes that may be worked on at once; `None` = two commit groups.
    pub max_writes_in_flight: Option<usize>,
    /// How long either may wait for a turn while more comes than can be done.
    pub queue_time: Duration,
    /// Bytes that large answers may take together while they are made and sent.
    pub answer_memory: usize,
    /// Origins whose pages may use the API from a browser.
    pub cors_origins: CorsOrigins,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Cidr>,
    /// Largest body of a route that takes large ones, in bytes; a larger one is answered 413.
    pub max_body: usize,
    /// Time for a request's head, from its first byte; for a connection's first, from its opening.
    pub header_timeout: Duration,
    /// Time for a request's body.
    pub body_timeout: Duration,
    /// Time in which a client must take 128 KiB of what waits for it.
    pub write_timeout: Duration,
    /// Time a keep-alive connection may wait for its next request.
    pub idle_timeout: Duration,
    /// Time for a handler; then 503, or 504 if it may have written something.
    pub request_timeout: Duration,
    /// After SIGTERM: time during which connections are still accepted, for proxies that lag behind.
    pub drain_delay: Duration,
    /// After that: time for requests in flight.
    pub drain_timeout: Duration,
}

/// `cluster.*`: nodes that share a store.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSettings {
    /// Time between the commit of a write and its answer.
    pub delay: Duration,
    /// Time between two looks for what others have written.
    pub poll: Duration,
    /// Time that a request waits for such a look.
    pub wait: Duration,
}

/// `database.*`: the store.
#[derive(Clone, PartialEq)]
pub struct DatabaseSettings {
    /// A server that holds the data; `None` = a file in the data directory.
    pub url: Option<String>,
    /// Servers that follow it and answer reads.
    pub replicas: Vec<String>,
    /// How nodes keep in step that share it.
    pub cluster: ClusterSettings,
    /// Reading connections; `None` = fitted to the store (one per core, at least 2).
    pub max_connections: Option<usize>,
    /// Most writes that share one commit; 1 = a commit for each write.
    pub commit_group: usize,
    /// Jobs that may wait for the writer, and for the readers; one more is answered 503.
    pub queue: usize,
    /// Size in bytes of the write-ahead log at which everything pauses until it is in the database.
    pub log_limit: usize,
}

impl std::fmt::Debug for DatabaseSettings {
    /// Without the URL: it holds a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseSettings").finish_non_exhaustive()
    }
}

/// `tracks.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackSettings {
    /// Detail of an answer when the request names none.
    pub detail: Detail,
    /// How paths are simplified.
    pub simplify: Simplify,
    /// Only tracks of at least this length are cached; 0 = all.
    pub cache_from_metres: f64,
}

/// Fixed levels of detail. There is no free tolerance: every value would be a cache key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detail {
    /// Every point.
    Full,
    /// Within 2 m.
    High,
    /// Within 10 m.
    Medium,
    /// Within 50 m.
    Low,
}

impl Detail {
    /// The level of this name, as in `?detail=`.
    pub fn parse(text: &str) -> Option<Detail> {
        match text {
            "full" => Some(Detail::Full),
            "high" => Some(Detail::High),
            "medium" => Some(Detail::Medium),
            "low" => Some(Detail::Low),
            _ => None,
        }
    }

    /// The name, as in `?detail=`.
    pub fn name(self) -> &'static str {
        match self {
            Detail::Full => "full",
            Detail::High => "high",
            Detail::Medium => "medium",
            Detail::Low => "low",
        }
    }

    /// Largest distance in metres of a left-out point from the line that is returned.
    pub fn tolerance_metres(self) -> f64 {
        match self {
            Detail::Full => 0.0,
            Detail::High => 2.0,
            Detail::Medium => 10.0,
            Detail::Low => 50.0,
        }
    }
}

/// How a path is simplified for a level below `full`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Simplify {
    /// In metres on the sphere, the level's own tolerance.
    Metres,
    /// As documented by the system this reproduces: one tolerance in degrees for every level below `full`.
    Degrees(f64),
}

/// `schedules.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleSettings {
    /// Schedules a user may have; `None` = any number.
    pub limit: Option<u32>,
    /// How the limit is enforced.
    pub limit_check: LimitCheck,
}

/// How the limit on schedules is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitCheck {
    /// Fetch all rows, then insert in a second transaction, as documented. Races.
    LoadAll,
    /// Count the rows, then insert in a second transaction, as documented. Races.
    Count,
    /// Count in the statement that inserts, as documented.
    InsertSelect,
    /// Lock, count, insert in one transaction.
    RowLock,
    /// Conditional update of a count in the transaction of the insert.
    Counter,
}
