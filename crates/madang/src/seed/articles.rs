//! Articles of the seeded users, comments on them, and likes.
//!
//! What is popular follows [Zipf's law](super::zipf), over articles and over users: an article's
//! share of the likes is computed, so exactly as many come as were asked for (of no article more
//! than there are users); who gives them is drawn, each user at most once for an article. Comments
//! are drawn on both sides.

mod words;

use super::batches::Batches;
use super::random::Random;
use super::zipf::Zipf;
use super::{Added, Ground, Rows};
use crate::settings::Usage;
use anyhow::ensure;
use madang_service::accounts::UserId;
use madang_service::articles::{ArticleId, NewArticle, NewComment};
use std::collections::HashSet;

const MOST_ARTICLES: i64 = 5_000_000;
/// Some 5 GB of each.
const MOST_PARTS: i64 = 100_000_000;
/// Likes of one transaction: each changes a row and an index, so more of them share pages.
const LIKES_AT_ONCE: usize = 20_000;
/// Articles whose likes are counted in one read.
const COMPARED_AT_ONCE: usize = 1000;
/// One article is written so long after the one before.
const STEP_MS: i64 = 60_000;

/// How many there shall be.
#[derive(clap::Args, Clone, Copy, Debug)]
#[group(skip)]
pub(super) struct Flags {
    /// Number of articles, up to 5000000
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_ARTICLES))]
    articles: u32,
    /// Number of comments, up to 100000000
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_PARTS))]
    comments: u32,
    /// Number of likes, up to 100000000 and at most one per article and user
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MOST_PARTS))]
    likes: u32,
}

impl Flags {
    /// Refuses what cannot be.
    pub(super) fn check(self, users: u32) -> Result<(), Usage> {
        if self.articles == 0 && (self.comments > 0 || self.likes > 0) {
            return Err(Usage("--comments and --likes need --articles".to_owned()));
        }
        let pairs = u64::from(self.articles) * u64::from(users);
        let too_many = || {
            Usage(format!(
                "--likes {}: at most one per article and user, {pairs} in all",
                self.likes
            ))
        };
        if u64::from(self.likes) <= pairs { Ok(()) } else { Err(too_many()) }
    }
}

/// Adds articles that are missing. What is there counts, not which.
pub(super) async fn fill(ground: &Ground<'_>) -> anyhow::Result<Added> {
    let wanted = ground.wanted.articles.articles;
    if wanted == 0 {
        return Ok(Added::default());
    }
    ground.begin("articles", u64::from(wanted));
    let store = ground.app.articles.store();
    let there = u32::try_from(store.count().await?).unwrap_or(u32::MAX).min(wanted);
    ground.bar.inc(u64::from(there));
    let authors = Zipf::new(u32::try_from(ground.users.len())?);
    let mut batches = Batches::new(ground.bar, |rows| {
        let store = store.clone();
        async move { store.create_all(rows).await.map(drop) }
    });
    for number in there + 1..=wanted {
        batches.push(article(ground, &authors, number)).await?;
    }
    Ok(Added { new: batches.finish().await?, old: u64::from(there) })
}

/// Adds comments that are missing, likewise.
pub(super) async fn fill_comments(ground: &Ground<'_>) -> anyhow::Result<Added> {
    let wanted = ground.wanted.articles.comments;
    if wanted == 0 {
        return Ok(Added::default());
    }
    ground.begin("comments", u64::from(wanted));
    let (ids, store) = (ids(ground).await?, ground.app.articles.comments());
    let there = u32::try_from(store.count().await?).unwrap_or(u32::MAX).min(wanted);
    ground.bar.inc(u64::from(there));
    let (popular, authors) =
        (Zipf::new(u32::try_from(ids.len())?), Zipf::new(u32::try_from(ground.users.len())?));
    let mut batches = Batches::new(ground.bar, |rows| {
        let store = store.clone();
        async move { store.add_all(rows).await }
    });
    for number in there + 1..=wanted {
        let mut random = Random::at(ground.wanted.seed, "comments", number, 0);
        let on = popular.draw(&mut random);
        batches
            .push(NewComment {
                article: ids[on as usize - 1],
                author: user(ground, authors.draw(&mut random)),
                content: words::comment(&mut random),
                created_at_ms: written_at(ground.wanted, on)
                    + i64::from(random.below(86_400)) * 1000,
            })
            .await?;
    }
    Ok(Added { new: batches.finish().await?, old: u64::from(there) })
}

/// Adds likes that are missing: to each article those that it lacks of its share, until there are as many
/// as are wanted. An article that has more than its share, as after a run with fewer articles, keeps them, so
/// others stay below theirs.
pub(super) async fn fill_likes(ground: &Ground<'_>) -> anyhow::Result<Added> {
    let wanted = u64::from(ground.wanted.articles.likes);
    if wanted == 0 {
        return Ok(Added::default());
    }
    ground.begin("likes", wanted);
    let mut liked = liked(ground).await?;
    let there = liked.iter().map(|(_, likes)| likes).sum::<u64>().min(wanted);
    ground.bar.inc(there);
    liked.truncate(ground.wanted.articles.articles as usize);
    ensure!(!liked.is_empty(), "the store has no articles");
    let (popular, fans) =
        (Zipf::new(u32::try_from(liked.len())?), Zipf::new(u32::try_from(ground.users.len())?));
    let store = ground.app.articles.likes();
    let mut batches = Batches::new(ground.bar, |rows| {
        let store = store.clone();
        async move { store.like_all(rows).await.map(drop) }
    })
    .at_once(LIKES_AT_ONCE);
    let shares = popular.shares(wanted, ground.users.len() as u64);
    let mut missing = wanted - there;
    for ((number, (id, likes)), share) in (1..).zip(liked).zip(shares) {
        let mut lacks = share.saturating_sub(likes).min(missing);
        missing -= lacks;
        if lacks == 0 {
            continue;
        }
        for fan in fans_of(ground.wanted, &fans, ground.users.len(), number, share) {
            let fan = user(ground, fan);
            // Of an article that nobody likes there is nothing to ask.
            if lacks == 0 || (likes > 0 && store.has(id, fan).await?) {
                continue;
            }
            batches.push((id, fan)).await?;
            lacks -= 1;
        }
    }
    Ok(Added { new: batches.finish().await?, old: there })
}

/// All articles, by id, and how many rows of likes each has.
async fn liked(ground: &Ground<'_>) -> anyhow::Result<Vec<(ArticleId, u64)>> {
    let store = ground.app.articles.store();
    let mut liked: Vec<(ArticleId, u64)> = Vec::new();
    loop {
        let after = liked.last().map_or(0, |(id, _)| *id);
        let found = store.compare(after, COMPARED_AT_ONCE).await?;
        if found.is_empty() {
            return Ok(liked);
        }
        liked.extend(found.iter().map(|one| (one.article, one.rows.likes)));
    }
}

/// The users who like the article of this number, in order: drawn, and when the draws keep finding the
/// same ones, the next on a walk over all of them.
fn fans_of(wanted: &Rows, fans: &Zipf, users: usize, number: u32, share: u64) -> Vec<u32> {
    let mut random = Random::at(wanted.seed, "likes", number, 0);
    let mut chosen = HashSet::new();
    for _ in 0..share.saturating_mul(4) {
        if chosen.len() as u64 == share {
            break;
        }
        chosen.insert(fans.draw(&mut random));
    }
    for rank in 0..users {
        if chosen.len() as u64 >= share {
            break;
        }
        chosen.insert(fans.number(rank));
    }
    let mut chosen: Vec<_> = chosen.into_iter().collect();
    chosen.sort_unstable();
    chosen
}

/// Ids of the articles, by their numbers less one.
async fn ids(ground: &Ground<'_>) -> anyhow::Result<Vec<ArticleId>> {
    let wanted = ground.wanted.articles.articles as usize;
    let ids = ground.app.articles.store().ids(wanted).await?;
    ensure!(!ids.is_empty(), "the store has no articles");
    Ok(ids)
}

fn user(ground: &Ground<'_>, number: u32) -> UserId {
    ground.users[number as usize - 1]
}

fn written_at(wanted: &Rows, number: u32) -> i64 {
    wanted.epoch + i64::from(number) * STEP_MS
}

/// The article of this number, which begins at 1.
fn article(ground: &Ground<'_>, authors: &Zipf, number: u32) -> NewArticle {
    let mut random = Random::at(ground.wanted.seed, "articles", number, 0);
    let (title, content) = words::article(&mut random);
    NewArticle {
        author: user(ground, authors.draw(&mut random)),
        title,
        content,
        created_at_ms: written_at(ground.wanted, number),
    }
}
