//! What is done behind the requests: counts are compared with rows, likes of users who are gone are taken back.

use super::{ArticleStore, counts};
use crate::accounts::UserId;
use crate::articles::types::{ArticleId, Counts};
use crate::store::{StoreError, Tx, params};
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
                conn.rows(
                    "SELECT a.id, a.like_count, a.comment_count,
                       (SELECT count(*) FROM article_likes WHERE article_id = a.id),
                       (SELECT count(*) FROM article_comments WHERE article_id = a.id)
                     FROM articles a WHERE a.id > ? ORDER BY a.id LIMIT ?",
                    params![after, limit],
                    |row| {
                        Ok(Compared {
                            article: row.get(0)?,
                            kept: Counts { likes: row.get(1)?, comments: row.get(2)? },
                            rows: Counts { likes: row.get(3)?, comments: row.get(4)? },
                        })
                    },
                )
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
            conn.rows(
                "SELECT article_id, user_id, NOT EXISTS (SELECT 1 FROM users WHERE id = user_id)
                 FROM article_likes WHERE (article_id, user_id) > (?, ?)
                 ORDER BY article_id, user_id LIMIT ?",
                params![after.0, after.1, limit],
                |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)),
            )
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
) -> Result<BTreeMap<ArticleId, Counts>, StoreError> {
    let mut counted = BTreeMap::new();
    for (article, user) in likes {
        tx.hold("articles", *article)?;
        let delete = "DELETE FROM article_likes WHERE article_id = ? AND user_id = ?";
        let deleted = tx.run(delete, params![article, user])?;
        if deleted == 0 {
            continue;
        }
        tx.run(
            "UPDATE articles SET like_count =
               CASE WHEN like_count < ?2 THEN 0 ELSE like_count - ?2 END
             WHERE id = ?1",
            params![article, deleted],
        )?;
        let now = counts(tx, *article)?;
        counted.extend(now.map(|now| (*article, now)));
    }
    Ok(counted)
}

fn repair(tx: &Tx<'_>, articles: &[ArticleId]) -> Result<Vec<(ArticleId, Counts)>, StoreError> {
    let repair = "UPDATE articles SET
           like_count = (SELECT count(*) FROM article_likes WHERE article_id = ?1),
           comment_count = (SELECT count(*) FROM article_comments WHERE article_id = ?1)
         WHERE id = ?1";
    let mut repaired = Vec::with_capacity(articles.len());
    for id in articles {
        tx.hold("articles", *id)?;
        tx.run(repair, params![id])?;
        let now = counts(tx, *id)?;
        repaired.extend(now.map(|now| (*id, now)));
    }
    Ok(repaired)
}
