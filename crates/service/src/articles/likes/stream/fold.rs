//! Folds the stream into the tables.

use super::super::batch::BatchOutcome;
use super::super::store::apply;
use super::super::{Change, Like};
use super::{PARTS, Position, Stream};
use crate::articles::types::ArticleId;
use crate::store::{Result, StoreError, Tx, columns, params};
use madang_valkey::{Error, redis};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Most entries of a part in one transaction.
const AT_ONCE: usize = 1024;
/// Time between two rounds, and after a failure. Rounds that follow at once would be smaller and cost more.
const EVERY: Duration = Duration::from_millis(100);
const AGAIN: Duration = Duration::from_millis(500);
/// Lease of the node that folds for all; another node takes over when it expires.
const TURN: Duration = Duration::from_secs(1);

/// Progress of folding on this node.
#[derive(Debug)]
pub(super) struct Folding {
    /// Random name of this node.
    name: u64,
    failed: AtomicBool,
    rounds: AtomicU64,
    pending: AtomicU64,
    lag_micros: AtomicU64,
    lost: AtomicU64,
}

impl Default for Folding {
    fn default() -> Self {
        let (failed, rounds, pending, lag_micros, lost) = Default::default();
        Self { name: fastrand::u64(..), failed, rounds, pending, lag_micros, lost }
    }
}

impl Folding {
    pub(super) async fn until_due(&self) {
        let pause = if self.failed.load(Relaxed) { AGAIN } else { EVERY };
        tokio::time::sleep(pause).await;
    }

    /// True in one round of ten.
    fn looks(&self) -> bool {
        self.rounds.fetch_add(1, Relaxed).is_multiple_of(10)
    }

    pub(super) fn metrics(&self) -> (u64, Duration, u64) {
        let lag = Duration::from_micros(self.lag_micros.load(Relaxed));
        (self.pending.load(Relaxed), lag, self.lost.load(Relaxed))
    }

    pub(super) fn lost(&self, likes: u64) {
        if likes > 0 {
            self.lost.fetch_add(likes, Relaxed);
            tracing::error!(likes, "the server of likes.url has lost likes that were acknowledged");
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum FoldError {
    #[error("the stream: {0}")]
    Stream(#[from] Arc<Error>),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("another node was faster")]
    Overtaken,
}

/// Entries of one part, oldest first.
struct Entries {
    part: usize,
    /// The last folded entry before them.
    from: i64,
    /// Each with its like; `None` for an entry that cannot be read.
    list: Vec<(i64, Option<Like>)>,
}

impl Entries {
    fn last(&self) -> i64 {
        self.list.last().map_or(self.from, |(entry, _)| *entry)
    }
}

impl Stream {
    /// Folds until nothing waits, if it is this node's turn or `anyway`; returns whether that succeeded.
    pub(super) async fn fold_all(self: &Arc<Self>, anyway: bool) -> bool {
        loop {
            match self.fold(anyway).await {
                Ok(true) => {}
                Ok(false) | Err(FoldError::Overtaken) => {
                    self.folding.failed.store(false, Relaxed);
                    return true;
                }
                Err(error) => {
                    self.core.counters.flush_failed();
                    if self.folding.failed.swap(true, Relaxed) {
                        tracing::debug!(%error, "acknowledged likes are not in the tables yet");
                    } else {
                        tracing::warn!(%error, "acknowledged likes are not in the tables yet");
                    }
                    return false;
                }
            }
        }
    }

    /// Folds one round; returns whether more may wait.
    async fn fold(self: &Arc<Self>, anyway: bool) -> Result<bool, FoldError> {
        let lengths = self.lengths().await?;
        let pending = lengths.iter().sum();
        self.folding.pending.store(pending, Relaxed);
        let ours = pending > 0 && (anyway || self.is_our_turn().await.map_err(Arc::new)?);
        if !ours {
            self.folding.lag_micros.store(0, Relaxed);
        }
        // A node that does not fold follows the positions too, only less often.
        if !ours && !self.folding.looks() {
            return Ok(false);
        }
        let positions = self.positions().await?;
        self.follow(&positions);
        if !ours {
            return Ok(false);
        }
        let busy: Vec<usize> = (0..PARTS).filter(|part| lengths[*part] > 0).collect();
        let all = self.entries(&busy, &positions).await?;
        self.note_lag(&all).await?;
        let full = all.iter().any(|entries| entries.list.len() == AT_ONCE);
        let counts = self.write(&all).await?;
        let args = all.iter().map(|entries| (entries.part, folded_args(entries, &counts)));
        for (_, answer) in self.call_all("folded", args.collect()).await {
            answer?;
        }
        Ok(full)
    }

    async fn lengths(self: &Arc<Self>) -> Result<[u64; PARTS], FoldError> {
        let mut lengths = [0; PARTS];
        let all = (0..PARTS).map(|part| (part, Vec::new())).collect();
        for (part, answer) in self.call_all("about", all).await {
            lengths[part] = answer?.first().and_then(|length| length.parse().ok()).unwrap_or(0);
        }
        Ok(lengths)
    }

    /// Takes over the progress of the tables.
    pub(super) fn follow(&self, positions: &[Position; PARTS]) {
        for (part, position) in positions.iter().enumerate() {
            let lost = self.known(part).folded(position);
            self.folding.lost(lost);
        }
    }

    /// Reads the progress of the tables.
    pub(super) async fn positions(&self) -> Result<[Position; PARTS]> {
        let sql = "SELECT part, position, generation, closed FROM like_positions";
        let read = self.core.store.store.read(move |conn| conn.rows(sql, &[], columns));
        let mut positions: [Position; PARTS] = Default::default();
        for (part, entry, generation, closed) in read.await? {
            if let Some(known) = positions.get_mut::<usize>(part) {
                *known = Position { entry, generation, closed };
            }
        }
        Ok(positions)
    }

    async fn entries(
        self: &Arc<Self>,
        parts: &[usize],
        positions: &[Position; PARTS],
    ) -> Result<Vec<Entries>, FoldError> {
        let args = |part: &usize| {
            let after = positions[*part].entry.to_string();
            (*part, vec![after, AT_ONCE.to_string()])
        };
        let mut all = Vec::new();
        for (part, answer) in self.call_all("read", parts.iter().map(args).collect()).await {
            let answer = answer?;
            let entries = answer.chunks_exact(2);
            let list = entries.filter_map(|entry| self::entry(&entry[0], &entry[1])).collect();
            all.push(Entries { part, from: positions[part].entry, list });
        }
        // The order in which their rows are locked.
        all.sort_by_key(|entries| entries.part);
        Ok(all)
    }

    /// Notes the age of the oldest entry, by the server's clock, which named the entries.
    async fn note_lag(&self, all: &[Entries]) -> Result<(), FoldError> {
        let oldest = all.iter().filter_map(|entries| entries.list.first()).map(|(entry, _)| *entry);
        let lag = match oldest.min() {
            Some(oldest) => {
                let (seconds, micros): (i64, i64) =
                    self.server.run(&redis::cmd("TIME")).await.map_err(Arc::new)?;
                (seconds * 1_000_000 + micros).saturating_sub(oldest)
            }
            None => 0,
        };
        self.folding.lag_micros.store(u64::try_from(lag).unwrap_or(0), Relaxed);
        Ok(())
    }

    /// True if this node folds for all. Two at once, for a moment, do no harm.
    async fn is_our_turn(&self) -> Result<bool, Error> {
        let key = format!("{}:folds", self.prefix);
        let name = format!("{:x}", self.folding.name);
        let mut take = redis::cmd("SET");
        take.arg(&key).arg(&name).arg("NX").arg("PX").arg(TURN.as_millis() as u64);
        if self.server.run::<Option<String>>(&take).await?.is_some() {
            return Ok(true);
        }
        let mut get = redis::cmd("GET");
        get.arg(&key);
        let ours = self.server.run::<Option<String>>(&get).await? == Some(name);
        if ours {
            let mut keep = redis::cmd("PEXPIRE");
            keep.arg(&key).arg(TURN.as_millis() as u64);
            self.server.run::<i64>(&keep).await?;
        }
        Ok(ours)
    }

    /// Writes positions and rows in one transaction; returns the new counts.
    async fn write(&self, all: &[Entries]) -> Result<HashMap<ArticleId, u64>, FoldError> {
        let moves: Vec<(usize, String, i64, i64)> = all
            .iter()
            .filter(|entries| entries.last() > entries.from)
            .map(|entries| {
                let generation = self.known(entries.part).generation.clone();
                (entries.part, generation, entries.from, entries.last())
            })
            .collect();
        let likes: Vec<Like> =
            all.iter().flat_map(|entries| &entries.list).filter_map(|(_, like)| *like).collect();
        if moves.is_empty() {
            return Ok(HashMap::new());
        }
        let job = move |tx: &mut Tx<'_>| {
            for (part, generation, from, to) in &moves {
                // Set from left to right.
                let sql = "UPDATE like_positions SET closed = IF(generation = ?, closed, position), \
                           generation = ?, position = ? WHERE part = ? AND position = ?";
                let part = *part as i64;
                let values = params![generation, generation, to, part, from];
                if tx.run(sql, values)? == 0 {
                    return Err(FoldError::Overtaken);
                }
            }
            Ok(apply(tx, &likes)?)
        };
        let counters = Arc::clone(&self.core.counters);
        let committed = move |outcome: &BatchOutcome| {
            counters.committed(outcome.changed());
            counters.applied(outcome.changed());
        };
        let outcome = self.core.store.store.write_then(job, committed).await?;
        Ok(outcome.counts.into_iter().map(|(article, _, now)| (article, now.likes)).collect())
    }
}

/// Arguments of the script for folded entries: each article with its newest entry and its count in the tables, empty
/// if the article is gone.
fn folded_args(entries: &Entries, counts: &HashMap<ArticleId, u64>) -> Vec<String> {
    let likes = entries.list.iter().filter_map(|(entry, like)| Some((like.as_ref()?, *entry)));
    let newest: BTreeMap<ArticleId, i64> =
        likes.map(|(like, entry)| (like.article, entry)).collect();
    let mut args = vec![entries.last().to_string()];
    for (article, entry) in newest {
        let count = counts.get(&article).map_or_else(String::new, u64::to_string);
        args.extend([article.to_string(), entry.to_string(), count]);
    }
    args
}

fn entry(id: &str, text: &str) -> Option<(i64, Option<Like>)> {
    let entry = id.split_once('-')?.0.parse().ok()?;
    let like = like(text);
    if like.is_none() {
        tracing::error!(id, text, "left out an entry of the stream of likes that is none");
    }
    Some((entry, like))
}

fn like(text: &str) -> Option<Like> {
    let mut words = text.split(':');
    let (article, user) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let change = match words.next()? {
        "1" => Change::On,
        "0" => Change::Off,
        _ => return None,
    };
    Some(Like { article, user, change })
}
