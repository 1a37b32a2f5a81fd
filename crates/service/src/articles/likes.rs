//! Likes, written to the store in one of five modes (`likes.write`).
//!
//! | mode | acknowledged | lost in a crash |
//! |---|---|---|
//! | `direct` | after a commit of its own | nothing |
//! | `behind` | in the log, after a commit shared with the likes that arrived meanwhile | nothing |
//! | `stream` | in Valkey; folded into the tables within a second | nothing, unless Valkey loses its data |
//! | `queue` | from memory, or in Valkey with `likes.url`; written periodically, as documented | what was not written yet |
//! | `discard` | at once, and never stored: the cost of everything else | everything |
//!
//! The first two repeat none of the documented system's mistakes. One statement decides whether a row is added (or
//! one batch after the other), so two clicks cannot both be "the first". Row and count change in one transaction.
//! An acknowledged like is synced. And a client that lost its answer may send PUT or DELETE again: only the toggle
//! inverts when it is repeated.
//!
//! In every mode the answers are as if likes ran one after another: a batch is folded for the store only (`batch`).

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

pub(super) use metrics::Counters;
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
use batch::BatchOutcome;
use std::sync::Arc;
use std::time::Duration;
use store::DecidedBy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    On,
    Off,
    Toggle,
}

impl Change {
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

type Pair = (ArticleId, UserId);

impl Like {
    /// A change to this state.
    fn set((article, user): Pair, liked: bool) -> Self {
        Self { article, user, change: if liked { Change::On } else { Change::Off } }
    }

    fn pair(&self) -> Pair {
        (self.article, self.user)
    }
}

/// A like and the count of its article after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liked {
    pub liked: bool,
    /// Number of likes of the article.
    pub count: u64,
}

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

/// State that all modes share.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) store: LikeStore,
    counts: Arc<CountMemory>,
    /// Empty in all modes but [`Mode::Behind`].
    pub(super) pending: Arc<PendingLikes>,
    counters: Arc<Counters>,
}

/// Writes likes in the configured mode.
#[derive(Clone, Debug)]
pub(super) struct LikeLog {
    pub(super) core: Core,
    mode: Mode,
}

#[derive(Clone, Debug)]
enum Mode {
    Direct,
    Behind(Arc<behind::Behind>),
    Stream(Arc<stream::Stream>),
    Queue(Arc<queue::Queue>),
    Discard,
}

/// `likes.write` cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The addresses cannot be used.
    #[error("likes.url: {0}")]
    Url(#[from] madang_valkey::Error),
    /// There is no database server.
    #[error("likes.url needs database.url: a store in the data directory has one node")]
    NoDatabase,
}

impl LikeLog {
    /// If a start could not apply the log, likes are logged whatever the settings say: the other modes read the
    /// tables only, and would undo what is pending or be undone by it.
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
        let core = Core { store: LikeStore::new(store), counts, pending, counters: Arc::default() };
        let mode = match write {
            LikesWrite::Direct => Mode::Direct,
            LikesWrite::Behind => Mode::Behind(Arc::new(behind::Behind::new(core.clone()))),
            LikesWrite::Queue if settings.url.is_empty() => {
                Mode::Queue(Arc::new(queue::Queue::new(core.clone(), settings.queue_flush)))
            }
            LikesWrite::Stream | LikesWrite::Queue => {
                let identity = identity.ok_or(StreamError::NoDatabase)?;
                let queue = (write == LikesWrite::Queue).then_some(settings.queue_flush);
                let stream = stream::Stream::new(core.clone(), &settings.url, identity, queue)?;
                Mode::Stream(Arc::new(stream))
            }
            LikesWrite::Discard => Mode::Discard,
        };
        Ok(Self { core, mode })
    }

    /// As [`LikeStore::agree`].
    pub(super) fn agree(&self) -> Result<()> {
        self.core.store.agree(match &self.mode {
            Mode::Stream(stream) if stream.is_queue() => DecidedBy::Queue,
            Mode::Stream(_) => DecidedBy::Stream,
            _ => DecidedBy::Tables,
        })
    }

    /// Changes a like; returns when it is acknowledged, in the sense of the mode. An accepted like is changed whether
    /// or not its caller still waits, and holds its place among the writes until then.
    pub(super) async fn apply(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        let done = match &self.mode {
            Mode::Behind(behind) => behind.apply(like, turn).await,
            Mode::Direct => self.core.apply_alone(like, turn).await,
            Mode::Stream(stream) => stream.apply(like, turn).await,
            Mode::Queue(queue) => queue.apply(like, turn).await,
            Mode::Discard => self.core.answer_alone(like, turn).await,
        };
        self.core.counters.answered(&done);
        done
    }

    /// The counts of an article, with acknowledged likes that its row does not count yet.
    pub(super) async fn count_with_waiting(&self, article: ArticleId, stored: Counts) -> Counts {
        match &self.mode {
            Mode::Queue(queue) => queue.count(article, stored),
            Mode::Stream(stream) => {
                let (likes, _) = stream.look(article, None).await;
                Counts { likes: likes.unwrap_or(stored.likes), ..stored }
            }
            Mode::Direct | Mode::Behind(_) | Mode::Discard => stored,
        }
    }

    /// The state of this like, if it is acknowledged and not in the table yet. To be read before the table.
    pub(super) async fn waiting(&self, article: ArticleId, user: UserId) -> Option<bool> {
        match &self.mode {
            Mode::Queue(queue) => queue.state(article, user),
            Mode::Behind(_) => self.core.pending.state(article, user),
            Mode::Stream(stream) => stream.look(article, Some(user)).await.1,
            Mode::Direct | Mode::Discard => None,
        }
    }

    /// Returns when [`flush`](Self::flush) is due again.
    pub(super) async fn until_due(&self) {
        match &self.mode {
            Mode::Queue(queue) => tokio::time::sleep(queue.every()).await,
            Mode::Behind(behind) => behind.until_due().await,
            Mode::Stream(stream) => stream.until_due().await,
            Mode::Direct | Mode::Discard => std::future::pending().await,
        }
    }

    /// Writes acknowledged likes that are not in the tables yet; returns whether that succeeded.
    pub(super) async fn flush(&self) -> bool {
        match &self.mode {
            Mode::Queue(queue) => queue.flush().await,
            Mode::Behind(behind) => behind.flush().await,
            Mode::Stream(stream) => stream.flush(false).await,
            Mode::Direct | Mode::Discard => true,
        }
    }

    /// [`flush`](Self::flush) at the end, after the last request.
    pub(super) async fn finish(&self) -> bool {
        match &self.mode {
            Mode::Stream(stream) => stream.flush(true).await,
            _ => self.flush().await,
        }
    }

    /// Number of acknowledged likes that are only in memory.
    pub(super) fn in_memory_alone(&self) -> u64 {
        match &self.mode {
            Mode::Queue(queue) => queue.pending().0,
            Mode::Stream(stream) if stream.is_queue() => stream.pending().0,
            Mode::Behind(_) | Mode::Stream(_) | Mode::Direct | Mode::Discard => 0,
        }
    }

    pub(super) fn metrics(&self) -> LikeMetrics {
        let mut metrics = self.core.counters.metrics();
        (metrics.pending, metrics.lag) = match &self.mode {
            Mode::Stream(stream) => {
                let (pending, lag, lost) = stream.pending();
                metrics.lost = lost;
                (pending, lag)
            }
            Mode::Behind(behind) => behind.pending(),
            Mode::Queue(queue) => queue.pending(),
            Mode::Direct | Mode::Discard => (0, Duration::ZERO),
        };
        metrics
    }
}

/// Reads of counts before they are read on the writer's thread.
const TRIES: usize = 3;

/// Differences from the tables that a queue may hold, some 100 bytes each.
const MOST_QUEUED: usize = 100_000;
/// Pairs of a transaction of a queue, as documented.
const CHUNK: usize = 1000;

/// Stored state of a pair and its article.
#[derive(Clone, Copy, Debug)]
struct StoredLike {
    counts: Counts,
    liked: bool,
}

impl Core {
    /// Reads the counts of an article from the store and keeps them in memory; `None` if there is no such article.
    pub(super) async fn read_counts(&self, article: ArticleId) -> Result<Option<Counts>> {
        for _ in 0..TRIES {
            let version = self.counts.version(article);
            let Some(found) = self.store.counts(article).await? else { return Ok(None) };
            if let Some(counts) = self.pending.fill(article, found, version) {
                return Ok(Some(counts));
            }
            // The transaction that came between has set them, unless it changed another article.
            if let Some(counts) = self.counts.get(article) {
                return Ok(Some(counts));
            }
        }
        // Many articles share a version. On the thread that moves it on, it stands still.
        self.store.counts_on_writer(article, Arc::clone(&self.pending)).await
    }

    /// Writes the pairs of a queue; returns whether that succeeded.
    async fn write_chunks<T>(&self, all: &[T], write: impl AsyncFn(&[T]) -> Result<()>) -> bool {
        let mut done = true;
        for chunk in all.chunks(CHUNK) {
            if let Err(error) = write(chunk).await {
                done = false;
                self.counters.flush_failed();
                tracing::error!(%error, pending = all.len(), "acknowledged likes are not stored yet");
                // A permanent error concerns this chunk only.
                if error.is_temporary() {
                    break;
                }
            }
        }
        done
    }

    /// Changes a like in a commit of its own.
    async fn apply_alone(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        let counters = Arc::clone(&self.counters);
        let job = move |tx: &mut Tx<'_>| {
            let outcome = store::apply(tx, &[like])?;
            outcome.counts.iter().for_each(|(article, _, now)| tx.effects().count(*article, *now));
            Ok::<_, StoreError>(outcome)
        };
        // The permit is kept until the commit is done, also when the caller has left.
        let committed = move |outcome: &BatchOutcome| {
            counters.committed(outcome.changed());
            drop(turn);
        };
        let outcome = self.store.store.write_alone(job, committed).await?;
        outcome.answers.into_iter().next().unwrap_or(Err(LikeError::NoArticle))
    }

    /// Stores nothing: the cost of everything else, a baseline for the other modes. The same route, token, gate and
    /// counts; no row, no transaction, no other thread.
    async fn answer_alone(&self, like: Like, turn: Permit) -> Result<Liked, LikeError> {
        let counts = match self.counts.get(like.article) {
            Some(counts) => counts,
            None => self.read_counts(like.article).await?.ok_or(LikeError::NoArticle)?,
        };
        drop(turn);
        Ok(Liked { liked: like.change.applied_to(false), count: counts.likes })
    }

    /// Reads the state of a pair from the store, and keeps the counts in memory.
    async fn look(&self, (article, user): Pair) -> Result<StoredLike, LikeError> {
        let version = self.counts.version(article);
        let stored = self.store.look(article, user).await??;
        self.counts.fill(article, stored.counts, version);
        Ok(stored)
    }
}
