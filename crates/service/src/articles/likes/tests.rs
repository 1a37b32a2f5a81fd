//! The log of likes, pending likes, and passes.

mod log;

use super::behind::Behind;
use super::pass::{Pass, replay};
use super::*;
use crate::articles::Articles;
use crate::articles::store::listing::PageRequest;
use crate::articles::tests::{Bench, Held, articles, articles_after, comment};
use crate::articles::types::Order;
use crate::config::LikesWrite;
use crate::idempotency::Once;
use crate::markets::Words;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// A step of a test on a system whose likes are logged.
#[derive(Clone, Copy, Debug)]
enum Step {
    Like(ArticleId, UserId, Change),
    Comment(ArticleId),
    Edit(ArticleId, UserId),
    /// Applies a slice of this many pairs, of the current pass or a new one.
    Apply(usize),
    Delete(ArticleId),
    DeleteUser(UserId),
    /// The process ends without applying anything, and another one starts.
    Crash,
    /// Counts are evicted from memory.
    Evict,
}

fn step(random: &mut fastrand::Rng, articles: i64) -> Step {
    let (article, user) = (random.i64(1..=articles), random.i64(1..=8));
    match random.u32(..100) {
        ..55 => {
            let change = [Change::On, Change::Off, Change::Toggle][random.usize(..3)];
            Step::Like(article, user, change)
        }
        55..60 => Step::Comment(article),
        60..65 => Step::Edit(article, user),
        65..90 => Step::Apply(random.usize(1..5)),
        90..97 => Step::Evict,
        97 => Step::Crash,
        98 => Step::Delete(article),
        _ => Step::DeleteUser(user),
    }
}

/// Expected state.
#[derive(Debug, Default)]
struct Model {
    likes: HashSet<Pair>,
    deleted: HashSet<ArticleId>,
    users_gone: HashSet<UserId>,
}

impl Model {
    fn count(&self, article: ArticleId) -> u64 {
        self.likes.iter().filter(|pair| pair.0 == article).count() as u64
    }

    fn like(&mut self, pair: Pair, change: Change) -> Result<Liked, LikeError> {
        if self.deleted.contains(&pair.0) {
            return Err(LikeError::NoArticle);
        }
        if self.users_gone.contains(&pair.1) {
            return Err(LikeError::NoUser);
        }
        let liked = change.applied_to(self.likes.contains(&pair));
        if liked {
            self.likes.insert(pair)
        } else {
            self.likes.remove(&pair)
        };
        Ok(Liked { liked, count: self.count(pair.0) })
    }
}

/// Asserts that all readers of likes and counts see those of the model.
async fn everybody_sees(system: &Articles, model: &Model, articles: i64, at: usize) {
    for article in 1..=articles {
        for user in 1..=8 {
            let liked = system.liked(article, user).await.unwrap();
            let seen = liked || model.deleted.contains(&article);
            assert!(seen || !model.likes.contains(&(article, user)), "{at}: {article} by {user}");
            let wanted = !liked || model.deleted.contains(&article);
            assert!(wanted || model.likes.contains(&(article, user)), "{at}: {article} by {user}");
        }
        let counts = system.counts(article).await.unwrap();
        let wanted = (!model.deleted.contains(&article)).then(|| model.count(article));
        assert_eq!(counts.map(|counts| counts.likes), wanted, "{at}: counts of {article}");
    }
    for order in [Order::Newest, Order::Likes] {
        let pending = &system.likes.core.pending;
        let asked = PageRequest { words: Words::default(), order, after: None };
        let page = system.store.listed(asked, 100, pending).await.unwrap().items;
        assert_eq!(page.len(), articles as usize - model.deleted.len());
        for listed in page {
            assert_eq!(listed.likes, model.count(listed.article.id), "{at}: {order:?}");
        }
    }
}

#[tokio::test]
async fn whatever_is_applied_when_everybody_sees_what_was_acknowledged() {
    const ARTICLES: i64 = 6;
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let bench = Bench::embedded(ARTICLES).await;
        let (mut model, mut pass) = (Model::default(), None);
        let mut system = articles(&bench);
        for at in 0..150 {
            let step = step(&mut random, ARTICLES);
            match step {
                Step::Like(article, user, change) => {
                    let done = bench.like(&system.likes, article, user, change).await;
                    assert_eq!(done, model.like((article, user), change), "{seed} {at} {step:?}");
                }
                Step::Comment(article) => {
                    let user = (1..=8).find(|user| !model.users_gone.contains(user));
                    let new = comment(article, user.unwrap_or(1));
                    let _ = system.comments().add(new, Once::default()).await;
                }
                Step::Edit(article, user) => {
                    let edited = system.edit(article, user, Default::default()).await;
                    if let Ok(Ok(edited)) = edited {
                        assert_eq!(edited.counts.likes, model.count(article), "{seed} {at}");
                        assert_eq!(edited.liked, model.likes.contains(&(article, user)));
                    }
                }
                Step::Apply(pairs) => {
                    let core = system.likes.core.clone();
                    let mut running = match pass.take() {
                        Some(running) => running,
                        None => match Pass::begin(core, pairs) {
                            Some(begun) => begun,
                            None => continue,
                        },
                    };
                    pass = running.step().await.unwrap().then_some(running);
                }
                Step::Delete(article) => {
                    if let Ok(Ok(())) = system.store().delete(article, 1).await {
                        model.deleted.insert(article);
                        model.likes.retain(|pair| pair.0 != article);
                    }
                }
                // By an operator, who then restarts the service. User 1 has written the articles.
                Step::DeleteUser(1) => {}
                Step::DeleteUser(user) => {
                    pass = None;
                    bench.store.execute(format!("DELETE FROM users WHERE id = {user}")).await;
                    model.users_gone.insert(user);
                    model.likes.retain(|pair| pair.1 != user);
                    system = restarted(&bench).await;
                    system.take_back_likes_of_the_gone().await.unwrap();
                }
                Step::Crash => {
                    pass = None;
                    system = restarted(&bench).await;
                }
                Step::Evict => {
                    let ids = 1..=ARTICLES;
                    ids.for_each(|id| system.counts.forget(id));
                }
            }
            everybody_sees(&system, &model, ARTICLES, at).await;
        }
        system.likes.flush().await;
        assert_eq!(system.like_metrics().pending, 0);
        everybody_sees(&system, &model, ARTICLES, 999).await;
        let mut rows = bench.rows().await;
        rows.retain(|pair| !model.deleted.contains(&pair.0));
        assert_eq!(rows, model.likes, "{seed}");
        bench.counts_are_rows().await;
        assert_eq!(bench.store.number("SELECT count(*) FROM like_log").await, 0);
    }
}

/// Another process on the same store.
async fn restarted(bench: &Bench) -> Articles {
    let store = bench.store.clone();
    let replayed = tokio::task::spawn_blocking(move || replay(&store)).await.unwrap().unwrap();
    assert!(replayed.left.is_none());
    assert_eq!(bench.store.number("SELECT count(*) FROM like_log").await, 0);
    bench.counts_are_rows().await;
    articles(bench)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_reader_misses_a_like_or_sees_a_count_go_back_while_passes_run() {
    const ARTICLES: i64 = 3;
    const USERS: i64 = 150;
    let bench = Arc::new(Bench::embedded(ARTICLES).await);
    bench.store.add_users(9..=USERS).await;
    let system = Arc::new(articles(&bench));
    // Acknowledged likes of each article.
    let acknowledged: Arc<[AtomicU64; ARTICLES as usize]> = Arc::default();
    let over = Arc::new(AtomicBool::new(false));
    let mut others = tokio::task::JoinSet::new();
    {
        let (system, over) = (Arc::clone(&system), Arc::clone(&over));
        others.spawn(async move {
            let mut applied = 0;
            while !over.load(SeqCst) {
                let Some(mut pass) = Pass::begin(system.likes.core.clone(), 2) else {
                    tokio::task::yield_now().await;
                    continue;
                };
                while pass.step().await.unwrap() {
                    applied += 1;
                }
            }
            applied
        });
    }
    for reader in 0..3 {
        let (system, over) = (Arc::clone(&system), Arc::clone(&over));
        let acknowledged = Arc::clone(&acknowledged);
        others.spawn(async move {
            let (mut seen, mut looks) = ([0; ARTICLES as usize], 0);
            while !over.load(SeqCst) {
                looks += 1;
                let at_least: Vec<_> = acknowledged.iter().map(|n| n.load(SeqCst)).collect();
                let shown: Vec<(ArticleId, u64)> = if reader == 0 {
                    let pending = &system.likes.core.pending;
                    let asked =
                        PageRequest { words: Words::default(), order: Order::Likes, after: None };
                    let page = system.store.listed(asked, 10, pending).await.unwrap().items;
                    page.into_iter().map(|listed| (listed.article.id, listed.likes)).collect()
                } else {
                    let mut shown = Vec::new();
                    for id in 1..=ARTICLES {
                        if reader == 1 {
                            system.counts.forget(id);
                        }
                        shown.push((id, system.counts(id).await.unwrap().unwrap().likes));
                    }
                    shown
                };
                for (id, likes) in shown {
                    let at = id as usize - 1;
                    assert!(likes >= at_least[at], "{reader}: {likes} of {} at {id}", at_least[at]);
                    assert!(likes >= seen[at], "{reader}: {likes} after {} at {id}", seen[at]);
                    seen[at] = likes;
                }
                let id = 1 + looks % ARTICLES;
                let edited = system.edit(id, 1, Default::default()).await.unwrap();
                let Ok(edited) = edited else { panic!("{edited:?}") };
                assert!(edited.counts.likes >= at_least[id as usize - 1], "{reader}: edited");
            }
            looks
        });
    }
    let mut likes = tokio::task::JoinSet::new();
    for of in 0..8 {
        let (bench, system) = (Arc::clone(&bench), Arc::clone(&system));
        let acknowledged = Arc::clone(&acknowledged);
        likes.spawn(async move {
            for user in (1..=USERS).filter(|user| user % 8 == of) {
                for id in 1..=ARTICLES {
                    let done = bench.like(&system.likes, id, user, Change::On).await.unwrap();
                    assert!(done.liked);
                    acknowledged[id as usize - 1].fetch_add(1, SeqCst);
                    assert!(system.liked(id, user).await.unwrap(), "{id} by {user}");
                }
            }
        });
    }
    likes.join_all().await;
    over.store(true, SeqCst);
    assert!(others.join_all().await.iter().all(|times| *times > 0));
    system.likes.flush().await;
    assert_eq!(bench.rows().await.len() as i64, ARTICLES * USERS);
    bench.counts_are_rows().await;
}
