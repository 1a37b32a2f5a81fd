//! What is done behind the requests: rows of deleted articles go, counts are compared with rows.
#![allow(clippy::disallowed_types, reason = "this is the store of articles: SQL types live here")]

use super::ArticleStore;
use crate::articles::types::{ArticleId, Counts};
use crate::store::{StoreError, Tx};
use rusqlite::{OptionalExtension as _, params};

/// The counts of an article in one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The article.
    pub article: ArticleId,
    /// As they are kept.
    pub kept: Counts,
    /// As its rows are.
    pub rows: Counts,
}

impl ArticleStore {
    /// Up to `limit` articles after this one, by id, with their counts as they are kept and as their rows are.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn compare(
        &self,
        after: ArticleId,
        limit: usize,
    ) -> Result<Vec<Compared>, StoreError> {
        self.store
            .read(move |conn| {
                conn.prepare_cached(
                    "SELECT a.id, a.like_count, a.comment_count,
                       (SELECT count(*) FROM article_likes WHERE article_id = a.id),
                       (SELECT count(*) FROM article_comments WHERE article_id = a.id)
                     FROM articles a WHERE a.id > ? ORDER BY a.id LIMIT ?",
                )?
                .query_map(params![after, limit], |row| {
                    Ok(Compared {
                        article: row.get(0)?,
                        kept: Counts { likes: row.get(1)?, comments: row.get(2)? },
                        rows: Counts { likes: row.get(3)?, comments: row.get(4)? },
                    })
                })?
                .collect()
            })
            .await
    }

    /// Sets the counts of these articles to what their rows are; answers how many were wrong. `committed`
    /// is told each after the commit, on the writer's thread.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn repair(
        &self,
        articles: Vec<ArticleId>,
        committed: impl Fn(ArticleId, Counts) + Send + 'static,
    ) -> Result<u64, StoreError> {
        self.store
            .write(move |tx| {
                let repaired = repair(tx, &articles)?;
                let count = repaired.len() as u64;
                tx.after_commit(move || repaired.iter().for_each(|(id, now)| committed(*id, *now)));
                Ok(count)
            })
            .await
    }

    /// Takes away up to about `rows` comments and likes of deleted articles, in one transaction; answers
    /// whether there may be more.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn sweep(&self, rows: usize) -> Result<bool, StoreError> {
        // Looked at on a reader first: there is nothing to do nearly always, and then nothing is written.
        let left = self.store.read(|conn| {
            conn.prepare_cached("SELECT min(id) FROM deleted_articles")?
                .query_row([], |row| row.get::<_, Option<ArticleId>>(0))
        });
        let Some(id) = left.await? else { return Ok(false) };
        self.store.write(move |tx| sweep(tx, id, rows).map_err(StoreError::from)).await?;
        Ok(true)
    }
}

fn repair(
    tx: &Tx<'_>,
    articles: &[ArticleId],
) -> Result<Vec<(ArticleId, Counts)>, rusqlite::Error> {
    let mut repair = tx.prepare_cached(
        "UPDATE articles SET (like_count, comment_count) =
           ((SELECT count(*) FROM article_likes WHERE article_id = ?1),
            (SELECT count(*) FROM article_comments WHERE article_id = ?1))
         WHERE id = ?1 RETURNING like_count, comment_count",
    )?;
    let mut repaired = Vec::with_capacity(articles.len());
    for id in articles {
        let now = repair
            .query_row([id], |row| Ok(Counts { likes: row.get(0)?, comments: row.get(1)? }))
            .optional()?;
        repaired.extend(now.map(|now| (*id, now)));
    }
    Ok(repaired)
}

fn sweep(tx: &Tx<'_>, id: ArticleId, rows: usize) -> Result<(), rusqlite::Error> {
    let likes = tx
        .prepare_cached(
            "DELETE FROM article_likes WHERE article_id = ?1 AND user_id IN
             (SELECT user_id FROM article_likes WHERE article_id = ?1 LIMIT ?2)",
        )?
        .execute(params![id, rows])?;
    let comments = tx
        .prepare_cached(
            "DELETE FROM article_comments WHERE id IN
             (SELECT id FROM article_comments WHERE article_id = ? LIMIT ?)",
        )?
        .execute(params![id, rows - likes])?;
    if likes + comments < rows {
        tx.prepare_cached("DELETE FROM deleted_articles WHERE id = ?")?.execute([id])?;
    }
    Ok(())
}
