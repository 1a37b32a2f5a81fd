//! Transactions on likes.

use super::batch::{Fold, OfArticle, Sorted};
use super::{Like, LikeError, Liked, Look, PendingLikes, bulk};
use crate::accounts::{self, UserId};
use crate::articles::store::{counts, likes};
use crate::articles::types::{ArticleId, Counts};
use crate::store::{Conn, Result, Store, StoreError, Tx, params};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Likes in the store. Every method fails when the store cannot answer; nothing is written then,
/// unless the error [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct LikeStore {
    pub(super) store: Store,
}

/// What a transaction has done.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// What each like is answered, in the order of the batch.
    pub(super) answers: Vec<Result<Liked, LikeError>>,
    /// What the counts of the articles are now.
    pub(super) counts: Vec<(ArticleId, Counts)>,
    /// Rows added or taken away.
    pub(super) changed: u64,
}

/// Where it is decided what becomes of a like; the numbers stand in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decides {
    Tables = 0,
    Stream = 1,
    Queue = 2,
}

impl Decides {
    fn name(self) -> &'static str {
        match self {
            Self::Tables => "neither stream nor queue with likes.url",
            Self::Stream => "stream",
            Self::Queue => "queue with likes.url",
        }
    }
}

impl LikeStore {
    /// Likes in `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Makes sure that all nodes of a database decide likes in the same place. Blocks the thread.
    pub(super) fn agree(&self, ours: Decides) -> Result<()> {
        if !self.store.is_shared() {
            return Ok(());
        }
        let agreed: i64 = self.store.write_blocking(move |tx| {
            let note = "UPDATE madang_cluster SET likes_stream = ? WHERE likes_stream IS NULL";
            tx.run(note, params![ours as i64])?;
            tx.one("SELECT likes_stream FROM madang_cluster", &[])
        })?;
        if agreed == ours as i64 {
            return Ok(());
        }
        let all = [Decides::Tables, Decides::Stream, Decides::Queue];
        let theirs = all.into_iter().find(|one| *one as i64 == agreed);
        let theirs = theirs.map_or("something newer", Decides::name);
        let ours = ours.name();
        Err(StoreError::CannotOpen(format!(
            "likes.write is {ours} here, and {theirs} on the other nodes of this database: one must not write past the \
             other. To change it, stop all nodes, which empties the stream, and run: \
             UPDATE madang_cluster SET likes_stream = NULL"
        )))
    }

    /// Whether this user likes this article, in the store.
    pub async fn has(&self, article: ArticleId, user: UserId) -> Result<bool> {
        self.store.read(move |conn| likes(conn, article, user)).await
    }

    /// The counts of an article; nothing when there is none of this id.
    pub async fn counts(&self, article: ArticleId) -> Result<Option<Counts>> {
        self.store.read(move |conn| counts(conn, article)).await
    }

    /// The counts of an article with likes that are not in the tables yet, read where both are changed.
    pub(super) async fn counts_on_writer(
        &self,
        article: ArticleId,
        pending: Arc<PendingLikes>,
    ) -> Result<Option<Counts>> {
        let now = move |tx: &mut Tx<'_>| {
            let stored = counts(tx, article)?;
            let likes = pending.likes(article);
            Ok(stored.map(|stored| Counts { likes: likes.unwrap_or(stored.likes), ..stored }))
        };
        self.store.write(now).await
    }

    /// The counts of an article, and whether this user likes it.
    pub(super) async fn look(
        &self,
        article: ArticleId,
        user: UserId,
    ) -> Result<Result<Look, LikeError>> {
        let look = move |conn: &Conn<'_>| {
            let Some(counts) = counts(conn, article)? else { return Ok(Err(LikeError::NoArticle)) };
            if !accounts::exists(conn, user)? {
                return Ok(Err(LikeError::NoUser));
            }
            Ok(Ok(Look { counts, liked: likes(conn, article, user)? }))
        };
        self.store.read(look).await
    }

    /// Stores likes in one transaction, those that are there already not again; answers how many were
    /// added. Counts follow. For filling a store.
    pub async fn like_all(&self, pairs: Vec<(ArticleId, UserId)>) -> Result<u64> {
        let likes: Vec<_> = pairs.into_iter().map(|pair| Like::to_be(pair, true)).collect();
        self.store.write(move |tx| apply(tx, &likes).map(|applied| applied.changed)).await
    }
}

/// Applies likes, as if one after another, each row and each count being written once. A like of an article
/// or by a user that is not there is refused for itself.
pub(super) fn apply(tx: &Tx<'_>, likes: &[Like]) -> Result<Applied> {
    if tx.is_shared() {
        return bulk::apply(tx, likes);
    }
    let mut applied =
        Applied { answers: vec![Err(LikeError::NoArticle); likes.len()], ..Applied::default() };
    let mut users = HashMap::with_capacity(likes.len().min(256));
    for of_article in Sorted::new(likes).articles() {
        apply_one(tx, &of_article, &mut users, &mut applied)?;
    }
    Ok(applied)
}

fn apply_one(
    tx: &Tx<'_>,
    of_article: &OfArticle<'_>,
    users: &mut HashMap<UserId, bool>,
    applied: &mut Applied,
) -> Result<()> {
    let article = of_article.article();
    let Some(counted) = counts(tx, article)? else { return Ok(()) };
    let mut before = HashMap::new();
    let (mut added, mut removed) = (0u64, 0u64);
    for (user, fold) in of_article.folded() {
        if !exists(tx, user, users)? {
            continue;
        }
        let was = change(tx, article, user, fold)?;
        let is = fold.applied_to(was);
        added += u64::from(is && !was);
        removed += u64::from(was && !is);
        before.insert(user, was);
    }
    for (at, answer) in of_article.answers(counted, before) {
        applied.answers[at] = answer.ok_or(LikeError::NoUser);
    }
    let likes = (counted.likes + added).saturating_sub(removed);
    if likes != counted.likes {
        tx.run("UPDATE articles SET like_count = ? WHERE id = ?", params![likes, article])?;
    }
    applied.changed += added + removed;
    applied.counts.push((article, Counts { likes, ..counted }));
    Ok(())
}

/// Whether a user exists, asked of the store once in a batch.
pub(super) fn exists(tx: &Tx<'_>, user: UserId, known: &mut HashMap<UserId, bool>) -> Result<bool> {
    match known.entry(user) {
        Entry::Occupied(known) => Ok(*known.get()),
        Entry::Vacant(vacant) => Ok(*vacant.insert(accounts::stays(tx, user)?)),
    }
}

/// Brings the row of a pair to what its likes come down to; answers whether it was there before. The
/// statement that writes is the one that decides: nothing is looked up first.
fn change(tx: &Tx<'_>, article: ArticleId, user: UserId, fold: Fold) -> Result<bool> {
    Ok(match fold {
        Fold::Keep => likes(tx, article, user)?,
        Fold::Set(true) => !insert(tx, article, user)?,
        Fold::Set(false) => delete(tx, article, user)?,
        Fold::Flip => {
            let was = delete(tx, article, user)?;
            if !was {
                insert(tx, article, user)?;
            }
            was
        }
    })
}

fn insert(tx: &Tx<'_>, article: ArticleId, user: UserId) -> Result<bool> {
    let insert = "INSERT INTO article_likes (article_id, user_id) VALUES (?, ?)";
    Ok(tx.insert_new(insert, params![article, user])?.is_some())
}

fn delete(tx: &Tx<'_>, article: ArticleId, user: UserId) -> Result<bool> {
    let delete = "DELETE FROM article_likes WHERE article_id = ? AND user_id = ?";
    Ok(tx.run(delete, params![article, user])? > 0)
}
