//! What is done behind the requests: counts are compared with rows, likes of users who are gone are taken back.
#![allow(clippy::disallowed_types, reason = "this is the store of articles: SQL types live here")]

use super::ArticleStore;
use crate::accounts::UserId;
use crate::articles::types::{ArticleId, Counts};
use crate::store::{StoreError, Tx};
use rusqlite::{OptionalExtension as _, params};
use std::collections::BTreeMap;

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

    /// Sets the counts of these articles to what their rows are; answers how many were wrong.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn repair(&self, articles: Vec<ArticleId>) -> Result<u64, StoreError> {
        self.store
            .write(move |tx| {
                let repaired = repair(tx, &articles)?;
                let count = repaired.len() as u64;
                repaired.into_iter().for_each(|(id, now)| tx.effects().count(id, now));
                Ok(count)
            })
            .await
    }

    /// Likes by users who do not exist among the next `limit` after this one, by article and user; and the last
    /// of these, if there may be more.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(in super::super) async fn likes_of_the_gone(
        &self,
        after: (ArticleId, UserId),
        limit: usize,
    ) -> Result<(Vec<(ArticleId, UserId)>, Option<(ArticleId, UserId)>), StoreError> {
        let found = self.store.read(move |conn| {
            conn.prepare_cached(
                "SELECT article_id, user_id, NOT EXISTS (SELECT 1 FROM users WHERE id = user_id)
                 FROM article_likes WHERE (article_id, user_id) > (?, ?)
                 ORDER BY article_id, user_id LIMIT ?",
            )?
            .query_map(params![after.0, after.1, limit], |row| {
                Ok(((row.get(0)?, row.get(1)?), row.get(2)?))
            })?
            .collect::<Result<Vec<(_, bool)>, _>>()
        });
        let found = found.await?;
        let last = found.last().filter(|_| found.len() == limit).map(|(like, _)| *like);
        let gone = found.into_iter().filter(|(_, gone)| *gone).map(|(like, _)| like).collect();
        Ok((gone, last))
    }

    /// Takes these likes away, with their counts.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub(in super::super) async fn take_back(
        &self,
        likes: Vec<(ArticleId, UserId)>,
    ) -> Result<(), StoreError> {
        self.store
            .write(move |tx| {
                let counted = take_back(tx, &likes)?;
                counted.into_iter().for_each(|(id, now)| tx.effects().count(id, now));
                Ok(())
            })
            .await
    }
}

fn take_back(
    tx: &Tx<'_>,
    likes: &[(ArticleId, UserId)],
) -> Result<BTreeMap<ArticleId, Counts>, rusqlite::Error> {
    let mut delete =
        tx.prepare_cached("DELETE FROM article_likes WHERE article_id = ? AND user_id = ?")?;
    let mut count = tx.prepare_cached(
        "UPDATE articles SET like_count = max(like_count - ?2, 0) WHERE id = ?1
         RETURNING like_count, comment_count",
    )?;
    let mut counted = BTreeMap::new();
    for (article, user) in likes {
        let deleted = delete.execute([article, user])?;
        if deleted == 0 {
            continue;
        }
        let now = count
            .query_row(params![article, deleted], |row| {
                Ok(Counts { likes: row.get(0)?, comments: row.get(1)? })
            })
            .optional()?;
        counted.extend(now.map(|now| (*article, now)));
    }
    Ok(counted)
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
