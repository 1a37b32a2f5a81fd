//! Valkey or Redis servers shared by all nodes: a cache, and a server with persistence for attempts and likes.

use super::managed::{Context, External, FIRST_PAUSE, Managed};
use super::plan::CacheKind;
use madang_stack::redis::Redis;
use std::path::PathBuf;
use std::sync::Arc;

/// Evicts the least used bodies, which can be made again.
const ARGS: [&str; 6] =
    ["--logfile", LOG, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lfu"];
const LOG: &str = "cache.log";
/// For counts of attempts, and likes. Acknowledged writes are on disk.
const PERSISTENT_ARGS: [&str; 8] = [
    "--logfile", PERSISTENT_LOG, "--appendonly", "yes", "--appendfsync", "always",
    "--maxmemory-policy", "noeviction",
];
const PERSISTENT_LOG: &str = "counts.log";

/// Number of servers of a cluster: the fewest of which a majority remains when one is down.
const CLUSTER: u16 = 3;

/// Addresses in the form of settings.
#[derive(Debug)]
pub(crate) struct Urls {
    /// One server, or the servers of a cluster.
    pub cache: String,
    pub counts: String,
}

/// Starts the servers of the plan, adds them to `managed`, and returns their addresses.
pub(crate) fn start(
    context: &Context,
    managed: &mut Vec<Arc<Managed>>,
) -> anyhow::Result<Option<Urls>> {
    let kind = context.plan.choices.cache;
    if kind == CacheKind::Off {
        return Ok(None);
    }
    let dir = context.create_dir("cache", false)?;
    let mut urls = Vec::new();
    let mut keep = |name: String, log: PathBuf, server: Redis| {
        urls.push(server.url());
        managed.push(Managed::new(name, log, external(server)));
    };
    if kind == CacheKind::Cluster {
        let servers = Redis::cluster(&context.supervisor, &dir, CLUSTER, &ARGS)?;
        for (number, server) in (1..).zip(servers) {
            keep(format!("cache-{number}"), dir.join(format!("{number}/{LOG}")), server);
        }
    } else {
        let server = Redis::with(&context.supervisor, &dir, &ARGS)?;
        keep("cache".to_owned(), dir.join(LOG), server);
    }
    let cache = urls.join(",");
    let home = context.create_dir("cache/counts", false)?;
    let server = Redis::with(&context.supervisor, &home, &PERSISTENT_ARGS)?;
    let counts = server.url();
    let log = home.join(PERSISTENT_LOG);
    managed.push(Managed::new("counts".to_owned(), log, external(server)));
    Ok(Some(Urls { cache, counts }))
}

fn external(server: Redis) -> External<Redis> {
    External { server, restart: Redis::restart, pause: FIRST_PAUSE }
}
