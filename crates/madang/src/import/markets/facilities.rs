//! Facilities of markets, joined to existing markets.
//!
//! The files share no identifier, so a market is found by its name and place: the municipality; else an equal
//! address; else the province, if it has only one market of that name. A row that matches none or several is
//! reported.

use super::cell::text;
use super::report::Report;
use super::row::{Cells, is_damaged};
use super::table::Table;
use anyhow::{Context as _, bail};
use madang_service::markets::{
    FACILITIES, Market, MarketId, Markets, NewMarket, folded, without_spaces,
};
use std::collections::{BTreeMap, HashMap};

/// Columns that identify a market.
const NECESSARY: [&str; 3] = ["시장명", "지번주소", "도로명주소"];

/// Bit of the facility in this column.
pub(super) fn facility(column: &str) -> Option<usize> {
    let name = column.strip_suffix("보유여부")?.trim_end_matches('_');
    FACILITIES.iter().position(|(own, _)| *own == name)
}

/// Finds the market of every row; returns their facilities by id.
///
/// # Errors
/// When the table lacks a column or the store fails.
pub(super) fn join(
    table: &Table,
    markets: &Markets,
    report: &mut Report,
) -> anyhow::Result<Vec<(MarketId, u32)>> {
    table.require(&NECESSARY, |name| NECESSARY.contains(&name) || facility(name).is_some())?;
    let columns: Vec<(&str, usize)> =
        table.columns().filter_map(|name| Some((name, facility(name)?))).collect();
    let known = Known::new(markets.store().all()?, markets);
    let mut joined: BTreeMap<MarketId, u32> = BTreeMap::new();
    let mut merged = 0;
    table.each(|line, cells| {
        let found = cells.and_then(|cells| {
            let damaged = |(column, _): &&(&str, usize)| cells.get(column).is_some_and(is_damaged);
            if let Some((column, _)) = columns.iter().find(damaged) {
                bail!("{column} contains bytes that are not text");
            }
            let yes = |column: &str| {
                cells.get(column).is_some_and(|v| v.trim().eq_ignore_ascii_case("y"))
            };
            let has = columns.iter().filter(|(column, _)| yes(column));
            let bits = has.fold(0, |bits, (_, bit)| bits | 1 << bit);
            Ok((known.find(cells, markets)?, bits))
        });
        match found {
            Ok((id, bits)) => {
                // A market in several buildings has a row for each.
                merged += usize::from(joined.contains_key(&id));
                *joined.entry(id).or_default() |= bits;
            }
            Err(reason) => report.refuse(line, &reason),
        }
    });
    report.outcome.merged += merged;
    Ok(joined.into_iter().collect())
}

/// Existing markets by name.
struct Known {
    markets: Vec<Market>,
    by_key: HashMap<String, usize>,
    by_name: HashMap<String, Vec<usize>>,
}

impl Known {
    fn new(all: Vec<Market>, markets: &Markets) -> Self {
        let mut known = Self { markets: all, by_key: HashMap::new(), by_name: HashMap::new() };
        for (at, market) in known.markets.iter().enumerate() {
            known.by_key.insert(markets.prepare(market.is.clone()).key, at);
            known.by_name.entry(without_spaces(&market.is.name)).or_default().push(at);
        }
        known
    }

    fn find(&self, cells: &dyn Cells, markets: &Markets) -> anyhow::Result<MarketId> {
        let value = |name: &str| cells.get(name).and_then(text);
        let name = value("시장명").context("no name (시장명)")?;
        let row = markets.prepare(NewMarket {
            name: name.clone(),
            road_address: value("도로명주소"),
            lot_address: value("지번주소"),
            ..NewMarket::default()
        });
        let id = |at: &usize| self.markets[*at].id;
        if let Some(at) = self.by_key.get(&row.key) {
            return Ok(id(at));
        }
        let namesakes = self.by_name.get(&without_spaces(&name)).map_or(&[][..], Vec::as_slice);
        let one_of = |found: Vec<&usize>| match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(id(one))),
            several => bail!("{name} matches {} markets", several.len()),
        };
        let has_address = |at: &&usize| {
            let is = &self.markets[**at].is;
            is_same(&is.road_address, &row.market.road_address)
                || is_same(&is.lot_address, &row.market.lot_address)
        };
        if let Some(id) = one_of(namesakes.iter().filter(has_address).collect())? {
            return Ok(id);
        }
        let in_province = |at: &&usize| {
            row.place.province.is_some() && self.markets[**at].place.province == row.place.province
        };
        one_of(namesakes.iter().filter(in_province).collect())?
            .with_context(|| format!("{name} matches no stored market"))
    }
}

fn is_same(own: &Option<String>, other: &Option<String>) -> bool {
    let bare = |address: &String| folded(address).replace(' ', "");
    own.as_ref().zip(other.as_ref()).is_some_and(|(own, other)| bare(own) == bare(other))
}
