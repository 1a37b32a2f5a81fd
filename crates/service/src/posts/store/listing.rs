//! Pages of posts, by walks that read an index from one position on, at most a page long.
//!
//! One category in one part of an area is a walk along one index. Other listings are merged: a walk for
//! each (12 categories; a municipality with districts has up to ten codes), each with as many
//! rows as the page, and the first of them all are the page. That costs tens of short walks more, and
//! saves eight indexes that every write would have to update.
//!
//! The newest of all posts, which most clients request first, are read from the end of the table.
//!
//! By price a walk has two halves: the remaining posts of the price where the page before ended, then those beyond
//! that price. `(price, id) > (?, ?)` is equivalent, but SQLite 3.54 seeks to the price alone when the id is the
//! rowid, and reads past all posts already shown: with round prices that is tens of thousands.

use super::super::area::{Area, with_districts};
use super::super::types::{CategoryId, Order, PostSummary};
use super::{PostStore, summary};
use crate::search::Position;
use crate::store::{Conn, Parameter as _, Result, Sql, columns, params};
use std::fmt::Write as _;

const SUMMARY: &str =
    "SELECT p.id, p.title, p.item_name, p.price, p.stock, p.category_id, p.state_id, p.city_id,
        t.name, p.status, p.created_at_ms
   FROM posts p JOIN towns t ON t.id = p.town_id WHERE p.id = ?";

/// The newest of all posts: up to `?3` before an id (`?1`), among the last `?2` ids, which bounds the scan however
/// many were removed.
fn newest_of_all_sql(posts: &str) -> String {
    let columns = SUMMARY.split("posts p").next().unwrap_or("");
    format!(
        "{columns} {posts} JOIN towns t ON t.id = p.town_id
         WHERE p.removed = 0 AND p.id < ?1 AND p.id >= (SELECT max(id) FROM posts WHERE id < ?1) - ?2
         ORDER BY p.id DESC LIMIT ?3"
    )
}

/// Ids scanned for each post of a page before the walks of the categories are merged instead.
const IDS_FOR_EACH: usize = 8;

/// A listing and a position in it.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) area: Area,
    /// `None`: all categories.
    pub(crate) category: Option<CategoryId>,
    pub(crate) order: Order,
    /// Price (any number in [`Order::Newest`]) and id of the last post of the page before.
    pub(crate) after: Option<Position>,
}

impl PostStore {
    /// Up to `limit` posts.
    pub(in super::super) async fn page(
        &self,
        asked: Asked,
        limit: usize,
    ) -> Result<Vec<PostSummary>> {
        let page = move |conn: &Conn<'_>| {
            if let Some(page) = newest_of_all(conn, &asked, limit)? {
                return Ok(page);
            }
            let ids: Vec<_> = merged(conn, &asked, limit)?.into_iter().map(|(_, id)| id).collect();
            conn.rows_of(SUMMARY, &ids, summary)
        };
        self.store.read(page).await
    }
}

/// A page of the newest of all posts, read in the order of the table: one statement instead of twelve walks and a
/// look-up of each row. `None` if the page may be incomplete, or for other listings.
fn newest_of_all(conn: &Conn<'_>, asked: &Asked, limit: usize) -> Result<Option<Vec<PostSummary>>> {
    let Asked { area: Area::Everywhere, category: None, order: Order::Newest, after } = asked
    else {
        return Ok(None);
    };
    let before = after.map_or(i64::MAX, |(_, id)| id);
    let sqlite = newest_of_all_sql("posts p NOT INDEXED");
    let maria = newest_of_all_sql("posts p FORCE INDEX (PRIMARY)");
    let ids = IDS_FOR_EACH * limit;
    let page = conn.rows(Sql::each(&sqlite, &maria), params![before, ids, limit], summary)?;
    Ok(Some(page).filter(|page| page.len() == limit))
}

/// The first posts of all parts and categories.
pub(super) fn merged(conn: &Conn<'_>, asked: &Asked, limit: usize) -> Result<Vec<Position>> {
    let categories = match asked.category {
        Some(category) => vec![category],
        None => all_ids(conn)?,
    };
    let walks: &[Walk] = match (asked.order, asked.after) {
        (Order::Newest, _) => &[Walk::Newest],
        (Order::Cheapest, None) => &[Walk::Cheapest],
        (Order::Cheapest, Some(_)) => &[Walk::CheapestOfPrice, Walk::Cheapest],
        (Order::Dearest, None) => &[Walk::Dearest],
        (Order::Dearest, Some(_)) => &[Walk::DearestOfPrice, Walk::Dearest],
    };
    let nowhere = if asked.order == Order::Cheapest { -1 } else { i64::MAX };
    let (price, id) = asked.after.unwrap_or((nowhere, i64::MAX));
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut searches = Vec::new();
    for part in parts(conn, &asked.area)? {
        for category in &categories {
            for walk in walks {
                searches.push((*walk, [part, *category, price, id, most]));
            }
        }
    }
    let column = column(&asked.area);
    // For SQLite a call is cheaper than a longer statement; a server gets many walks at once.
    let at_once = if conn.is_shared() { SEARCHES_AT_ONCE } else { 1 };
    let mut found = Vec::new();
    for some in searches.chunks(at_once) {
        let sql = match some {
            [(walk, _)] if !conn.is_shared() => walk_sql(column, *walk),
            _ => together(column, some),
        };
        let values: Vec<_> = some.iter().flat_map(|(_, values)| values).map(i64::value).collect();
        found.extend(conn.rows(&sql, &values, columns::<Position>)?);
    }
    found.sort_unstable();
    if asked.order != Order::Cheapest {
        found.reverse();
    }
    found.truncate(limit);
    Ok(found)
}

/// Number of walks that are merged for a listing.
pub(super) fn walks(conn: &Conn<'_>, asked: &Asked) -> Result<usize> {
    let categories = if asked.category.is_some() { 1 } else { all_ids(conn)?.len() };
    Ok(categories * parts(conn, &asked.area)?.len())
}

/// A walk and its values.
type Search = (Walk, [i64; 5]);

/// Walks in one statement to a server: all of an area without districts.
const SEARCHES_AT_ONCE: usize = 24;

/// Several walks as one statement for MariaDB, with consecutive values.
fn together(column: Option<&str>, searches: &[Search]) -> String {
    let mut text = String::new();
    for (at, (walk, values)) in searches.iter().enumerate() {
        // The number of a value is one digit, from 1.
        for (piece_at, piece) in walk_maria(column, *walk).split('?').enumerate() {
            if piece_at == 0 {
                text.push_str(if at == 0 { "(" } else { " UNION ALL (" });
                text.push_str(piece);
                continue;
            }
            let number = piece.as_bytes().first().map_or(0, |digit| usize::from(digit - b'0'));
            let _ = write!(text, "?{}{}", at * values.len() + number, piece.get(1..).unwrap_or(""));
        }
        text.push(')');
    }
    text
}

/// A walk along an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    Newest,
    CheapestOfPrice,
    Cheapest,
    DearestOfPrice,
    Dearest,
}

/// The column with the part of such an area.
fn column(area: &Area) -> Option<&'static str> {
    match area {
        Area::Everywhere => None,
        Area::State(_) => Some("state"),
        Area::City(_) => Some("city"),
        Area::Town(..) => Some("town"),
    }
}

/// The posts of a part of an area (`?1`) and a category (`?2`), from a price (`?3`) and an id (`?4`) on. Every
/// walk uses all values, so all calls are alike. The statement names the index, so that statistics cannot
/// make SQLite choose another.
fn walk_sql(column: Option<&str>, walk: Walk) -> String {
    let (kind, price, from, by) = match walk {
        Walk::Newest => ("newest", "0", "id < ?4 AND ?3 IS NOT NULL", "id DESC"),
        Walk::CheapestOfPrice => ("price", "price", "price = ?3 AND id > ?4", "id"),
        Walk::Cheapest => ("price", "price", "price > ?3 AND ?4 IS NOT NULL", "price, id"),
        Walk::DearestOfPrice => ("price", "price", "price = ?3 AND id < ?4", "id DESC"),
        Walk::Dearest => ("price", "price", "price < ?3 AND ?4 IS NOT NULL", "price DESC, id DESC"),
    };
    let (index, part) = match column {
        None => (format!("posts_{kind}"), "?1 IS NOT NULL".to_owned()),
        Some(level) => (format!("posts_{kind}_by_{level}"), format!("{level}_id = ?1")),
    };
    format!(
        "SELECT {price}, id FROM posts INDEXED BY {index}
         WHERE {part} AND category_id = ?2 AND removed = 0 AND {from} ORDER BY {by} LIMIT ?5"
    )
}

/// The same with MariaDB's syntax for the index.
fn walk_maria(column: Option<&str>, walk: Walk) -> String {
    let sql = walk_sql(column, walk);
    let end = sql.find("\n         WHERE").unwrap_or(sql.len());
    format!("{})\n{}", sql[..end].replace("INDEXED BY ", "FORCE INDEX ("), &sql[end..])
}

/// The parts of an area: ids in its column. A town without posts has no part.
fn parts(conn: &Conn<'_>, area: &Area) -> Result<Vec<i64>> {
    match area {
        Area::Everywhere => Ok(vec![0]),
        Area::State(id) => Ok(vec![*id]),
        Area::City(id) => cities(conn, *id),
        Area::Town(city, name) => {
            let look = "SELECT id FROM towns WHERE city_id = ? AND name = ?";
            let mut found = Vec::new();
            for city in cities(conn, *city)? {
                found.extend(conn.first(look, params![city, name], |row| row.get::<i64>(0))?);
            }
            Ok(found)
        }
    }
}

fn cities(conn: &Conn<'_>, city: i64) -> Result<Vec<i64>> {
    let codes = with_districts(city);
    conn.rows(
        "SELECT id FROM regions WHERE id BETWEEN ? AND ?",
        params![codes.start(), codes.end()],
        |row| row.get(0),
    )
}

fn all_ids(conn: &Conn<'_>) -> Result<Vec<CategoryId>> {
    conn.rows("SELECT id FROM post_categories", &[], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;
    use crate::store::Store;

    #[tokio::test]
    async fn no_listing_scans_or_sorts_and_searches_read_the_index_alone() {
        let (store, _dir) = Store::fresh(&Sources::new());
        for column in [None, Some("state"), Some("city"), Some("town")] {
            for (walk, end) in [
                (Walk::Newest, "removed=? AND rowid<?)"),
                (Walk::CheapestOfPrice, "removed=? AND price=? AND rowid>?)"),
                (Walk::Cheapest, "removed=? AND price>?)"),
                (Walk::DearestOfPrice, "removed=? AND price=? AND rowid<?)"),
                (Walk::Dearest, "removed=? AND price<?)"),
            ] {
                let part = column.map_or(String::new(), |level| format!("{level}_id=? AND "));
                let plan = store.plan(&walk_sql(column, walk)).await;
                let wanted = format!("({part}category_id=? AND {end}");
                assert!(plan.starts_with("SEARCH posts USING COVERING INDEX posts_"), "{plan}");
                assert!(plan.ends_with(&wanted), "{plan}, not {wanted}");
                assert_eq!(plan.lines().count(), 1, "{plan}");
            }
        }
        let newest = store.plan(&newest_of_all_sql("posts p NOT INDEXED")).await;
        assert!(
            newest.starts_with("SEARCH p USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
            "{newest}"
        );
        assert!(!newest.contains("SCAN") && !newest.contains("TEMP B-TREE"), "{newest}");
        let rows = store.plan(SUMMARY).await;
        assert!(rows.lines().all(|line| line.contains("USING INTEGER PRIMARY KEY")), "{rows}");
    }

    #[test]
    fn several_searches_are_one_statement_whose_values_follow_each_other() {
        let searches = [(Walk::Cheapest, [0; 5]), (Walk::Newest, [0; 5])];
        let text = together(Some("town"), &searches);
        assert_eq!(text.matches(" UNION ALL ").count(), 1, "{text}");
        assert!(text.starts_with("(SELECT price, id FROM posts FORCE INDEX ("), "{text}");
        assert!(text.contains("town_id = ?1 AND category_id = ?2") && text.contains("LIMIT ?5)"));
        assert!(text.contains("town_id = ?6 AND category_id = ?7") && text.ends_with("LIMIT ?10)"));
    }
}
