//! Posts whose title, item and content hold all words of a search.

use super::super::types::{Order, PostSummary};
use super::listing::{Asked, merged, summary, walks};
use super::{Area, PostStore};
use crate::markets::Words;
use crate::search::{self, Corpus, Hits, Listing, Position};
use crate::store::{Conn, Result, Row};

/// A post that may be in a listing, with its text.
const WITH_TEXT: &str =
    "SELECT p.id, p.title, p.item_name, p.price, p.stock, p.category_id, p.state_id, p.city_id,
        t.name, p.status, p.created_at_ms, p.removed, p.content
   FROM posts p JOIN towns t ON t.id = p.town_id WHERE p.id = ?";

/// Candidates whose positions are asked for in one statement to a server.
const AT_ONCE: usize = 504;

impl PostStore {
    /// Up to `limit` posts of a listing that hold all of `words`, of which there is one at least.
    ///
    /// # Errors
    /// When the store cannot answer, or its index is not complete.
    pub(in super::super) async fn search(
        &self,
        asked: Asked,
        words: Words,
        limit: usize,
    ) -> Result<Hits<PostSummary>> {
        let page = move |conn: &Conn<'_>| {
            let listing = Searched { entries: walks(conn, &asked)?, asked: &asked };
            search::page(conn, &listing, &words, asked.after, limit)
        };
        self.store.read(page).await
    }
}

struct Searched<'a> {
    asked: &'a Asked,
    entries: usize,
}

impl Searched<'_> {
    /// The post of a row, if it is in the listing.
    fn listed(&self, row: &Row<'_>) -> Result<Option<PostSummary>> {
        let removed: bool = row.get(11)?;
        let post = summary(row)?;
        let is_of = self.asked.category.is_none_or(|category| category == post.category);
        Ok(Some(post).filter(|post| !removed && is_of && self.asked.area.covers(&post.place)))
    }

    fn position(&self, post: &PostSummary) -> Position {
        (if self.is_by_id() { 0 } else { post.price }, post.id)
    }
}

impl Listing for Searched<'_> {
    type Item = PostSummary;

    const KIND: Corpus = search::POSTS;

    fn is_by_id(&self) -> bool {
        self.asked.order == Order::Newest
    }

    fn is_rising(&self) -> bool {
        self.asked.order == Order::Cheapest
    }

    fn is_narrow(&self) -> bool {
        self.asked.area != Area::Everywhere
    }

    fn entries_for_each(&self) -> usize {
        self.entries
    }

    fn positions(&self, conn: &Conn<'_>, ids: &[i64]) -> Result<Vec<Position>> {
        let mut positions = Vec::new();
        for some in ids.chunks(AT_ONCE) {
            let found = conn.rows_found(WITH_TEXT, some, |row| self.listed(row))?;
            positions.extend(found.iter().flatten().map(|post| self.position(post)));
        }
        Ok(positions)
    }

    fn walk(
        &self,
        conn: &Conn<'_>,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<Position>> {
        merged(conn, &Asked { after, ..self.asked.clone() }, limit)
    }

    fn read(&self, conn: &Conn<'_>, ids: &[i64]) -> Result<Vec<(String, PostSummary)>> {
        let found = conn.rows_found(WITH_TEXT, ids, |row| {
            let Some(post) = self.listed(row)? else { return Ok(None) };
            let content: String = row.get(12)?;
            Ok(Some((search::text(&[&post.title, &post.item_name, &content]), post)))
        })?;
        Ok(found.into_iter().flatten().collect())
    }
}
