//! Likes: how they reach the store, in five ways (`likes.write`).
//!
//! | way | acknowledged | lost in a crash |
//! |---|---|---|
//! | `direct` | after a commit of its own | nothing |
//! | `behind` | in the log, after a commit that it shares with the likes that came meanwhile | nothing |
//! | `stream` | in Valkey; folded into the tables within a second | nothing, unless Valkey loses its data |
//! | `queue` | from memory, or in Valkey with `likes.url`; written every so often, as documented | what was not written yet |
//! | `discard` | at once, and never stored: the cost of everything else | everything |
//!
//! Of the documented system's mistakes none is left in the first two: one statement decides whether
//! a row is added (or one batch after the other), so two clicks cannot both be "the first"; the row
//! and the count are one transaction, so neither can be there without the other; what is
//! acknowledged is synced. And a client whose answer was lost may send PUT or DELETE again: only
//! the toggle inverts when it is repeated.
//!
//! Whatever the way, the answers are as if likes ran one after another: a batch is folded for the store,
//! not for those who wait (`batch`).

mod batch;
mod behind;
mod bulk;
mod log;
mod metrics;
mod pairs;
mod pass;
pub(crate) mod pending;
mod queue;
pub(crate) mod record;
pub(super) mod routes;
mod store;
mod stream;
#[cfg(test)]
mod tests;

pub(super) use metrics::Counted;
pub use metrics::LikeMetrics;
pub(crate) use pass::{Replayed, replay};
pub(crate) use pending::PendingLikes;
pub use store::LikeStore;

use super::counts::CountMemory;
use super::types::{ArticleId, Counts};
use crate::accounts::UserId;
use crate::config::{LikeSettings, LikesWrite};
use crate::http::gate::Permit;
use crate::store::{Result, Store, StoreError, Tx};
use std::sync::Arc;
use std::time::Duration;
use store::{Applied, Decides};

/// What somebody wants of a like: that it is there, that it is not, or the other of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    On,
    Off,
    Toggle,
}

impl Change {
    /// The state that follows this one.
    fn applied_to(self, liked: bool) -> bool {
        match self {
            Change::On => true,
            Change::Off => false,
            Change::Toggle => !liked,
        }
    }
}

/// A like to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Like {
    pub article: ArticleId,
    pub user: UserId,
    pub change: Change,
}

impl Like {
    /// That a user likes an article, or does not.
    fn to_be((article, user): (ArticleId, UserId), liked: bool) -> Self {
        Self { article, user, change: if liked { Change::On } else { Change::Off } }
    }
}

/// A like and its article as they are after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liked {
    pub liked: bool,
    /// How many like it.
    pub count: u64,
}

/// Why a like was not changed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LikeError {
    #[error("there is no such article")]
    NoArticle,
    #[error("there is no such user")]
    NoUser,
    #[error("too many likes are waiting")]
    Full,
    #[error("the stream of likes does not answer: {0}")]
    Away(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What all ways work on.
#[derive(Clone, Debug)]
struct Parts {
    store: LikeStore,
    counts: Arc<CountMemory>,
    /// Empty in all ways but [`Way::Behind`].
    pending: Arc<PendingLikes>,
    counted: Arc<Counted>,
}

/// The way in which likes reach the store.
#[derive(Clone, Debug)]
pub(super) struct LikeLog {
    parts: Parts,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Direct,
    Behind(behind::Behind),
    Stream(stream::Stream),
    Queue(queue::Queue),
    Discard,
}

/// Why likes cannot be taken in the way that is set.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The addresses cannot be used.
    #[error("likes.url: {0}")]
    Url(#[from] madang_valkey::Error),
    /// The store is the data directory's own.
    #[error("likes.url needs database.url: a store in the data directory has one node")]
    NoDatabase,
}

impl LikeLog {
    /// With what a start could not apply of the log, likes are logged whatever the settings say: the other
    /// ways ask the tables alone, and would undo what is pending or be undone by it.
    pub(super) fn new(
        store: Store,
        counts: Arc<CountMemory>,
        settings: &LikeSettings,
        replayed: Replayed,
    ) -> Result<Self, StreamError> {
        let pending = Arc::new(PendingLikes::new(Arc::clone(&counts)));
        let mut write = settings.write;
        if let Some(left) = replayed.left {
            pending.logged(&left);
            if write != LikesWrite::Behind {
                tracing::warn!(
                    "likes.write is `behind` until the next start: the log could not be applied"
                );
                write = LikesWrite::Behind;
            }
        }
        store.counted_in(&pending);
        let identity = store.horizon().map(|(identity, _)| identity);
        let parts =
            Parts { store: LikeStore::new(store), counts, pending, counted: Arc::default() };
        let way = match write {
            LikesWrite::Direct => Way::Direct,
            LikesWrite::Behind => Way::Behind(behind::Behind::new(parts.clone())),
            LikesWrite::Queue if settings.url.is_empty() => {
                Way::Queue(queue::Queue::new(parts.clone(), settings.queue_flush))
            }
            LikesWrite::Stream | LikesWrite::Queue => {
                let identity = identity.ok_or(StreamError::NoDatabase)?;
                let queue = (write == LikesWrite::Queue).then_some(settings.queue_flush);
                Way::Stream(stream::Stream::new(parts.clone(), &settings.url, identity, queue)?)
            }
            LikesWrite::Discard => Way::Discard,
        };
        Ok(Self { parts, way })
    }

    /// As [`LikeStore::agree`].
    pub(super) fn agree(&self) -> Result<()> {
        self.parts.store.agree(match &self.way {
            Way::Stream(stream) if stream.is_queue() => Decides::Queue,
            Way::Stream(_) => Decides::Stream,
            _ => Decides::Tables,
        })
    }

    pub(super) fn store(&self) -> &LikeStore {
        &self.parts.store
    }

    /// What is acknowledged and not in the tables yet, though in the log; to be told what other
    /// transactions leave in the rows of articles.
    pub(super) fn pending(&self) -> &Arc<PendingLikes> {
        &self.parts.pending
    }

    /// The counts of an article from the store, kept in memory from then on; nothing when there is none.
    pub(super) async fn read_counts(&self, id: ArticleId) -> Result<Option<Counts>> {
        self.parts.read_counts(id).await
    }

    /// Changes a like; done when it is acknowledged, in the sense of its way. A like that was taken is
    /// changed whether or not anybody waits, and holds its place among the writes until then.
    pub(super) async fn apply(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        let done = match &self.way {
            Way::Behind(behind) => behind.apply(like, turn).await,
            Way::Direct => self.parts.apply_alone(like, turn).await,
            Way::Stream(stream) => stream.apply(like, turn).await,
            Way::Queue(queue) => queue.apply(like, turn).await,
            Way::Discard => self.parts.answer_alone(like, turn).await,
        };
        self.parts.counted.answered(&done);
        done
    }

    /// The counts of an article with what is acknowledged and not in its row yet.
    pub(super) async fn count_with_waiting(&self, article: ArticleId, stored: Counts) -> Counts {
        match &self.way {
            Way::Queue(queue) => queue.count(article, stored),
            Way::Stream(stream) => {
                let (likes, _) = stream.look(article, None).await;
                Counts { likes: likes.unwrap_or(stored.likes), ..stored }
            }
            Way::Direct | Way::Behind(_) | Way::Discard => stored,
        }
    }

    /// Whether this user likes it, if that is acknowledged and not in the table yet. To be asked before
    /// the table.
    pub(super) async fn waiting(&self, article: ArticleId, user: UserId) -> Option<bool> {
        match &self.way {
            Way::Queue(queue) => queue.state(article, user),
            Way::Behind(_) => self.parts.pending.state(article, user),
            Way::Stream(stream) => stream.look(article, Some(user)).await.1,
            Way::Direct | Way::Discard => None,
        }
    }

    /// Returns when [`flush`](Self::flush) is due again.
    pub(super) async fn until_due(&self) {
        match &self.way {
            Way::Queue(queue) => tokio::time::sleep(queue.every()).await,
            Way::Behind(behind) => behind.until_due().await,
            Way::Stream(stream) => stream.until_due().await,
            Way::Direct | Way::Discard => std::future::pending().await,
        }
    }

    /// Writes what is acknowledged and not in the tables yet; answers whether it could.
    pub(super) async fn flush(&self) -> bool {
        match &self.way {
            Way::Queue(queue) => queue.flush().await,
            Way::Behind(behind) => behind.flush().await,
            Way::Stream(stream) => stream.flush().await,
            Way::Direct | Way::Discard => true,
        }
    }

    /// [`flush`](Self::flush) at the end, when nobody asks any longer.
    pub(super) async fn finish(&self) -> bool {
        match &self.way {
            Way::Stream(stream) => stream.finish().await,
            _ => self.flush().await,
        }
    }

    /// Likes that are acknowledged and nowhere but in memory.
    pub(super) fn in_memory_alone(&self) -> u64 {
        match &self.way {
            Way::Queue(queue) => queue.pending().0,
            Way::Stream(stream) if stream.is_queue() => stream.pending().0,
            Way::Behind(_) | Way::Stream(_) | Way::Direct | Way::Discard => 0,
        }
    }

    /// What has happened so far.
    pub(super) fn metrics(&self) -> LikeMetrics {
        let mut metrics = self.parts.counted.metrics();
        (metrics.pending, metrics.lag) = match &self.way {
            Way::Stream(stream) => {
                let (pending, lag, lost) = stream.pending();
                metrics.lost = lost;
                (pending, lag)
            }
            Way::Behind(behind) => behind.pending(),
            Way::Queue(queue) => queue.pending(),
            Way::Direct | Way::Discard => (0, Duration::ZERO),
        };
        metrics
    }
}

/// Times that a reader looks for counts before it asks the writer's thread.
const TRIES: usize = 3;

/// Differences from the tables that a queue may hold, of some 100 bytes each.
const MOST_QUEUED: usize = 100_000;
/// Pairs of one of its transactions, as documented.
const CHUNK: usize = 1000;

/// What the store says of a pair.
#[derive(Clone, Copy, Debug)]
struct Look {
    counts: Counts,
    liked: bool,
}

impl Parts {
    async fn read_counts(&self, article: ArticleId) -> Result<Option<Counts>> {
        for _ in 0..TRIES {
            let version = self.counts.version(article);
            let Some(found) = self.store.counts(article).await? else { return Ok(None) };
            if let Some(counts) = self.pending.fill(article, found, version) {
                return Ok(Some(counts));
            }
            // The transaction that came between has left them, unless it was another article's.
            if let Some(counts) = self.counts.get(article) {
                return Ok(Some(counts));
            }
        }
        // Versions are those of many articles: where they are moved on, none is meanwhile.
        self.store.counts_on_writer(article, Arc::clone(&self.pending)).await
    }

    /// Writes what a queue holds now; answers whether it could. What cannot be written stays, for the next time.
    async fn write_chunks<T>(&self, all: &[T], write: impl AsyncFn(&[T]) -> Result<()>) -> bool {
        let mut done = true;
        for chunk in all.chunks(CHUNK) {
            if let Err(error) = write(chunk).await {
                done = false;
                self.counted.flush_failed();
                tracing::error!(%error, pending = all.len(), "acknowledged likes are not stored yet");
                // What the store refuses of one chunk says nothing of the next.
                if error.is_temporary() {
                    break;
                }
            }
        }
        done
    }

    /// Changes a like in a commit of its own, as if there were no group commit.
    async fn apply_alone(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        let counted = Arc::clone(&self.counted);
        let job = move |tx: &mut Tx<'_>| {
            let applied = store::apply(tx, &[like])?;
            applied.counts.iter().for_each(|(article, now)| tx.effects().count(*article, *now));
            Ok::<_, StoreError>(applied)
        };
        // The place is kept until the commit is done, also when nobody waits for it.
        let committed = move |applied: &Applied| {
            counted.committed(applied.changed);
            drop(turn);
        };
        let applied = self.store.store.write_alone(job, committed).await?;
        applied.answers.into_iter().next().unwrap_or(Err(LikeError::NoArticle))
    }

    /// Stores nothing: the cost of everything else, to measure the other ways against. The same route, token, gate and
    /// counts; no row, no transaction, no thread but the one that answers.
    async fn answer_alone(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        let counts = match self.counts.get(like.article) {
            Some(counts) => counts,
            None => self.read_counts(like.article).await?.ok_or(LikeError::NoArticle)?,
        };
        drop(turn);
        Ok(Liked { liked: like.change.applied_to(false), count: counts.likes })
    }

    /// The same with the state of a pair.
    async fn look(&self, article: ArticleId, user: UserId) -> Result<Look, LikeError> {
        let version = self.counts.version(article);
        let look = self.store.look(article, user).await??;
        self.counts.fill(article, look.counts, version);
        Ok(look)
    }
}
