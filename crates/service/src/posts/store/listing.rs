//! Pages of posts, by searches that read an index from one place on and no further than a page is long.
//!
//! One category in one part of an area is a walk along one index. Other listings are merged: a search for
//! each (12 categories; a municipality with districts has up to ten codes), each of which gives as many
//! rows as the page has, and the first of them all are the page. That costs tens of short walks more, and
//! saves eight indexes that every write would have to keep.
//!
//! The newest of all posts, which most clients begin with, are the end of the table and are read from there.
//!
//! By price a walk has two halves: the rest of the posts of the price where the page before ended, then
//! those beyond that price. `(price, id) > (?, ?)` says the same in one, but SQLite 3.54 seeks to the price
//! alone when the id is the row's own, and reads past all that have been shown: with round prices that
//! is tens of thousands.

use super::super::area::{Area, with_districts};
use super::super::types::{CategoryId, OfferPlace, Order, PostSummary};
use super::{PostStore, status_of};
use crate::search::Position;
use crate::store::{Conn, Parameter as _, Result, Row, Sql, columns, params};
use std::fmt::Write as _;

const SUMMARY: &str =
    "SELECT p.id, p.title, p.item_name, p.price, p.stock, p.category_id, p.state_id, p.city_id,
        t.name, p.status, p.created_at_ms
   FROM posts p JOIN towns t ON t.id = p.town_id WHERE p.id = ?";

/// The newest of all posts: up to `?3` of those before an id (`?1`), among the last `?2` ids, so that no more
/// is read however many were removed.
fn newest_of_all_sql(posts: &str) -> String {
    let columns = SUMMARY.split("posts p").next().unwrap_or("");
    format!(
        "{columns} {posts} JOIN towns t ON t.id = p.town_id
         WHERE p.removed = 0 AND p.id < ?1 AND p.id >= (SELECT max(id) FROM posts WHERE id < ?1) - ?2
         ORDER BY p.id DESC LIMIT ?3"
    )
}

/// How many ids are looked at for each post of a page, before the walks of the categories are merged instead.
const IDS_FOR_EACH: usize = 8;

/// What is listed, and from where on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// State, city or town whose posts are listed, or all.
    pub area: Area,
    /// Of one category, or of all.
    pub category: Option<CategoryId>,
    /// In which order.
    pub order: Order,
    /// After this price, any number in [`Order::Newest`], and id; from the first post without it.
    pub(crate) after: Option<Position>,
}

impl PostStore {
    /// Up to `limit` posts.
    pub async fn page(&self, asked: Asked, limit: usize) -> Result<Vec<PostSummary>> {
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

/// A page of the newest of all posts, read in the order of the table: one statement in place of twelve walks and a
/// look for each row. Nothing when it may not be the whole page.
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

/// The first of what is found in all parts and all categories.
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
    // A call costs SQLite less than a longer statement; the server is asked for many at once.
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

/// How many walks are merged for a listing.
pub(super) fn walks(conn: &Conn<'_>, asked: &Asked) -> Result<usize> {
    let categories = if asked.category.is_some() { 1 } else { all_ids(conn)?.len() };
    Ok(categories * parts(conn, &asked.area)?.len())
}

/// A walk and its values.
type Search = (Walk, [i64; 5]);

/// Searches in one statement to the server: all of an area that has no districts.
const SEARCHES_AT_ONCE: usize = 24;

/// Several searches as one statement for MariaDB, their values one after the other.
fn together(column: Option<&str>, searches: &[Search]) -> String {
    let mut text = String::new();
    for (at, (walk, values)) in searches.iter().enumerate() {
        // The number of a value is one digit, counted from 1.
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

/// The column that says whether a post is in a part of such an area.
fn column(area: &Area) -> Option<&'static str> {
    match area {
        Area::Everywhere => None,
        Area::State(_) => Some("state"),
        Area::City(_) => Some("city"),
        Area::Town(..) => Some("town"),
    }
}

/// The posts of a part of an area (`?1`) and a category (`?2`), from a price (`?3`) and an id (`?4`) on. Each
/// walk takes all values, so that there is one way to ask. The index is named: no statistics can ever
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

/// The same for MariaDB, which names an index in another way.
fn walk_maria(column: Option<&str>, walk: Walk) -> String {
    let sql = walk_sql(column, walk);
    let end = sql.find("\n         WHERE").unwrap_or(sql.len());
    format!("{})\n{}", sql[..end].replace("INDEXED BY ", "FORCE INDEX ("), &sql[end..])
}

/// What an area is searched for: ids in its column. A town that nobody has named has no part.
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

pub(super) fn summary(row: &Row<'_>) -> Result<PostSummary> {
    Ok(PostSummary {
        id: row.get(0)?,
        title: row.get(1)?,
        item_name: row.get(2)?,
        price: row.get(3)?,
        stock: row.get(4)?,
        category: row.get(5)?,
        place: OfferPlace { state: row.get(6)?, city: row.get(7)?, town: row.get(8)? },
        status: status_of(row.get(9)?),
        created_at_ms: row.get(10)?,
    })
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
