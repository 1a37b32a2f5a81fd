//! Settings of the cache.

use super::keys::{Key, choice, key, switch};
use super::value::{duration, size};
use madang_valkey::Url;
use std::time::Duration;

/// `cache.*`: the cache of finished bodies.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSettings {
    /// In which tiers.
    pub mode: CacheMode,
    /// The shared tier: one server, or nodes of a cluster.
    pub url: Vec<Url>,
    /// Bytes that all cached bodies may take together.
    pub capacity: usize,
    /// Largest cached body, all its encodings together.
    pub max_entry: usize,
    /// Whether only the first page of a listing is kept.
    pub first_pages_only: bool,
    /// Times after which bodies are refreshed.
    pub ttl: Lifetimes,
}

/// `cache.ttl.*`: the age at which a cached body is refreshed; zero = such bodies are not kept. A change
/// ends it at once whatever they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Tracks, their lists and rankings.
    pub tracks: Duration,
    /// Listings of posts and of articles.
    pub lists: Duration,
    /// Categories of posts.
    pub categories: Duration,
    /// Posts.
    pub posts: Duration,
    /// Articles, and their comments.
    pub articles: Duration,
    /// Markets, and what is found of them.
    pub markets: Duration,
}

/// Where finished bodies are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// Nowhere: every request does all the work.
    Off,
    /// In a server that all nodes share.
    Remote,
    /// In this process.
    Local,
    /// In both: what this process does not have, it looks for in the server.
    LocalRemote,
}

impl CacheMode {
    /// Whether there is a shared tier.
    pub fn is_remote(self) -> bool {
        matches!(self, Self::Remote | Self::LocalRemote)
    }
}

impl CacheSettings {
    pub(super) fn blank() -> Self {
        let zero = Duration::ZERO;
        Self {
            mode: CacheMode::Off,
            url: Vec::new(),
            capacity: 0,
            max_entry: 0,
            first_pages_only: false,
            ttl: Lifetimes {
                tracks: zero,
                lists: zero,
                categories: zero,
                posts: zero,
                articles: zero,
                markets: zero,
            },
        }
    }
}

const MODES: &[(&str, CacheMode)] = &[
    ("off", CacheMode::Off),
    ("remote", CacheMode::Remote),
    ("local", CacheMode::Local),
    ("local+remote", CacheMode::LocalRemote),
];

/// What keys with Valkey or Redis servers accept.
pub(super) const SERVERS: &str = "redis://[USER:PASSWORD@]HOST:PORT or rediss:// with TLS, several separated by commas for a cluster, or empty";

pub(super) fn servers(value: &str) -> Result<Vec<Url>, String> {
    let urls = value.split(',').map(str::trim).filter(|url| !url.is_empty());
    urls.map(Url::parse).collect()
}

pub(super) const KEYS: &[Key] = &[
    key!(
        "cache.mode" = "local",
        "off, remote, local or local+remote",
        "Place where finished bodies are kept: in this process, in the server of cache.url (documented system: remote), or both; off = every request is computed anew",
        |s, v| s.cache.mode = choice(v, MODES)?
    ),
    Key {
        // It may hold a password.
        secret: true,
        ..key!(
            "cache.url" = "",
            SERVERS,
            "Valkey or Redis (7.0 or newer) that keeps bodies for all nodes; it may lose them at any time",
            |s, v| s.cache.url = servers(v)?
        )
    },
    key!(
        "cache.capacity" = "32MiB",
        "a size: 8MiB, 1GiB",
        "Cache capacity in bytes, for all cached bodies together",
        |s, v| s.cache.capacity = size(v)?
    ),
    key!(
        "cache.max_entry" = "4MiB",
        "a size: 512KiB, 4MiB",
        "Maximum size of a cached body with all its encodings; a larger one is served but not cached",
        |s, v| s.cache.max_entry = size(v)?
    ),
    key!(
        "cache.first_pages_only" = "off",
        "on or off",
        "Caching of only the first page of each listing of posts or articles (documented system: on)",
        |s, v| s.cache.first_pages_only = switch(v)?
    ),
    key!(
        "cache.ttl.tracks" = "10min",
        "a duration: 30s, 10min; 0 = not kept",
        "Time to live of cached tracks; a change is visible at once regardless",
        |s, v| s.cache.ttl.tracks = duration(v)?
    ),
    key!(
        "cache.ttl.lists" = "5min",
        "a duration: 30s, 10min; 0 = not kept",
        "Time to live of cached listings of posts and articles (documented system: 5min)",
        |s, v| s.cache.ttl.lists = duration(v)?
    ),
    key!(
        "cache.ttl.categories" = "24h",
        "a duration: 30s, 24h; 0 = not kept",
        "Time to live of the cached categories of posts (documented system: 24h)",
        |s, v| s.cache.ttl.categories = duration(v)?
    ),
    key!(
        "cache.ttl.posts" = "10min",
        "a duration: 30s, 10min; 0 = not kept",
        "Time to live of cached posts (documented system: 0, as only listings and categories are cached)",
        |s, v| s.cache.ttl.posts = duration(v)?
    ),
    key!(
        "cache.ttl.articles" = "10min",
        "a duration: 30s, 10min; 0 = not kept",
        "Time to live of cached articles and comments; likes are never part of a cached body",
        |s, v| s.cache.ttl.articles = duration(v)?
    ),
    key!(
        "cache.ttl.markets" = "1h",
        "a duration: 30s, 10min; 0 = not kept",
        "Time to live of cached markets and searches; view counts are never part of a cached body",
        |s, v| s.cache.ttl.markets = duration(v)?
    ),
];
