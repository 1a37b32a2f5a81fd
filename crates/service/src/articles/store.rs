//! Transactions on articles. One method is one whole transaction.
#![allow(clippy::disallowed_types, reason = "this is the store of articles: SQL types live here")]

pub(super) mod listing;
mod upkeep;

pub use upkeep::Compared;

use super::types::{Article, ArticleId, Author, Counts, Edit, NewArticle, Owned};
use super::{all_articles, comments_of, one_article};
use crate::accounts::{self, UserId};
use crate::bodies::ChangeError;
use crate::housekeeping::{self, Step};
use crate::http::By;
use crate::idempotency::{Done, Once};
use crate::store::{Store, StoreError, Tx};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

/// What hangs on an article.
pub(super) const OF_ARTICLE: &[Step] = &[
    Step {
        sql: "DELETE FROM article_likes WHERE article_id = ?1 AND user_id IN
              (SELECT user_id FROM article_likes WHERE article_id = ?1 LIMIT ?2) RETURNING user_id",
        ends: housekeeping::NONE,
    },
    Step {
        sql: "DELETE FROM article_comments WHERE id IN
              (SELECT id FROM article_comments WHERE article_id = ?1 LIMIT ?2) RETURNING id",
        ends: housekeeping::NONE,
    },
];

/// A user's articles and comments stay without an author.
pub(super) const ARTICLES_OF_USER: &str = "UPDATE articles SET author_id = NULL WHERE id IN
     (SELECT id FROM articles WHERE author_id = ?1 LIMIT ?2) RETURNING id";
pub(super) const COMMENTS_OF_USER: &str = "UPDATE article_comments SET author_id = NULL WHERE id IN
     (SELECT id FROM article_comments WHERE author_id = ?1 LIMIT ?2) RETURNING article_id";

/// Articles in the store.
#[derive(Clone, Debug)]
pub struct ArticleStore {
    store: Store,
}

/// An article after an [`Edit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// As it is now.
    pub article: Article,
    /// Its comments and likes.
    pub counts: Counts,
    /// Whether the one who changed it likes it.
    pub liked: bool,
    /// Whether anything is different from before.
    pub changed: bool,
}

impl ArticleStore {
    /// Articles in `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// The store of every system.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Stores an article, `once`.
    ///
    /// # Errors
    /// When its author is gone or the store cannot answer; nothing is stored then unless the error
    /// [is unknown](StoreError::is_unknown).
    pub async fn create(
        &self,
        new: NewArticle,
        once: Once,
    ) -> Result<Done<ArticleId>, ChangeError> {
        let job = move |tx: &mut Tx<'_>| {
            author_exists(tx, new.author)?;
            once.run(tx, |tx| {
                let id = insert(tx, &new)?;
                // "There is no such article" may be remembered for the id that is now taken.
                tx.effects().end([all_articles(), one_article(id), comments_of(id)]);
                Ok(id)
            })
        };
        self.store.write(job).await
    }

    /// Stores articles in one transaction; gives their ids, in order. For filling a store.
    ///
    /// # Errors
    /// When one is refused or the store cannot answer; none is stored then.
    pub async fn create_all(&self, all: Vec<NewArticle>) -> Result<Vec<ArticleId>, StoreError> {
        self.store.write(move |tx| all.iter().map(|new| insert(tx, new)).collect()).await
    }

    /// How many articles there are.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn count(&self) -> Result<u64, StoreError> {
        self.store
            .read(|conn| conn.query_row("SELECT count(*) FROM articles", [], |row| row.get(0)))
            .await
    }

    /// Ids of the first `limit` articles. For filling a store.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn ids(&self, limit: usize) -> Result<Vec<ArticleId>, StoreError> {
        self.store
            .read(move |conn| {
                conn.prepare("SELECT id FROM articles ORDER BY id LIMIT ?")?
                    .query_map([limit], |row| row.get(0))?
                    .collect()
            })
            .await
    }

    /// The article of this id.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn find(&self, id: ArticleId) -> Result<Option<Article>, StoreError> {
        self.store.read(move |conn| find(conn, id)).await
    }

    /// Changes an article of this user. `seen` is shown the outcome on the writer's thread, to add likes
    /// that are not in the tables yet.
    ///
    /// # Errors
    /// When the account is gone or the store cannot answer.
    pub async fn edit(
        &self,
        id: ArticleId,
        by: impl Into<By<Article>>,
        edit: Edit,
        now_ms: i64,
        seen: impl Fn(&mut Edited) + Send + 'static,
    ) -> Result<Owned<Edited>, ChangeError> {
        let by = by.into();
        let job = move |tx: &mut Tx<'_>| {
            let user = by.user;
            author_exists(tx, user)?;
            match owner(tx, id)? {
                Owned::Done(owner) if owner == user => {}
                Owned::Absent => return Ok(Owned::Absent),
                _ => return Ok(Owned::NotOwner),
            }
            if !by.holds(|| find(tx, id).map_err(StoreError::from))? {
                return Ok(Owned::Outdated);
            }
            let changed = change(tx, id, &edit, now_ms).map_err(StoreError::from)?;
            if changed {
                tx.effects().end([all_articles(), one_article(id)]);
            }
            let now = now_is(tx, id, user).map_err(StoreError::from)?;
            Ok(now.map_or(Owned::Absent, |(article, counts, liked)| {
                let mut edited = Edited { article, counts, liked, changed };
                seen(&mut edited);
                Owned::Done(edited)
            }))
        };
        self.store.write(job).await
    }

    /// Deletes an article of this user; its comments and likes are gone for everybody from then on, and
    /// their rows go later (`OF_ARTICLE`).
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn delete(
        &self,
        id: ArticleId,
        by: impl Into<By<Article>>,
    ) -> Result<Owned<()>, StoreError> {
        let by = by.into();
        self.store
            .write(move |tx| {
                match owner(tx, id)? {
                    Owned::Done(owner) if owner == by.user => {}
                    Owned::Absent => return Ok(Owned::Absent),
                    _ => return Ok(Owned::NotOwner),
                }
                if !by.holds(|| find(tx, id))? {
                    return Ok(Owned::Outdated);
                }
                tx.prepare_cached("DELETE FROM articles WHERE id = ?")?.execute([id])?;
                let effects = tx.effects();
                effects.forget(id);
                effects.end([all_articles(), one_article(id), comments_of(id)]);
                effects.leave_rows();
                Ok(Owned::Done(()))
            })
            .await
    }
}

/// Whether the account of who writes still exists.
///
/// # Errors
/// When it does not, or the store cannot answer.
pub(super) fn author_exists(tx: &Tx<'_>, user: UserId) -> Result<(), ChangeError> {
    if accounts::exists(tx, user).map_err(StoreError::from)? {
        Ok(())
    } else {
        Err(ChangeError::UnknownUser)
    }
}

fn insert(tx: &Tx<'_>, new: &NewArticle) -> Result<ArticleId, StoreError> {
    tx.prepare_cached(
        "INSERT INTO articles (author_id, title, created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, ?3)",
    )?
    .execute(params![new.author, new.title, new.created_at_ms])?;
    let id = tx.last_insert_rowid();
    tx.prepare_cached("INSERT INTO article_contents (article_id, content) VALUES (?, ?)")?
        .execute(params![id, new.content])?;
    Ok(id)
}

/// The user whose article this is, if they still exist.
fn owner(tx: &Tx<'_>, id: ArticleId) -> Result<Owned<UserId>, StoreError> {
    let found: Option<Option<UserId>> = tx
        .prepare_cached(
            "SELECT u.id FROM articles a LEFT JOIN users u ON u.id = a.author_id WHERE a.id = ?",
        )?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(match found {
        None => Owned::Absent,
        Some(None) => Owned::NotOwner,
        Some(Some(owner)) => Owned::Done(owner),
    })
}

/// Writes what differs; answers whether anything did.
fn change(tx: &Tx<'_>, id: ArticleId, edit: &Edit, now: i64) -> Result<bool, rusqlite::Error> {
    let mut changed = 0;
    if let Some(title) = &edit.title {
        changed += tx
            .prepare_cached("UPDATE articles SET title = ?2 WHERE id = ?1 AND title <> ?2")?
            .execute(params![id, title])?;
    }
    if let Some(content) = &edit.content {
        changed += tx
            .prepare_cached(
                "UPDATE article_contents SET content = ?2 WHERE article_id = ?1 AND content <> ?2",
            )?
            .execute(params![id, content])?;
    }
    if changed > 0 {
        // A clock that was set back must not take an article's change before its making.
        tx.prepare_cached(
            "UPDATE articles SET updated_at_ms = max(updated_at_ms, ?2) WHERE id = ?1",
        )?
        .execute(params![id, now])?;
    }
    Ok(changed > 0)
}

fn now_is(
    conn: &Connection,
    id: ArticleId,
    user: UserId,
) -> Result<Option<(Article, Counts, bool)>, rusqlite::Error> {
    let Some((article, counts)) = find(conn, id)?.zip(counts(conn, id)?) else { return Ok(None) };
    Ok(Some((article, counts, likes(conn, id, user)?)))
}

fn find(conn: &Connection, id: ArticleId) -> Result<Option<Article>, rusqlite::Error> {
    conn.prepare_cached(
        "SELECT a.id, a.author_id, u.nickname, a.title, a.created_at_ms, a.updated_at_ms, c.content
         FROM articles a JOIN article_contents c ON c.article_id = a.id
         LEFT JOIN users u ON u.id = a.author_id WHERE a.id = ?",
    )?
    .query_row([id], |row| {
        Ok(Article {
            id: row.get(0)?,
            author: author(row, 1)?,
            title: row.get(3)?,
            created_at_ms: row.get(4)?,
            updated_at_ms: row.get(5)?,
            content: row.get(6)?,
        })
    })
    .optional()
}

/// The counts of an article; nothing when there is none of this id.
pub(super) fn counts(conn: &Connection, id: ArticleId) -> Result<Option<Counts>, rusqlite::Error> {
    conn.prepare_cached("SELECT like_count, comment_count FROM articles WHERE id = ?")?
        .query_row([id], |row| Ok(Counts { likes: row.get(0)?, comments: row.get(1)? }))
        .optional()
}

/// Whether this user likes this article.
pub(super) fn likes(
    conn: &Connection,
    article: ArticleId,
    user: UserId,
) -> Result<bool, rusqlite::Error> {
    conn.prepare_cached("SELECT 1 FROM article_likes WHERE article_id = ? AND user_id = ?")?
        .exists([article, user])
}

/// The author from two columns, of which the second is null when the account is gone.
pub(super) fn author(row: &Row<'_>, at: usize) -> Result<Option<Author>, rusqlite::Error> {
    let nickname: Option<String> = row.get(at + 1)?;
    nickname.map(|nickname| Ok(Author { id: row.get(at)?, nickname })).transpose()
}
