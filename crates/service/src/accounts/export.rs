//! `GET /v1/users/me/export`: all stored data of the caller, in pages.
//!
//! Pages instead of one file: each is one short read that passes the gate, so a user with a million rows costs no
//! more at a time than any other listing. Rows of all systems are one list, ordered by kind and then by id, so a
//! client needs no list of kinds.

use super::{Caller, UserId};
use crate::http::page::{Page, asked, write_whole_cursor};
use crate::http::rfc3339::format_utc;
use crate::http::{Answer, Problem, Read};
use crate::posts::Status;
use crate::store::{Conn, Result, Row, columns, params};
use serde::Serialize;

/// Articles that one read scans for likes of the caller, which have no index by user.
const ARTICLES_AT_ONCE: usize = 2000;

// `rename_all` on each variant, because utoipa does not read `rename_all_fields`.
/// Something that the caller made.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) enum Exported {
    /// A post in second-hand goods. One that was removed is not among them.
    #[serde(rename_all = "camelCase")]
    Post {
        /// Identifier.
        id: i64,
        /// Title.
        title: String,
        /// Name of the item.
        item_name: String,
        /// Description.
        content: String,
        /// Price in won.
        price: i64,
        /// Number of items.
        stock: i64,
        /// The `slug` of one of `GET /v1/categories`.
        category: String,
        /// Municipality or district, in Korean.
        city: String,
        /// 읍, 면 or 동.
        town: String,
        /// selling, reserved or sold.
        status: &'static str,
        /// Time of creation, RFC 3339, UTC with milliseconds.
        created_at: String,
        /// Time of the last change, likewise.
        updated_at: String,
    },
    /// An article.
    #[serde(rename_all = "camelCase")]
    Article {
        /// Identifier.
        id: i64,
        /// Title.
        title: String,
        /// Text.
        content: String,
        /// Time of creation, RFC 3339, UTC with milliseconds.
        created_at: String,
        /// Time of the last change, likewise.
        updated_at: String,
    },
    /// A comment on an article.
    #[serde(rename_all = "camelCase")]
    Comment {
        /// Identifier.
        id: i64,
        /// The article.
        article_id: i64,
        /// Text.
        content: String,
        /// Time of creation, RFC 3339, UTC with milliseconds.
        created_at: String,
    },
    /// A like of an article.
    #[serde(rename_all = "camelCase")]
    Like {
        /// The article.
        article_id: i64,
    },
    /// A schedule.
    #[serde(rename_all = "camelCase")]
    Schedule {
        /// Identifier.
        id: i64,
        /// Title.
        title: String,
        /// Location, in Korean.
        location: String,
        /// Begin, RFC 3339, UTC with milliseconds.
        start_at: String,
        /// End, likewise.
        end_at: String,
        /// Time of creation, likewise.
        created_at: String,
    },
    /// A track. Its points are at `GET /v1/tracks/{id}`.
    #[serde(rename_all = "camelCase")]
    Track {
        /// Identifier.
        id: i64,
        /// Name.
        name: String,
        /// Length in metres.
        length_metres: f64,
        /// Time of the upload, RFC 3339, UTC with milliseconds.
        created_at: String,
    },
    /// A run on a track.
    #[serde(rename_all = "camelCase")]
    Run {
        /// Identifier.
        id: i64,
        /// The track.
        track_id: i64,
        /// Duration in seconds.
        duration_seconds: f64,
        /// Start, RFC 3339, UTC with milliseconds.
        ran_at: String,
        /// Time of storing, likewise.
        created_at: String,
    },
}

/// Export my data: everything that is stored of the caller beside the account itself (`GET /v1/users/me`) and its
/// sessions.
///
/// Follow `nextCursor` to the end: a page may be short, or empty, and still have a next one. What is made or deleted
/// meanwhile may be in it or not. Likes of the last seconds may be missing.
#[utoipa::path(get, path = "/v1/users/me/export", tag = "accounts", operation_id = "exportMyData",
    security(("bearer" = [])),
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses(
        (status = 200, description = "One page", body = Page<Exported>),
        (status = 304, description = "The client has it already (If-None-Match)"),
    ))]
pub(super) async fn export(caller: Caller, read: Read) -> Answer {
    let listing = format!("export:{}", caller.id);
    let (limit, after) = asked(read.query(), &listing)?;
    let (at, after) = after.unwrap_or((0, 0));
    let kind = usize::try_from(at).ok().and_then(|at| KINDS.get(at));
    let wrong = || Problem::invalid_field("cursor", "a nextCursor of this program's version");
    let kind = kind.ok_or_else(wrong)?;
    let (app, headers) = (&read.app, &read.headers);
    let _turn = app.reads.enter().await?;
    let user = caller.id;
    let (items, more) = app.store.read(move |conn| kind.page(conn, user, after, limit)).await?;
    let next_kind = (at + 1 < KINDS.len() as i64).then_some((at + 1, 0));
    let next = more.map(|id| (at, id)).or(next_kind);
    let next_cursor = next.map(|(at, id)| write_whole_cursor(&listing, at, id));
    Ok(app.responses.private(Page { items, next_cursor }, headers).await?)
}

/// Rows of one kind.
struct ExportedKind {
    /// Finds the rows of the user `?1` after the id `?2`, by id, `?3` at most. The id comes first.
    find: &'static str,
    /// Rows to scan for one page; `None` if all rows found are the user's.
    at_once: Option<usize>,
    /// Reads a row; `None` if it is not the user's.
    read: fn(&Row<'_>) -> Result<Option<Exported>>,
}

impl ExportedKind {
    /// Up to `limit` items after an id, and the id after which there may be more.
    fn page(
        &self,
        conn: &Conn<'_>,
        user: UserId,
        after: i64,
        limit: usize,
    ) -> Result<(Vec<Exported>, Option<i64>)> {
        let rows = self.at_once.unwrap_or(limit);
        let found = conn.rows(self.find, params![user, after, rows], |row| {
            Ok((row.get::<i64>(0)?, (self.read)(row)?))
        })?;
        let last = found.last().filter(|_| found.len() == rows).map(|(id, _)| *id);
        let mut items = Vec::new();
        for (id, item) in found {
            items.extend(item);
            if items.len() == limit {
                return Ok((items, Some(id)));
            }
        }
        Ok((items, last))
    }
}

/// In the order of the export. A cursor holds an index of this list: append new kinds at its end.
const KINDS: &[ExportedKind] = &[
    ExportedKind {
        find: "SELECT p.id, p.title, p.item_name, p.content, p.price, p.stock, c.slug, r.name, t.name,
                p.status, p.created_at_ms, p.updated_at_ms
           FROM posts p JOIN post_categories c ON c.id = p.category_id
                JOIN regions r ON r.id = p.city_id JOIN towns t ON t.id = p.town_id
          WHERE p.author_id = ?1 AND p.removed = 0 AND p.id > ?2 ORDER BY p.id LIMIT ?3",
        at_once: None,
        read: |row| {
            let status = Status::WORDS.get(row.get::<usize>(9)?);
            Ok(Some(Exported::Post {
                id: row.get(0)?,
                title: row.get(1)?,
                item_name: row.get(2)?,
                content: row.get(3)?,
                price: row.get(4)?,
                stock: row.get(5)?,
                category: row.get(6)?,
                city: row.get(7)?,
                town: row.get(8)?,
                status: status.map(|(word, _)| *word).unwrap_or_default(),
                created_at: format_utc(row.get(10)?),
                updated_at: format_utc(row.get(11)?),
            }))
        },
    },
    ExportedKind {
        find: "SELECT a.id, a.title, c.content, a.created_at_ms, a.updated_at_ms
           FROM articles a JOIN article_contents c ON c.article_id = a.id
          WHERE a.author_id = ?1 AND a.id > ?2 ORDER BY a.id LIMIT ?3",
        at_once: None,
        read: |row| {
            let (id, title, content, created, updated) = columns(row)?;
            let (created_at, updated_at) = (format_utc(created), format_utc(updated));
            Ok(Some(Exported::Article { id, title, content, created_at, updated_at }))
        },
    },
    ExportedKind {
        find: "SELECT id, article_id, content, created_at_ms FROM article_comments
          WHERE author_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
        at_once: None,
        read: |row| {
            let (id, article_id, content, created) = columns(row)?;
            let created_at = format_utc(created);
            Ok(Some(Exported::Comment { id, article_id, content, created_at }))
        },
    },
    ExportedKind {
        find: "SELECT a.id, l.user_id FROM (SELECT id FROM articles WHERE id > ?2 ORDER BY id LIMIT ?3) a
           LEFT JOIN article_likes l ON l.article_id = a.id AND l.user_id = ?1 ORDER BY a.id",
        at_once: Some(ARTICLES_AT_ONCE),
        read: |row| {
            let (article_id, likes): (_, Option<i64>) = columns(row)?;
            Ok(likes.map(|_| Exported::Like { article_id }))
        },
    },
    ExportedKind {
        find: "SELECT s.id, s.title, l.name, s.start_at_ms, s.end_at_ms, s.created_at_ms
           FROM schedules s JOIN locations l ON l.id = s.location_id
          WHERE s.user_id = ?1 AND s.id > ?2 ORDER BY s.id LIMIT ?3",
        at_once: None,
        read: |row| {
            let (id, title, location) = columns(row)?;
            let [start_at, end_at, created_at] =
                [row.get(3)?, row.get(4)?, row.get(5)?].map(format_utc);
            Ok(Some(Exported::Schedule { id, title, location, start_at, end_at, created_at }))
        },
    },
    ExportedKind {
        find: "SELECT id, name, length_metres, created_at_ms FROM tracks
          WHERE owner_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
        at_once: None,
        read: |row| {
            let (id, name, length_metres, created) = columns(row)?;
            Ok(Some(Exported::Track { id, name, length_metres, created_at: format_utc(created) }))
        },
    },
    ExportedKind {
        find: "SELECT id, track_id, duration_ms, ran_at_ms, created_at_ms FROM track_records
          WHERE user_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
        at_once: None,
        read: |row| {
            let (id, track_id, duration, ran, created): (_, _, u32, _, _) = columns(row)?;
            let (duration_seconds, ran_at) = (f64::from(duration) / 1000.0, format_utc(ran));
            let created_at = format_utc(created);
            Ok(Some(Exported::Run { id, track_id, duration_seconds, ran_at, created_at }))
        },
    },
];
