//! Transactions on articles. One method is one whole transaction.

pub(crate) mod listing;
mod search;
mod upkeep;

use super::types::{Article, ArticleId, Author, Counts, Edit, NewArticle};
use super::{all_articles, comments_of, one_article};
use crate::accounts::{self, OwnedRows, Quota, UserId};
use crate::housekeeping::DependentRows;
use crate::http::{By, Refusal, Remover};
use crate::idempotency::{Done, Once};
use crate::search as index;
use crate::store::{ChangeError, Conn, Result, Row, Store, Tx, params};

/// Rows that belong to an article.
pub(super) const OF_ARTICLE: &[DependentRows] = &[
    DependentRows::delete("article_likes", "article_id", "user_id"),
    DependentRows::delete("article_comments", "article_id", "id"),
];

/// Rows that a deleted user leaves: articles and comments without an author. Likes are found in another way.
pub(crate) const OF_USER: &[DependentRows] = &[
    DependentRows::clear("articles", "author_id", "id").ending("id", one_article),
    DependentRows::clear("article_comments", "author_id", "id").ending("article_id", comments_of),
];

/// Articles in the store. A method that fails has written nothing, unless the error
/// [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct ArticleStore {
    store: Store,
    quota: Quota,
}

/// An article after an [`Edit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    pub article: Article,
    pub counts: Counts,
    /// True if its author likes it.
    pub liked: bool,
    /// True if the edit changed anything.
    pub changed: bool,
}

impl ArticleStore {
    /// Articles in `store`, at most `quota` of each user.
    pub fn new(store: Store, quota: Quota) -> Self {
        Self { store, quota }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Stores an article, `once`, even if the caller leaves meanwhile.
    ///
    /// # Errors
    /// Also when the author was deleted.
    pub async fn create(
        &self,
        new: NewArticle,
        once: Once,
    ) -> Result<Done<ArticleId>, ChangeError> {
        let quota = self.quota;
        let job = move |tx: &mut Tx<'_>| {
            author_exists(tx, new.author)?;
            once.run(tx, |tx| {
                quota.room_for_one(tx, OwnedRows::Articles, new.author)?;
                let id = insert(tx, &new)?;
                index::note(tx, index::ARTICLES, id)?;
                // "There is no such article" may be cached for the new id.
                tx.effects().end([all_articles(), one_article(id), comments_of(id)]);
                Ok(id)
            })
        };
        self.store.write(job).await
    }

    /// Stores articles in one transaction, for filling a store; returns their ids in order.
    ///
    /// # Errors
    /// Also when one is refused; then none is stored.
    pub async fn create_all(&self, all: Vec<NewArticle>) -> Result<Vec<ArticleId>> {
        let job = move |tx: &mut Tx<'_>| {
            tx.effects().end_everything();
            let ids = all.iter().map(|new| insert(tx, new)).collect::<Result<Vec<_>>>()?;
            let text = |new: &NewArticle| index::text(&[&new.title, &new.content]);
            let texts = ids.iter().zip(&all).map(|(id, new)| (*id, text(new)));
            index::add_all(tx, index::ARTICLES, texts)?;
            Ok(ids)
        };
        self.store.write(job).await
    }

    /// Number of articles.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count(&self) -> Result<u64> {
        self.store.read(|conn| conn.one("SELECT count(*) FROM articles", &[])).await
    }

    /// Ids of the first `limit` articles, for filling a store.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn ids(&self, limit: usize) -> Result<Vec<ArticleId>> {
        let sql = "SELECT id FROM articles ORDER BY id LIMIT ?";
        self.store.read(move |conn| conn.rows(sql, params![limit], |row| row.get(0))).await
    }

    /// The article of this id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn find(&self, id: ArticleId) -> Result<Option<Article>> {
        self.store.read(move |conn| find(conn, id)).await
    }

    /// Changes an article of this user. `seen` adds pending likes to the result, on the writer's thread.
    ///
    /// # Errors
    /// Also when the account was deleted.
    pub(super) async fn edit(
        &self,
        id: ArticleId,
        by: impl Into<By<Article>>,
        edit: Edit,
        now_ms: i64,
        seen: impl Fn(&mut Edited) + Send + 'static,
    ) -> Result<Result<Edited, Refusal>, ChangeError> {
        let by = by.into();
        let job = move |tx: &mut Tx<'_>| {
            let user = by.user;
            author_exists(tx, user)?;
            tx.hold("articles", id)?;
            if let Err(refusal) = by.may(owner(tx, id)?, || find(tx, id))? {
                return Ok(Err(refusal));
            }
            let changed = change(tx, id, &edit, now_ms)?;
            if changed {
                index::note(tx, index::ARTICLES, id)?;
                tx.effects().end([all_articles(), one_article(id)]);
            }
            let Some((article, counts)) = find(tx, id)?.zip(counts(tx, id)?) else {
                return Ok(Err(Refusal::Absent));
            };
            let mut edited = Edited { article, counts, liked: likes(tx, id, user)?, changed };
            seen(&mut edited);
            Ok(Ok(edited))
        };
        self.store.write(job).await
    }

    /// Deletes an article for its author or the operator, even if the caller leaves meanwhile. Its comments and likes
    /// disappear at once, and their rows are deleted later (`OF_ARTICLE`).
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delete(
        &self,
        id: ArticleId,
        by: impl Into<Remover<Article>>,
    ) -> Result<Result<(), Refusal>> {
        let by = by.into();
        let job = move |tx: &mut Tx<'_>| {
            tx.hold("articles", id)?;
            let outcome = by.may(owner(tx, id)?, || find(tx, id))?;
            if outcome.is_ok() {
                delete(tx, id)?;
                let effects = tx.effects();
                effects.forget(id);
                effects.end([all_articles(), one_article(id), comments_of(id)]);
                effects.leave_rows();
            }
            Ok(outcome)
        };
        self.store.write(job).await
    }
}

/// Fails if the account of the author was deleted.
pub(super) fn author_exists(tx: &Tx<'_>, user: UserId) -> Result<(), ChangeError> {
    if accounts::stays(tx, user)? { Ok(()) } else { Err(ChangeError::UnknownUser) }
}

fn insert(tx: &Tx<'_>, new: &NewArticle) -> Result<ArticleId> {
    let id = tx.insert("INSERT INTO articles (author_id, title, created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, ?3)", params![new.author, new.title, new.created_at_ms])?;
    let content = "INSERT INTO article_contents (article_id, content) VALUES (?, ?)";
    tx.run(content, params![id, new.content])?;
    Ok(id)
}

/// Deletes the row and its text; other rows that belong to it are deleted later.
fn delete(tx: &Tx<'_>, id: ArticleId) -> Result<()> {
    tx.run("DELETE FROM articles WHERE id = ?", params![id])?;
    // In a file a trigger does the rest, also for a deletion by an operator.
    if tx.is_shared() {
        tx.run("DELETE FROM article_contents WHERE article_id = ?", params![id])?;
        tx.insert_new("INSERT INTO deleted_articles (id) VALUES (?)", params![id])?;
    }
    Ok(())
}

/// The author of an article, if they still exist; `None` if there is no such article.
fn owner(tx: &Tx<'_>, id: ArticleId) -> Result<Option<Option<UserId>>> {
    let sql = "SELECT u.id FROM articles a LEFT JOIN users u ON u.id = a.author_id WHERE a.id = ?";
    tx.first(sql, params![id], |row| row.get(0))
}

/// Writes the fields that differ; returns whether any did.
fn change(tx: &Tx<'_>, id: ArticleId, edit: &Edit, now: i64) -> Result<bool> {
    let mut changed = 0;
    if let Some(title) = &edit.title {
        let update = "UPDATE articles SET title = ?2 WHERE id = ?1 AND title <> ?2";
        changed += tx.run(update, params![id, title])?;
    }
    if let Some(content) = &edit.content {
        changed += tx.run(
            "UPDATE article_contents SET content = ?2 WHERE article_id = ?1 AND content <> ?2",
            params![id, content],
        )?;
    }
    if changed > 0 {
        // A clock that was set back must not date the change before the creation.
        tx.run("UPDATE articles SET updated_at_ms = CASE WHEN updated_at_ms < ?2 THEN ?2 ELSE updated_at_ms END WHERE id = ?1", params![id, now])?;
    }
    Ok(changed > 0)
}

fn find(conn: &Conn<'_>, id: ArticleId) -> Result<Option<Article>> {
    let sql =
        "SELECT a.id, a.author_id, u.nickname, a.title, a.created_at_ms, a.updated_at_ms, c.content
         FROM articles a JOIN article_contents c ON c.article_id = a.id
         LEFT JOIN users u ON u.id = a.author_id WHERE a.id = ?";
    conn.first(sql, params![id], |row| {
        let (title, created_at_ms, updated_at_ms) = (row.get(3)?, row.get(4)?, row.get(5)?);
        let (id, author, content) = (row.get(0)?, author(row, 1)?, row.get(6)?);
        Ok(Article { id, author, title, content, created_at_ms, updated_at_ms })
    })
}

/// The counts of an article, if it exists.
pub(super) fn counts(conn: &Conn<'_>, id: ArticleId) -> Result<Option<Counts>> {
    conn.first("SELECT like_count, comment_count FROM articles WHERE id = ?", params![id], |row| {
        Ok(Counts { likes: row.get(0)?, comments: row.get(1)? })
    })
}

/// True if this user likes this article.
pub(super) fn likes(conn: &Conn<'_>, article: ArticleId, user: UserId) -> Result<bool> {
    let sql = "SELECT 1 FROM article_likes WHERE article_id = ? AND user_id = ?";
    conn.exists(sql, params![article, user])
}

/// The author from two columns: id, and nickname, which is null when the account was deleted.
pub(super) fn author(row: &Row<'_>, at: usize) -> Result<Option<Author>> {
    let nickname: Option<String> = row.get(at + 1)?;
    nickname.map(|nickname| Ok(Author { id: row.get(at)?, nickname })).transpose()
}
