//! Second-hand goods: posts by area and category, newest, cheapest or dearest first.
//!
//! Faults of the documented system: cache keys without the order or the size of a page, eviction
//! under a name that no entry had, removed posts that were still listed, e-mail addresses in public
//! bodies. Here a cached listing depends on one stamp, named after its area and category, and a write invalidates
//! the stamps of every listing that the post was in or is in: four levels of area (six in a district of a
//! large city), each with its category and without. No keys are enumerated, so all orders, page sizes
//! and later pages are invalidated too. Bodies contain the owner's nickname, and nothing about the reader.
//!
//! Limits: areas are those of the region tables; towns are free text, distinguished by their letters. A cached
//! post of an account that an operator deletes by SQL has its nickname until the housekeeper runs.

mod area;
mod categories;
pub(crate) mod draft;
pub(crate) mod list;
mod one;
mod represent;
mod store;
#[cfg(test)]
mod tests;
mod types;

use area::Area;
use draft::Changes;
pub(crate) use draft::{LONGEST_TOWN, Names};
pub use store::PostStore;
pub(crate) use store::sweep_towns;
use store::{Asked, Changed};
use types::Post;
pub(crate) use types::{Category, Order};
pub use types::{CategoryId, NewPost, OfferPlace, PostId, PostValues, Status};

use crate::accounts::Accounts;
use crate::app::AppError;
use crate::config::Settings;
use crate::housekeeping::DependentRows;
use crate::ops::openapi::Api;
use crate::response_cache::{Bodies, ResponseCache};
use crate::store::Store;
use madang_cache::Stamp;
use std::sync::Arc;
use utoipa_axum::routes;

pub(crate) fn router() -> Api {
    Api::new()
        .routes(routes!(categories::list))
        .routes(routes!(list::create, list::list))
        .routes(routes!(one::one, one::change, one::delete))
}

/// Rows that depend on a user: posts, which lose their author.
pub(crate) const OF_USER: &[DependentRows] =
    &[DependentRows::clear("posts", "author_id", "id").ending("id", one_post)];

/// The posts: their store and cached responses.
#[derive(Clone, Debug)]
pub struct Posts {
    store: PostStore,
    responses: ResponseCache,
    /// Defined by migrations, so constant while the program runs.
    categories: Arc<[Category]>,
    category_responses: Bodies,
    lists: Bodies,
    details: Bodies,
}

impl Posts {
    /// The posts in `store`. Blocks the thread.
    pub(crate) fn new(
        store: Store,
        responses: ResponseCache,
        settings: &Settings,
    ) -> Result<Self, AppError> {
        let store = PostStore::new(store, settings.limits.quota);
        let ttl = settings.cache.ttl;
        Ok(Self {
            categories: store.remembered()?.into(),
            category_responses: responses.things("post_categories", ttl.categories)?,
            lists: responses.listings("post_lists", ttl.lists)?,
            details: responses.things("posts", ttl.posts)?,
            store,
            responses,
        })
    }

    /// The store of posts.
    pub fn store(&self) -> &PostStore {
        &self.store
    }

    /// All categories, in display order.
    pub fn categories(&self) -> &[Category] {
        &self.categories
    }

    /// Resolves names in bodies of posts.
    pub(crate) fn names<'a>(&'a self, accounts: &'a Accounts) -> Names<'a> {
        Names { regions: accounts.regions(), categories: &self.categories }
    }
}

impl Changed {
    /// The stamps that a change invalidates: the post always, listings unless only the content changed, searches also
    /// with the content.
    fn ends(&self, id: PostId) -> Vec<Stamp> {
        let (before, after) = (&self.before, &self.after.values);
        if before == after {
            return Vec::new();
        }
        let mut stamps = vec![one_post(id)];
        if before.content != after.content {
            stamps.push(all_contents());
        }
        let shown = PostValues { content: before.content.clone(), ..after.clone() };
        if shown != *before {
            stamps.extend(area::listings(before));
            if (&before.place, before.category) != (&after.place, after.category) {
                stamps.extend(area::listings(after));
            }
        }
        stamps
    }
}

/// The stamp of all searches, beside that of their listing.
fn all_contents() -> Stamp {
    Stamp::new("post-contents")
}

fn one_post(id: PostId) -> Stamp {
    Stamp::from_args(format_args!("post:{id}"))
}
