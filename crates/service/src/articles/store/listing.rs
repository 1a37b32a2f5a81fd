//! Pages of articles, by newest and by likes.
//!
//! By likes a walk has two halves: the rest of the articles with as many likes as the last one of
//! the page before, then those with fewer. `(like_count, id) < (?, ?)` says the same in one, but
//! SQLite seeks by the first column alone when the second is the row's own id, and would read past
//! all that have been shown.

use super::search::Searched;
use super::{ArticleStore, author};
use crate::articles::likes::PendingLikes;
use crate::articles::types::{Counts, Order, Summary};
use crate::markets::Words;
use crate::search::{Hits, Position};
use crate::store::{Conn, Result, Row, StoreError, Value, params};
use std::sync::Arc;

/// A way through an index from a position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Walk {
    /// Before an id, the last one first.
    Newest,
    /// With so many likes and before an id, likewise.
    WithLikes,
    /// With fewer likes, the most liked first.
    WithFewer,
}

/// How often a page is read again because likes were applied meanwhile. A slice of a pass and the next
/// are milliseconds apart, a page takes a fraction of one.
const TRIES: usize = 3;

/// A page as the tables have it, and beside each article how many like it now. The tables decide the
/// order, so it is their counts from which the next page goes on.
#[derive(Debug)]
pub(in super::super) struct Listed {
    /// As the tables have it.
    pub(in super::super) article: Summary,
    /// How many like it.
    pub(in super::super) likes: u64,
}

impl ArticleStore {
    /// Up to `limit` articles, with likes that are not in the tables yet.
    pub(in super::super) async fn listed(
        &self,
        asked: Asked,
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
        // Where they are applied, none is meanwhile.
        let pending = Arc::clone(pending);
        let found = self.store.write(move |tx| {
            let Hits { items, more } = asked.find(tx, limit)?;
            Ok::<_, StoreError>(Hits { items: pending.shown_to_writer(items), more })
        });
        found.await
    }
}

/// What is listed, and from where on.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Those whose texts hold all of these; all articles when there are none.
    pub(in super::super) words: Words,
    pub(in super::super) order: Order,
    pub(in super::super) after: Option<Position>,
}

impl Asked {
    fn find(&self, conn: &Conn<'_>, limit: usize) -> Result<Hits<Summary>> {
        if self.words.is_empty() {
            return page(conn, self.order, self.after, limit).map(Hits::all);
        }
        crate::search::page(conn, &Searched(self.order), &self.words, self.after, limit)
    }
}

/// Up to `limit` articles in this order, after a position, as the tables have them.
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
