//! Transactions on comments. One method is one whole transaction.

use crate::accounts::{OwnedRows, Quota};
use crate::articles::comments_of;
use crate::articles::store::{author, author_exists, counts};
use crate::articles::types::{ArticleId, Comment, CommentId, Counts, NewComment};
use crate::http::{Refusal, Remover};
use crate::idempotency::{Done, Once};
use crate::store::{ChangeError, Conn, Result, Row, Store, StoreError, Tx, params};
use std::collections::BTreeMap;

/// Comments in the store. A method that fails has written nothing, unless the error
/// [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct CommentStore {
    store: Store,
    quota: Quota,
}

impl CommentStore {
    /// Comments in `store`, at most `quota` of each user.
    pub fn new(store: Store, quota: Quota) -> Self {
        Self { store, quota }
    }

    /// Stores a comment, `once`; `None` if there is no such article.
    ///
    /// # Errors
    /// Also when the author was deleted.
    pub(crate) async fn add(
        &self,
        new: NewComment,
        once: Once,
    ) -> Result<Done<Option<CommentId>>, ChangeError> {
        let quota = self.quota;
        let job = move |tx: &mut Tx<'_>| {
            author_exists(tx, new.author)?;
            once.run(tx, |tx| {
                quota.room_for_one(tx, OwnedRows::Comments, new.author)?;
                let Some(now) = count(tx, new.article, 1)? else { return Ok(None) };
                let id = insert(tx, &new)?;
                tx.effects().count(new.article, now);
                tx.effects().end([comments_of(new.article)]);
                Ok(Some(id))
            })
        };
        self.store.write(job).await
    }

    /// Stores comments on existing articles in one transaction, for filling a store.
    ///
    /// # Errors
    /// Also when one is refused; then none is stored.
    pub async fn add_all(&self, all: Vec<NewComment>) -> Result<()> {
        let job = move |tx: &mut Tx<'_>| {
            let mut more = BTreeMap::<ArticleId, i64>::new();
            for new in &all {
                insert(tx, new)?;
                *more.entry(new.article).or_default() += 1;
            }
            for (article, more) in more {
                count(tx, article, more)?;
            }
            tx.effects().end_everything();
            Ok(())
        };
        self.store.write(job).await
    }

    /// Number of comments on all articles.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count(&self) -> Result<u64> {
        self.store.read(|conn| conn.one("SELECT count(*) FROM article_comments", &[])).await
    }

    /// Up to `limit` comments on an article after this one, the oldest first; `None` if there is no such article.
    pub(crate) async fn page(
        &self,
        article: ArticleId,
        after: CommentId,
        limit: usize,
    ) -> Result<Option<Vec<Comment>>> {
        let page = move |conn: &Conn<'_>| {
            if counts(conn, article)?.is_none() {
                return Ok(None);
            }
            conn.rows(page_sql(), params![article, after, limit], comment).map(Some)
        };
        self.store.read(page).await
    }

    /// The article of a comment, if there is such a comment.
    pub(crate) async fn article_of(&self, id: CommentId) -> Result<Option<ArticleId>> {
        let sql = "SELECT article_id FROM article_comments WHERE id = ?";
        self.store.read(move |conn| conn.first(sql, params![id], |row| row.get(0))).await
    }

    /// Deletes a comment, for its author or the operator.
    pub(crate) async fn delete(
        &self,
        article: ArticleId,
        id: CommentId,
        by: impl Into<Remover<()>>,
    ) -> Result<Result<(), Refusal>> {
        let by = by.into();
        let job = move |tx: &mut Tx<'_>| {
            if !tx.hold("articles", article)? {
                return Ok(Err(Refusal::Absent));
            }
            let author = tx.first(
                "SELECT u.id FROM article_comments c LEFT JOIN users u ON u.id = c.author_id
                 WHERE c.id = ? AND c.article_id = ?",
                params![id, article],
                |row| row.get(0),
            )?;
            let outcome = by.may(author, || Ok::<_, StoreError>(Some(())))?;
            if outcome.is_ok() {
                tx.run("DELETE FROM article_comments WHERE id = ?", params![id])?;
                if let Some(now) = count(tx, article, -1)? {
                    tx.effects().count(article, now);
                }
                tx.effects().end([comments_of(article)]);
            }
            Ok(outcome)
        };
        self.store.write(job).await
    }
}

pub(in super::super) fn page_sql() -> &'static str {
    "SELECT c.id, c.author_id, u.nickname, c.content, c.created_at_ms
     FROM article_comments c LEFT JOIN users u ON u.id = c.author_id
     WHERE c.article_id = ? AND c.id > ? ORDER BY c.id LIMIT ?"
}

fn insert(tx: &Tx<'_>, new: &NewComment) -> Result<CommentId> {
    tx.insert("INSERT INTO article_comments (article_id, author_id, content, created_at_ms) VALUES (?, ?, ?, ?)", params![new.article, new.author, new.content, new.created_at_ms])
}

/// Adds to the comment count of an article; returns its counts, or `None` if there is no such article.
fn count(tx: &Tx<'_>, article: ArticleId, more: i64) -> Result<Option<Counts>> {
    tx.run(
        "UPDATE articles SET comment_count =
           CASE WHEN comment_count + ?1 < 0 THEN 0 ELSE comment_count + ?1 END
         WHERE id = ?2",
        params![more, article],
    )?;
    counts(tx, article)
}

fn comment(row: &Row<'_>) -> Result<Comment> {
    let (id, created_at_ms) = (row.get(0)?, row.get(4)?);
    Ok(Comment { id, author: author(row, 1)?, content: row.get(3)?, created_at_ms })
}
