//! Parses one row of the standard data as a market.

use super::cell::{cycle, date, flag, kind, list, number, text};
use anyhow::{Context as _, bail};
use madang_service::markets::NewMarket;

/// Columns that identify a file of markets.
pub(super) const NECESSARY: [&str; 5] =
    ["시장명", "소재지도로명주소", "소재지지번주소", "위도", "경도"];

/// Maximum size of a value in bytes; the public data has up to some 500.
pub(super) const LONGEST_CELL: usize = 4096;
/// Maximum length of a name in characters; the public data has up to 33.
const LONGEST_NAME: usize = 200;

/// Values of a row by column.
pub(super) trait Cells {
    /// Value of a column, if present.
    fn get(&self, name: &str) -> Option<&str>;
}

/// Latitudes and longitudes of Korea: from Marado to the border, from Baengnyeongdo to Dokdo. The
/// placeholder of the public data (34.567899, 123.456788) lies outside.
const LATITUDES: std::ops::RangeInclusive<f64> = 33.0..=38.7;
const LONGITUDES: std::ops::RangeInclusive<f64> = 124.5..=132.0;

/// Columns that are read. A table may have each only once.
pub(super) const COLUMNS: [&str; 18] = [
    "시장명", "시장유형", "소재지도로명주소", "소재지지번주소", "시장개설주기", "위도", "경도",
    "점포수", "취급품목", "사용가능상품권", "홈페이지주소", "공중화장실보유여부", "주차장보유여부",
    "개설연도", "개설년도", "전화번호", "데이터기준일자", "제공기관명",
];

/// Parses a row; calls `warn` for values that are ignored.
///
/// # Errors
/// When the row cannot be imported.
pub(super) fn market(cells: &dyn Cells, warn: &mut dyn FnMut(String)) -> anyhow::Result<NewMarket> {
    let own = |name: &str| value(cells, name);
    let name = own("시장명").context("no name (시장명)")?;
    if name.chars().nth(LONGEST_NAME).is_some() {
        bail!("the name is longer than {LONGEST_NAME} characters");
    }
    let (road_address, lot_address) = (own("소재지도로명주소"), own("소재지지번주소"));
    if road_address.is_none() && lot_address.is_none() {
        bail!("{name} has no address (소재지도로명주소, 소재지지번주소)");
    }
    let values = [Some(&name), road_address.as_ref(), lot_address.as_ref()];
    if values.into_iter().flatten().any(|value| is_damaged(value)) {
        bail!("the name or address of {name} contains bytes that are not text");
    }
    let position = position(own("위도").as_deref(), own("경도").as_deref());
    let position = position.unwrap_or_else(|reason| {
        warn(format!("{name} is imported without its position: {reason}"));
        None
    });
    let mut optional = Optional { cells, name: &name, warn };
    // Editions spell the word differently.
    let founded = if cells.get("개설연도").is_some() { "개설연도" } else { "개설년도" };
    let founded_year = optional.whole(founded, 1000..=2100);
    Ok(NewMarket {
        kind: optional.text("시장유형").map(|value| kind(&value)),
        cycle: optional.text("시장개설주기").map(|value| cycle(&value)),
        road_address,
        lot_address,
        position,
        stores: optional.whole("점포수", 0..=1_000_000),
        goods: optional.text("취급품목").map(|value| list(&value)).unwrap_or_default(),
        vouchers: optional.text("사용가능상품권").map(|value| list(&value)).unwrap_or_default(),
        homepage: optional.text("홈페이지주소"),
        public_toilet: optional.text("공중화장실보유여부").and_then(|value| flag(&value)),
        parking: optional.text("주차장보유여부").and_then(|value| flag(&value)),
        founded_year: founded_year.and_then(|year| u16::try_from(year).ok()),
        phone: optional.text("전화번호"),
        data_date: optional.read("데이터기준일자", date).unwrap_or_default(),
        provider: optional.text("제공기관명").unwrap_or_default(),
        name,
    })
}

fn value(cells: &dyn Cells, column: &str) -> Option<String> {
    debug_assert!(COLUMNS.contains(&column), "{column} is not in COLUMNS");
    cells.get(column).and_then(text)
}

/// Whether the value contained bytes that are not text.
pub(super) fn is_damaged(value: &str) -> bool {
    value.contains(char::REPLACEMENT_CHARACTER)
}

/// Reads optional fields.
struct Optional<'a> {
    cells: &'a dyn Cells,
    name: &'a str,
    warn: &'a mut dyn FnMut(String),
}

impl Optional<'_> {
    /// The text; ignored with a warning if it is damaged.
    fn text(&mut self, column: &str) -> Option<String> {
        let value = value(self.cells, column)?;
        if is_damaged(&value) {
            let name = self.name;
            (self.warn)(format!(
                "{name} is imported without {column}: it contains bytes that are not text"
            ));
            return None;
        }
        Some(value)
    }

    /// The parsed text; ignored with a warning if it is invalid.
    fn read<T>(&mut self, column: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let value = self.text(column)?;
        let read = read(&value);
        if read.is_none() {
            (self.warn)(format!(
                "{} is imported without {column}: invalid value {value}",
                self.name
            ));
        }
        read
    }

    fn whole(&mut self, column: &str, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        self.read(column, |value| number(value).filter(|number| range.contains(number)))
    }
}

fn position(lat: Option<&str>, lon: Option<&str>) -> anyhow::Result<Option<(f64, f64)>> {
    let (lat, lon) = match (lat, lon) {
        (None, None) => return Ok(None),
        (Some(lat), Some(lon)) => (lat, lon),
        (Some(one), None) | (None, Some(one)) => bail!("only one coordinate: {one}"),
    };
    match (lat.parse(), lon.parse()) {
        (Ok(lat), Ok(lon)) if LATITUDES.contains(&lat) && LONGITUDES.contains(&lon) => {
            Ok(Some((lat, lon)))
        }
        (Ok(_), Ok(_)) => bail!("{lat}, {lon} is outside Korea"),
        _ => bail!("{lat}, {lon} are not degrees"),
    }
}
