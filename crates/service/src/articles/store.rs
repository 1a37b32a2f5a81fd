//! Transactions on articles. One method is one whole transaction.

pub(crate) mod listing;
mod search;
mod upkeep;

pub use upkeep::Compared;

use super::types::{Article, ArticleId, Author, Counts, Edit, NewArticle};
use super::{all_articles, comments_of, one_article};
use crate::accounts::{self, OwnedRows, Quota, UserId};
use crate::housekeeping::{self, Step};
use crate::http::{By, Refusal, Remover};
use crate::idempotency::{Done, Once};
use crate::search::{self as index};
use crate::store::{ChangeError, Conn, Row, Store, StoreError, Tx, params};

/// What hangs on an article.
pub(super) const OF_ARTICLE: &[Step] = &[
    Step {
        find: "SELECT user_id, user_id FROM article_likes WHERE article_id = ?1 LIMIT ?2",
        change: "DELETE FROM article_likes WHERE article_id = ?1 AND user_id = ?2",
        ends: housekeeping::NONE,
    },
    Step {
        find: "SELECT id, id FROM article_comments WHERE article_id = ?1 LIMIT ?2",
        change: "DELETE FROM article_comments WHERE article_id = ?1 AND id = ?2",
        ends: housekeeping::NONE,
    },
];

/// What a user leaves who is deleted: articles and comments without an author. Likes are found in another way.
pub(crate) const OF_USER: &[Step] = &[
    Step {
        find: "SELECT id, id FROM articles WHERE author_id = ?1 LIMIT ?2",
        change: "UPDATE articles SET author_id = NULL WHERE author_id = ?1 AND id = ?2",
        ends: |id| Some(one_article(id)),
    },
    Step {
        find: "SELECT id, article_id FROM article_comments WHERE author_id = ?1 LIMIT ?2",
        change: "UPDATE article_comments SET author_id = NULL WHERE author_id = ?1 AND id = ?2",
        ends: |article| Some(comments_of(article)),
    },
];

/// Articles in the store.
#[derive(Clone, Debug)]
pub struct ArticleStore {
    store: Store,
    quota: Quota,
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
    /// Articles in `store`, so many of each user.
    pub fn new(store: Store, quota: Quota) -> Self {
        Self { store, quota }
    }

    /// The store of every system.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Stores an article, `once`. Done even when the caller goes away.
    ///
    /// # Errors
    /// When its author is gone or the store cannot answer; nothing is stored then unless the error
    /// [is unknown](StoreError::is_unknown).
    pub async fn create(
        &self,
        new: NewArticle,
        once: Once,
    ) -> Result<Done<ArticleId>, ChangeError> {
        let quota = self.quota;
        let job = move |tx: &mut Tx<'_>| {
            author_exists(tx, new.author)?;
            once.run(tx, |tx| {
                quota.room_for_one(tx, OwnedRows::Articles, new.author)?;
                let id = insert(tx, &new)?;
                index::note(tx, index::ARTICLES, id)?;
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
        self.store
            .write(move |tx| {
                tx.effects().end_everything();
                let ids: Vec<_> =
                    all.iter().map(|new| insert(tx, new)).collect::<Result<_, StoreError>>()?;
                let text = |new: &NewArticle| index::text(&[&new.title, &new.content]);
                let texts = ids.iter().zip(&all).map(|(id, new)| (*id, text(new)));
                index::add_all(tx, index::ARTICLES, texts)?;
                Ok(ids)
            })
            .await
    }

    /// How many articles there are.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn count(&self) -> Result<u64, StoreError> {
        self.store
            .read(|conn| conn.only("SELECT count(*) FROM articles", &[], |row| row.get(0)))
            .await
    }

    /// Ids of the first `limit` articles. For filling a store.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn ids(&self, limit: usize) -> Result<Vec<ArticleId>, StoreError> {
        self.store
            .read(move |conn| {
                conn.rows("SELECT id FROM articles ORDER BY id LIMIT ?", params![limit], |row| {
                    row.get(0)
                })
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
    ) -> Result<Result<Edited, Refusal>, ChangeError> {
        let by = by.into();
        let job = move |tx: &mut Tx<'_>| {
            let user = by.user;
            author_exists(tx, user)?;
            tx.hold("articles", id)?;
            if let Err(refusal) = by.may(owner(tx, id)?, || find(tx, id))? {
                return Ok(Err(refusal));
            }
            let changed = change(tx, id, &edit, now_ms)?;
            if changed {
                index::note(tx, index::ARTICLES, id)?;
                tx.effects().end([all_articles(), one_article(id)]);
            }
            let now = now_is(tx, id, user)?;
            Ok(now.ok_or(Refusal::Absent).map(|(article, counts, liked)| {
                let mut edited = Edited { article, counts, liked, changed };
                seen(&mut edited);
                edited
            }))
        };
        self.store.write(job).await
    }

    /// Deletes an article, for its author or the operator, even when the caller goes away; its comments and likes are
    /// gone for everybody from then on, and their rows go later (`OF_ARTICLE`).
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn delete(
        &self,
        id: ArticleId,
        by: impl Into<Remover<Article>>,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let by = by.into();
        self.store
            .write(move |tx| {
                tx.hold("articles", id)?;
                let outcome = by.may(owner(tx, id)?, || find(tx, id))?;
                if outcome.is_err() {
                    return Ok(outcome);
                }
                delete(tx, id)?;
                let effects = tx.effects();
                effects.forget(id);
                effects.end([all_articles(), one_article(id), comments_of(id)]);
                effects.leave_rows();
                Ok(outcome)
            })
            .await
    }
}

/// Whether the account of who writes still exists.
///
/// # Errors
/// When it does not, or the store cannot answer.
pub(super) fn author_exists(tx: &Tx<'_>, user: UserId) -> Result<(), ChangeError> {
    if accounts::stays(tx, user)? { Ok(()) } else { Err(ChangeError::UnknownUser) }
}

fn insert(tx: &Tx<'_>, new: &NewArticle) -> Result<ArticleId, StoreError> {
    let id = tx.insert("INSERT INTO articles (author_id, title, created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, ?3)", params![new.author, new.title, new.created_at_ms])?;
    tx.run(
        "INSERT INTO article_contents (article_id, content) VALUES (?, ?)",
        params![id, new.content],
    )?;
    Ok(id)
}

/// The row goes; its text is nobody's, and what else hung on it goes later.
fn delete(tx: &Tx<'_>, id: ArticleId) -> Result<(), StoreError> {
    tx.run("DELETE FROM articles WHERE id = ?", params![id])?;
    // In a file a trigger does the rest, so that it also follows from what an operator does by hand.
    if tx.is_shared() {
        tx.run("DELETE FROM article_contents WHERE article_id = ?", params![id])?;
        tx.insert_new("INSERT INTO deleted_articles (id) VALUES (?)", params![id])?;
    }
    Ok(())
}

/// The user whose article this is, if they still exist; nothing when there is no such article.
fn owner(tx: &Tx<'_>, id: ArticleId) -> Result<Option<Option<UserId>>, StoreError> {
    tx.first(
        "SELECT u.id FROM articles a LEFT JOIN users u ON u.id = a.author_id WHERE a.id = ?",
        params![id],
        |row| row.get(0),
    )
}

/// Writes what differs; answers whether anything did.
fn change(tx: &Tx<'_>, id: ArticleId, edit: &Edit, now: i64) -> Result<bool, StoreError> {
    let mut changed = 0;
    if let Some(title) = &edit.title {
        changed += tx.run(
            "UPDATE articles SET title = ?2 WHERE id = ?1 AND title <> ?2",
            params![id, title],
        )?;
    }
    if let Some(content) = &edit.content {
        changed += tx.run(
            "UPDATE article_contents SET content = ?2 WHERE article_id = ?1 AND content <> ?2",
            params![id, content],
        )?;
    }
    if changed > 0 {
        // A clock that was set back must not take an article's change before its making.
        tx.run("UPDATE articles SET updated_at_ms = CASE WHEN updated_at_ms < ?2 THEN ?2 ELSE updated_at_ms END WHERE id = ?1", params![id, now])?;
    }
    Ok(changed > 0)
}

fn now_is(
    conn: &Conn<'_>,
    id: ArticleId,
    user: UserId,
) -> Result<Option<(Article, Counts, bool)>, StoreError> {
    let Some((article, counts)) = find(conn, id)?.zip(counts(conn, id)?) else { return Ok(None) };
    Ok(Some((article, counts, likes(conn, id, user)?)))
}

fn find(conn: &Conn<'_>, id: ArticleId) -> Result<Option<Article>, StoreError> {
    conn.first(
        "SELECT a.id, a.author_id, u.nickname, a.title, a.created_at_ms, a.updated_at_ms, c.content
         FROM articles a JOIN article_contents c ON c.article_id = a.id
         LEFT JOIN users u ON u.id = a.author_id WHERE a.id = ?",
        params![id],
        |row| {
            Ok(Article {
                id: row.get(0)?,
                author: author(row, 1)?,
                title: row.get(3)?,
                created_at_ms: row.get(4)?,
                updated_at_ms: row.get(5)?,
                content: row.get(6)?,
            })
        },
    )
}

/// The counts of an article; nothing when there is none of this id.
pub(super) fn counts(conn: &Conn<'_>, id: ArticleId) -> Result<Option<Counts>, StoreError> {
    conn.first("SELECT like_count, comment_count FROM articles WHERE id = ?", params![id], |row| {
        Ok(Counts { likes: row.get(0)?, comments: row.get(1)? })
    })
}

/// Whether this user likes this article.
pub(super) fn likes(conn: &Conn<'_>, article: ArticleId, user: UserId) -> Result<bool, StoreError> {
    conn.exists(
        "SELECT 1 FROM article_likes WHERE article_id = ? AND user_id = ?",
        params![article, user],
    )
}

/// The author from two columns, of which the second is null when the account is gone.
pub(super) fn author(row: &Row<'_>, at: usize) -> Result<Option<Author>, StoreError> {
    let nickname: Option<String> = row.get(at + 1)?;
    nickname.map(|nickname| Ok(Author { id: row.get(at)?, nickname })).transpose()
}
