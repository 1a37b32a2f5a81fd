//! The Valkey or Redis servers that all nodes share: a cache, and a server with persistence for attempts and likes.

use super::kept::{Beside, FIRST_PAUSE, Kept, Means};
use super::plan::{CacheKind, Plan};
use anyhow::Context as _;
use madang_stack::redis::Redis;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bodies that find no room drive out those used least: nothing is lost with one.
const ARGS: [&str; 6] =
    ["--logfile", LOG, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lfu"];
const LOG: &str = "cache.log";
/// Counts attempts and takes likes. What is acknowledged there is on disk.
const KEEPS: [&str; 8] = [
    "--logfile", KEEPS_LOG, "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy",
    "noeviction",
];
const KEEPS_LOG: &str = "counts.log";

/// Servers of a cluster: the fewest that need more than one of the others' word for one that is down.
const CLUSTER: u16 = 3;

/// Addresses of servers, as settings take them.
#[derive(Debug)]
pub struct Urls {
    /// One server, or those of a cluster.
    pub cache: String,
    pub counts: String,
}

/// Starts what the plan asks for, adds it to `kept`, and gives the addresses.
pub fn start(
    plan: &Plan,
    dir: &Path,
    means: &Means,
    kept: &mut Vec<Arc<Kept>>,
) -> anyhow::Result<Option<Urls>> {
    if plan.choices.cache == CacheKind::Off {
        return Ok(None);
    }
    let dir = dir.join("cache");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut urls = Vec::new();
    let mut keep = |name: String, log: PathBuf, server: Redis| {
        urls.push(server.url());
        kept.push(Arc::new(Kept::new(name, log, beside(server))));
    };
    if plan.choices.cache == CacheKind::Cluster {
        let servers = Redis::cluster(&means.supervisor, &dir, CLUSTER, &ARGS)?;
        for (number, server) in (1..).zip(servers) {
            keep(format!("cache-{number}"), dir.join(format!("{number}/{LOG}")), server);
        }
    } else {
        let server = Redis::with(&means.supervisor, &dir, &ARGS)?;
        keep("cache".to_owned(), dir.join(LOG), server);
    }
    let cache = urls.join(",");
    let home = dir.join("counts");
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let server = Redis::with(&means.supervisor, &home, &KEEPS)?;
    let counts = server.url();
    kept.push(Arc::new(Kept::new("counts".to_owned(), home.join(KEEPS_LOG), beside(server))));
    Ok(Some(Urls { cache, counts }))
}

fn beside(server: Redis) -> Beside<Redis> {
    Beside { server, restart: Redis::restart, pause: FIRST_PAUSE }
}
