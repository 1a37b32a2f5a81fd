//! Traditional markets: a directory to search in Korean, by nearness, region and goods.
//!
//! What was slow in the documented system: every list and every search walked through SQL, every look
//! at a market wrote to it, and lists were cached under keys that left out their order. Here all markets
//! are in memory behind an index of their text, pages are cached under everything that shapes them, and
//! views are counted off the path of reading.

mod fold;
mod index;
pub(crate) mod list;
mod metrics;
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
pub use place::place_of;
pub use store::{Imported, MarketStore, Prepared};
pub use types::{AddressRegions, FACILITIES, Market, MarketId, NewMarket};
pub use views::{Counting, ViewMetrics};

use crate::accounts::{Accounts, Regions};
use crate::config::Settings;
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

/// The system; cheap to clone.
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
    /// All markets; none in an import.
    index: RwLock<Arc<Index>>,
    /// One reads them at a time, so that what was read last stays.
    reloading: Mutex<()>,
    views: OnceLock<Arc<Views>>,
}

/// Why the markets cannot be served.
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
    /// The system in `store`, its responses among `responses`.
    pub fn new(
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
            view_key: half(accounts.derived_key("madang market views 1")),
            accounts,
            index: RwLock::default(),
            reloading: Mutex::default(),
            views: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Reads all markets into memory and begins to count views, until what this answers is dropped. Blocks
    /// the thread. Markets that are imported later, into a database that others use as well, are read then.
    pub fn start(&self) -> Result<Counting, StartError> {
        // The store tells of an import from now on, so none is missed.
        let told = Arc::downgrade(&self.inner);
        self.inner.store.when_imported(move || {
            let views = told.upgrade().and_then(|inner| inner.views.get().cloned());
            views.into_iter().for_each(|views| views.reload());
        });
        let reloaded = Arc::downgrade(&self.inner);
        let reload = move || match reloaded.upgrade() {
            Some(inner) => Markets { inner }.reload(),
            None => Ok(()),
        };
        let (views, counting) = Views::start(self.inner.store.clone(), [], reload)?;
        // A second start would find the first one's markets, which are the same.
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
            views.counted(inner.store.view_counts()?);
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

    /// What a market of a file is to the store.
    pub fn prepare(&self, market: NewMarket) -> Prepared {
        let place = place::place(self.regions(), &market);
        Prepared { key: place::natural_key(&market, place), place, market }
    }

    /// What became of views so far.
    pub fn view_metrics(&self) -> ViewMetrics {
        self.inner.views.get().map(|views| views.metrics()).unwrap_or_default()
    }

    fn index(&self) -> Arc<Index> {
        Arc::clone(&self.inner.index.read())
    }

    fn views_of(&self, market: MarketId) -> u64 {
        self.inner.views.get().map_or(0, |views| views.of(market))
    }

    fn seen(&self, market: MarketId, address: IpAddr, visitor: Visitor<'_>) {
        let day = korean_day(SystemTime::now());
        if let Some(views) = self.inner.views.get() {
            views.seen(View::new(&self.inner.view_key, day, market, address, visitor));
        }
    }
}

/// As many bits as SipHash takes.
fn half(key: [u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| key[i])
}

/// Everything that is said of markets depends on this.
fn all_markets() -> Stamp {
    Stamp::new("markets")
}
