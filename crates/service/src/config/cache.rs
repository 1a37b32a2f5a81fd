//! Settings of the cache.

use super::keys::settings;
use super::value::{Kind, bytes, kind, lifetime, switch, word};
use madang_valkey::Url;
use serde::Deserialize;
use std::time::Duration;

settings! {
    /// `cache.*`: the cache of finished bodies.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CacheSettings {
        mode: CacheMode = "cache.mode", "local", word("off, remote, local or local+remote"),
            "Place where finished bodies are kept: in this process, in the server of cache.url (documented system: remote), or both; off = every request is computed anew";
        url: Vec<Url> = secret "cache.url", "", servers(),
            "Valkey or Redis (7.0 or newer) that keeps bodies for all nodes; it may lose them at any time";
        capacity: usize = "cache.capacity", "32MiB", bytes(),
            "Cache capacity in bytes, for all cached bodies together";
        max_entry: usize = "cache.max_entry", "4MiB", bytes(),
            "Maximum size of a cached body with all its encodings; a larger one is served but not cached";
        first_pages_only: bool = "cache.first_pages_only", "off", switch(),
            "Caching of only the first page of each listing of posts or articles (documented system: on)";
        /// Times after which bodies are refreshed.
        ttl: Lifetimes;
    }
}

settings! {
    /// `cache.ttl.*`: age at which a cached body is refreshed; zero = not kept. A change invalidates it at once.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Lifetimes {
        tracks: Duration = "cache.ttl.tracks", "10min", lifetime(),
            "Time to live of cached tracks; a change is visible at once regardless";
        lists: Duration = "cache.ttl.lists", "5min", lifetime(),
            "Time to live of cached listings of posts and articles (documented system: 5min)";
        categories: Duration = "cache.ttl.categories", "24h", lifetime(),
            "Time to live of the cached categories of posts (documented system: 24h)";
        posts: Duration = "cache.ttl.posts", "10min", lifetime(),
            "Time to live of cached posts (documented system: 0, as only listings and categories are cached)";
        articles: Duration = "cache.ttl.articles", "10min", lifetime(),
            "Time to live of cached articles and comments; likes are never part of a cached body";
        markets: Duration = "cache.ttl.markets", "1h", lifetime(),
            "Time to live of cached markets and searches; view counts are never part of a cached body";
    }
}

/// Where finished bodies are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    Off,
    /// In a server that all nodes share.
    Remote,
    /// In this process.
    Local,
    /// In this process, then in the server.
    #[serde(rename = "local+remote")]
    LocalRemote,
}

impl CacheMode {
    pub(crate) fn is_remote(self) -> bool {
        matches!(self, Self::Remote | Self::LocalRemote)
    }
}

/// A Valkey or Redis server, or several nodes of a cluster.
pub(super) fn servers() -> Kind<Vec<Url>> {
    let accepts = "redis://[USER:PASSWORD@]HOST:PORT or rediss:// with TLS, several separated by commas for a cluster, or empty";
    kind(accepts, |value| {
        let urls = value.split(',').map(str::trim).filter(|url| !url.is_empty());
        urls.map(|url| Url::parse(url).ok()).collect()
    })
}
