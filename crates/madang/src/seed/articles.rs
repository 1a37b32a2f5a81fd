//! Articles of the seeded users, comments on them, and likes.
//!
//! Popularity of articles and activity of users follow [Zipf's law](super::zipf). An article's share of the likes is
//! computed, so the total is exact (with at most one like per user and article), and its users are drawn. Comments
//! are drawn on both sides.

mod words;

use super::batches::Batches;
use super::random::Random;
use super::zipf::Zipf;
use super::{Added, Context, Rows, begin};
use anyhow::ensure;
use madang_service::accounts::UserId;
use madang_service::articles::{ArticleId, NewArticle, NewComment};
use std::collections::HashSet;

/// Likes of one transaction: each changes a row and an index, and many share pages.
const LIKES_AT_ONCE: usize = 20_000;
/// Articles whose likes are counted in one read.
const COMPARED_AT_ONCE: usize = 1000;
/// Time between two articles.
const STEP_MS: i64 = 60_000;

/// Adds missing articles. Existing ones are only counted.
pub(super) async fn fill(context: &Context<'_>) -> anyhow::Result<Added> {
    let wanted = context.wanted.articles;
    if wanted == 0 {
        return Ok(Added::default());
    }
    let store = context.app.articles.store();
    let existing = context.begin("articles", wanted, store.count()).await?;
    let authors = Zipf::new(u32::try_from(context.users.len())?);
    let mut batches = Batches::new(context.bar, |rows| {
        let store = store.clone();
        async move { store.create_all(rows).await.map(drop) }
    });
    for number in existing + 1..=wanted {
        batches.push(article(context, &authors, number)).await?;
    }
    Ok(Added { new: batches.finish().await?, old: u64::from(existing) })
}

/// Adds missing comments. Existing ones are only counted.
pub(super) async fn fill_comments(context: &Context<'_>) -> anyhow::Result<Added> {
    let wanted = context.wanted.comments;
    if wanted == 0 {
        return Ok(Added::default());
    }
    let store = context.app.articles.comments();
    let existing = context.begin("comments", wanted, store.count()).await?;
    let ids = context.app.articles.store().ids(context.wanted.articles as usize).await?;
    ensure!(!ids.is_empty(), "the store has no articles");
    let (popular, authors) =
        (Zipf::new(u32::try_from(ids.len())?), Zipf::new(u32::try_from(context.users.len())?));
    let mut batches = Batches::new(context.bar, |rows| {
        let store = store.clone();
        async move { store.add_all(rows).await }
    });
    for number in existing + 1..=wanted {
        let mut random = Random::at(context.wanted.seed, "comments", number, 0);
        let on = popular.draw(&mut random);
        batches
            .push(NewComment {
                article: ids[on as usize - 1],
                author: user(context, authors.draw(&mut random)),
                content: words::comment(&mut random),
                created_at_ms: written_at(context.wanted, on)
                    + i64::from(random.below(86_400)) * 1000,
            })
            .await?;
    }
    Ok(Added { new: batches.finish().await?, old: u64::from(existing) })
}

/// Adds missing likes: to each article up to its share, until the total is reached. An article with more than its
/// share, as after a run with fewer articles, keeps them, so others remain below theirs.
pub(super) async fn fill_likes(context: &Context<'_>) -> anyhow::Result<Added> {
    let wanted = u64::from(context.wanted.likes);
    if wanted == 0 {
        return Ok(Added::default());
    }
    begin(context.bar, "likes", wanted);
    let mut liked = liked(context).await?;
    let existing = liked.iter().map(|(_, likes)| likes).sum::<u64>().min(wanted);
    context.bar.inc(existing);
    liked.truncate(context.wanted.articles as usize);
    ensure!(!liked.is_empty(), "the store has no articles");
    let (popular, fans) =
        (Zipf::new(u32::try_from(liked.len())?), Zipf::new(u32::try_from(context.users.len())?));
    let store = context.app.articles.likes();
    let mut batches = Batches::new(context.bar, |rows| {
        let store = store.clone();
        async move { store.like_all(rows).await.map(drop) }
    })
    .at_once(LIKES_AT_ONCE);
    let shares = popular.shares(wanted, context.users.len() as u64);
    let mut missing = wanted - existing;
    for ((number, (id, likes)), share) in (1..).zip(liked).zip(shares) {
        let mut lacks = share.saturating_sub(likes).min(missing);
        missing -= lacks;
        if lacks == 0 {
            continue;
        }
        for fan in fans_of(context.wanted, &fans, context.users.len(), number, share) {
            let fan = user(context, fan);
            // No query for an article without likes.
            if lacks == 0 || (likes > 0 && store.has(id, fan).await?) {
                continue;
            }
            batches.push((id, fan)).await?;
            lacks -= 1;
        }
    }
    Ok(Added { new: batches.finish().await?, old: existing })
}

/// All articles by id, with their numbers of likes.
async fn liked(context: &Context<'_>) -> anyhow::Result<Vec<(ArticleId, u64)>> {
    let store = context.app.articles.store();
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

/// Sorted numbers of the users who like an article: drawn, and filled up by rank if draws repeat too often.
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

fn user(context: &Context<'_>, number: u32) -> UserId {
    context.users[number as usize - 1]
}

fn written_at(wanted: &Rows, number: u32) -> i64 {
    wanted.epoch + i64::from(number) * STEP_MS
}

/// The article of a number, from 1.
fn article(context: &Context<'_>, authors: &Zipf, number: u32) -> NewArticle {
    let mut random = Random::at(context.wanted.seed, "articles", number, 0);
    let (title, content) = words::article(&mut random);
    NewArticle {
        author: user(context, authors.draw(&mut random)),
        title,
        content,
        created_at_ms: written_at(context.wanted, number),
    }
}
