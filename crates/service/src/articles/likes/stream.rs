//! Likes through a stream in Valkey: acknowledged there, and folded into the tables soon after.
//!
//! Likes that arrive while others are in progress are collected, as in `behind`, and share their calls. One script
//! decides a like, changes the count and adds an entry to the stream, as one step. Any node folds entries into the
//! tables: the position advances in the transaction of the rows, so an entry is applied once however often it is
//! tried, and two nodes that fold at the same time do no harm. To save work, one node folds at a time.
//!
//! There are [`PARTS`] parts, each with articles, counts and a stream of its own, which a cluster spreads over its
//! servers. The state of an article or a pair that is missing in a part is read from the tables and passed to the
//! script. That is safe because a change stays in Valkey for an hour after it is in the tables.
//!
//! **Valkey loses data.** Likes that were acknowledged and not folded are lost; with `appendfsync always` and without
//! eviction that takes the loss of a disk. Nothing else is lost: each node keeps the newest entry of a part that it
//! has seen (its floor), and a server that is behind it begins a new, empty generation. After a failed call a node
//! first reads from the tables how far the other nodes are: the server may be another one by then, or an old copy.
//! Entries are named by time and never go back, so none of a new generation looks folded. Every node counts the likes
//! that it acknowledged and finds lost ([`LikeMetrics::lost`](super::LikeMetrics)).
//!
//! **Valkey is unavailable.** Likes are refused (503). Writing past it would contradict its state later.
//!
//! **SQL is unavailable.** Likes of articles that the node knows to be in Valkey are accepted until [`MOST_PENDING`]
//! entries wait in a part; then they are refused. No acknowledged like is dropped.
//!
//! **In a cluster** a call names all its keys, so a server that has only some of them, while the others are
//! migrating, refuses the call instead of taking the others to be empty.

mod batch;
mod fold;
mod queue;

use super::{Core, Like, LikeError, Liked};
use crate::accounts::UserId;
use crate::articles::types::ArticleId;
use crate::http::gate::Permit;
use crate::store::{Result, handover};
use batch::Batches;
use fold::Folding;
use madang_valkey::{Error, Purpose, Script, Server, Url};
use parking_lot::{Mutex, MutexGuard};
use queue::Queue;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::task::JoinSet;

/// Number of parts.
const PARTS: usize = 16;
/// Entries that may wait in a part, some 100 bytes each: about 100 MB in all.
const MOST_PENDING: usize = 65_536;
/// Articles of a part that a node remembers to be in Valkey.
const MOST_ARTICLES: usize = 10_000;

const PURPOSE: Purpose = Purpose {
    name: "the stream of likes",
    answer: Duration::from_secs(1),
    when_full: "likes are refused until it has room; it must not evict (maxmemory-policy noeviction)",
    is_kept: true,
};

const CODE: &str = include_str!("stream/stream.lua");

/// The modes [`LikesWrite::Stream`](crate::config::LikesWrite) and, with a server,
/// [`LikesWrite::Queue`](crate::config::LikesWrite).
#[derive(Debug)]
pub(super) struct Stream {
    core: Core,
    server: Server,
    script: Script,
    batches: Batches,
    /// Prefix of all keys, without the number of the part.
    prefix: String,
    known: [Mutex<Known>; PARTS],
    doubt: Doubt,
    folding: Folding,
    /// Likes that wait in this process, if they do not wait in the stream.
    queue: Option<Arc<Queue>>,
}

/// The script's answer for a part. An error belongs to its call, which may be about several parts.
type Answer = Result<Vec<String>, Arc<Error>>;

/// State of a part, as far as this node has seen it.
#[derive(Debug, Default)]
struct Known {
    generation: String,
    /// The newest entry.
    floor: i64,
    /// All entries up to this one are in the tables.
    folded: i64,
    /// Later entries that this node acknowledged.
    acknowledged: VecDeque<i64>,
    /// Acknowledged entries that the server has lost, in the tables or not.
    missed: Vec<i64>,
    /// Articles that were in Valkey a while ago.
    articles: HashSet<ArticleId>,
}

/// True if the tables were read since the last failed call. At the start they were not.
#[derive(Debug)]
struct Doubt {
    failures: AtomicU64,
    /// Failures before the tables were last read.
    settled: AtomicU64,
    reading: tokio::sync::Mutex<()>,
}

impl Default for Doubt {
    fn default() -> Self {
        let (settled, reading) = Default::default();
        Self { failures: AtomicU64::new(1), settled, reading }
    }
}

impl Doubt {
    fn is_settled(&self) -> bool {
        self.settled.load(Relaxed) == self.failures.load(Relaxed)
    }
}

/// Progress of the tables with a part.
#[derive(Clone, Debug, Default)]
struct Position {
    /// All entries up to this one are in the tables.
    entry: i64,
    /// Generation of that entry.
    generation: String,
    /// Last folded entry of the generation before.
    closed: i64,
}

impl Stream {
    /// For the database of this identity. `queue` is the time between two writes of a queue.
    pub(super) fn new(
        core: Core,
        urls: &[Url],
        identity: i64,
        queue: Option<Duration>,
    ) -> Result<Self, Error> {
        Ok(Self {
            core,
            batches: Batches::default(),
            server: Server::new(urls, PURPOSE)?,
            script: Script::new(CODE.to_owned()),
            prefix: format!("madang:{identity:x}:likes"),
            known: Default::default(),
            doubt: Doubt::default(),
            folding: Folding::default(),
            queue: queue.map(|every| Arc::new(Queue::new(every))),
        })
    }

    pub(super) async fn apply(
        self: &Arc<Self>,
        like: Like,
        turn: Permit,
    ) -> Result<Liked, LikeError> {
        let handed = handover::hand_over();
        let done = self.apply_with_others(like).await;
        let is_unknown = matches!(&done, Err(LikeError::Store(error)) if error.is_unknown());
        if done.is_err() && !is_unknown {
            handed.undone();
        }
        drop(turn);
        done
    }

    /// The count of an article and the state of a pair, as far as they are in the stream; nothing if it does not
    /// answer.
    pub(super) async fn look(
        &self,
        article: ArticleId,
        user: Option<UserId>,
    ) -> (Option<u64>, Option<bool>) {
        let user = user.map_or_else(|| "l".to_owned(), |user| user.to_string());
        let call = async || {
            let parts = vec![(part_of(article), vec![article.to_string(), user.clone()])];
            let answer = self.call("look", parts).await.pop();
            answer.map_or_else(|| Err(Error::Skipped.into()), |(_, answer)| answer)
        };
        let answer = match call().await {
            // The connection may have been lost: a new one is tried once.
            Err(error) if error.is_unknown() => call().await,
            answer => answer,
        };
        match answer {
            Ok(answer) => {
                let [count, liked] = [0, 1].map(|at| answer.get(at).map_or("", String::as_str));
                (count.parse().ok(), (!liked.is_empty()).then_some(liked == "1"))
            }
            Err(error) => {
                tracing::debug!(%error, "the stream of likes is not asked; the tables are");
                (None, None)
            }
        }
    }

    pub(super) async fn until_due(&self) {
        match &self.queue {
            Some(queue) => tokio::time::sleep(queue.every()).await,
            None => self.folding.until_due().await,
        }
    }

    /// Brings the tables up to date; returns whether that succeeded. Without `anyway` a stream is folded only if it
    /// is this node's turn: at the end it may be the last node.
    pub(super) async fn flush(self: &Arc<Self>, anyway: bool) -> bool {
        match &self.queue {
            Some(queue) => self.write_queue(queue).await,
            None => self.fold_all(anyway).await,
        }
    }

    /// Number of waiting entries, age of the oldest, and number of acknowledged likes that were lost.
    pub(super) fn pending(&self) -> (u64, Duration, u64) {
        match &self.queue {
            Some(queue) => {
                let (pending, oldest) = queue.metrics();
                (pending, oldest, 0)
            }
            None => self.folding.metrics(),
        }
    }

    /// True if likes wait in this process.
    pub(super) fn is_queue(&self) -> bool {
        self.queue.is_some()
    }

    fn known(&self, part: usize) -> MutexGuard<'_, Known> {
        self.known[part].lock()
    }

    /// The key of a part; its hash tag keeps the keys of the part together in a cluster.
    fn key(&self, part: usize) -> String {
        format!("{{{}:{part}}}", self.prefix)
    }

    /// Runs the script for several parts, in one call if one server has them all, else in one for each part. Takes
    /// over the state of the parts and returns the rest of the answers.
    async fn call_all(
        self: &Arc<Self>,
        action: &'static str,
        parts: Vec<(usize, Vec<String>)>,
    ) -> Vec<(usize, Answer)> {
        if !self.server.is_cluster() {
            return self.call(action, parts).await;
        }
        let mut calls = JoinSet::new();
        for part in parts {
            let this = Arc::clone(self);
            calls.spawn(async move { this.call(action, vec![part]).await });
        }
        calls.join_all().await.into_iter().flatten().collect()
    }

    async fn call(&self, action: &str, parts: Vec<(usize, Vec<String>)>) -> Vec<(usize, Answer)> {
        if let Err(error) = self.settle_doubt().await {
            let error = Arc::new(Error::Refused(format!(
                "the tables do not say how far they are: {error}"
            )));
            return parts.into_iter().map(|(part, _)| (part, Err(Arc::clone(&error)))).collect();
        }
        let candidate = format!("{:x}", fastrand::u64(..));
        let mut args = vec![action.to_owned(), candidate, parts.len().to_string()];
        let mut keys: Vec<String> = parts.iter().map(|(part, _)| self.key(*part)).collect();
        for (part, part_args) in &parts {
            if self.server.is_cluster() {
                keys.extend(self.other_keys(action, *part, part_args));
            }
            args.push(self.known(*part).floor.to_string());
            args.push(part_args.len().to_string());
            args.extend_from_slice(part_args);
        }
        let numbers: Vec<usize> = parts.into_iter().map(|(part, _)| part).collect();
        let answers: Result<Vec<Vec<String>>, Error> =
            self.server.script(&self.script, &keys, &args).await;
        match answers {
            Ok(answers) => numbers
                .into_iter()
                .zip(answers)
                .map(|(part, answer)| (part, Ok(self.learn(part, answer))))
                .collect(),
            Err(error) => {
                // A skipped call leaves the server as it was.
                if !matches!(error, Error::Skipped) {
                    self.doubt.failures.fetch_add(1, Relaxed);
                }
                let error = Arc::new(error);
                numbers.into_iter().map(|part| (part, Err(Arc::clone(&error)))).collect()
            }
        }
    }

    /// Reads the positions from the tables, if a call has failed since they were last read.
    async fn settle_doubt(&self) -> Result<()> {
        if self.doubt.is_settled() {
            return Ok(());
        }
        let _one = self.doubt.reading.lock().await;
        if !self.doubt.is_settled() {
            let before = self.doubt.failures.load(Relaxed);
            self.follow(&self.positions().await?);
            self.doubt.settled.store(before, Relaxed);
        }
        Ok(())
    }

    /// The keys of a call for a part, beside the first: the stream and the articles.
    fn other_keys(&self, action: &str, part: usize, args: &[String]) -> Vec<String> {
        let key = self.key(part);
        let (first, step) = match action {
            "look" => (0, 2),
            "change" => (2, 6),
            "folded" => (1, 3),
            _ => (args.len(), 1),
        };
        let generation = self.known(part).generation.clone();
        let articles = args.iter().skip(first).step_by(step);
        let articles = articles.map(|article| format!("{key}:{generation}:{article}"));
        std::iter::once(format!("{key}:stream")).chain(articles).collect()
    }

    fn learn(&self, part: usize, mut answer: Vec<String>) -> Vec<String> {
        let rest = answer.split_off(answer.len().min(3));
        let [generation, last, kept] = <[String; 3]>::try_from(answer).unwrap_or_default();
        let number = |text: String| text.parse().unwrap_or(0);
        self.known(part).learn(generation, number(last), number(kept));
        rest
    }
}

impl Known {
    /// Notes that the server has this article.
    fn has(&mut self, article: ArticleId) {
        if self.articles.len() >= MOST_ARTICLES {
            self.articles.clear();
        }
        self.articles.insert(article);
    }

    /// Takes over the state of the part from an answer.
    fn learn(&mut self, generation: String, last: i64, kept: i64) {
        if self.generation != generation {
            self.missed.extend(self.acknowledged.iter().filter(|entry| **entry > kept));
            self.acknowledged.retain(|entry| *entry <= kept);
            self.generation = generation;
            self.articles.clear();
        }
        self.floor = self.floor.max(last);
    }

    /// Takes over the progress of the tables; returns the number of likes that this node acknowledged and that are
    /// lost.
    fn folded(&mut self, position: &Position) -> u64 {
        self.folded = self.folded.max(position.entry);
        self.floor = self.floor.max(position.entry);
        while self.acknowledged.front().is_some_and(|entry| *entry <= self.folded) {
            self.acknowledged.pop_front();
        }
        let is_new = position.generation == self.generation;
        let safe = if is_new { position.closed } else { position.entry };
        self.missed.drain(..).filter(|entry| *entry > safe).count() as u64
    }
}

fn part_of(article: ArticleId) -> usize {
    usize::try_from(article.rem_euclid(PARTS as i64)).unwrap_or(0)
}
