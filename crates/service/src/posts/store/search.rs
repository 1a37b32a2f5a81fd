//! Posts whose title, item and content contain all words of a search.

use super::super::types::{Order, PostSummary};
use super::listing::{Asked, merged, walks};
use super::{Area, PostStore, summary};
use crate::markets::Words;
use crate::search::{self, Corpus, Hits, Listing, Position};
use crate::store::{Conn, Result, Row};

/// A candidate with its text. The columns of [`summary`] first.
const WITH_TEXT: &str =
    "SELECT p.id, p.title, p.item_name, p.price, p.stock, p.category_id, p.state_id, p.city_id,
        t.name, p.status, p.created_at_ms, p.removed, p.content
   FROM posts p JOIN towns t ON t.id = p.town_id WHERE p.id = ?";

/// Candidates whose positions are read in one statement.
const AT_ONCE: usize = 504;

impl PostStore {
    /// Up to `limit` posts of a listing that contain all of `words`, which must not be empty. Also fails while the
    /// index is incomplete.
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
        let Asked { category, area, .. } = self.asked;
        let is_listed = !removed
            && category.is_none_or(|category| category == post.values.category)
            && area.covers(&post.values.place);
        Ok(is_listed.then_some(post))
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
            positions.extend(found.iter().flatten().map(|post| post.position(self.asked.order)));
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
            let (content, values): (String, _) = (row.get(12)?, &post.values);
            Ok(Some((search::text(&[&values.title, &values.item_name, &content]), post)))
        })?;
        Ok(found.into_iter().flatten().collect())
    }
}
