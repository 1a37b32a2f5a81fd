//! Connections: one for each calling thread, made at its first call. Concurrent commands of a thread share it, so
//! that they are written at once.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, InfoDict, Pipeline, RedisError,
    ServerErrorKind,
};

use super::Purpose;
use super::breaker::Breaker;

/// Time limit of connecting and authentication.
const CONNECT: Duration = Duration::from_secs(1);
/// Connections of a process; further threads share them.
const LINKS: usize = 16;
/// Shortest time between two warnings about a full server.
const COMPLAIN: Duration = Duration::from_secs(60);
/// Pause before a call is repeated whose keys are moving to another server of a cluster.
const MOVING: Duration = Duration::from_millis(20);
/// Time limit of such repetitions.
const MOVING_TIME: Duration = Duration::from_millis(500);
const OLDEST: u32 = 7;

/// Address of a server: `redis://[[user]:password@]host[:port]`, or `rediss://` with TLS.
#[derive(Clone)]
pub struct Url {
    text: String,
    info: redis::ConnectionInfo,
}

impl PartialEq for Url {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Url {}

impl Url {
    /// Parses an address.
    ///
    /// # Errors
    /// [`Error::Refused`]; its message has no password.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let refused = |why: &str| Error::Refused(why.to_owned());
        if !url.starts_with("redis://") && !url.starts_with("rediss://") {
            return Err(refused("expected redis://HOST:PORT, or rediss:// with TLS"));
        }
        redis::IntoConnectionInfo::into_connection_info(url)
            .map(|info| Self { text: url.to_owned(), info })
            .map_err(|error| refused(error.detail().unwrap_or("not such an address")))
    }
}

impl fmt::Debug for Url {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info.addr())
    }
}

/// Error of a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No answer within this time.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The breaker is open.
    #[error("the server failed a moment ago")]
    Skipped,
    /// The server or the connection does not work as configured.
    #[error("{0}")]
    Refused(String),
    /// An error of the connection or of the server.
    #[error("{0}")]
    Failed(#[from] RedisError),
}

impl Error {
    /// Whether an immediate retry would fail as well.
    pub(crate) fn is_certain(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Failed(error) => error.code() == Some("NOPERM"),
            Self::Late(_) | Self::Skipped => false,
        }
    }

    /// Converts an error of connecting, which an immediate retry would repeat.
    fn of_connecting(self) -> Self {
        match self {
            Self::Failed(error) => Self::Refused(error.to_string()),
            other => other,
        }
    }

    /// Whether the connection cannot be used any longer.
    fn ends_connection(&self) -> bool {
        match self {
            // A primary that became a replica is checked at the next connection.
            Self::Failed(error) => {
                error.is_unrecoverable_error()
                    || error.is_connection_dropped()
                    || error.code() == Some("READONLY")
            }
            Self::Late(_) => true,
            Self::Refused(_) | Self::Skipped => false,
        }
    }

    /// Whether the server may have executed the command.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Late(_) => true,
            Self::Failed(error) => error.is_io_error() || error.is_connection_dropped(),
            Self::Refused(_) | Self::Skipped => false,
        }
    }

    /// Whether the error is the answer of a working server.
    fn is_answer(&self) -> bool {
        matches!(self, Self::Failed(error) if error.code() == Some("NOSCRIPT")) || self.is_full()
    }

    /// Whether the server is full, and otherwise works.
    fn is_full(&self) -> bool {
        matches!(self, Self::Failed(error) if error.code() == Some("OOM"))
    }
}

/// A connection to one server, or to all of a cluster. Clones share it.
#[derive(Clone)]
pub(crate) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub(crate) async fn run<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Error> {
        Ok(match self {
            Self::One(link) => command.query_async(link).await?,
            Self::Cluster(link) => {
                let mut rest = MOVING_TIME;
                loop {
                    match command.query_async(link).await {
                        Err(error) if let Some(cost) = cost_of_moving(&error, rest) => {
                            rest -= cost;
                            tokio::time::sleep(MOVING).await;
                        }
                        answer => break answer?,
                    }
                }
            }
        })
    }

    pub(crate) async fn pipe<T: FromRedisValue>(&mut self, pipe: &Pipeline) -> Result<T, Error> {
        Ok(match self {
            Self::One(link) => pipe.query_async(link).await?,
            Self::Cluster(link) => pipe.query_async(link).await?,
        })
    }
}

/// If the server has done nothing because the slot of the keys moves or has moved: the part of [`MOVING_TIME`] that
/// another try costs, if enough is left.
fn cost_of_moving(error: &RedisError, rest: Duration) -> Option<Duration> {
    use ServerErrorKind::{Ask, Moved, TryAgain};
    let cost = match error.kind() {
        ErrorKind::Server(Ask | TryAgain) => MOVING,
        // The client now knows the new server. Repeated, it means that this server is unavailable.
        ErrorKind::Server(Moved) => MOVING_TIME / 3,
        _ => return None,
    };
    (cost <= rest).then_some(cost)
}

enum Maker {
    One(Box<Client>),
    Cluster(Box<ClusterClient>),
}

/// The connections of a process.
pub(crate) struct Links {
    maker: Maker,
    links: [Link; LINKS],
    pub(crate) breaker: Breaker,
    pub(crate) purpose: Purpose,
    complained: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Link {
    state: Mutex<LinkState>,
    /// Signals the end of an attempt to connect.
    tried: Notify,
}

#[derive(Default)]
enum LinkState {
    #[default]
    Nothing,
    Connecting,
    Open(Connection),
}

thread_local! {
    static LINK: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Index of this thread's connection, assigned in turn.
fn place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    LINK.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Relaxed) % LINKS);
        }
        own.get()
    })
}

impl Links {
    pub(crate) fn new(urls: &[Url], purpose: Purpose) -> Result<Arc<Self>, Error> {
        let maker = match urls {
            [] => return Err(Error::Refused("no server is named".to_owned())),
            [one] => Maker::One(Box::new(Client::open(one.info.clone())?)),
            nodes => {
                let nodes = nodes.iter().map(|url| url.info.clone());
                let builder = ClusterClient::builder(nodes)
                    .connection_timeout(CONNECT)
                    .response_timeout(CONNECT)
                    // A retry could repeat a command that was executed before the connection was lost.
                    .retries(0);
                Maker::Cluster(Box::new(builder.build()?))
            }
        };
        let (links, complained) = Default::default();
        let breaker = Breaker::new(purpose.name, urls.len());
        Ok(Arc::new(Self { maker, links, breaker, purpose, complained }))
    }

    fn link(&self, place: usize) -> MutexGuard<'_, LinkState> {
        self.links[place].state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.maker, Maker::Cluster(_))
    }

    /// This thread's connection, after connecting if needed.
    pub(crate) async fn connected(self: &Arc<Self>) -> Result<Connection, Error> {
        loop {
            let tried = self.links[place()].tried.notified();
            match self.connection() {
                Some(connection) => return Ok(connection),
                None if self.breaker.is_closed() || self.is_connecting() => tried.await,
                None => return Err(Error::Skipped),
            }
        }
    }

    fn is_connecting(&self) -> bool {
        matches!(*self.link(place()), LinkState::Connecting)
    }

    /// This thread's connection. If there is none, starts a task that connects.
    pub(crate) fn connection(self: &Arc<Self>) -> Option<Connection> {
        if !self.breaker.may_ask() {
            return None;
        }
        let place = place();
        let mut link = self.link(place);
        match &*link {
            LinkState::Open(connection) => Some(connection.clone()),
            LinkState::Connecting => None,
            LinkState::Nothing => {
                *link = LinkState::Connecting;
                drop(link);
                tokio::spawn(Unset { links: Arc::clone(self), place }.connect());
                None
            }
        }
    }

    pub(crate) async fn connect_in_time(&self) -> Result<Connection, Error> {
        let connected = tokio::time::timeout(CONNECT, self.connect()).await;
        let late = || Err(Error::Refused(format!("no connection within {CONNECT:?}")));
        connected.unwrap_or_else(|_| late()).map_err(Error::of_connecting)
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let mut connection = match &self.maker {
            Maker::One(client) => {
                // Callers have their own deadlines.
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(None)
                    .set_response_timeout(None);
                let link = client.get_multiplexed_async_connection_with_config(&config).await?;
                Connection::One(link)
            }
            Maker::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
        };
        if let Connection::One(link) = &mut connection {
            look_at(link, &self.purpose).await?;
        }
        Ok(connection)
    }

    /// Notes the outcome of a call of this thread.
    pub(crate) fn answered(&self, error: Option<&Error>) {
        let Some(error) = error.filter(|error| !error.is_answer()) else {
            error.into_iter().filter(|error| error.is_full()).for_each(|full| self.complain(full));
            return self.breaker.succeeded();
        };
        // The client of a cluster reconnects by itself, and keeps the other connections.
        if error.ends_connection() && !self.is_cluster() {
            let mut link = self.link(place());
            if matches!(*link, LinkState::Open(_)) {
                *link = LinkState::Nothing;
            }
        }
        self.breaker.failed(error);
    }

    fn complain(&self, error: &Error) {
        let mut last = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= COMPLAIN) {
            *last = Some(Instant::now());
            tracing::warn!(%error, "{} is full; {}", self.purpose.name, self.purpose.when_full);
        }
    }
}

/// An attempt to connect; it leaves no connection when it is dropped early.
struct Unset {
    links: Arc<Links>,
    place: usize,
}

impl Unset {
    async fn connect(self) {
        match self.links.connect_in_time().await {
            Ok(connection) => {
                *self.links.link(self.place) = LinkState::Open(connection);
                self.links.breaker.succeeded();
            }
            Err(error) => self.links.breaker.failed(&error),
        }
    }
}

impl Drop for Unset {
    fn drop(&mut self) {
        let mut link = self.links.link(self.place);
        if matches!(*link, LinkState::Connecting) {
            *link = LinkState::Nothing;
        }
        drop(link);
        self.links.links[self.place].tried.notify_waiters();
    }
}

/// Refuses a server that does not fit its purpose.
async fn look_at(link: &mut MultiplexedConnection, purpose: &Purpose) -> Result<(), Error> {
    let info: InfoDict = match redis::cmd("INFO").query_async(link).await {
        Ok(info) => info,
        // Without this permission it cannot be checked.
        Err(error) if error.code() == Some("NOPERM") => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let text = |key: &str| info.get::<String>(key).unwrap_or_default();
    let refused = |why: String| Err(Error::Refused(why));
    let version = text("redis_version");
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if major < OLDEST {
        return refused(format!(
            "the server is version {version:?}; {OLDEST}.0 or newer is needed"
        ));
    }
    if text("role") == "slave" {
        return refused(
            "the server is a replica, which takes no writes; name its primary".to_owned(),
        );
    }
    let policy = text("maxmemory_policy");
    if purpose.is_kept && text("maxmemory") != "0" && policy != "noeviction" {
        return refused(format!(
            "the server evicts what is nowhere else: its maxmemory-policy is {policy}, and must be noeviction"
        ));
    }
    if purpose.is_kept && text("aof_enabled") == "0" {
        static WARNED: std::sync::Once = std::sync::Once::new();
        WARNED.call_once(|| {
            let name = purpose.name;
            tracing::warn!(
                "{name} keeps nothing on disk: set appendonly yes and appendfsync always"
            );
        });
    }
    if text("redis_mode") == "cluster" && link.get_db() != 0 {
        return refused("the server belongs to a cluster, which has database 0 only".to_owned());
    }
    Ok(())
}
