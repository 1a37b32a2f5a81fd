//! The servers of `database.url`: one, or those of a Galera cluster.
//!
//! All sessions of a node use one server and go on together to the next of the list when it cannot be used: so a node
//! sees its own locks, and nodes with the same list meet on the same server as long as it works. Between servers
//! nothing is locked; certification makes one of two transactions that meet run again.

use super::schema;
use super::session::{Session, Use};
use crate::store::copy::CopyError;
use crate::store::{Result, StoreError};
use mysql::{Opts, OptsBuilder};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// What a node may connect to.
pub(super) struct Servers {
    all: Vec<OptsBuilder>,
    /// Grows by one whenever the node goes on to the next server.
    epoch: AtomicU64,
    /// When the log last spoke of that: while none can be used, it does not each time.
    said: Mutex<Option<Instant>>,
}

/// Time between two such lines.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// Which server is in use: it grows by one each time this node goes on to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerEpoch(u64);

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

    pub(super) fn epoch(&self) -> ServerEpoch {
        ServerEpoch(self.epoch.load(SeqCst))
    }

    /// Connects to the server in use, or to the next one that can be used.
    pub(super) fn connect(&self, purpose: Use) -> Result<(Session, ServerEpoch)> {
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

    /// The server of this epoch cannot be used: whoever connects from now on goes on to the next one. Does nothing with
    /// one server, or when another session has said so before.
    pub(super) fn leave(&self, epoch: ServerEpoch, why: &StoreError) {
        if !self.are_many() {
            return;
        }
        let next = ServerEpoch(epoch.0 + 1);
        if self.epoch.compare_exchange(epoch.0, next.0, SeqCst, SeqCst).is_ok() {
            let [from, to] = [epoch, next].map(|epoch| super::replica::name(self.at(epoch)));
            let mut said = self.said.lock();
            if said.is_some_and(|said| said.elapsed() < SAY_EVERY) {
                return;
            }
            *said = Some(Instant::now());
            tracing::warn!(%why, "the database server {from} cannot be used; this node goes on to {to}");
        }
    }

    fn at(&self, epoch: ServerEpoch) -> &OptsBuilder {
        let count = self.all.len().max(1) as u64;
        &self.all[usize::try_from(epoch.0 % count).unwrap_or(0)]
    }

    /// Refuses a server that takes no part in its cluster, and has one that does wait for what others have committed.
    fn joined(&self, session: Session) -> Result<Session> {
        if self.are_many() {
            if status(&session, "wsrep_ready")?.as_deref() != Some("ON") {
                return Err(StoreError::Unreachable("it takes no part in its cluster".to_owned()));
            }
            // 1 would leave out UPDATE, DELETE and INSERT, which decide by what they find.
            session.batch("SET SESSION wsrep_sync_wait = 7")?;
            session.watch();
        }
        Ok(session)
    }

    /// Looks at every server that answers: each must keep the promises, and all must be of one cluster. Answers a line
    /// for each.
    pub(super) fn look(&self) -> Result<Vec<String>> {
        let mut cluster: Option<String> = None;
        let mut lines = Vec::new();
        for options in &self.all {
            let name = super::replica::name(options);
            // One of many that is slow must not hold up the start.
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

/// A status variable of the server; a server outside of its cluster answers this as well.
fn status(session: &Session, name: &str) -> Result<Option<String>> {
    let rows = session.text(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
    Ok(rows.first().and_then(|row| row.get(1)))
}

/// What a setting says of a server.
pub(super) fn parse(key: &str, url: &str) -> Result<OptsBuilder> {
    address(url).map_err(|error| error.in_setting(key))
}

/// A session with the database of a URL, or with that of the first server of a list that can be used.
pub(in crate::store) fn connect(url: &str, purpose: Use) -> Result<Session, CopyError> {
    let servers = Servers::separated(url).map_err(CopyError::Url)?;
    Ok(servers.connect(purpose)?.0)
}

/// What is wrong with the URL of a database.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It is none.
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
