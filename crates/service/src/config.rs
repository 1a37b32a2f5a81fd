//! Settings, read once at start into typed values: `madang.toml` < environment < flags. Each setting is one row of
//! [`KEYS`] (docs/decisions/0002-settings-table.md).

mod accounts;
mod cache;
mod cors;
mod database;
mod home;
mod keys;
mod likes;
mod limits;
mod log;
mod schedules;
mod server;
mod source;
mod tracks;
pub(crate) mod value;

pub(crate) use accounts::{AccountSettings, GuardMode, GuardSettings, HashPoolKind};
pub(crate) use cache::{CacheMode, CacheSettings};
pub(crate) use cors::CorsOrigins;
pub(crate) use database::DatabaseSettings;
pub(crate) use home::{HomeSettings, OperatorToken};
pub use keys::{KEYS, Key};
pub(crate) use likes::{LikeSettings, LikesWrite};
pub(crate) use limits::LimitSettings;
pub use limits::Quota;
pub(crate) use log::{AccessLog, Endpoint, TraceSettings};
pub use log::{LogFormat, LogSettings, filter as log_filter};
pub(crate) use madang_guard::rate::Rate;
pub(crate) use schedules::{LimitCheck, ScheduleSettings};
pub(crate) use server::ServerSettings;
pub use source::{ConfigError, Origin, Sources};
pub(crate) use tracks::{Detail, Simplify, TrackSettings};

use keys::settings;
use std::path::PathBuf;
use std::time::Duration;
use value::{directory, kind, switch, time};

settings! {
    /// All settings, made by [`Sources::resolve`].
    #[derive(Clone, Debug, PartialEq)]
    pub struct Settings {
        unsafe_experiments: bool = "unsafe_experiments", "off", switch(),
            "Permission to use values marked unsafe, which give up a guarantee so that its cost can be measured";
        data_dir: PathBuf = "data.dir", "madang-data", kind("a directory", directory),
            "Directory of the store; created if missing; only one process at a time can use it";
        compression: bool = "http.compression", "on", switch(),
            "Compression for clients that accept it (gzip, br, zstd); a cached body is compressed once";
        idempotency_keep: Duration = "idempotency.keep", "24h", time(),
            "Time during which a create repeated with its Idempotency-Key creates nothing new";
        /// Listener, workers, limits and deadlines.
        server: ServerSettings;
        /// The store.
        database: DatabaseSettings;
        /// Tracks: default detail, simplification, caching.
        tracks: TrackSettings;
        /// Schedules: their limit and its enforcement.
        schedules: ScheduleSettings;
        /// The log and the access log.
        log: LogSettings;
        /// Spans of requests for a collector.
        trace: TraceSettings;
        /// The response cache.
        cache: CacheSettings;
        /// Storing of likes.
        likes: LikeSettings;
        /// Password hashing and tokens.
        accounts: AccountSettings;
        /// Limits on log-in attempts and sign-ups.
        guard: GuardSettings;
        /// Rate limits and quotas.
        limits: LimitSettings;
        /// The home page.
        home: HomeSettings;
    }
}

impl Settings {
    /// A key whose value needs another key, that key, and the reason.
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
        let cluster = &self.database.cluster;
        let has_others = self.database.url.is_some() && !cluster.delay.is_zero();
        if has_others && cluster.poll * 3 >= cluster.delay * 2 {
            let why =
                "of more than one and a half times as long, or requests wait for the next query";
            return Some(("cluster.poll", "cluster.delay", why));
        }
        let positions = "a body says up to which writes it is new, and only that store counts them";
        (is_remote && self.database.url.is_none())
            .then_some(("cache.mode", "database.url", positions))
    }

    /// A key whose value needs `unsafe_experiments`, and the guarantee it gives up.
    fn unsafe_value(&self) -> Option<(&'static str, &'static str)> {
        let (accounts, likes) = (&self.accounts, self.likes.write);
        let unsafe_if = [
            (
                accounts.hash.is_unsafe(),
                "accounts.hash",
                "stolen hashes can be guessed far faster than at OWASP's minimum",
            ),
            (
                accounts.hash_pool == HashPoolKind::Unbounded,
                "accounts.hash_pool",
                "a flood of sign-ups takes all memory and CPU",
            ),
            (
                likes == LikesWrite::Queue,
                "likes.write",
                "a crash loses the likes acknowledged within the last likes.queue_flush",
            ),
            (likes == LikesWrite::Discard, "likes.write", "likes are acknowledged and not stored"),
        ];
        unsafe_if.into_iter().find(|one| one.0).map(|(_, key, gives_up)| (key, gives_up))
    }
}
