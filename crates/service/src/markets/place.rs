//! Regions of addresses, and keys of markets.

use super::fold::{folded, without_spaces};
use super::types::{AddressRegions, NewMarket};
use crate::accounts::Regions;

/// The regions that an address begins with. A municipality that has moved to another province since
/// the regions were drawn (군위군) is found by its name alone; a misspelt one is not found.
pub(super) fn place_of(regions: &Regions, address: &str) -> AddressRegions {
    let mut words = address.split_whitespace();
    let Some(first) = words.next() else { return AddressRegions::default() };
    let Ok(province) = regions.find_province(first) else {
        // Without a province the address may begin with a municipality of unique name.
        let municipality = regions.find_municipality(first, None).ok();
        let row = municipality.and_then(|id| regions.row(id));
        return AddressRegions { province: row.and_then(|row| row.province), municipality };
    };
    let (Some(city), district) = (words.next(), words.next().unwrap_or("")) else {
        return AddressRegions { province: Some(province), municipality: None };
    };
    let both = format!("{city} {district}");
    let municipality = regions
        .find_municipality(&both, Some(province))
        .or_else(|_| regions.find_municipality(city, Some(province)))
        .or_else(|_| regions.find_municipality(city, None));
    AddressRegions { province: Some(province), municipality: municipality.ok() }
}

/// The regions of a market, by its more precise address.
pub(super) fn place(regions: &Regions, market: &NewMarket) -> AddressRegions {
    let addresses = [&market.road_address, &market.lot_address].into_iter().flatten();
    let places = addresses.map(|address| place_of(regions, address));
    let precise = |place: &AddressRegions| (place.municipality.is_some(), place.province.is_some());
    places.reduce(|a, b| if precise(&b) > precise(&a) { b } else { a }).unwrap_or_default()
}

/// The identity of a market in data without identifiers: its name without spaces and its municipality, or the first
/// words of its address if the municipality is unknown (misspelt).
///
/// Not the address itself, which every provider writes differently. No municipality of the
/// bundled table has two markets of one name.
pub(super) fn natural_key(market: &NewMarket, place: AddressRegions) -> String {
    let name = without_spaces(&market.name);
    match (place.province, place.municipality) {
        (_, Some(municipality)) => format!("{name}|{municipality}"),
        (province, None) => {
            let address = market.road_address.as_ref().or(market.lot_address.as_ref());
            let words = folded(address.map_or("", String::as_str));
            let words = words.split(' ').skip(usize::from(province.is_some()));
            let area: Vec<&str> = words.take(1 + usize::from(province.is_none())).collect();
            format!("{name}|{}|{}", province.unwrap_or(0), area.join(" "))
        }
    }
}
