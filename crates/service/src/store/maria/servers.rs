//! The servers of `database.url`: one, or those of a Galera cluster.
//!
//! All sessions of a node use one server, and move together to the next of the list when it cannot be used. So a node
//! sees its own locks, and nodes with the same list use the same server while it works. Between servers there are no
//! locks; certification makes one of two conflicting transactions run again.

use super::schema;
use super::session::{Session, Use};
use crate::store::copy::CopyError;
use crate::store::{Result, StoreError};
use mysql::{Opts, OptsBuilder};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

pub(super) struct Servers {
    all: Vec<OptsBuilder>,
    /// Number of moves to the next server, which gives the server in use.
    epoch: AtomicU64,
    /// Time of the last log line about a move.
    said: Mutex<Option<Instant>>,
}

/// Shortest time between two such lines, when no server can be used.
const SAY_EVERY: Duration = Duration::from_secs(5);

impl Servers {
    pub(super) fn parse(url: &str) -> Result<Self> {
        Self::separated(url).map_err(|error| error.in_setting("database.url"))
    }

    fn separated(urls: &str) -> Result<Self, UrlError> {
        let urls = urls.split(',').map(str::trim).filter(|url| !url.is_empty());
        let all: Vec<_> = urls.map(address).collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err(UrlError::NoServer);
        }
        Ok(Self { all, epoch: AtomicU64::new(0), said: Mutex::default() })
    }

    pub(super) fn are_many(&self) -> bool {
        self.all.len() > 1
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// Connects to the server in use, or to the next one that can be used.
    pub(super) fn connect(&self, purpose: Use) -> Result<(Session, u64)> {
        let mut tried = 0;
        loop {
            let epoch = self.epoch();
            let connected =
                Session::connect(self.at(epoch), purpose).and_then(|session| self.joined(session));
            tried += 1;
            match connected {
                Ok(session) => return Ok((session, epoch)),
                Err(error) if tried >= self.all.len() => return Err(error),
                Err(error) => self.leave(epoch, &error),
            }
        }
    }

    /// Moves from the server of this epoch, which cannot be used, to the next one. Does nothing with one server, or
    /// when another session has done it before.
    pub(super) fn leave(&self, epoch: u64, why: &StoreError) {
        let next = epoch + 1;
        if self.are_many() && self.epoch.compare_exchange(epoch, next, SeqCst, SeqCst).is_ok() {
            let [from, to] = [epoch, next].map(|epoch| super::replica::name(self.at(epoch)));
            let mut said = self.said.lock();
            if said.is_some_and(|said| said.elapsed() < SAY_EVERY) {
                return;
            }
            *said = Some(Instant::now());
            tracing::warn!(%why, "the database server {from} cannot be used; this node goes on to {to}");
        }
    }

    fn at(&self, epoch: u64) -> &OptsBuilder {
        let count = self.all.len().max(1) as u64;
        &self.all[usize::try_from(epoch % count).unwrap_or(0)]
    }

    /// Refuses a server that is not part of its cluster, and makes one that is wait for commits of others.
    fn joined(&self, session: Session) -> Result<Session> {
        if self.are_many() {
            if status(&session, "wsrep_ready")?.as_deref() != Some("ON") {
                return Err(StoreError::Unreachable("it takes no part in its cluster".to_owned()));
            }
            // 1 would leave out UPDATE, DELETE and INSERT, which depend on what they read.
            session.batch("SET SESSION wsrep_sync_wait = 7")?;
            session.watch();
        }
        Ok(session)
    }

    /// Checks each server that answers for durability, and all for one cluster. Returns a line for each.
    pub(super) fn look(&self) -> Result<Vec<String>> {
        let mut cluster: Option<String> = None;
        let mut lines = Vec::new();
        for options in &self.all {
            let name = super::replica::name(options);
            // One slow server of many must not delay the start.
            let purpose = if self.are_many() { Use::Brief } else { Use::Writes };
            let session = match Session::connect(options, purpose) {
                Ok(session) => session,
                Err(error @ StoreError::Unreachable(_)) if self.are_many() => {
                    lines.push(format!("{name}: {error}"));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let version = schema::look_at_server(&session)?;
            lines.push(format!("{version} at {name}"));
            if !self.are_many() {
                continue;
            }
            let uuid =
                status(&session, "wsrep_cluster_state_uuid")?.filter(|uuid| !uuid.is_empty());
            let refused = |why: &str| {
                let text = format!("database.url names several servers, and {name} {why}");
                StoreError::CannotOpen(text)
            };
            let uuid = uuid.ok_or_else(|| refused("belongs to no Galera cluster"))?;
            if cluster.get_or_insert_with(|| uuid.clone()) != &uuid {
                return Err(refused("belongs to another cluster than the one before it"));
            }
        }
        Ok(lines)
    }
}

/// A status variable of the server, also of one outside of its cluster.
fn status(session: &Session, name: &str) -> Result<Option<String>> {
    let rows = session.text(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
    Ok(rows.first().and_then(|row| row.get(1)))
}

/// Parses the URL of a server in a setting.
pub(super) fn parse(key: &str, url: &str) -> Result<OptsBuilder> {
    address(url).map_err(|error| error.in_setting(key))
}

/// Connects to the database of a URL, or to the first usable one of a list.
pub(crate) fn connect(url: &str, purpose: Use) -> Result<Session, CopyError> {
    let servers = Servers::separated(url).map_err(CopyError::Url)?;
    Ok(servers.connect(purpose)?.0)
}

/// Error of the URL of a database.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It is not a URL of MariaDB.
    #[error(transparent)]
    Invalid(#[from] mysql::UrlError),
    /// Its path is empty.
    #[error("it names no database")]
    NoDatabase,
    /// The list is empty.
    #[error("it names no server")]
    NoServer,
}

impl UrlError {
    fn in_setting(&self, key: &str) -> StoreError {
        StoreError::CannotOpen(format!("{key}: {self}"))
    }
}

fn address(url: &str) -> Result<OptsBuilder, UrlError> {
    let options = Opts::from_url(url)?;
    if options.get_db_name().is_none_or(str::is_empty) {
        return Err(UrlError::NoDatabase);
    }
    Ok(OptsBuilder::from_opts(options))
}
