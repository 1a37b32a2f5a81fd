//! The queue as documented, on the server that decides: **a process that dies loses what it has acknowledged and not
//! written yet**, up to `likes.queue_flush` of it.
//!
//! In the documented system a set in Redis decides a toggle, the change goes on an in-process queue, and a job writes the
//! last state of each pair a minute later. Here the script decides, without a stream. Of its two mistakes one is left
//! out: the job writes the state that the server has then, so two nodes that hold changes of one pair do not write the
//! older one last.

use super::super::pairs::Pair;
use super::super::store::{Applied, apply};
use super::super::{Like, MOST_QUEUED};
use super::{Shared, part_of};
use crate::store::{Result, Tx};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What this node has acknowledged and not written.
#[derive(Debug)]
pub(super) struct Queue {
    every: Duration,
    pending: Mutex<BTreeMap<Pair, Waiting>>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    liked: bool,
    /// What the script has called the change.
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

    /// A change that is acknowledged.
    pub(super) fn add(&self, like: Like, liked: bool, entry: i64) {
        let since = Instant::now();
        let mut pending = self.pending.lock();
        let waiting = pending.entry((like.article, like.user));
        let waiting = waiting.or_insert(Waiting { liked, entry, since });
        // Answers of two batches may come in either order.
        if entry > waiting.entry {
            (waiting.liked, waiting.entry) = (liked, entry);
        }
    }

    /// How many wait, and the oldest of them for how long.
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

impl Shared {
    /// Writes what waits now; answers whether it could. What cannot be written stays, for the next time.
    pub(super) async fn write_queue(self: &Arc<Self>, queue: &Arc<Queue>) -> bool {
        let all: Vec<_> =
            queue.pending.lock().iter().map(|(pair, waiting)| (*pair, *waiting)).collect();
        let write = async |chunk: &[_]| self.write_chunk(queue, chunk).await;
        self.parts.write_chunks(&all, write).await
    }

    async fn write_chunk(
        self: &Arc<Self>,
        queue: &Arc<Queue>,
        chunk: &[(Pair, Waiting)],
    ) -> Result<()> {
        let likes: Arc<[Like]> = self.states(chunk).await.into();
        let (counted, queue) = (Arc::clone(&self.parts.counted), Arc::clone(queue));
        let (sent, written) = (Arc::clone(&likes), chunk.to_vec());
        let job = move |tx: &mut Tx<'_>| apply(tx, &sent);
        let committed = move |applied: &Applied| {
            counted.committed(applied.changed);
            counted.applied(applied.changed);
            queue.wrote(&written);
        };
        let applied = self.parts.store.store.write_then(job, committed).await?;
        let gone = chunk.iter().zip(&applied.answers).filter(|(_, answer)| answer.is_err());
        let mut forget: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (((article, _), waiting), _) in gone {
            let words = forget.entry(part_of(*article)).or_insert_with(|| vec!["0".to_owned()]);
            words.extend([article.to_string(), waiting.entry.to_string(), String::new()]);
        }
        // Where that fails, the server goes on knowing an article that is gone, until it expires.
        self.ask_all("folded", forget.into_iter().collect()).await;
        Ok(())
    }

    /// What these pairs are to become: what the server says, or what was acknowledged where it has nothing to say.
    async fn states(self: &Arc<Self>, chunk: &[(Pair, Waiting)]) -> Vec<Like> {
        let mut by_part: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, ((article, _), _)) in chunk.iter().enumerate() {
            by_part.entry(part_of(*article)).or_default().push(at);
        }
        let word = |at: &usize| {
            let (article, user) = chunk[*at].0;
            [article.to_string(), user.to_string()]
        };
        let parts =
            by_part.iter().map(|(part, places)| (*part, places.iter().flat_map(word).collect()));
        let mut liked: Vec<bool> = chunk.iter().map(|(_, waiting)| waiting.liked).collect();
        for (part, told) in self.ask_all("look", parts.collect()).await {
            // The count, which is not needed here, and the state of each.
            let told = told.unwrap_or_default();
            for (at, words) in by_part[&part].iter().zip(told.chunks_exact(2)) {
                if !words[1].is_empty() {
                    liked[*at] = words[1] == "1";
                }
            }
        }
        chunk.iter().zip(liked).map(|((pair, _), liked)| Like::to_be(*pair, liked)).collect()
    }
}
