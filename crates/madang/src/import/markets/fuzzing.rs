//! A fuzz target. The program of `fuzz/` compiles these files again, because a command has no library.

use super::row::{self, Cells};
use super::{json, table};

/// Name of a directory in `fuzz/seeds`, and the function to fuzz.
type FuzzTarget = (&'static str, fn(&[u8]));

pub(crate) const TARGETS: &[FuzzTarget] = &[("market_files", market_files)];

/// A file of markets, as CSV in either encoding, or as JSON.
fn market_files(data: &[u8]) {
    if data.trim_ascii_start().starts_with(b"{") {
        let _ = json::read(data, row);
        return;
    }
    let Ok(table) = table::Table::read(data) else { return };
    let _ = table.is_of_facilities();
    if table.require(&row::NECESSARY, |name| row::COLUMNS.contains(&name)).is_ok() {
        table.each(row);
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the type of a callback")]
fn row(_line: u64, cells: anyhow::Result<&dyn Cells>) {
    let Ok(cells) = cells else { return };
    let mut warned = 0;
    let Ok(market) = row::market(cells, &mut |_| warned += 1) else { return };
    assert!((1..=200).contains(&market.name.chars().count()), "{}", market.name);
    assert!(market.road_address.is_some() || market.lot_address.is_some());
    let in_korea = |(lat, lon)| (33.0..39.0).contains(&lat) && (124.0..=132.0).contains(&lon);
    assert!(market.position.is_none_or(in_korea));
    assert!(market.stores.is_none_or(|stores| stores <= 1_000_000));
    assert!(market.founded_year.is_none_or(|year| (1000..=2100).contains(&year)));
    assert!(market.goods.len() <= 100 && market.vouchers.len() <= 100);
    assert!(warned <= row::COLUMNS.len());
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_fuzzer_has_found_stays_mended() {
        madang_testing::replay(super::TARGETS);
    }
}
