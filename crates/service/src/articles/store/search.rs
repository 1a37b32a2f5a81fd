//! Articles whose title and content contain all words of a search.

use super::listing::{SUMMARY, page, summary};
use crate::articles::types::{Order, Summary};
use crate::search::{self, Corpus, Listing, Position};
use crate::store::{Conn, Result, columns};

/// Candidates whose positions are read in one statement to a server.
const AT_ONCE: usize = 504;

/// A listing of articles that is searched.
pub(super) struct Searched(pub(super) Order);

impl Listing for Searched {
    type Item = Summary;

    const KIND: Corpus = search::ARTICLES;

    fn is_by_id(&self) -> bool {
        self.0 == Order::Newest
    }

    fn is_rising(&self) -> bool {
        false
    }

    fn is_narrow(&self) -> bool {
        false
    }

    /// A position is read with its whole row, which takes as long as some entries of an index.
    fn entries_for_each(&self) -> usize {
        12
    }

    fn positions(&self, conn: &Conn<'_>, ids: &[i64]) -> Result<Vec<Position>> {
        let likes = "SELECT id, like_count FROM articles WHERE id = ?";
        let mut positions = Vec::new();
        for some in ids.chunks(AT_ONCE) {
            positions.extend(conn.rows_found(likes, some, |row| Ok((row.get(1)?, row.get(0)?)))?);
        }
        Ok(positions)
    }

    fn walk(
        &self,
        conn: &Conn<'_>,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<Position>> {
        Ok(page(conn, self.0, after, limit)?.iter().map(Summary::position).collect())
    }

    fn read(&self, conn: &Conn<'_>, ids: &[i64]) -> Result<Vec<(String, Summary)>> {
        let find = format!("{SUMMARY} WHERE a.id = ?");
        let found = conn.rows_found(&find, ids, summary)?;
        let content = "SELECT article_id, content FROM article_contents WHERE article_id = ?";
        let mut contents = conn.rows_found(content, ids, columns::<(i64, String)>)?.into_iter();
        let with_text = |article: Summary| {
            // Both are in the order of `ids`, and each article has one content.
            let content = contents.find(|(id, _)| *id == article.id)?.1;
            Some((search::text(&[&article.title, &content]), article))
        };
        Ok(found.into_iter().filter_map(with_text).collect())
    }
}
