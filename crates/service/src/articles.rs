//! Articles, comments and likes.
//!
//! In the documented system a like looked for a row, inserted or deleted it, and changed a count, in three steps; two
//! clicks raced, and every click invalidated the cached body of its article. Here likes share a record of a log and
//! its commit (`likes`), and no cached body holds counts: they are added to each response from a memory that follows
//! the commits (`counts.rs`). So a like invalidates no cached body.
//!
//! Listings hold counts, and one order uses them. They are cached for a second at most, so their counts are at most a
//! second old, under overload two; a new, changed or deleted article invalidates them at once. Their order by likes
//! is that of the tables, which follow the log of likes within about a second more.

mod comments;
mod counts;
pub(crate) mod draft;
pub(crate) mod likes;
pub(crate) mod list;
mod metrics;
mod one;
mod represent;
mod store;
#[cfg(test)]
mod tests;
mod types;
mod upkeep;

pub use comments::store::CommentStore;
pub use likes::StreamError;
pub use store::ArticleStore;
use store::Edited;
use types::Article;
pub(crate) use types::Counts;
pub use types::{ArticleId, Edit, NewArticle, NewComment};
use upkeep::UpkeepCounters;

use crate::accounts::UserId;
use crate::app::AppError;
use crate::config::Settings;
use crate::housekeeping::Leftovers;
use crate::http::rfc3339::now_ms;
use crate::http::{By, Problem, Refusal};
use crate::ops::openapi::Api;
use crate::response_cache::{Bodies, ResponseCache};
use crate::store::{ChangeError, Result, Store};
use counts::CountMemory;
use likes::{LikeLog, LikeMetrics, LikeStore};
pub(crate) use likes::{PendingLikes, Replayed, replay};
use madang_cache::Stamp;
use std::sync::Arc;
use std::time::Duration;
use utoipa_axum::routes;

pub(crate) fn router() -> Api {
    Api::new()
        .routes(routes!(list::list, list::create))
        .routes(routes!(one::one, one::patch, one::delete))
        .routes(routes!(comments::list, comments::create))
        .routes(routes!(comments::delete))
        .routes(routes!(likes::routes::toggle, likes::routes::like, likes::routes::unlike))
}

/// Longest time that a listing is cached: its counts and its order by likes may be that old.
const LISTS_TTL: Duration = Duration::from_secs(1);

/// Comments and likes of a deleted article.
pub(crate) const LEFTOVERS: Leftovers =
    Leftovers { noted: "deleted_articles", dependents: &[store::OF_ARTICLE] };

pub(crate) use store::OF_USER;

/// Articles, comments and likes: stores, cached responses, and counts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Articles {
    store: ArticleStore,
    comments: CommentStore,
    likes: LikeLog,
    counts: Arc<CountMemory>,
    upkeep: Arc<UpkeepCounters>,
    responses: ResponseCache,
    details: Bodies,
    lists: Bodies,
    comment_lists: Bodies,
}

impl Articles {
    pub(crate) fn new(
        store: Store,
        responses: ResponseCache,
        settings: &Settings,
        replayed: Replayed,
    ) -> Result<Self, AppError> {
        let ttl = settings.cache.ttl;
        let counts = Arc::new(CountMemory::of(&store));
        Ok(Self {
            likes: LikeLog::new(store.clone(), Arc::clone(&counts), &settings.likes, replayed)?,
            comments: CommentStore::new(store.clone(), settings.limits.quota),
            store: ArticleStore::new(store, settings.limits.quota),
            counts,
            upkeep: Arc::default(),
            details: responses.things("articles", ttl.articles)?,
            lists: responses.listings_within(
                "article_lists",
                ttl.lists.min(LISTS_TTL),
                2 * LISTS_TTL,
            )?,
            comment_lists: responses.listings("article_comments", ttl.articles)?,
            responses,
        })
    }

    /// Checks that all nodes of a database use compatible modes of `likes.write`. Blocks the thread.
    ///
    /// # Errors
    /// When another node uses an incompatible mode, or the store fails.
    pub fn agree_on_likes(&self) -> Result<()> {
        self.likes.agree()
    }

    /// The store of articles.
    pub fn store(&self) -> &ArticleStore {
        &self.store
    }

    /// The store of comments.
    pub fn comments(&self) -> &CommentStore {
        &self.comments
    }

    /// The store of likes.
    pub fn likes(&self) -> &LikeStore {
        &self.likes.core.store
    }

    /// Figures of likes.
    pub fn like_metrics(&self) -> LikeMetrics {
        self.likes.metrics()
    }

    pub(crate) fn sql(&self) -> &Store {
        self.store.store()
    }

    pub(crate) fn lost_likes(&self) -> u64 {
        self.likes.in_memory_alone()
    }

    /// Changes an article of this user, even if the caller leaves meanwhile.
    ///
    /// # Errors
    /// When the store fails, or the account was deleted.
    pub async fn edit(
        &self,
        id: ArticleId,
        by: impl Into<By<Article>>,
        edit: Edit,
    ) -> Result<Result<Edited, Refusal>, ChangeError> {
        let by = by.into();
        let user = by.user;
        let pending = Arc::clone(&self.likes.core.pending);
        let seen = move |edited: &mut Edited| {
            edited.counts.likes = pending.likes(id).unwrap_or(edited.counts.likes);
            edited.liked = pending.state(id, user).unwrap_or(edited.liked);
        };
        self.store.edit(id, by, edit, now_ms(), seen).await
    }

    /// The counts of an article, from memory or else from the store; `None` if there is no such article.
    async fn counts(&self, id: ArticleId) -> Result<Option<Counts>, Problem> {
        let stored = match self.counts.get(id) {
            Some(counts) => Some(counts),
            None => {
                let _turn = self.responses.reads().enter().await?;
                self.likes.core.read_counts(id).await?
            }
        };
        let Some(stored) = stored else { return Ok(None) };
        Ok(Some(self.likes.count_with_waiting(id, stored).await))
    }

    async fn liked(&self, id: ArticleId, user: UserId) -> Result<bool, Problem> {
        if let Some(waiting) = self.likes.waiting(id, user).await {
            return Ok(waiting);
        }
        let _turn = self.responses.reads().enter().await?;
        Ok(self.likes.core.store.has(id, user).await?)
    }
}

fn all_articles() -> Stamp {
    Stamp::new("articles")
}

fn one_article(id: ArticleId) -> Stamp {
    Stamp::from_args(format_args!("article:{id}"))
}

fn comments_of(id: ArticleId) -> Stamp {
    Stamp::from_args(format_args!("article-comments:{id}"))
}

fn no_such_article() -> Problem {
    Problem::not_found("there is no article with this id")
}
