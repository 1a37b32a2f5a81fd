//! Traditional markets: a directory to search in Korean, by nearness, region and goods.
//!
//! Weaknesses of the documented system: every list and search ran SQL, every view of a market wrote to it, and cache
//! keys of lists left out their order. Here all markets are in memory behind a text index, cache keys of pages
//! contain all parameters, and views are counted outside of requests.

mod fold;
mod index;
pub(crate) mod list;
mod one;
mod place;
mod represent;
mod store;
mod types;
mod views;

pub use fold::{cleaned, folded, without_spaces};
pub(crate) use index::lone;
pub use index::{After, Filter, Index, Order, RankedMarket, Words};
pub(crate) use list::{LONGEST as LONGEST_SEARCH, read_words};
pub use store::{Imported, MarketStore, Prepared};
pub use types::{AddressRegions, FACILITIES, Market, MarketId, NewMarket};
pub use views::Counting;

use crate::accounts::{Accounts, Regions};
use crate::config::Settings;
use crate::exposition::Figures;
use crate::ops::openapi::Api;
use crate::response_cache::{Bodies, ResponseCache};
use crate::store::{Result, Store, StoreError};
use madang_cache::{ConfigError, Stamp};
use parking_lot::{Mutex, RwLock};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use utoipa_axum::routes;
use views::{View, Views, Visitor, korean_day};

pub(crate) fn router() -> Api {
    Api::new().routes(routes!(list::list)).routes(routes!(one::one))
}

/// The markets; cheap to clone.
#[derive(Clone, Debug)]
pub struct Markets {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: MarketStore,
    responses: ResponseCache,
    accounts: Accounts,
    lists: Bodies,
    details: Bodies,
    view_key: [u8; 16],
    /// Empty in an import.
    index: RwLock<Arc<Index>>,
    /// Serializes reloads, so that the last one read wins.
    reloading: Mutex<()>,
    views: OnceLock<Arc<Views>>,
}

/// Error of starting the markets.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// They cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The thread that counts views does not start.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Markets {
    pub(crate) fn new(
        store: Store,
        responses: ResponseCache,
        accounts: Accounts,
        settings: &Settings,
    ) -> Result<Self, ConfigError> {
        let ttl = settings.cache.ttl.markets;
        let inner = Inner {
            store: MarketStore::new(store),
            lists: responses.listings("market_lists", ttl)?,
            details: responses.things("markets", ttl)?,
            responses,
            view_key: {
                let key = accounts.derived_key("madang market views 1");
                std::array::from_fn(|i| key[i])
            },
            accounts,
            index: RwLock::default(),
            reloading: Mutex::default(),
            views: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Reads all markets into memory and counts views until the result is dropped. Blocks the thread. A later import,
    /// also by another process, reloads the markets.
    ///
    /// # Errors
    /// The store does not answer, or a thread does not start.
    pub fn start(&self) -> Result<Counting, StartError> {
        // Registered before the first read, so no import is missed.
        let imported = Arc::downgrade(&self.inner);
        self.inner.store.when_imported(move || {
            let views = imported.upgrade().and_then(|inner| inner.views.get().cloned());
            views.into_iter().for_each(|views| views.reload());
        });
        let reloaded = Arc::downgrade(&self.inner);
        let reload = move || match reloaded.upgrade() {
            Some(inner) => Markets { inner }.reload(),
            None => Ok(()),
        };
        let (views, counting) = Views::start(self.inner.store.clone(), reload)?;
        // Fails at a second start, which finds the same markets.
        let _ = self.inner.views.set(views);
        self.reload()?;
        Ok(counting)
    }

    /// Reads all markets anew. Blocks the thread.
    fn reload(&self) -> Result<()> {
        let inner = &self.inner;
        let _alone = inner.reloading.lock();
        let index = Arc::new(Index::new(inner.store.all()?, self.regions()));
        if let Some(views) = inner.views.get() {
            views.set_counts(inner.store.view_counts()?);
        }
        tracing::debug!(markets = index.count(), bytes = index.search_bytes(), "markets in memory");
        *inner.index.write() = index;
        inner.responses.forget(&[all_markets()]);
        Ok(())
    }

    /// The store of markets.
    pub fn store(&self) -> &MarketStore {
        &self.inner.store
    }

    /// All regions.
    pub fn regions(&self) -> &Regions {
        self.inner.accounts.regions()
    }

    /// Prepares a market of a file for the store.
    pub fn prepare(&self, market: NewMarket) -> Prepared {
        let place = place::place(self.regions(), &market);
        Prepared { key: place::natural_key(&market, place), place, market }
    }

    pub(crate) fn encode_metrics(&self, out: &mut Figures<'_>) -> Result<(), std::fmt::Error> {
        let views = self.inner.views.get().map(|views| views.metrics()).unwrap_or_default();
        out.gauge("markets", "Markets in memory", self.index().count() as u64)?;
        let help = "Market views counted, one per visitor and day";
        out.counter("market_views_counted", help, views.counted)?;
        let help = "Market views not counted because the visitor was counted on that day";
        out.counter("market_views_repeated", help, views.repeated)?;
        let help = "Market views not counted: queue full, daily budget of the network used up, or store failure";
        out.counter("market_views_dropped", help, views.dropped)?;
        let help = "Market views that are waiting to be counted";
        out.gauge("market_views_pending", help, views.pending)
    }

    fn index(&self) -> Arc<Index> {
        Arc::clone(&self.inner.index.read())
    }

    fn seen(&self, market: MarketId, address: IpAddr, visitor: Visitor<'_>) {
        let day = korean_day(SystemTime::now());
        if let Some(views) = self.inner.views.get() {
            views.seen(View::new(&self.inner.view_key, day, market, address, visitor));
        }
    }
}

/// The stamp of all responses about markets.
fn all_markets() -> Stamp {
    Stamp::new("markets")
}
