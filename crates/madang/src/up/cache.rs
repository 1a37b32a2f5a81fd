//! The cache that all nodes share.

use super::kept::{Kept, Means, Part};
use super::plan::{CacheKind, Plan};
use anyhow::Context as _;
use madang_stack::redis::Redis;
use madang_stack::{Error, Exit};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bodies that find no room drive out those used least: nothing is lost with one.
const ARGS: [&str; 6] =
    ["--logfile", LOG, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lfu"];
const LOG: &str = "cache.log";

/// Servers of a cluster: the fewest that need more than one of the others' word for one that is down.
const CLUSTER: u16 = 3;

/// Starts what the plan asks for, adds it to `kept`, and gives its address, or those of a cluster.
pub fn start(
    plan: &Plan,
    dir: &Path,
    means: &Means,
    kept: &mut Vec<Arc<Kept>>,
) -> anyhow::Result<Option<String>> {
    if plan.cache == CacheKind::Off {
        return Ok(None);
    }
    let dir = dir.join("cache");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut urls = Vec::new();
    let mut keep = |name: String, log: PathBuf, server: Redis| {
        urls.push(server.url());
        kept.push(Arc::new(Kept::new(name, log, server)));
    };
    if plan.cache == CacheKind::Cluster {
        let servers = Redis::cluster(&means.supervisor, &dir, CLUSTER, &ARGS)?;
        for (number, server) in (1..).zip(servers) {
            keep(format!("cache-{number}"), dir.join(format!("{number}/{LOG}")), server);
        }
    } else {
        let server = Redis::with(&means.supervisor, &dir, &ARGS)?;
        keep("cache".to_owned(), dir.join(LOG), server);
    }
    Ok(Some(urls.join(",")))
}

impl Part for Redis {
    fn pid(&self) -> Option<u32> {
        Some((**self).pid())
    }

    fn exit(&self) -> Option<Exit> {
        (**self).exit()
    }

    fn restart(&mut self, means: &Means) -> Result<(), Error> {
        Redis::restart(self, &means.supervisor)
    }

    fn stop(&mut self, means: &Means) -> Result<(), Error> {
        let hurries = || means.stopping.hurries();
        self.stop_within(super::patience(&hurries)).map(drop)
    }
}
