//! Traditional markets: a directory to search in Korean, by nearness, region and goods.
//!
//! What was slow in the documented system: every list and every search walked through SQL, every look
//! at a market wrote to it, and lists were cached under keys that left out their order. Here all markets
//! are in memory behind an index of their text, pages are cached under everything that shapes them, and
//! views are counted off the path of reading.

mod detail;
mod figures;
mod fold;
mod index;
mod list;
mod place;
mod represent;
mod store;
mod types;
mod views;

pub use fold::{cleaned, folded, without_spaces};
pub(crate) use list::LONGEST as LONGEST_SEARCH;
pub use index::{After, Filter, Found, Index, Order, Words};
pub use place::place_of;
pub use store::{Imported, MarketStore, Prepared};
pub use types::{FACILITIES, Market, MarketId, NewMarket, Place};
pub use views::{Counting, ViewFigures};

use crate::accounts::{Accounts, Regions};
use crate::bodies::{Bodies, LoadError};
use crate::config::Settings;
use crate::ops::openapi::Api;
use crate::store::{Store, StoreError};
use madang_cache::{ConfigError, NamedCache, Stamp};
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use utoipa_axum::routes;
use views::{View, Views, Visitor, korean_day};

/// Routes of markets.
pub(crate) fn router() -> Api {
    Api::new().routes(routes!(list::list)).routes(routes!(detail::detail))
}

/// The system; cheap to clone.
#[derive(Clone, Debug)]
pub struct Markets {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: MarketStore,
    bodies: Bodies,
    accounts: Accounts,
    lists: NamedCache<LoadError>,
    details: NamedCache<LoadError>,
    view_key: [u8; 16],
    open: OnceLock<Open>,
}

/// What a server has and an import has not.
#[derive(Debug, Default)]
struct Open {
    index: Arc<Index>,
    views: Option<Arc<Views>>,
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
    /// The system in `store`, its bodies among `bodies`.
    ///
    /// # Errors
    /// When the cache has parts of its names already, or its settings cannot work.
    pub fn new(
        store: Store,
        bodies: Bodies,
        accounts: Accounts,
        settings: &Settings,
    ) -> Result<Self, ConfigError> {
        let ttl = settings.cache.ttl.markets;
        let inner = Inner {
            store: MarketStore::new(store),
            lists: bodies.listings("market_lists", ttl)?,
            details: bodies.things("markets", ttl)?,
            bodies,
            view_key: half(accounts.derived_key("madang market views 1")),
            accounts,
            open: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Reads all markets into memory and begins to count views, until what this answers is dropped. Blocks
    /// the thread. Markets imported later are not seen; none can be while a server owns the store.
    ///
    /// # Errors
    /// When the store cannot be read or the thread not be started.
    pub fn start(&self) -> Result<Counting, StartError> {
        let index = Arc::new(Index::new(self.inner.store.all()?, self.regions()));
        let mut counts: Vec<AtomicU64> = (0..index.len()).map(|_| AtomicU64::new(0)).collect();
        for (id, views) in self.inner.store.view_counts()? {
            if let Some(number) = index.number(id) {
                counts[number as usize] = AtomicU64::new(views);
            }
        }
        let numbers = Arc::clone(&index);
        let store = self.inner.store.clone();
        let (views, counting) = Views::start(store, counts, move |id| numbers.number(id))?;
        tracing::debug!(markets = index.len(), bytes = index.search_bytes(), "markets in memory");
        // A second start would find the first one's markets, which are the same.
        let _ = self.inner.open.set(Open { index, views: Some(views) });
        Ok(counting)
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
    pub fn view_figures(&self) -> ViewFigures {
        self.open().views.as_ref().map(|views| views.figures()).unwrap_or_default()
    }

    /// How many markets are in memory.
    pub fn in_memory(&self) -> usize {
        self.open().index.len()
    }

    fn open(&self) -> &Open {
        self.inner.open.get_or_init(Open::default)
    }

    fn views_of(&self, number: u32) -> u64 {
        self.open().views.as_ref().map_or(0, |views| views.of(number))
    }

    fn seen(&self, market: MarketId, address: IpAddr, visitor: Visitor<'_>) {
        let day = korean_day(SystemTime::now());
        if let Some(views) = &self.open().views {
            views.seen(View::new(&self.inner.view_key, day, market, address, visitor));
        }
    }
}

/// As many bits as SipHash takes.
fn half(key: [u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| key[i])
}

/// Nothing writes markets while they are served; whoever will one day announces this.
fn all_markets() -> Stamp {
    Stamp::new("markets")
}
