//! Connections: one for each thread that asks, made when it first does. Commands of one thread share it, so that the
//! commands of one moment are written at once.

use std::{
    cell::Cell,
    fmt,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, InfoDict, Pipeline, RedisError,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClient,
    cluster_async::ClusterConnection,
};

use super::breaker::Breaker;

/// Longest time to connect and sign in.
const CONNECT: Duration = Duration::from_secs(1);
/// Connections of a process; further threads share them.
const LINKS: usize = 16;
/// Time between two complaints about a server that is full.
const COMPLAIN: Duration = Duration::from_secs(60);
/// The oldest server whose commands are tested.
const OLDEST: u32 = 7;

/// Where a server is: `redis://[[user]:password@]host[:port]`, or `rediss://` with TLS.
#[derive(Clone)]
pub struct RemoteUrl {
    text: String,
    info: redis::ConnectionInfo,
}

impl PartialEq for RemoteUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RemoteUrl {}

impl RemoteUrl {
    /// Reads it.
    ///
    /// # Errors
    /// Text that says what is wrong with it. The password is not in it.
    pub fn parse(url: &str) -> Result<Self, String> {
        if !url.starts_with("redis://") && !url.starts_with("rediss://") {
            return Err("expected redis://HOST:PORT, or rediss:// with TLS".to_owned());
        }
        redis::IntoConnectionInfo::into_connection_info(url)
            .map(|info| Self { text: url.to_owned(), info })
            .map_err(|error| error.detail().unwrap_or("not such an address").to_owned())
    }
}

impl fmt::Debug for RemoteUrl {
    /// Without name and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info.addr())
    }
}

/// Why the shared tier did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// No answer in time.
    #[error("no answer within {:?}", super::ANSWER)]
    Late,
    /// The server, or the way to it, does not work as it is configured.
    #[error("{0}")]
    Refused(String),
    /// An error of the connection or of the server.
    #[error("{0}")]
    Failed(#[from] RedisError),
}

impl RemoteError {
    /// Whether asking again at once would end the same way.
    pub(super) fn is_certain(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Failed(error) => error.code() == Some("NOPERM"),
            Self::Late => false,
        }
    }

    /// One that ended an attempt to connect: asking again at once would not help.
    fn of_connecting(self) -> Self {
        match self {
            Self::Failed(error) => Self::Refused(error.to_string()),
            other => other,
        }
    }

    /// Whether the connection is of no more use.
    fn ends_connection(&self) -> bool {
        match self {
            // A primary that has become a replica is looked at once more.
            Self::Failed(error) => {
                error.is_unrecoverable_error()
                    || error.is_connection_dropped()
                    || error.code() == Some("READONLY")
            }
            Self::Late => true,
            Self::Refused(_) => false,
        }
    }

    /// Whether the server has no room, which does not keep it from answering.
    fn is_full(&self) -> bool {
        matches!(self, Self::Failed(error) if error.code() == Some("OOM"))
    }
}

/// A connection to one server, or to all of a cluster. Clones share it.
#[derive(Clone)]
pub(super) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub(super) async fn run<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, RemoteError> {
        Ok(match self {
            Self::One(link) => command.query_async(link).await?,
            Self::Cluster(link) => command.query_async(link).await?,
        })
    }

    pub(super) async fn pipe<T: FromRedisValue>(
        &mut self,
        pipe: &Pipeline,
    ) -> Result<T, RemoteError> {
        Ok(match self {
            Self::One(link) => pipe.query_async(link).await?,
            Self::Cluster(link) => pipe.query_async(link).await?,
        })
    }
}

/// How a connection is made.
enum Maker {
    One(Box<Client>),
    Cluster(Box<ClusterClient>),
}

/// The connections of a process.
pub(super) struct Links {
    maker: Maker,
    links: [Mutex<State>; LINKS],
    pub(super) breaker: Breaker,
    complained: Mutex<Option<Instant>>,
}

#[derive(Default)]
enum State {
    #[default]
    Nothing,
    Connecting,
    Open(Connection),
}

thread_local! {
    static LINK: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The place of this thread, dealt out in turn.
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
    pub(super) fn new(urls: &[RemoteUrl]) -> Result<Arc<Self>, RemoteError> {
        let maker = match urls {
            [] => return Err(RemoteError::Refused("no server is named".to_owned())),
            [one] => Maker::One(Box::new(Client::open(one.info.clone())?)),
            nodes => {
                let nodes = nodes.iter().map(|url| url.info.clone());
                let builder = ClusterClient::builder(nodes)
                    .connection_timeout(CONNECT)
                    .response_timeout(CONNECT)
                    .retries(1);
                Maker::Cluster(Box::new(builder.build()?))
            }
        };
        let (links, breaker, complained) = Default::default();
        Ok(Arc::new(Self { maker, links, breaker, complained }))
    }

    fn link(&self, place: usize) -> MutexGuard<'_, State> {
        self.links[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread's connection. If there is none, a task begins to make one, and nobody waits for it.
    pub(super) fn connection(self: &Arc<Self>) -> Option<Connection> {
        if !self.breaker.may_ask() {
            return None;
        }
        let place = place();
        let mut link = self.link(place);
        match &*link {
            State::Open(connection) => Some(connection.clone()),
            State::Connecting => None,
            State::Nothing => {
                *link = State::Connecting;
                drop(link);
                tokio::spawn(Unset { links: Arc::clone(self), place }.connect());
                None
            }
        }
    }

    async fn connect(&self) -> Result<Connection, RemoteError> {
        let mut connection = match &self.maker {
            Maker::One(client) => {
                // Whoever calls has deadlines of its own.
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(None)
                    .set_response_timeout(None);
                let link = client.get_multiplexed_async_connection_with_config(&config).await?;
                Connection::One(link)
            }
            Maker::Cluster(client) => Connection::Cluster(client.get_async_connection().await?),
        };
        if let Connection::One(link) = &mut connection {
            look_at(link).await?;
        }
        Ok(connection)
    }

    /// Notes how a call of this thread ended.
    pub(super) fn answered(&self, error: Option<&RemoteError>) {
        let Some(error) = error.filter(|error| !error.is_full()) else {
            error.into_iter().for_each(|full| self.complain(full));
            return self.breaker.succeeded();
        };
        if error.ends_connection() {
            let mut link = self.link(place());
            if matches!(*link, State::Open(_)) {
                *link = State::Nothing;
            }
        }
        self.breaker.failed(error);
    }

    fn complain(&self, error: &RemoteError) {
        let mut last = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= COMPLAIN) {
            *last = Some(Instant::now());
            tracing::warn!(%error, "the shared cache takes no more bodies; it should have a maxmemory-policy that evicts");
        }
    }
}

/// A connection that is being made; there is none when it is dropped.
struct Unset {
    links: Arc<Links>,
    place: usize,
}

impl Unset {
    async fn connect(self) {
        let connected = tokio::time::timeout(CONNECT, self.links.connect()).await;
        let late = || RemoteError::Refused(format!("no connection within {CONNECT:?}"));
        match connected.unwrap_or_else(|_| Err(late())) {
            Ok(connection) => {
                *self.links.link(self.place) = State::Open(connection);
                self.links.breaker.succeeded();
            }
            Err(error) => self.links.breaker.failed(&error.of_connecting()),
        }
    }
}

impl Drop for Unset {
    fn drop(&mut self) {
        let mut link = self.links.link(self.place);
        if matches!(*link, State::Connecting) {
            *link = State::Nothing;
        }
    }
}

/// Refuses a server that cannot serve as one, and says why.
async fn look_at(link: &mut MultiplexedConnection) -> Result<(), RemoteError> {
    let info: InfoDict = match redis::cmd("INFO").query_async(link).await {
        Ok(info) => info,
        // Who may not ask cannot be told.
        Err(error) if error.code() == Some("NOPERM") => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let text = |key: &str| info.get::<String>(key).unwrap_or_default();
    let refused = |why: String| Err(RemoteError::Refused(why));
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
    if text("redis_mode") == "cluster" && link.get_db() != 0 {
        return refused("the server belongs to a cluster, which has database 0 only".to_owned());
    }
    Ok(())
}
