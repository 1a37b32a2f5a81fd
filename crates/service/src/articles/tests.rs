//! Articles, comments and likes on a real store, in every mode of likes.

mod likes;
mod search;
mod storing;

use super::likes::{Change, Like, LikeError, LikeLog, Liked};
use super::*;
use crate::config::{LikeSettings, LikesWrite, Origin, Quota, Sources};
use crate::http::{AnswerRoom, Gate};
use crate::idempotency::Once;
use crate::store::{Result, StoreError, Tx, columns};
use std::collections::HashSet;
use tokio::task::JoinHandle;

pub(super) struct Bench {
    pub(super) store: Store,
    pub(super) articles: ArticleStore,
    comments: CommentStore,
    counts: Arc<CountMemory>,
    pub(super) gate: Gate,
    dir: tempfile::TempDir,
}

/// The writer, blocked by a job.
pub(super) struct Held {
    release: std::sync::mpsc::Sender<()>,
    job: JoinHandle<Result<()>>,
}

impl Held {
    /// Later jobs are one group with this one.
    pub(super) async fn begin(store: &Store) -> Held {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let started = Arc::new(tokio::sync::Notify::new());
        let holds = Arc::clone(&started);
        let store = store.clone();
        let job = tokio::spawn(async move {
            let hold = move |_: &mut Tx<'_>| {
                started.notify_one();
                held.recv().map_err(|_| StoreError::Closed)
            };
            store.write(hold).await
        });
        holds.notified().await;
        Held { release, job }
    }

    pub(super) async fn release(self) {
        self.release.send(()).unwrap();
        self.job.await.unwrap().unwrap();
    }
}

impl Bench {
    /// A store with the users 1 to 8 and no articles.
    async fn new() -> Bench {
        Self::on(&Sources::of_test()).await
    }

    async fn on(sources: &Sources) -> Bench {
        let (store, dir) = Store::fresh(sources);
        store.add_users(1..=8).await;
        Bench {
            articles: ArticleStore::new(store.clone(), Quota::default()),
            comments: CommentStore::new(store.clone(), Quota::default()),
            counts: Arc::new(CountMemory::of(&store)),
            gate: Gate::new(1000, Duration::from_secs(10)),
            store,
            dir,
        }
    }

    /// With articles of user 1, ids from 1.
    pub(super) async fn with_articles(count: i64) -> Bench {
        Bench::new().await.filled(count).await
    }

    /// As [`with_articles`](Self::with_articles), with one writing connection also to a server: [`Held`] blocks one.
    pub(super) async fn with_one_writer(count: i64) -> Bench {
        let mut sources = Sources::of_test();
        let flag = Origin::Flag("test".to_owned());
        sources.set("database.max_connections", "2", flag).expect("one reads, one writes");
        Bench::on(&sources).await.filled(count).await
    }

    /// As [`with_articles`](Self::with_articles), on the embedded store: only that one has a log and counts in
    /// memory.
    pub(super) async fn embedded(count: i64) -> Bench {
        Bench::on(&Sources::new()).await.filled(count).await
    }

    async fn filled(self, count: i64) -> Bench {
        let new = (1..=count).map(|n| article(1, &format!("article {n}"))).collect();
        let ids = self.articles.create_all(new).await.unwrap();
        assert_eq!(ids, (1..=count).collect::<Vec<_>>());
        self
    }

    /// Makes the table of likes refuse every row, until it is mended.
    pub(super) async fn break_likes(&self) {
        let refuse = if self.store.is_shared() {
            "SIGNAL SQLSTATE '45000'"
        } else {
            "BEGIN SELECT raise(ABORT, 'no'); END"
        };
        let sql =
            format!("CREATE TRIGGER broken BEFORE INSERT ON article_likes FOR EACH ROW {refuse}");
        let done: Result<()> = self.store.write(move |tx| tx.definition(&sql)).await;
        done.unwrap();
    }

    pub(super) async fn mend_likes(&self) {
        self.store.execute("DROP TRIGGER broken").await;
    }

    pub(super) fn log(&self, write: LikesWrite) -> LikeLog {
        let settings =
            LikeSettings { write, url: Vec::new(), queue_flush: Duration::from_secs(60) };
        LikeLog::new(self.store.clone(), Arc::clone(&self.counts), &settings, Replayed::default())
            .unwrap()
    }

    pub(super) async fn like(
        &self,
        log: &LikeLog,
        article: ArticleId,
        user: UserId,
        change: Change,
    ) -> Result<Liked, LikeError> {
        let turn = self.gate.enter().await.unwrap();
        log.apply(Like { article, user, change }, turn).await
    }

    /// Starts likes at the same time; [`answers`] waits for them.
    pub(super) fn start(
        self: &Arc<Self>,
        log: &LikeLog,
        likes: impl IntoIterator<Item = Like>,
    ) -> Vec<JoinHandle<Result<Liked, LikeError>>> {
        let start = |Like { article, user, change }| {
            let (bench, log) = (Arc::clone(self), log.clone());
            tokio::spawn(async move { bench.like(&log, article, user, change).await })
        };
        likes.into_iter().map(start).collect()
    }

    /// All stored likes.
    pub(super) async fn rows(&self) -> HashSet<(ArticleId, UserId)> {
        let rows = self
            .store
            .read(|conn| conn.rows("SELECT article_id, user_id FROM article_likes", &[], columns));
        rows.await.unwrap().into_iter().collect()
    }

    /// Asserts that every count is the number of its rows.
    pub(super) async fn counts_are_rows(&self) {
        let found = self.articles.compare(0, 1_000_000).await.unwrap();
        let wrong: Vec<_> = found.iter().filter(|one| one.kept != one.rows).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}

pub(super) async fn answers<T>(started: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut answers = Vec::new();
    for one in started {
        answers.push(one.await.unwrap());
    }
    answers
}

fn article(author: UserId, title: &str) -> NewArticle {
    NewArticle {
        author,
        title: title.to_owned(),
        content: "함께 걸어요".to_owned(),
        created_at_ms: 1000,
    }
}

pub(super) fn comment(article: ArticleId, author: UserId) -> NewComment {
    NewComment { article, author, content: "좋아요".to_owned(), created_at_ms: 2000 }
}

/// The whole system on the store of `bench`.
pub(super) fn articles(bench: &Bench) -> Articles {
    articles_after(bench, LikesWrite::Behind, Replayed::default())
}

/// As [`articles`], after a start with this log, in this mode of likes.
pub(super) fn articles_after(bench: &Bench, write: LikesWrite, replayed: Replayed) -> Articles {
    let mut settings = Sources::of_test().resolve().unwrap();
    settings.likes.write = write;
    let compute = Arc::new(crate::store::Pool::start("compute", vec![()], 8).unwrap());
    let cache = madang_cache::Cache::disabled();
    let answers = AnswerRoom::new(1 << 20);
    let responses = ResponseCache::new(cache, compute, bench.gate.clone(), answers, &settings);
    Articles::new(bench.store.clone(), responses, &settings, replayed).unwrap()
}
