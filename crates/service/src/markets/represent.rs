//! Markets as JSON.

use super::types::{FACILITIES, Market};
use crate::accounts::Regions;
use serde::Serialize;

/// A market.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MarketItem {
    /// Identifier.
    id: i64,
    /// Name.
    name: String,
    /// `상설장` (permanent), `5일장` (every fifth day) or `상설장+5일장`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// When it is held: `매일` (daily), or days such as `2일+7일`; free text where it is neither.
    cycle: Option<String>,
    /// Days on which it is held, as the last digits or whole numbers of `cycle`; empty when daily or not known.
    opening_days: Vec<u8>,
    /// Road address.
    address: Option<String>,
    /// Lot address; one of the two is there.
    lot_address: Option<String>,
    /// Where its address lies.
    region: RegionNames,
    /// Latitude and longitude, WGS 84 degrees; null when not known.
    position: Option<[f64; 2]>,
    /// Number of stores.
    stores: Option<u32>,
    /// Goods on sale.
    goods: Vec<String>,
    /// Accepted vouchers.
    vouchers: Vec<String>,
    /// Address of its home page, as provided.
    homepage: Option<String>,
    /// Whether it has a public toilet.
    public_toilet: Option<bool>,
    /// Whether it has a car park.
    parking: Option<bool>,
    /// Year it was founded.
    founded_year: Option<u16>,
    /// Telephone number.
    phone: Option<String>,
    /// Facilities it has, such as `arcade` or `lockers`; null when not known.
    facilities: Option<Vec<&'static str>>,
    /// Date of the data, `YYYY-MM-DD`; null when not known.
    data_date: Option<String>,
    /// Provider of the data.
    provider: Option<String>,
    /// Distance from `near`, in metres; absent without it and for a market without a position.
    #[serde(skip_serializing_if = "Option::is_none")]
    distance_metres: Option<f64>,
}

/// Where a market lies.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct RegionNames {
    /// Province; null when its address does not say.
    state: Option<String>,
    /// City, county or district; null when its address names none that there is.
    city: Option<String>,
}

/// A market with what only its own page shows (documentation of the JSON that is put together).
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct MarketBody {
    #[serde(flatten)]
    item: MarketItem,
    /// Visitors so far, each counted once a day.
    view_count: u64,
}

impl MarketItem {
    pub(super) fn new(market: &Market, regions: &Regions, distance_metres: Option<f64>) -> Self {
        let is = &market.is;
        let named = |id| regions.row(id).map(|row| row.name.clone());
        let known = |text: &String| (!text.is_empty()).then(|| text.clone());
        Self {
            id: market.id,
            name: is.name.clone(),
            kind: is.kind.clone(),
            opening_days: days(is.cycle.as_deref().unwrap_or("")),
            cycle: is.cycle.clone(),
            address: is.road_address.clone(),
            lot_address: is.lot_address.clone(),
            region: RegionNames {
                state: market.place.province.and_then(named),
                city: market.place.municipality.and_then(named),
            },
            position: is.position.map(|(lat, lon)| [lat, lon]),
            stores: is.stores,
            goods: is.goods.clone(),
            vouchers: is.vouchers.clone(),
            homepage: is.homepage.clone(),
            public_toilet: is.public_toilet,
            parking: is.parking,
            founded_year: is.founded_year,
            phone: is.phone.clone(),
            facilities: market.facilities.map(|bits| {
                let all = FACILITIES.iter().enumerate();
                all.filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, (_, name))| *name).collect()
            }),
            data_date: known(&is.data_date),
            provider: known(&is.provider),
            // To the decimetre, better than any address.
            distance_metres: distance_metres.map(|metres| (metres * 10.0).round() / 10.0),
        }
    }
}

/// The days in `2일+7일`; empty unless all parts are days.
fn days(cycle: &str) -> Vec<u8> {
    let days = cycle.split('+').map(|part| part.strip_suffix('일')?.parse().ok());
    days.collect::<Option<Vec<u8>>>().unwrap_or_default()
}
