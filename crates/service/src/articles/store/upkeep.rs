//! Transactions of the background work: comparing counts with rows, deleting likes of deleted users.

use super::{ArticleStore, counts};
use crate::accounts::UserId;
use crate::articles::types::{ArticleId, Counts};
use crate::store::{Conn, Result, Row, Tx, columns, params};
use std::collections::BTreeMap;

/// The counts of an article in one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    pub article: ArticleId,
    /// As they are stored.
    pub kept: Counts,
    /// Numbers of rows.
    pub rows: Counts,
}

impl ArticleStore {
    /// Compares the counts of up to `limit` articles after this one, by id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn compare(&self, after: ArticleId, limit: usize) -> Result<Vec<Compared>> {
        let sql = "SELECT a.id, a.like_count, a.comment_count,
               (SELECT count(*) FROM article_likes WHERE article_id = a.id),
               (SELECT count(*) FROM article_comments WHERE article_id = a.id)
             FROM articles a WHERE a.id > ? ORDER BY a.id LIMIT ?";
        let read = |row: &Row<'_>| {
            let (article, likes, comments, like_rows, comment_rows) = columns(row)?;
            let rows = Counts { likes: like_rows, comments: comment_rows };
            Ok(Compared { article, kept: Counts { likes, comments }, rows })
        };
        self.store.read(move |conn| conn.rows(sql, params![after, limit], read)).await
    }

    /// Sets the counts of these articles to the numbers of their rows; returns how many articles still exist.
    pub(in super::super) async fn repair(&self, articles: Vec<ArticleId>) -> Result<u64> {
        let job = move |tx: &mut Tx<'_>| {
            let mut repaired = 0;
            for id in &articles {
                tx.hold("articles", *id)?;
                tx.run(REPAIR, params![id])?;
                if let Some(now) = counts(tx, *id)? {
                    tx.effects().count(*id, now);
                    repaired += 1;
                }
            }
            Ok(repaired)
        };
        self.store.write(job).await
    }

    /// Likes of deleted users among the next `limit` likes after this one, by article and user; and the last of
    /// these, if there may be more.
    pub(in super::super) async fn likes_of_the_gone(
        &self,
        after: (ArticleId, UserId),
        limit: usize,
    ) -> Result<(Vec<(ArticleId, UserId)>, Option<(ArticleId, UserId)>)> {
        let sql = "SELECT article_id, user_id, NOT EXISTS (SELECT 1 FROM users WHERE id = user_id)
             FROM article_likes WHERE (article_id, user_id) > (?, ?)
             ORDER BY article_id, user_id LIMIT ?";
        let read = |row: &Row<'_>| {
            columns(row).map(|(article, user, gone): (_, _, bool)| ((article, user), gone))
        };
        let values = move |conn: &Conn<'_>| conn.rows(sql, params![after.0, after.1, limit], read);
        let found = self.store.read(values).await?;
        let last = found.last().filter(|_| found.len() == limit).map(|(like, _)| *like);
        let gone = found.into_iter().filter(|(_, gone)| *gone).map(|(like, _)| like).collect();
        Ok((gone, last))
    }

    /// Deletes these likes, with their counts.
    pub(in super::super) async fn take_back(&self, likes: Vec<(ArticleId, UserId)>) -> Result<()> {
        let job = move |tx: &mut Tx<'_>| {
            let mut counted = BTreeMap::new();
            for (article, user) in &likes {
                tx.hold("articles", *article)?;
                let delete = "DELETE FROM article_likes WHERE article_id = ? AND user_id = ?";
                let deleted = tx.run(delete, params![article, user])?;
                if deleted == 0 {
                    continue;
                }
                tx.run(FEWER, params![article, deleted])?;
                counted.extend(counts(tx, *article)?.map(|now| (*article, now)));
            }
            counted.into_iter().for_each(|(id, now)| tx.effects().count(id, now));
            Ok(())
        };
        self.store.write(job).await
    }
}

const REPAIR: &str = "UPDATE articles SET
       like_count = (SELECT count(*) FROM article_likes WHERE article_id = ?1),
       comment_count = (SELECT count(*) FROM article_comments WHERE article_id = ?1)
     WHERE id = ?1";

const FEWER: &str =
    "UPDATE articles SET like_count = CASE WHEN like_count < ?2 THEN 0 ELSE like_count - ?2 END
     WHERE id = ?1";
