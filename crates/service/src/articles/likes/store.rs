//! Transactions on likes.

use super::batch::{BatchOutcome, Fold, decide};
use super::{Like, LikeError, Pair, PendingLikes, StoredLike, bulk};
use crate::accounts::{self, UserId};
use crate::articles::store::{counts, likes};
use crate::articles::types::{ArticleId, Counts};
use crate::store::{Conn, Result, Store, StoreError, Tx, params};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Likes in the store. A method that fails has written nothing, unless the error
/// [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct LikeStore {
    pub(super) store: Store,
}

/// Place where likes are decided. Its number is stored in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecidedBy {
    Tables = 0,
    Stream = 1,
    Queue = 2,
}

impl DecidedBy {
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

    /// Checks that all nodes of a database decide likes in the same place. Blocks the thread.
    pub(super) fn agree(&self, ours: DecidedBy) -> Result<()> {
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
        let all = [DecidedBy::Tables, DecidedBy::Stream, DecidedBy::Queue];
        let theirs = all.into_iter().find(|one| *one as i64 == agreed);
        let (ours, theirs) = (ours.name(), theirs.map_or("something newer", DecidedBy::name));
        Err(StoreError::CannotOpen(format!(
            "likes.write is {ours} here, and {theirs} on the other nodes of this database: one must not write past the \
             other. To change it, stop all nodes, which empties the stream, and run: \
             UPDATE madang_cluster SET likes_stream = NULL"
        )))
    }

    /// True if this user likes this article, according to the tables.
    pub async fn has(&self, article: ArticleId, user: UserId) -> Result<bool> {
        self.store.read(move |conn| likes(conn, article, user)).await
    }

    /// The counts of an article; nothing when there is none of this id.
    pub async fn counts(&self, article: ArticleId) -> Result<Option<Counts>> {
        self.store.read(move |conn| counts(conn, article)).await
    }

    /// The counts of an article including pending likes, read on the writer's thread, which changes both.
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
    ) -> Result<Result<StoredLike, LikeError>> {
        let look = move |conn: &Conn<'_>| {
            let Some(counts) = counts(conn, article)? else { return Ok(Err(LikeError::NoArticle)) };
            if !accounts::exists(conn, user)? {
                return Ok(Err(LikeError::NoUser));
            }
            Ok(Ok(StoredLike { counts, liked: likes(conn, article, user)? }))
        };
        self.store.read(look).await
    }

    /// Stores likes in one transaction, for filling a store; returns how many were not there before.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn like_all(&self, pairs: Vec<(ArticleId, UserId)>) -> Result<u64> {
        let likes: Vec<_> = pairs.into_iter().map(|pair| Like::set(pair, true)).collect();
        self.store.write(move |tx| apply(tx, &likes).map(|outcome| outcome.changed())).await
    }
}

/// Applies likes as if one after another, writing each row and each count once. A like of an absent article
/// or by an absent user is refused alone.
pub(super) fn apply(tx: &Tx<'_>, likes: &[Like]) -> Result<BatchOutcome> {
    if tx.is_shared() {
        return bulk::apply(tx, likes);
    }
    let mut users = HashMap::with_capacity(likes.len().min(256));
    let change = |pair: Pair, fold| {
        let is_user = exists(tx, pair.1, &mut users)?;
        is_user.then(|| change(tx, pair, fold)).transpose()
    };
    let outcome = decide(likes, |article| counts(tx, article), change)?;
    for (article, before, after) in &outcome.counts {
        if after.likes != before.likes {
            let update = "UPDATE articles SET like_count = ? WHERE id = ?";
            tx.run(update, params![after.likes, article])?;
        }
    }
    Ok(outcome)
}

/// True if a user exists, looked up once in a batch.
pub(super) fn exists(tx: &Tx<'_>, user: UserId, known: &mut HashMap<UserId, bool>) -> Result<bool> {
    match known.entry(user) {
        Entry::Occupied(known) => Ok(*known.get()),
        Entry::Vacant(vacant) => Ok(*vacant.insert(accounts::stays(tx, user)?)),
    }
}

/// Applies a fold to the row of a pair; returns whether the row was there before. The statement that writes
/// also decides: nothing is looked up first.
fn change(tx: &Tx<'_>, pair: Pair, fold: Fold) -> Result<bool> {
    Ok(match fold {
        Fold::Keep => likes(tx, pair.0, pair.1)?,
        Fold::Set(true) => !insert(tx, pair)?,
        Fold::Set(false) => delete(tx, pair)?,
        Fold::Flip => {
            let was = delete(tx, pair)?;
            if !was {
                insert(tx, pair)?;
            }
            was
        }
    })
}

fn insert(tx: &Tx<'_>, (article, user): Pair) -> Result<bool> {
    let insert = "INSERT INTO article_likes (article_id, user_id) VALUES (?, ?)";
    Ok(tx.insert_new(insert, params![article, user])?.is_some())
}

fn delete(tx: &Tx<'_>, (article, user): Pair) -> Result<bool> {
    let delete = "DELETE FROM article_likes WHERE article_id = ? AND user_id = ?";
    Ok(tx.run(delete, params![article, user])? > 0)
}
