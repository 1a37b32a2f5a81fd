//! The documented queue, decided by the server: **a process that dies loses what it has acknowledged and not
//! written**, up to `likes.queue_flush` of it.
//!
//! In the documented system a set in Redis decides a toggle, the change goes on an in-process queue, and a job writes
//! the last state of each pair a minute later. Here the script decides, without a stream. One of the two mistakes is
//! avoided: the job writes the state that the server has at that time, so of two nodes that hold changes of one pair
//! none writes the older one last.

use super::super::batch::BatchOutcome;
use super::super::store::apply;
use super::super::{Like, MOST_QUEUED, Pair};
use super::{Stream, part_of};
use crate::store::{Result, Tx};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Likes that this node has acknowledged and not written.
#[derive(Debug)]
pub(super) struct Queue {
    every: Duration,
    pending: Mutex<BTreeMap<Pair, Waiting>>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    liked: bool,
    /// The script's name of the change.
    entry: i64,
    since: Instant,
}

impl Queue {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, pending: Mutex::default() }
    }

    pub(super) fn every(&self) -> Duration {
        self.every
    }

    pub(super) fn is_full(&self) -> bool {
        self.pending.lock().len() >= MOST_QUEUED
    }

    /// Adds an acknowledged change.
    pub(super) fn add(&self, like: Like, liked: bool, entry: i64) {
        let since = Instant::now();
        let mut pending = self.pending.lock();
        let waiting = pending.entry(like.pair());
        let waiting = waiting.or_insert(Waiting { liked, entry, since });
        // Answers of two batches may come in either order.
        if entry > waiting.entry {
            (waiting.liked, waiting.entry) = (liked, entry);
        }
    }

    /// Number of pending pairs, and the age of the oldest.
    pub(super) fn metrics(&self) -> (u64, Duration) {
        let pending = self.pending.lock();
        let oldest = pending.values().map(|waiting| waiting.since).min();
        (pending.len() as u64, oldest.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    fn wrote(&self, chunk: &[(Pair, Waiting)]) {
        let mut pending = self.pending.lock();
        for (pair, written) in chunk {
            if pending.get(pair).is_some_and(|waiting| waiting.entry == written.entry) {
                pending.remove(pair);
            }
        }
    }
}

impl Stream {
    /// Writes what is pending now; returns whether that succeeded. A failure leaves it for the next time.
    pub(super) async fn write_queue(self: &Arc<Self>, queue: &Arc<Queue>) -> bool {
        let all: Vec<_> =
            queue.pending.lock().iter().map(|(pair, waiting)| (*pair, *waiting)).collect();
        let write = async |chunk: &[_]| self.write_chunk(queue, chunk).await;
        self.core.write_chunks(&all, write).await
    }

    async fn write_chunk(
        self: &Arc<Self>,
        queue: &Arc<Queue>,
        chunk: &[(Pair, Waiting)],
    ) -> Result<()> {
        let likes: Arc<[Like]> = self.states(chunk).await.into();
        let (counters, queue) = (Arc::clone(&self.core.counters), Arc::clone(queue));
        let (sent, written) = (Arc::clone(&likes), chunk.to_vec());
        let job = move |tx: &mut Tx<'_>| apply(tx, &sent);
        let committed = move |outcome: &BatchOutcome| {
            counters.committed(outcome.changed());
            counters.applied(outcome.changed());
            queue.wrote(&written);
        };
        let outcome = self.core.store.store.write_then(job, committed).await?;
        let gone = chunk.iter().zip(&outcome.answers).filter(|(_, answer)| answer.is_err());
        let mut forget: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (((article, _), waiting), _) in gone {
            let args = forget.entry(part_of(*article)).or_insert_with(|| vec!["0".to_owned()]);
            args.extend([article.to_string(), waiting.entry.to_string(), String::new()]);
        }
        // If that fails, the server keeps a deleted article until it expires.
        self.call_all("folded", forget.into_iter().collect()).await;
        Ok(())
    }

    /// State to be stored of each pair: the server's, or else the acknowledged one.
    async fn states(self: &Arc<Self>, chunk: &[(Pair, Waiting)]) -> Vec<Like> {
        let mut by_part: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, ((article, _), _)) in chunk.iter().enumerate() {
            by_part.entry(part_of(*article)).or_default().push(at);
        }
        let args = |at: &usize| {
            let (article, user) = chunk[*at].0;
            [article.to_string(), user.to_string()]
        };
        let parts =
            by_part.iter().map(|(part, places)| (*part, places.iter().flat_map(args).collect()));
        let mut liked: Vec<bool> = chunk.iter().map(|(_, waiting)| waiting.liked).collect();
        for (part, answer) in self.call_all("look", parts.collect()).await {
            // Two words of each: the count, which is not needed here, and the state.
            let answer = answer.unwrap_or_default();
            for (at, words) in by_part[&part].iter().zip(answer.chunks_exact(2)) {
                if !words[1].is_empty() {
                    liked[*at] = words[1] == "1";
                }
            }
        }
        chunk.iter().zip(liked).map(|((pair, _), liked)| Like::set(*pair, liked)).collect()
    }
}
