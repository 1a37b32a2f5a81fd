//! Markets in the store. No other module reads or writes their tables.

use super::types::{AddressRegions, Market, MarketId, NewMarket};
use super::views::View;
use crate::store::{Result, Row, Sql, Store, Tx, columns, params};
use std::collections::BTreeMap;

/// Columns of a market in the order that [`market`] reads them.
const COLUMNS: &str =
    "id, name, kind, cycle, road_address, lot_address, province_id, municipality_id,
    lat, lon, stores, goods, vouchers, homepage, public_toilet, parking, founded_year, phone,
    facilities, data_date, provider";

/// A market ready for the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// Identity of the market.
    pub key: String,
    /// Regions of its address.
    pub place: AddressRegions,
    /// All other data.
    pub market: NewMarket,
}

/// Outcome of the rows of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// New markets.
    pub created: usize,
    /// Markets that existed and were changed.
    pub updated: usize,
    /// Markets that existed with the same data.
    pub unchanged: usize,
}

/// Outcome of counting views.
pub(super) struct CountedViews {
    /// New counts of the markets with new views.
    pub(super) counts: Vec<(MarketId, u64)>,
    /// Views that were counted before.
    pub(super) repeated: Vec<View>,
}

/// The tables of markets. Every method fails when the store does not answer; nothing is written then,
/// unless the error [is unknown](crate::store::StoreError::is_unknown).
#[derive(Clone, Debug)]
pub struct MarketStore {
    store: Store,
}

impl MarketStore {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// All markets, by id. Blocks the thread.
    ///
    /// # Errors
    /// The store does not answer.
    pub fn all(&self) -> Result<Vec<Market>> {
        let sql = format!("SELECT {COLUMNS} FROM markets ORDER BY id");
        self.store.read_blocking(move |conn| conn.rows(&sql, &[], market))
    }

    /// The view counts of all markets that were ever viewed. Blocks the thread.
    pub(super) fn view_counts(&self) -> Result<Vec<(MarketId, u64)>> {
        let sql = "SELECT market_id, views FROM market_view_counts";
        self.store.read_blocking(move |conn| conn.rows(sql, &[], columns))
    }

    /// Runs `reload` after each import of markets, by this process or another.
    pub(super) fn when_imported(&self, reload: impl Fn() + Send + Sync + 'static) {
        self.store.markets_told(reload);
    }

    /// Number of markets.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn count(&self) -> Result<u64> {
        self.store.read(|conn| conn.one("SELECT count(*) FROM markets", &[])).await
    }

    /// Stores rows in one transaction: new markets, and new data of existing ones.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn import(&self, rows: Vec<Prepared>) -> Result<Imported> {
        let job = move |tx: &mut Tx<'_>| {
            let mut done = Imported::default();
            rows.iter().try_for_each(|row| put(tx, row, &mut done))?;
            if done.created + done.updated > 0 {
                tx.effects().change_markets();
            }
            Ok(done)
        };
        self.store.write(job).await
    }

    /// Stores the facilities of markets; returns the number of changed markets.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn set_facilities(&self, rows: Vec<(MarketId, u32)>) -> Result<usize> {
        let job = move |tx: &mut Tx<'_>| {
            tx.effects().change_markets();
            rows.iter().try_fold(0, |n, (id, bits)| Ok(n + tx.run(FACILITIES, params![id, bits])?))
        };
        self.store.write(job).await
    }

    /// Counts views: each visitor once for each market and day.
    pub(super) async fn count_views(&self, views: Vec<View>) -> Result<CountedViews> {
        let job = move |tx: &mut Tx<'_>| {
            let insert = "INSERT INTO market_views (day, market_id, visitor) VALUES (?, ?, ?)";
            let mut new: BTreeMap<MarketId, u64> = BTreeMap::new();
            let mut repeated = Vec::new();
            for &view in &views {
                let values = params![view.day, view.market, view.visitor];
                if tx.insert_new(insert, values)?.is_some() {
                    *new.entry(view.market).or_default() += 1;
                } else {
                    repeated.push(view);
                }
            }
            let mut counts = Vec::with_capacity(new.len());
            for (id, n) in new {
                tx.run(ADD_VIEWS, params![id, n])?;
                let views = "SELECT views FROM market_view_counts WHERE market_id = ?";
                counts.push((id, tx.one(views, params![id])?));
            }
            Ok(CountedViews { counts, repeated })
        };
        self.store.write(job).await
    }

    /// Folds at most `most` rows of days before `day` into the counts; returns their number.
    pub(super) async fn settle_views(&self, day: u32, most: usize) -> Result<usize> {
        let job = move |tx: &mut Tx<'_>| {
            let mut gone: BTreeMap<MarketId, usize> = BTreeMap::new();
            for id in tx.rows(OLD_VIEWS, params![day, most], |row| row.get(0))? {
                *gone.entry(id).or_default() += 1;
            }
            let settle = "UPDATE market_view_counts SET settled = settled + ? WHERE market_id = ?";
            for (id, n) in &gone {
                tx.run(settle, params![n, id])?;
            }
            Ok(gone.values().sum())
        };
        self.store.write(job).await
    }
}

/// Stores a row, and counts its outcome.
fn put(tx: &Tx<'_>, row: &Prepared, done: &mut Imported) -> Result<()> {
    let Some(there) = by_key(tx, &row.key)? else {
        done.created += 1;
        return write(tx, INSERT, row);
    };
    // The place belongs to the addresses that are stored: provinces of older data may have changed since.
    let place = if row.market.holds_over(&there.is) { row.place } else { there.place };
    let market = row.market.clone().over(&there.is);
    if market == there.is && place == there.place {
        done.unchanged += 1;
        return Ok(());
    }
    done.updated += 1;
    write(tx, UPDATE, &Prepared { market, place, key: row.key.clone() })
}

fn by_key(tx: &Tx<'_>, key: &str) -> Result<Option<Market>> {
    let read = format!("SELECT {COLUMNS} FROM markets WHERE natural_key = ?");
    let lock = format!("{read} FOR UPDATE");
    tx.first(Sql::each(&read, &lock), params![key], market)
}

fn write(tx: &Tx<'_>, sql: &str, row: &Prepared) -> Result<()> {
    let Prepared { key, place, market } = row;
    let (goods, vouchers) = (market.goods.join("+"), market.vouchers.join("+"));
    let (lat, lon) = (market.position.map(|p| p.0), market.position.map(|p| p.1));
    // The key comes last, because an update finds the row by it.
    tx.run(
        sql,
        params![
            market.name, market.kind, market.cycle, market.road_address, market.lot_address,
            place.province, place.municipality, lat, lon, market.stores, goods, vouchers,
            market.homepage, market.public_toilet, market.parking, market.founded_year,
            market.phone, market.data_date, market.provider, key
        ],
    )?;
    Ok(())
}

const INSERT: &str =
    "INSERT INTO markets (name, kind, cycle, road_address, lot_address, province_id, municipality_id, lat, lon,
       stores, goods, vouchers, homepage, public_toilet, parking, founded_year, phone, data_date, provider, natural_key)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

const UPDATE: &str =
    "UPDATE markets SET name = ?, kind = ?, cycle = ?, road_address = ?, lot_address = ?, province_id = ?,
       municipality_id = ?, lat = ?, lon = ?, stores = ?, goods = ?, vouchers = ?, homepage = ?, public_toilet = ?,
       parking = ?, founded_year = ?, phone = ?, data_date = ?, provider = ?
     WHERE natural_key = ?";

const FACILITIES: Sql<'_> = Sql::each(
    "UPDATE markets SET facilities = ?2 WHERE id = ?1 AND facilities IS NOT ?2",
    "UPDATE markets SET facilities = ?2 WHERE id = ?1 AND NOT facilities <=> ?2",
);

const ADD_VIEWS: Sql<'_> = Sql::each(
    "INSERT INTO market_view_counts (market_id, views, settled) VALUES (?1, ?2, 0)
     ON CONFLICT (market_id) DO UPDATE SET views = views + ?2",
    "INSERT INTO market_view_counts (market_id, views, settled) VALUES (?1, ?2, 0)
     ON DUPLICATE KEY UPDATE views = views + ?2",
);

const OLD_VIEWS: Sql<'_> = Sql::each(
    "DELETE FROM market_views WHERE (day, market_id, visitor) IN
       (SELECT day, market_id, visitor FROM market_views WHERE day < ? LIMIT ?)
     RETURNING market_id",
    "DELETE FROM market_views WHERE day < ? LIMIT ? RETURNING market_id",
);

fn market(row: &Row<'_>) -> Result<Market> {
    let list = |text: String| {
        text.split('+').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let position = row.get::<Option<f64>>(8)?.zip(row.get::<Option<f64>>(9)?);
    Ok(Market {
        id: row.get(0)?,
        place: AddressRegions { province: row.get(6)?, municipality: row.get(7)? },
        facilities: row.get(18)?,
        is: NewMarket {
            name: row.get(1)?,
            kind: row.get(2)?,
            cycle: row.get(3)?,
            road_address: row.get(4)?,
            lot_address: row.get(5)?,
            position,
            stores: row.get(10)?,
            goods: list(row.get(11)?),
            vouchers: list(row.get(12)?),
            homepage: row.get(13)?,
            public_toilet: row.get(14)?,
            parking: row.get(15)?,
            founded_year: row.get(16)?,
            phone: row.get(17)?,
            data_date: row.get(19)?,
            provider: row.get(20)?,
        },
    })
}
