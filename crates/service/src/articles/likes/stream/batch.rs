//! Likes that are sent to the stream together: one call for each part, and one read of the tables for all that the
//! stream does not have.

use super::super::bulk;
use super::super::{Change, Like, LikeError, Liked};
use super::{MOST_PENDING, Stream, part_of};
use crate::accounts::UserId;
use crate::store::StoreError;
use madang_valkey::Error;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Likes that may wait, as in `behind`.
const MOST_WAITING: usize = 4096;
/// Likes of a batch.
const MOST_TOGETHER: usize = 512;
/// Batches at once: each waits for the server and perhaps for the tables, and more would only be smaller.
const AT_ONCE: usize = 4;
/// Tries of a like: a second with the state in the tables, and more if the server loses data or a connection is lost.
const TRIES: usize = 4;

type LikeOutcome = Result<Liked, LikeError>;

/// Likes that wait, and the number of running batches.
#[derive(Debug, Default)]
pub(super) struct Batches(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    likes: Vec<(Like, oneshot::Sender<LikeOutcome>)>,
    running: usize,
}

/// A like of a batch.
struct Open {
    like: Like,
    /// State in the tables, and the generation for which it holds.
    base: Option<(String, bulk::Base)>,
    outcome: Option<LikeOutcome>,
}

impl Batches {
    /// Takes the next batch; an empty one ends its task.
    fn take(&self) -> Vec<(Like, oneshot::Sender<LikeOutcome>)> {
        let mut waiting = self.0.lock();
        let count = waiting.likes.len().min(MOST_TOGETHER);
        if count == 0 {
            waiting.running -= 1;
        }
        waiting.likes.drain(..count).collect()
    }
}

impl Stream {
    /// Changes a like together with those that come at the same time.
    pub(super) async fn apply_with_others(self: &Arc<Self>, like: Like) -> LikeOutcome {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut waiting = self.batches.0.lock();
            let is_full = self.queue.as_ref().is_some_and(|queue| queue.is_full());
            if is_full || waiting.likes.len() >= MOST_WAITING {
                return Err(LikeError::Full);
            }
            waiting.likes.push((like, answer));
            let begins = waiting.running < AT_ONCE;
            waiting.running += usize::from(begins);
            begins
        };
        if begins {
            let this = Arc::clone(self);
            // It continues when this client leaves: others wait for it.
            tokio::spawn(async move { this.run_batches().await });
        }
        // The sender is dropped unused if the event loop ends.
        answered.await.unwrap_or(Err(LikeError::Store(StoreError::Closed)))
    }

    async fn run_batches(self: &Arc<Self>) {
        loop {
            let batch = self.batches.take();
            if batch.is_empty() {
                return;
            }
            let (likes, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            for (outcome, caller) in self.apply_all(likes).await.into_iter().zip(callers) {
                // The caller may have left.
                let _ = caller.send(outcome);
            }
        }
    }

    async fn apply_all(self: &Arc<Self>, likes: Vec<Like>) -> Vec<LikeOutcome> {
        let open = |like| Open { like, base: None, outcome: None };
        let mut all: Vec<Open> = likes.into_iter().map(open).collect();
        let unknown: Vec<usize> = (0..all.len()).filter(|at| !self.has(all[*at].like)).collect();
        self.read_bases(&mut all, &unknown).await;
        for tried in 0..TRIES {
            let unknown = self.send(&mut all, tried == 0).await;
            self.read_bases(&mut all, &unknown).await;
            if all.iter().all(|one| one.outcome.is_some()) {
                break;
            }
        }
        let away = || LikeError::Away("it loses what it knows again and again".to_owned());
        all.into_iter().map(|one| one.outcome.unwrap_or_else(|| Err(away()))).collect()
    }

    /// Sends the likes without an outcome; returns those that need the state in the tables.
    async fn send(self: &Arc<Self>, all: &mut [Open], is_first: bool) -> Vec<usize> {
        let mut by_part: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, one) in all.iter().enumerate().filter(|(_, one)| one.outcome.is_none()) {
            by_part.entry(part_of(one.like.article)).or_default().push(at);
        }
        let most = if self.queue.is_none() { MOST_PENDING.to_string() } else { String::new() };
        let parts = by_part.iter().map(|(part, places)| {
            let likes = places.iter().map(|at| &all[*at]);
            (*part, change_args(&most, likes))
        });
        let parts = parts.collect();
        let mut unknown = Vec::new();
        for (part, answer) in self.call_all("change", parts).await {
            let places = by_part.remove(&part).unwrap_or_default();
            match answer {
                Ok(rest) => {
                    for (at, words) in places.into_iter().zip(rest.chunks(4)) {
                        all[at].outcome = self.outcome(all[at].like, part, words);
                        if all[at].outcome.is_none() {
                            unknown.push(at);
                        }
                    }
                }
                Err(error) => failed(all, &places, &error, is_first),
            }
        }
        unknown
    }

    /// True if the server is likely to have the article. If it does not, another call is needed.
    fn has(&self, like: Like) -> bool {
        self.known(part_of(like.article)).articles.contains(&like.article)
    }

    /// Outcome of a like from the script's answer; `None` if the state in the tables is needed.
    fn outcome(&self, like: Like, part: usize, words: &[String]) -> Option<LikeOutcome> {
        let [result, count, liked, entry] = words else {
            return Some(Err(LikeError::Away("an answer that is none".to_owned())));
        };
        if let Ok(entry) = entry.parse() {
            match &self.queue {
                Some(queue) => queue.add(like, liked == "1", entry),
                None => self.known(part).acknowledged.push_back(entry),
            }
        }
        match result.as_str() {
            "ask" => None,
            "full" => Some(Err(LikeError::Full)),
            "gone" => Some(Err(LikeError::NoArticle)),
            _ => {
                self.known(part).has(like.article);
                let count = count.parse().unwrap_or(0);
                Some(Ok(Liked { liked: liked == "1", count }))
            }
        }
    }

    /// Reads the state before these likes from the tables.
    async fn read_bases(&self, all: &mut [Open], unknown: &[usize]) {
        if unknown.is_empty() {
            return;
        }
        // Before the read: if the server loses data meanwhile, its result is void. One for each part, as in a call.
        let generation = |at: &usize| {
            let part = part_of(all[*at].like.article);
            (part, self.known(part).generation.clone())
        };
        let generations: BTreeMap<usize, String> = unknown.iter().map(generation).collect();
        let likes: Vec<Like> = unknown.iter().map(|at| all[*at].like).collect();
        let looked = self.core.store.store.read(move |conn| bulk::look(conn, &likes)).await;
        match looked {
            Ok(looked) => {
                for (at, look) in unknown.iter().zip(looked) {
                    let one = &mut all[*at];
                    let generation = &generations[&part_of(one.like.article)];
                    match look {
                        Ok(look) => one.base = Some((generation.clone(), look)),
                        Err(error) => one.outcome = Some(Err(error)),
                    }
                }
            }
            Err(error) => {
                for at in unknown {
                    all[*at].outcome = Some(Err(LikeError::Store(error.clone())));
                }
            }
        }
    }
}

/// Takes a failed call. A like that is safe to repeat is tried once more, since the connection may have been lost.
fn failed(all: &mut [Open], places: &[usize], error: &Error, is_first: bool) {
    for at in places {
        let one = &mut all[*at];
        let again = is_first && error.is_unknown() && one.like.change != Change::Toggle;
        if !again {
            let text = error.to_string();
            let error = match error.is_unknown() {
                true => LikeError::Store(StoreError::Unknown(text)),
                false => LikeError::Away(text),
            };
            one.outcome = Some(Err(error));
        }
    }
}

fn change_args<'o>(most: &str, all: impl Iterator<Item = &'o Open>) -> Vec<String> {
    let mut args = vec![most.to_owned(), String::new()];
    for one in all {
        let change = match one.like.change {
            Change::On => "1",
            Change::Off => "0",
            Change::Toggle => "toggle",
        };
        args.extend([one.like.article, one.like.user].map(|id| id.to_string()));
        args.push(change.to_owned());
        match &one.base {
            Some((generation, base)) => {
                // The same for all likes of a call.
                args[1].clone_from(generation);
                args.push(u8::from(base.stored.liked).to_string());
                args.push(base.stored.counts.likes.to_string());
                args.push(base.likers.as_ref().map_or_else(|| "?".to_owned(), |all| list(all)));
            }
            None => args.extend([const { String::new() }; 3]),
        }
    }
    args
}

fn list(users: &[UserId]) -> String {
    let mut text = String::with_capacity(8 * users.len());
    for user in users {
        let _ = write!(text, "{user},");
    }
    text
}
