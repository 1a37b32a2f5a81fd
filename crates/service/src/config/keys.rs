//! The table of settings: one row a key. Rows of systems with many of them are in files of their own.

use super::accounts::{AccountSettings, GuardSettings};
use super::cache::CacheSettings;
use super::home::HomeSettings;
use super::likes::LikeSettings;
use super::log::{LogSettings, TraceSettings};
use super::value::{duration, ranges, size, whole};
use super::{
    ClusterSettings, CorsOrigins, DatabaseSettings, Detail, LimitCheck, ScheduleSettings,
    ServerSettings, Settings, Simplify, TrackSettings, accounts, cache, cors, home, likes, log,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Dotted name, as in `madang.toml` and `--set`.
    pub name: &'static str,
    /// Default, in the form a person would write.
    pub default: &'static str,
    /// What is accepted, with units.
    pub accepts: &'static str,
    /// What it means, and what the unset or zero value does.
    pub meaning: &'static str,
    /// Whether the value is never printed, neither by `madang config` nor in an error.
    pub secret: bool,
    /// Parses and stores a value; an error says nothing more than `accepts` does.
    pub(super) apply: fn(&mut Settings, &str) -> Result<(), String>,
}

impl Key {
    /// The environment variable of this key: `tracks.detail` is `MADANG_TRACKS_DETAIL`.
    pub fn variable(&self) -> String {
        format!("MADANG_{}", self.name.to_uppercase().replace('.', "_"))
    }

    /// The key of this name.
    pub fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }
}

macro_rules! key {
    ($name:literal = $default:literal, $accepts:expr, $meaning:literal, |$s:ident, $v:ident| $apply:expr) => {
        Key {
            name: $name,
            default: $default,
            accepts: $accepts,
            meaning: $meaning,
            secret: false,
            apply: |$s, $v| {
                $apply;
                Ok(())
            },
        }
    };
}
pub(super) use key;

/// Every setting there is, in the order of `madang config`.
pub static KEYS: &[Key] = &ALL;

/// The rows of every file.
const PARTS: &[&[Key]] =
    &[GENERAL, log::KEYS, cache::KEYS, likes::KEYS, accounts::KEYS, home::KEYS];

static ALL: [Key; count(PARTS)] = joined(PARTS);

const fn count(parts: &[&[Key]]) -> usize {
    let (mut rows, mut part) = (0, 0);
    while part < parts.len() {
        rows += parts[part].len();
        part += 1;
    }
    rows
}

const fn joined<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut row, mut at) = (0, 0, 0);
    while at < N {
        if row == parts[part].len() {
            (part, row) = (part + 1, 0);
            continue;
        }
        all[at] = parts[part][row];
        (row, at) = (row + 1, at + 1);
    }
    all
}

const GENERAL: &[Key] = &[
    key!(
        "unsafe_experiments" = "false",
        "true or false",
        "Permission to use values marked unsafe, which give up a guarantee so that its cost can be measured",
        |s, v| s.unsafe_experiments = switch(v)?
    ),
    key!(
        "data.dir" = "madang-data",
        "a directory",
        "Directory of the store; created if missing; only one process at a time can use it",
        |s, v| s.data_dir = text(v)?.into()
    ),
    key!(
        "server.listen" = "127.0.0.1:8080",
        "ADDRESS:PORT, port 0 = any free one",
        "Address of the API",
        |s, v| s.server.listen = address(v)?
    ),
    key!(
        "server.metrics_listen" = "127.0.0.1:0",
        "ADDRESS:PORT, port 0 = any free one",
        "Address of /metrics; separate from the API, so that it answers under load and stays private",
        |s, v| s.server.metrics_listen = address(v)?
    ),
    key!(
        "server.workers" = "auto",
        "auto or 1 to 256",
        "Number of worker threads, each with its own event loop; auto = one per core",
        |s, v| s.server.workers = auto(v, 256)?
    ),
    key!(
        "server.max_connections" = "10000",
        "1 to 1000000",
        "Maximum number of open client connections; at the limit, the longest-waiting idle connection is closed for a new one, and if none is idle, the new one is answered 503",
        |s, v| s.server.max_connections = whole(v, 1, 1_000_000)?
    ),
    key!(
        "server.max_connections_per_address" = "auto",
        "auto or 1 to 1000000",
        "Maximum number of open connections from one address (IPv6: one /64); further ones are answered 503; auto = a quarter of server.max_connections; addresses in server.trusted_proxies or guard.exempt have no such limit",
        |s, v| s.server.max_connections_per_address = auto(v, 1_000_000)?
    ),
    key!(
        "server.max_in_flight" = "auto",
        "auto or 1 to 100000",
        "Maximum number of uncached reads in progress; further ones wait in a queue; auto = 64 per core",
        |s, v| s.server.max_in_flight = auto(v, 100_000)?
    ),
    key!(
        "server.max_writes_in_flight" = "auto",
        "auto or 1 to 100000",
        "Maximum number of writes in progress; further ones wait in a queue; auto = two commit groups, one being committed and one filling",
        |s, v| s.server.max_writes_in_flight = auto(v, 100_000)?
    ),
    key!(
        "server.queue_time" = "100ms",
        "a duration: 20ms, 100ms, at most 400ms",
        "Maximum time in those queues during sustained overload, then 503; a short burst may wait ten times as long",
        |s, v| s.server.queue_time = queue_time(v)?
    ),
    key!(
        "server.answer_memory" = "128MiB",
        "a size: 64MiB, 1GiB",
        "Maximum memory of answers above 16 KiB while they are made and sent, a buffer shared by many clients counted once; then 503; one address may hold a quarter of it, except addresses in server.trusted_proxies or guard.exempt",
        |s, v| s.server.answer_memory = size(v)?
    ),
    key!(
        "server.cors_origins" = "",
        "origins, separated by commas: https://app.example.com, http://localhost:5173; * = all; empty = none",
        "Origins whose pages may call the API from a browser (CORS)",
        |s, v| s.server.cors_origins = cors::origins(v)?
    ),
    key!(
        "server.trusted_proxies" = "",
        "addresses or ranges, separated by commas: 127.0.0.1, 10.0.0.0/8, fd00::/8; empty = none",
        "Proxies whose X-Forwarded-For header is used; the header is ignored from any other peer",
        |s, v| s.server.trusted_proxies = ranges(v)?
    ),
    key!(
        "server.max_body" = "1MiB",
        "a size: 512KiB, 1MiB",
        "Maximum size of a track upload; a larger one is answered 413; other request bodies are limited to 64 KiB, with a valid token to 256 KiB",
        |s, v| s.server.max_body = size(v)?
    ),
    key!(
        "server.header_timeout" = "10s",
        "a duration: 250ms, 5s",
        "Maximum time to receive a request head, from its first byte, or for the first request from the opening of the connection; then the connection is closed",
        |s, v| s.server.header_timeout = positive(v)?
    ),
    key!(
        "server.body_timeout" = "10s",
        "a duration: 250ms, 5s",
        "Maximum time to receive a request body; then 408",
        |s, v| s.server.body_timeout = positive(v)?
    ),
    key!(
        "server.write_timeout" = "15s",
        "a duration: 250ms, 5s",
        "Time in which a client must read at least 128 KiB of the answers that wait for it; a slower connection is closed",
        |s, v| s.server.write_timeout = positive(v)?
    ),
    key!(
        "server.idle_timeout" = "75s",
        "a duration: 5s, 2min",
        "Maximum time between two requests on a connection; a proxy's keep-alive timeout must be shorter",
        |s, v| s.server.idle_timeout = positive(v)?
    ),
    key!(
        "server.request_timeout" = "10s",
        "a duration: 250ms, 5s",
        "Maximum time to handle a request; then 503, or 504 if it may have written something",
        |s, v| s.server.request_timeout = positive(v)?
    ),
    key!(
        "server.drain_delay" = "0",
        "a duration: 0, 5s",
        "Time after SIGTERM during which connections are still accepted (behind a load balancer: 5s)",
        |s, v| s.server.drain_delay = duration(v)?
    ),
    key!(
        "server.drain_timeout" = "30s",
        "a duration: 5s, 30s",
        "Maximum time after that for requests in flight to finish",
        |s, v| s.server.drain_timeout = duration(v)?
    ),
    key!(
        "http.compression" = "on",
        "on or off",
        "Compression for clients that accept it (gzip, br, zstd); a cached body is compressed once",
        |s, v| s.compression = switch(v)?
    ),
    Key {
        // It holds a password.
        secret: true,
        ..key!(
            "database.url" = "",
            "mysql://USER:PASSWORD@HOST:PORT/DATABASE, several separated by commas for a Galera cluster, or empty",
            "MariaDB database that holds the data, for several nodes; of a cluster the first server that can be used; empty = a file in the data directory",
            |s, v| s.database.url = database_url(v)?
        )
    },
    Key {
        secret: true,
        ..key!(
            "database.replicas" = "",
            "URLs as database.url, separated by commas, or empty",
            "Replicas of database.url, for reads; one that is behind what a read needs, slow or away is passed over",
            |s, v| s.database.replicas = replica_urls(v)?
        )
    },
    key!(
        "database.max_connections" = "auto",
        "auto or 1 to 256",
        "Number of read connections to the store (file: auto = one per core, at least 2), or of all connections to MariaDB (auto = 48)",
        |s, v| s.database.max_connections = auto(v, 256)?
    ),
    key!(
        "database.commit_group" = "256",
        "1 to 10000",
        "Maximum number of writes that share one commit; 1 = a commit for each write",
        |s, v| s.database.commit_group = whole(v, 1, 10_000)?
    ),
    key!(
        "database.queue" = "4096",
        "1 to 1000000",
        "Maximum number of jobs waiting for the store; further ones are answered 503",
        |s, v| s.database.queue = whole(v, 1, 1_000_000)?
    ),
    key!(
        "database.log_limit" = "64MiB",
        "a size: 16MiB, 1GiB; at least 64KiB",
        "Size of the write-ahead log at which reads and writes pause until it is copied into the database",
        |s, v| s.database.log_limit =
            size(v).ok().filter(|bytes| *bytes >= 64 << 10).ok_or_else(String::new)?
    ),
    key!(
        "cluster.delay" = "25ms",
        "a duration: 0, 25ms, 40ms; at most 1s",
        "Time between the commit of a write and its answer when database.url is set, the same on all nodes; 0 = no wait, but every request waits for a query of its own (for machines that are suspended or migrated live)",
        |s, v| s.database.cluster.delay = duration(v)
            .ok()
            .filter(|delay| *delay <= Duration::from_secs(1))
            .ok_or_else(String::new)?
    ),
    key!(
        "cluster.poll" = "8ms",
        "a duration: 8ms, 16ms",
        "Time between two queries for what other nodes have written, while requests come; must be shorter than two thirds of cluster.delay",
        |s, v| s.database.cluster.poll = positive(v)?
    ),
    key!(
        "cluster.wait" = "1s",
        "a duration: 250ms, 1s",
        "Maximum time that a request waits for such a query; then 503",
        |s, v| s.database.cluster.wait = positive(v)?
    ),
    key!(
        "tracks.detail" = "medium",
        "full, high, medium or low",
        "Detail of a track if the request names none (documented system: full)",
        |s, v| s.tracks.detail = Detail::parse(v).ok_or_else(String::new)?
    ),
    key!(
        "tracks.simplify" = "metres",
        "metres, or degrees:TOLERANCE",
        "Unit in which paths are simplified (documented system: degrees:0.0005)",
        |s, v| s.tracks.simplify = simplify(v)?
    ),
    key!(
        "tracks.cache_from_metres" = "0",
        "a length in metres",
        "Minimum length of a cached track; 0 = all are cached (documented system: 10000)",
        |s, v| s.tracks.cache_from_metres = metres(v)?
    ),
    key!(
        "schedules.limit" = "30",
        "off or 1 to 1000000",
        "Maximum number of schedules of a user; further ones are answered 409; off = no limit",
        |s, v| s.schedules.limit = limit(v)?
    ),
    key!(
        "schedules.limit_check" = "counter",
        "load-all, count, insert-select, row-lock or counter",
        "Method of enforcing that limit (documented system: load-all, count or insert-select; the first two let parallel requests exceed it)",
        |s, v| s.schedules.limit_check = limit_check(v)?
    ),
    key!(
        "idempotency.keep" = "24h",
        "a duration: 10min, 24h",
        "Time during which a create repeated with its Idempotency-Key creates nothing new",
        |s, v| s.idempotency_keep = positive(v)?
    ),
];

/// A settings value before any source is applied; every field is overwritten by the defaults of [`KEYS`].
pub(super) fn blank() -> Settings {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let zero = Duration::ZERO;
    Settings {
        unsafe_experiments: false,
        data_dir: std::path::PathBuf::new(),
        server: ServerSettings {
            listen: any,
            metrics_listen: any,
            workers: None,
            max_connections: 0,
            max_connections_per_address: None,
            max_in_flight: None,
            max_writes_in_flight: None,
            queue_time: zero,
            answer_memory: 0,
            cors_origins: CorsOrigins::None,
            trusted_proxies: Vec::new(),
            max_body: 0,
            header_timeout: zero,
            body_timeout: zero,
            write_timeout: zero,
            idle_timeout: zero,
            request_timeout: zero,
            drain_delay: zero,
            drain_timeout: zero,
        },
        compression: false,
        database: DatabaseSettings {
            max_connections: None,
            commit_group: 0,
            queue: 0,
            url: None,
            replicas: Vec::new(),
            cluster: ClusterSettings { delay: zero, poll: zero, wait: zero },
            log_limit: 0,
        },
        cache: CacheSettings::blank(),
        likes: LikeSettings::blank(),
        tracks: TrackSettings {
            detail: Detail::Full,
            simplify: Simplify::Metres,
            cache_from_metres: 0.0,
        },
        schedules: ScheduleSettings { limit: None, limit_check: LimitCheck::Counter },
        idempotency_keep: zero,
        log: LogSettings::blank(),
        trace: TraceSettings::default(),
        accounts: AccountSettings::blank(),
        guard: GuardSettings::blank(),
        home: HomeSettings::default(),
    }
}

fn text(value: &str) -> Result<String, String> {
    if value.trim().is_empty() { Err(String::new()) } else { Ok(value.to_owned()) }
}

fn address(value: &str) -> Result<SocketAddr, String> {
    value.parse().map_err(|_| String::new())
}

pub(super) fn auto(value: &str, most: usize) -> Result<Option<usize>, String> {
    if value == "auto" { Ok(None) } else { whole(value, 1, most).map(Some) }
}

fn limit(value: &str) -> Result<Option<u32>, String> {
    if value == "off" {
        return Ok(None);
    }
    let most = whole(value, 1, 1_000_000)?;
    u32::try_from(most).map(Some).map_err(|_| String::new())
}

/// Whether it can be reached is for the start to find out.
fn database_url(value: &str) -> Result<Option<String>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    let is_url =
        |url: &str| url.trim().strip_prefix("mysql://").is_some_and(|rest| rest.contains('/'));
    if value.split(',').all(is_url) { Ok(Some(value.to_owned())) } else { Err(String::new()) }
}

fn replica_urls(value: &str) -> Result<Vec<String>, String> {
    let urls = value.split(',').map(str::trim).filter(|url| !url.is_empty());
    urls.map(|url| database_url(url)?.ok_or_else(String::new)).collect()
}

fn limit_check(value: &str) -> Result<LimitCheck, String> {
    choice(
        value,
        &[
            ("load-all", LimitCheck::LoadAll),
            ("count", LimitCheck::Count),
            ("insert-select", LimitCheck::InsertSelect),
            ("row-lock", LimitCheck::RowLock),
            ("counter", LimitCheck::Counter),
        ],
    )
}

pub(super) fn positive(value: &str) -> Result<Duration, String> {
    match duration(value)? {
        Duration::ZERO => Err(String::new()),
        duration => Ok(duration),
    }
}

/// A load for the cache waits within its own timeout of 5 s: even a burst must leave it time for its work.
fn queue_time(value: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_millis(400);
    positive(value).and_then(|time| if time <= LONGEST { Ok(time) } else { Err(String::new()) })
}

pub(super) fn switch(value: &str) -> Result<bool, String> {
    choice(value, &[("on", true), ("off", false), ("true", true), ("false", false)])
}

pub(super) fn choice<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices.iter().find(|(name, _)| *name == value).map(|(_, v)| *v).ok_or_else(String::new)
}

fn simplify(value: &str) -> Result<Simplify, String> {
    if value == "metres" {
        return Ok(Simplify::Metres);
    }
    match value.strip_prefix("degrees:").and_then(|t| t.parse::<f64>().ok()) {
        Some(t) if t > 0.0 && t <= 1.0 => Ok(Simplify::Degrees(t)),
        _ => Err(String::new()),
    }
}

fn metres(value: &str) -> Result<f64, String> {
    match value.parse::<f64>() {
        Ok(m) if m.is_finite() && m >= 0.0 => Ok(m),
        _ => Err(String::new()),
    }
}
