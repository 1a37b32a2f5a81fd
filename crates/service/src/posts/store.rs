//! Transactions on posts. One method is one whole transaction; listings are in `store/listing.rs`, searches in
//! `store/search.rs`.

mod listing;
mod search;

pub(crate) use listing::Asked;

use super::draft::Changes;
use super::types::{Category, NewPost, OfferPlace, Post, PostId, PostSummary, PostValues, Status};
use super::{Area, area, one_post};
use crate::accounts::{self, OwnedRows, Quota, RegionId, UserId};
use crate::http::rfc3339::now_ms;
use crate::http::{By, Refusal, Remover};
use crate::idempotency::{Done, Once};
use crate::search as index;
use crate::store::{ChangeError, Conn, Result, Row, Sql, Store, StoreError, Tx, columns, params};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The columns of [`summary`] first. A deleted author is `NULL`, even if the post still has the id.
const FIND: &str =
    "SELECT p.id, p.title, p.item_name, p.price, p.stock, p.category_id, p.state_id, p.city_id,
        t.name, p.status, p.created_at_ms, p.content, u.nickname, p.updated_at_ms, u.id
   FROM posts p JOIN towns t ON t.id = p.town_id LEFT JOIN users u ON u.id = p.author_id
  WHERE p.id = ? AND p.removed = 0";

/// The next `?2` towns after `?1`, and 1 for those without posts.
const TOWNS: &str = "SELECT id, NOT EXISTS (SELECT 1 FROM posts WHERE town_id = t.id)
     FROM towns t WHERE id > ?1 ORDER BY id LIMIT ?2";

/// Posts in the store. Every method fails when the store does not answer; nothing is written then,
/// unless the error [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct PostStore {
    store: Store,
    quota: Quota,
}

/// A change of a post.
pub(super) struct Changed {
    pub(super) before: PostValues,
    pub(super) after: Post,
}

impl PostStore {
    pub(super) fn new(store: Store, quota: Quota) -> Self {
        Self { store, quota }
    }

    /// All categories, in display order.
    pub(super) async fn categories(&self) -> Result<Vec<Category>> {
        self.store.read(all_categories).await
    }

    /// The same; blocks the thread.
    pub(super) fn remembered(&self) -> Result<Vec<Category>> {
        self.store.read_blocking(all_categories)
    }

    /// Stores a post, `once`. Completes even when the caller leaves.
    ///
    /// # Errors
    /// Also when its author does not exist any more.
    pub async fn create(&self, new: NewPost, once: Once) -> Result<Done<PostId>, ChangeError> {
        let listings = area::listings(&new.values);
        let quota = self.quota;
        let job = move |tx: &mut Tx<'_>| {
            if !accounts::stays(tx, new.author)? {
                return Err(ChangeError::UnknownUser);
            }
            once.run(tx, |tx| {
                quota.room_for_one(tx, OwnedRows::Posts, new.author)?;
                let town = intern(tx, new.values.place.city, &new.values.place.town)?;
                let id = insert(tx, &new, town)?;
                index::note(tx, index::POSTS, id)?;
                // The absence of this id may be cached.
                tx.effects().end(listings.iter().copied().chain([one_post(id)]));
                Ok(id)
            })
        };
        self.store.write(job).await
    }

    /// Stores posts in one transaction, in order. For filling a store.
    ///
    /// # Errors
    /// Also when one post is refused; none is stored then.
    pub async fn create_all(&self, all: Vec<NewPost>) -> Result<()> {
        let job = move |tx: &mut Tx<'_>| {
            let mut towns: HashMap<(RegionId, &str), i64> = HashMap::new();
            let mut ids = Vec::with_capacity(all.len());
            for new in &all {
                let OfferPlace { city, town, .. } = &new.values.place;
                let id = match towns.entry((*city, town)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(vacant) => *vacant.insert(intern(tx, *city, town)?),
                };
                ids.push(insert(tx, new, id)?);
            }
            let text = |new: &NewPost| index::text(&new.values.texts());
            let texts = ids.iter().zip(&all).map(|(id, new)| (*id, text(new)));
            index::add_all(tx, index::POSTS, texts)?;
            tx.effects().end_everything();
            Ok(())
        };
        self.store.write(job).await
    }

    /// The post of this id, unless it was removed.
    pub(super) async fn find(&self, id: PostId) -> Result<Option<Post>> {
        self.store.read(move |conn| Ok(find(conn, id)?.map(|(post, _)| post))).await
    }

    /// Changes a post of this author. Completes even when the caller leaves. Also fails when the author does not
    /// exist any more.
    pub(super) async fn change(
        &self,
        id: PostId,
        by: impl Into<By<Post>>,
        changes: Changes,
    ) -> Result<Result<Post, Refusal>, ChangeError> {
        let by = Remover::User(by.into());
        let job = move |tx: &mut Tx<'_>| {
            let mut after = match owned(tx, id, &by)? {
                Ok(post) => post,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let before = after.values.clone();
            changes.apply(&mut after.values);
            if after.values != before {
                // Clocks may be set back, and seeded posts are in the future.
                after.updated_at_ms = after.updated_at_ms.max(now_ms());
                update(tx, &after)?;
            }
            if after.values.texts() != before.texts() {
                index::note(tx, index::POSTS, id)?;
            }
            let changed = Changed { before, after };
            tx.effects().end(changed.ends(id));
            Ok(Ok(changed.after))
        };
        self.store.write(job).await
    }

    /// Hides a post for all clients, on behalf of its author or the operator. Completes even when the caller leaves.
    ///
    /// # Errors
    /// Also when the author does not exist any more.
    pub async fn remove(
        &self,
        id: PostId,
        by: impl Into<Remover<Post>>,
    ) -> Result<Result<(), Refusal>, ChangeError> {
        let by = by.into();
        let job = move |tx: &mut Tx<'_>| {
            let own = owned(tx, id, &by)?;
            if let Ok(post) = &own {
                tx.run(
                    "UPDATE posts SET removed = 1,
                       updated_at_ms = CASE WHEN updated_at_ms < ?1 THEN ?1 ELSE updated_at_ms END
                     WHERE id = ?2",
                    params![now_ms(), id],
                )?;
                tx.effects().end(area::listings(&post.values).into_iter().chain([one_post(id)]));
            }
            Ok(own.map(drop))
        };
        self.store.write(job).await
    }

    /// Number of stored posts, removed ones included.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn count(&self) -> Result<u64> {
        self.store.read(|conn| conn.one("SELECT count(*) FROM posts", &[])).await
    }
}

/// The post, if it exists and `by` may change it.
fn owned(
    tx: &Tx<'_>,
    id: PostId,
    by: &Remover<Post>,
) -> Result<Result<Post, Refusal>, ChangeError> {
    if let Remover::User(by) = by
        && !accounts::stays(tx, by.user)?
    {
        return Err(ChangeError::UnknownUser);
    }
    tx.hold("posts", id)?;
    let Some((post, author)) = find(tx, id)? else { return Ok(Err(Refusal::Absent)) };
    Ok(by.may(Some(author), || Ok::<_, StoreError>(Some(post.clone())))?.map(|()| post))
}

/// The post of this id and the id of its author, unless it was removed.
fn find(conn: &Conn<'_>, id: PostId) -> Result<Option<(Post, Option<UserId>)>> {
    conn.first(FIND, params![id], |row| Ok((post(row)?, row.get(14)?)))
}

/// The id of a town, which is inserted if it is new.
fn intern(tx: &Tx<'_>, city: RegionId, name: &str) -> Result<i64> {
    let look = || tx.first(TOWN, params![city, name], |row| row.get(0));
    if let Some(id) = look()? {
        return Ok(id);
    }
    let insert = "INSERT INTO towns (city_id, name) VALUES (?, ?)";
    match tx.insert_new(insert, params![city, name])? {
        Some(id) => Ok(id),
        // Another transaction has inserted it meanwhile.
        None => look()?.ok_or(StoreError::Busy),
    }
}

/// Locks the row: the town must exist until the post is inserted.
const TOWN: Sql<'_> = Sql::each(
    "SELECT id FROM towns WHERE city_id = ? AND name = ?",
    "SELECT id FROM towns WHERE city_id = ? AND name = ? LOCK IN SHARE MODE",
);

/// Deletes the towns without posts among the next `limit` after `after`; returns the last of these if there may be
/// more. Removed posts keep their town.
pub(crate) async fn sweep_towns(store: &Store, after: i64, limit: usize) -> Result<Option<i64>> {
    let read = move |conn: &Conn<'_>| conn.rows(TOWNS, params![after, limit], columns);
    let found: Vec<(i64, bool)> = store.read(read).await?;
    let last = found.last().filter(|_| found.len() == limit).map(|(id, _)| *id);
    let unused: Vec<_> =
        found.into_iter().filter(|(_, unused)| *unused).map(|(id, _)| id).collect();
    if !unused.is_empty() {
        let job = move |tx: &mut Tx<'_>| {
            // A post may have been inserted meanwhile.
            let delete = "DELETE FROM towns
                 WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM posts WHERE town_id = ?1)";
            unused.iter().try_for_each(|id| tx.run(delete, params![id]).map(drop))?;
            Ok::<_, StoreError>(())
        };
        store.write(job).await?;
    }
    Ok(last)
}

fn insert(tx: &Tx<'_>, new: &NewPost, town: i64) -> Result<PostId> {
    let PostValues { title, content, item_name, price, stock, category, place, status } =
        &new.values;
    let status = *status as i64;
    tx.insert(
        "INSERT INTO posts (author_id, category_id, state_id, city_id, town_id, price, stock, status, removed,
                            created_at_ms, updated_at_ms, title, item_name, content)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, ?11, ?12, ?13)",
        params![
            new.author, category, place.state, place.city, town, price, stock, status, new.removed,
            new.created_at_ms, title, item_name, content
        ],
    )
}

fn update(tx: &Tx<'_>, post: &Post) -> Result<()> {
    let PostValues { title, content, item_name, price, stock, category, place, status } =
        &post.values;
    let status = *status as i64;
    let town = intern(tx, place.city, &place.town)?;
    tx.run(
        "UPDATE posts SET category_id = ?, state_id = ?, city_id = ?, town_id = ?, price = ?, stock = ?,
                status = ?, updated_at_ms = ?, title = ?, item_name = ?, content = ?
          WHERE id = ?",
        params![
            category, place.state, place.city, town, price, stock, status, post.updated_at_ms,
            title, item_name, content, post.id
        ],
    )?;
    Ok(())
}

fn all_categories(conn: &Conn<'_>) -> Result<Vec<Category>> {
    conn.rows("SELECT id, slug, name, name_english FROM post_categories ORDER BY id", &[], |row| {
        let (id, slug, name, name_english) = columns(row)?;
        Ok(Category { id, slug, name, name_english })
    })
}

fn post(row: &Row<'_>) -> Result<Post> {
    let PostSummary { id, values, created_at_ms } = summary(row)?;
    let values = PostValues { content: row.get(11)?, ..values };
    Ok(Post { id, author: row.get(12)?, values, created_at_ms, updated_at_ms: row.get(13)? })
}

/// Reads the first eleven columns of [`FIND`].
fn summary(row: &Row<'_>) -> Result<PostSummary> {
    let status = Status::WORDS.get(row.get::<usize>(9)?);
    Ok(PostSummary {
        id: row.get(0)?,
        values: PostValues {
            title: row.get(1)?,
            content: String::new(),
            item_name: row.get(2)?,
            price: row.get(3)?,
            stock: row.get(4)?,
            category: row.get(5)?,
            place: OfferPlace { state: row.get(6)?, city: row.get(7)?, town: row.get(8)? },
            // The table has no other numbers.
            status: status.map_or(Status::Selling, |(_, status)| *status),
        },
        created_at_ms: row.get(10)?,
    })
}
