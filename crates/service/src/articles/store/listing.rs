//! Pages of articles, by newest and by likes.
//!
//! By likes a walk has two halves: the rest of the articles with as many likes as the last one of the previous page,
//! then those with fewer. `(like_count, id) < (?, ?)` would be one statement, but SQLite seeks by the first column
//! only when the second is the row id, and would read all articles that were shown before.

use super::search::Searched;
use super::{ArticleStore, author};
use crate::articles::likes::PendingLikes;
use crate::articles::types::{Counts, Order, Summary};
use crate::markets::Words;
use crate::search::{Hits, Position};
use crate::store::{Conn, Result, Row, StoreError, Value, params};
use std::sync::Arc;

/// A walk through an index from a position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Walk {
    /// Before an id, the newest first.
    Newest,
    /// With this many likes and before an id, the newest first.
    WithLikes,
    /// With fewer likes, the most liked first.
    WithFewer,
}

/// Reads of a page during which likes were applied, before it is read on the writer's thread. Slices of a pass are
/// milliseconds apart; a page takes a fraction of one.
const TRIES: usize = 3;

/// An article of a page. The order is that of the tables, so the next page goes on from their counts.
#[derive(Debug)]
pub(in super::super) struct Listed {
    /// As it is in the tables.
    pub(in super::super) article: Summary,
    /// Number of likes, pending ones included.
    pub(in super::super) likes: u64,
}

impl ArticleStore {
    /// Up to `limit` articles, with pending likes.
    pub(in super::super) async fn listed(
        &self,
        asked: PageRequest,
        limit: usize,
        pending: &Arc<PendingLikes>,
    ) -> Result<Hits<Listed>> {
        for _ in 0..TRIES {
            let (asked, pending) = (asked.clone(), Arc::clone(pending));
            let found = self.store.read(move |conn| {
                // The snapshot begins with the first query, so after this.
                let since = pending.applications();
                let Hits { items, more } = asked.find(conn, limit)?;
                Ok(pending.shown(items, since).map(|items| Hits { items, more }))
            });
            if let Some(listed) = found.await? {
                return Ok(listed);
            }
        }
        // On the thread that applies likes, none are applied meanwhile.
        let pending = Arc::clone(pending);
        let found = self.store.write(move |tx| {
            let Hits { items, more } = asked.find(tx, limit)?;
            Ok::<_, StoreError>(Hits { items: pending.shown_to_writer(items), more })
        });
        found.await
    }
}

/// A request for a page.
#[derive(Clone, Debug)]
pub(crate) struct PageRequest {
    /// Words that title and content must contain; none: all articles.
    pub(in super::super) words: Words,
    pub(in super::super) order: Order,
    pub(in super::super) after: Option<Position>,
}

impl PageRequest {
    fn find(&self, conn: &Conn<'_>, limit: usize) -> Result<Hits<Summary>> {
        if self.words.is_empty() {
            return page(conn, self.order, self.after, limit).map(Hits::all);
        }
        crate::search::page(conn, &Searched(self.order), &self.words, self.after, limit)
    }
}

/// Up to `limit` articles in this order, after a position, as they are in the tables.
pub(in super::super) fn page(
    conn: &Conn<'_>,
    order: Order,
    after: Option<Position>,
    limit: usize,
) -> Result<Vec<Summary>> {
    let walk = |walk, values: &[Value<'_>]| conn.rows(&walk_sql(walk), values, summary);
    let (likes, id) = after.unwrap_or((i64::MAX, i64::MAX));
    match order {
        Order::Newest => walk(Walk::Newest, params![id, limit]),
        Order::Likes => {
            let mut page = match after {
                Some(_) => walk(Walk::WithLikes, params![likes, id, limit])?,
                None => Vec::new(),
            };
            page.extend(walk(Walk::WithFewer, params![likes, limit - page.len()])?);
            Ok(page)
        }
    }
}

pub(in super::super) fn walk_sql(walk: Walk) -> String {
    let from = match walk {
        Walk::Newest => "a.id < ? ORDER BY a.id DESC",
        Walk::WithLikes => "a.like_count = ? AND a.id < ? ORDER BY a.id DESC",
        Walk::WithFewer => "a.like_count < ? ORDER BY a.like_count DESC, a.id DESC",
    };
    format!("{SUMMARY} WHERE {from} LIMIT ?")
}

pub(super) const SUMMARY: &str =
    "SELECT a.id, a.author_id, u.nickname, a.title, a.created_at_ms, a.updated_at_ms,
            a.like_count, a.comment_count
     FROM articles a LEFT JOIN users u ON u.id = a.author_id";

pub(super) fn summary(row: &Row<'_>) -> Result<Summary> {
    Ok(Summary {
        id: row.get(0)?,
        author: author(row, 1)?,
        title: row.get(3)?,
        created_at_ms: row.get(4)?,
        updated_at_ms: row.get(5)?,
        counts: Counts { likes: row.get(6)?, comments: row.get(7)? },
    })
}
