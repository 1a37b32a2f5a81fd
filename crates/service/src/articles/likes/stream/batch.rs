//! Likes that are sent to the stream together: one call for each part, and one look into the tables for all that the
//! stream does not know.

use super::super::bulk;
use super::super::{Change, Like, LikeError, Liked};
use super::{MOST_PENDING, Shared, part_of};
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
/// Batches under way: each waits for the server and perhaps for the tables, and more would only be smaller.
const AT_ONCE: usize = 4;
/// Times that a like is tried: once more with what the tables say, and again when the server loses something or a
/// connection turns out to be lost.
const TRIES: usize = 4;

type LikeOutcome = Result<Liked, LikeError>;

/// Likes that wait, and how many batches are under way.
#[derive(Debug, Default)]
pub(super) struct Batches {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    likes: Vec<(Like, oneshot::Sender<LikeOutcome>)>,
    running: usize,
}

/// A like of a batch.
struct Open {
    like: Like,
    /// What the tables say, and of which generation that holds.
    base: Option<(String, bulk::Looked)>,
    outcome: Option<LikeOutcome>,
}

impl Batches {
    /// The next batch; with none, the caller is done.
    fn take(&self) -> Vec<(Like, oneshot::Sender<LikeOutcome>)> {
        let mut waiting = self.waiting.lock();
        let count = waiting.likes.len().min(MOST_TOGETHER);
        if count == 0 {
            waiting.running -= 1;
        }
        waiting.likes.drain(..count).collect()
    }
}

impl Shared {
    /// Changes a like together with those that come at the same time.
    pub(super) async fn apply_with_others(self: &Arc<Self>, like: Like) -> LikeOutcome {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut waiting = self.batches.waiting.lock();
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
            // Goes on when this client leaves: others wait for it.
            tokio::spawn(async move { this.run_batches().await });
        }
        // Unanswered is what was under way when the event loop ended.
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
                // Who has left does not hear it.
                let _ = caller.send(outcome);
            }
        }
    }

    async fn apply_all(self: &Arc<Self>, likes: Vec<Like>) -> Vec<LikeOutcome> {
        let open = |like| Open { like, base: None, outcome: None };
        let mut all: Vec<Open> = likes.into_iter().map(open).collect();
        let unknown: Vec<usize> = (0..all.len()).filter(|at| !self.has(all[*at].like)).collect();
        self.look(&mut all, &unknown).await;
        for tried in 0..TRIES {
            let asking = self.send(&mut all, tried == 0).await;
            self.look(&mut all, &asking).await;
            if all.iter().all(|one| one.outcome.is_some()) {
                break;
            }
        }
        let away = || LikeError::Away("it loses what it knows again and again".to_owned());
        all.into_iter().map(|one| one.outcome.unwrap_or_else(|| Err(away()))).collect()
    }

    /// Sends what has no outcome yet; answers which likes need a look into the tables.
    async fn send(self: &Arc<Self>, all: &mut [Open], is_first: bool) -> Vec<usize> {
        let mut by_part: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, one) in all.iter().enumerate().filter(|(_, one)| one.outcome.is_none()) {
            by_part.entry(part_of(one.like.article)).or_default().push(at);
        }
        let most = if self.queue.is_none() { MOST_PENDING.to_string() } else { String::new() };
        let parts = by_part.iter().map(|(part, places)| {
            let likes = places.iter().map(|at| &all[*at]);
            (*part, change_words(&most, likes))
        });
        let parts = parts.collect();
        let mut asking = Vec::new();
        for (part, answer) in self.ask_all("change", parts).await {
            let places = by_part.remove(&part).unwrap_or_default();
            match answer {
                Ok(rest) => {
                    for (at, words) in places.into_iter().zip(rest.chunks(4)) {
                        all[at].outcome = self.outcome(all[at].like, part, words);
                        if all[at].outcome.is_none() {
                            asking.push(at);
                        }
                    }
                }
                Err(error) => failed(all, &places, &error, is_first),
            }
        }
        asking
    }

    /// Whether the server is likely to know the article: what it does not know it asks for, which takes another call.
    fn has(&self, like: Like) -> bool {
        self.known(part_of(like.article)).articles.contains(&like.article)
    }

    /// What the script says of one like; nothing when it has to be looked up.
    fn outcome(&self, like: Like, part: usize, words: &[String]) -> Option<LikeOutcome> {
        let [what, count, liked, entry] = words else {
            return Some(Err(LikeError::Away("an answer that is none".to_owned())));
        };
        if let Ok(entry) = entry.parse() {
            match &self.queue {
                Some(queue) => queue.add(like, liked == "1", entry),
                None => self.known(part).acknowledged.push_back(entry),
            }
        }
        match what.as_str() {
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

    /// Looks up in the tables what these likes begin from.
    async fn look(&self, all: &mut [Open], asking: &[usize]) {
        if asking.is_empty() {
            return;
        }
        // Before the look: what the server loses meanwhile makes that worthless. One for each part, as a call has one.
        let part = |at: &usize| part_of(all[*at].like.article);
        let generations: BTreeMap<usize, String> = asking
            .iter()
            .map(part)
            .map(|part| (part, self.known(part).generation.clone()))
            .collect();
        let likes: Vec<Like> = asking.iter().map(|at| all[*at].like).collect();
        let looked = self.parts.store.store.read(move |conn| bulk::look(conn, &likes)).await;
        match looked {
            Ok(looked) => {
                for (at, look) in asking.iter().zip(looked) {
                    let one = &mut all[*at];
                    let generation = &generations[&part_of(one.like.article)];
                    match look {
                        Ok(look) => one.base = Some((generation.clone(), look)),
                        Err(error) => one.outcome = Some(Err(error)),
                    }
                }
            }
            Err(error) => {
                for at in asking {
                    all[*at].outcome = Some(Err(LikeError::Store(error.clone())));
                }
            }
        }
    }
}

/// A call that failed. What may be done twice is tried once more: so a connection that was lost is found out.
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

fn change_words<'o>(most: &str, all: impl Iterator<Item = &'o Open>) -> Vec<String> {
    let mut words = vec![most.to_owned(), String::new()];
    for one in all {
        let change = match one.like.change {
            Change::On => "1",
            Change::Off => "0",
            Change::Toggle => "toggle",
        };
        words.extend([one.like.article, one.like.user].map(|id| id.to_string()));
        words.push(change.to_owned());
        match &one.base {
            Some((generation, looked)) => {
                // The same for all of a call.
                words[1].clone_from(generation);
                words.push(u8::from(looked.look.liked).to_string());
                words.push(looked.look.counts.likes.to_string());
                words.push(looked.all.as_ref().map_or_else(|| "?".to_owned(), |all| list(all)));
            }
            None => words.extend([const { String::new() }; 3]),
        }
    }
    words
}

fn list(users: &[UserId]) -> String {
    let mut text = String::with_capacity(8 * users.len());
    for user in users {
        let _ = write!(text, "{user},");
    }
    text
}
