//! The cache that all nodes share.

use super::kept::{Kept, Means, Part};
use super::plan::{CacheKind, Plan};
use anyhow::Context as _;
use madang_stack::redis::Redis;
use madang_stack::{Error, Exit};
use std::path::Path;
use std::sync::Arc;

/// Bodies that find no room drive out those used least: nothing is lost with one.
const ARGS: [&str; 6] =
    ["--logfile", LOG, "--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lfu"];
const LOG: &str = "cache.log";

/// Starts what the plan asks for, adds it to `kept`, and gives its address.
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
    let server = Redis::with(&means.supervisor, &dir, &ARGS)?;
    let url = server.url();
    kept.push(Arc::new(Kept::new("cache".to_owned(), dir.join(LOG), server)));
    Ok(Some(url))
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
