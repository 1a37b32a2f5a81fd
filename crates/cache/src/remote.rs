//! A second tier that several processes share: bodies in Valkey or Redis.
//!
//! It is an optimisation only. A body there has a *label* of its contents, and a process uses it only if the label is
//! new enough ([`Horizon`]). So no answer is older if the server loses everything, goes back in time or is
//! unavailable, and no body is ever deleted there. Every call has a deadline, and after failures the server is not
//! called for a while.

pub(crate) mod entry;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use madang_valkey::{Error, Purpose, Server, Url, redis};

use crate::stamp::Stamp;
use crate::value::Value;

/// The timeout of a call is about the time of a load from the database.
const PURPOSE: Purpose = Purpose {
    name: "the shared cache",
    answer: Duration::from_millis(100),
    when_full: "it should have a maxmemory-policy that evicts",
    is_kept: false,
};
/// Lease of the process that loads a key which all miss; longer than most loads.
const CLAIM: Duration = Duration::from_millis(250);
/// Time between two polls for a value that another process is loading.
const LOOK: Duration = Duration::from_millis(10);
/// Longest time that the remote tier adds to a load.
pub(crate) const LONGEST: Duration = Duration::from_millis(600);

/// Judges which bodies of other processes are new enough. Only the store knows.
pub trait Horizon: Send + Sync + 'static {
    /// Label of the state that a load beginning now will contain; `None` while that is unknown.
    fn label(&self) -> Option<Vec<u8>>;

    /// Returns true if a body with this label contains every known write on these stamps. Called after the stamps
    /// were read, for a request that may use the state known to this process.
    fn admits(&self, label: &[u8], stamps: &[Stamp]) -> bool;
}

/// Settings of the shared tier.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// One server, or some nodes of a cluster.
    pub urls: Vec<Url>,
    /// Prefix of all keys; services that share a server but no bodies use different ones.
    pub prefix: String,
}

/// Client of the shared tier.
pub(crate) struct Remote {
    server: Server,
    horizon: Arc<dyn Horizon>,
    prefix: String,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Result of a look-up in the shared tier.
#[derive(Debug)]
pub(crate) enum SharedEntry {
    /// A body that is new enough, with its remaining lifetime from [`Remote::find`].
    Body(Value, Duration),
    /// A body that is too old.
    Outdated,
    Nothing,
    /// The server did not answer.
    Failed,
    /// The server was not called, because it failed a moment ago.
    Skipped,
}

impl Remote {
    pub(crate) fn new(config: RemoteConfig, horizon: Arc<dyn Horizon>) -> Result<Self, Error> {
        let server = Server::new(&config.urls, PURPOSE)?;
        Ok(Self { server, horizon, prefix: config.prefix })
    }

    fn key(&self, name: &str, key: &str) -> String {
        format!("{}:{name}:{key}", self.prefix)
    }

    fn claim_key(&self, name: &str, key: &str) -> String {
        format!("{}:claim", self.key(name, key))
    }

    pub(crate) fn is_up(&self) -> bool {
        self.server.is_up()
    }

    /// The body of a key, for one answer.
    pub(crate) async fn find_once(&self, name: &str, key: &str, stamps: &[Stamp]) -> SharedEntry {
        let mut get = redis::cmd("GET");
        get.arg(self.key(name, key));
        self.found(self.server.try_run(&get).await.map(|bytes| (bytes, 0)), stamps)
    }

    /// The body of a key and its remaining lifetime, to be stored.
    pub(crate) async fn find(&self, name: &str, key: &str, stamps: &[Stamp]) -> SharedEntry {
        let key = self.key(name, key);
        let mut pipe = redis::pipe();
        pipe.get(&key).pttl(&key);
        self.found(self.server.try_pipe(&pipe).await, stamps)
    }

    fn found(
        &self,
        answer: Result<(Option<Vec<u8>>, i64), Error>,
        stamps: &[Stamp],
    ) -> SharedEntry {
        let (bytes, left) = match answer {
            Ok(found) => found,
            Err(Error::Skipped) => return SharedEntry::Skipped,
            Err(_) => return SharedEntry::Failed,
        };
        let Some(bytes) = bytes else { return SharedEntry::Nothing };
        // Unreadable bytes were written by another program or version.
        let Some((label, value)) = entry::decode(bytes) else { return SharedEntry::Outdated };
        if !self.horizon.admits(&label, stamps) {
            return SharedEntry::Outdated;
        }
        SharedEntry::Body(value, Duration::from_millis(u64::try_from(left).unwrap_or(0)))
    }

    /// The label of a load, to be taken before it begins; `None`: the load may not be shared.
    pub(crate) fn label(&self) -> Option<Vec<u8>> {
        self.horizon.label()
    }

    /// Claims a load for this process. `Some(false)`: another process has claimed it. `None`: unknown.
    pub(crate) async fn claim(&self, name: &str, key: &str) -> Option<bool> {
        let mut set = redis::cmd("SET");
        set.arg(self.claim_key(name, key)).arg(1).arg("NX").arg("PX").arg(CLAIM.as_millis() as u64);
        let claimed: Option<String> = self.server.try_run(&set).await.ok()?;
        Some(claimed.is_some())
    }

    /// Releases a claim of this process after its value was shared, or will not be. Otherwise the next load of the
    /// key would wait in vain.
    pub(crate) async fn unclaim(&self, name: &str, key: &str) {
        let mut del = redis::cmd("DEL");
        del.arg(self.claim_key(name, key));
        let _: Result<(), _> = self.server.try_run(&del).await;
    }

    /// Waits for the value that another process loads.
    pub(crate) async fn find_soon(&self, name: &str, key: &str, stamps: &[Stamp]) -> SharedEntry {
        let until = tokio::time::Instant::now() + CLAIM;
        loop {
            tokio::time::sleep(LOOK).await;
            let found = self.find(name, key, stamps).await;
            let may_come = matches!(found, SharedEntry::Nothing | SharedEntry::Outdated);
            if !may_come || tokio::time::Instant::now() >= until {
                return found;
            }
        }
    }

    /// Shares a body for its lifetime; returns whether the server accepted it.
    pub(crate) async fn keep(
        &self,
        name: &str,
        key: &str,
        label: &[u8],
        value: &Value,
        life: Duration,
    ) -> bool {
        let millis = u64::try_from(life.as_millis()).unwrap_or(u64::MAX).clamp(1, i64::MAX as u64);
        let mut set = redis::cmd("SET");
        set.arg(self.key(name, key)).arg(entry::encode(label, value)).arg("PX").arg(millis);
        self.server.try_run::<()>(&set).await.is_ok()
    }
}
