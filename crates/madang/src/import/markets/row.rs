//! One row of the standard data as a market.

use super::cell::{cycle, date, flag, kind, list, number, text};
use madang_service::markets::NewMarket;

/// Columns without which a file is none of markets.
pub(super) const NECESSARY: [&str; 5] =
    ["시장명", "소재지도로명주소", "소재지지번주소", "위도", "경도"];

/// Longest value that is looked at, in bytes. The longest of the public data has some 500.
pub(super) const LONGEST_CELL: usize = 4096;
/// Longest name, in characters. The longest of the public data has 33.
const LONGEST_NAME: usize = 200;

/// What a row says, by column.
pub(super) trait Cells {
    /// The value of this column, if it is there.
    fn get(&self, name: &str) -> Option<&str>;
}

/// Latitudes and longitudes of Korea: from Marado to the border, from Baengnyeongdo to Dokdo. The
/// placeholder of the public data (34.567899, 123.456788) lies outside.
const LATITUDES: std::ops::RangeInclusive<f64> = 33.0..=38.7;
const LONGITUDES: std::ops::RangeInclusive<f64> = 124.5..=132.0;

/// Reads a row; `warn` is told what of it is left out.
///
/// # Errors
/// With the reason when it cannot be imported at all.
pub(super) fn market(cells: &dyn Cells, warn: &mut dyn FnMut(String)) -> Result<NewMarket, String> {
    let of = |name: &str| cells.get(name).and_then(text);
    let name = of("시장명").ok_or("no name (시장명)")?;
    if name.chars().nth(LONGEST_NAME).is_some() {
        return Err(format!("a name of more than {LONGEST_NAME} characters"));
    }
    let (road_address, lot_address) = (of("소재지도로명주소"), of("소재지지번주소"));
    if road_address.is_none() && lot_address.is_none() {
        return Err(format!("{name} has no address (소재지도로명주소, 소재지지번주소)"));
    }
    let values = [Some(&name), road_address.as_ref(), lot_address.as_ref()];
    if values.into_iter().flatten().any(|value| value.contains(char::REPLACEMENT_CHARACTER)) {
        return Err(format!("{name} has bytes in its name or address that are no text"));
    }
    let position = position(of("위도").as_deref(), of("경도").as_deref());
    let position = position.unwrap_or_else(|reason| {
        warn(format!("{name} is kept without its position: {reason}"));
        None
    });
    let mut whole = |column: &str, range: std::ops::RangeInclusive<u32>| {
        let value = of(column)?;
        let read = number(&value).filter(|number| range.contains(number));
        if read.is_none() {
            warn(format!("{name} is kept without {column}: {value}"));
        }
        read
    };
    let stores = whole("점포수", 0..=1_000_000);
    // Editions differ in how the word is spelt.
    let founded = if cells.get("개설연도").is_some() { "개설연도" } else { "개설년도" };
    let founded_year = whole(founded, 1000..=2100).and_then(|year| u16::try_from(year).ok());
    Ok(NewMarket {
        kind: of("시장유형").map(|value| kind(&value)),
        cycle: of("시장개설주기").map(|value| cycle(&value)),
        road_address,
        lot_address,
        position,
        stores,
        goods: of("취급품목").map(|value| list(&value)).unwrap_or_default(),
        vouchers: of("사용가능상품권").map(|value| list(&value)).unwrap_or_default(),
        homepage: of("홈페이지주소"),
        public_toilet: of("공중화장실보유여부").and_then(|value| flag(&value)),
        parking: of("주차장보유여부").and_then(|value| flag(&value)),
        founded_year,
        phone: of("전화번호"),
        data_date: of("데이터기준일자").and_then(|value| date(&value)).unwrap_or_default(),
        provider: of("제공기관명").unwrap_or_default(),
        name,
    })
}

fn position(lat: Option<&str>, lon: Option<&str>) -> Result<Option<(f64, f64)>, String> {
    let (lat, lon) = match (lat, lon) {
        (None, None) => return Ok(None),
        (Some(lat), Some(lon)) => (lat, lon),
        (Some(one), None) | (None, Some(one)) => return Err(format!("half of one: {one}")),
    };
    match (lat.parse(), lon.parse()) {
        (Ok(lat), Ok(lon)) if LATITUDES.contains(&lat) && LONGITUDES.contains(&lon) => {
            Ok(Some((lat, lon)))
        }
        (Ok(_), Ok(_)) => Err(format!("{lat}, {lon} is outside Korea")),
        _ => Err(format!("{lat}, {lon} are no degrees")),
    }
}
