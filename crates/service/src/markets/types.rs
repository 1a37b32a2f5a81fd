//! Types of markets.

use crate::accounts::RegionId;
use madang_path::Point;

/// Identifier of a market, never reused.
pub type MarketId = i64;

/// Facilities in the order of their bits: the column of the public data without `보유여부` and spaces, and the name in
/// responses.
pub const FACILITIES: [(&str, &str); 23] = [
    ("아케이드", "arcade"),
    ("엘리베이터_에스컬레이터", "elevator"),
    ("고객지원센터", "customerCentre"),
    ("스프링쿨러", "sprinklers"),
    ("화재감지기", "fireDetectors"),
    ("유아놀이방", "playroom"),
    ("종합콜센터", "callCentre"),
    ("고객휴게실", "lounge"),
    ("수유센터", "nursingRoom"),
    ("물품보관함", "lockers"),
    ("자전거보관함", "bicycleRacks"),
    ("체육시설", "gym"),
    ("간이도서관", "library"),
    ("쇼핑카트", "carts"),
    ("외국인안내센터", "foreignerCentre"),
    ("고객동선통로", "walkways"),
    ("방송센터", "broadcasting"),
    ("문화교실", "classes"),
    ("공동물류창고", "warehouse"),
    ("시장전용고객주차장", "ownParking"),
    ("교육장", "trainingRoom"),
    ("회의실", "meetingRoom"),
    ("자동심장충격기", "defibrillator"),
];

/// A market of a file. Values are trimmed, composed (NFC) and without control characters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewMarket {
    /// Name.
    pub name: String,
    /// `상설장`, `5일장` or both, joined with `+`.
    pub kind: Option<String>,
    /// `매일`, or days of the month such as `2일+7일`; free text where it is neither.
    pub cycle: Option<String>,
    /// Road address.
    pub road_address: Option<String>,
    /// Lot address. One of the two addresses is present.
    pub lot_address: Option<String>,
    /// Latitude and longitude, WGS 84 degrees.
    pub position: Option<(f64, f64)>,
    /// Number of stores.
    pub stores: Option<u32>,
    /// Goods sold.
    pub goods: Vec<String>,
    /// Vouchers accepted.
    pub vouchers: Vec<String>,
    /// Address of its home page.
    pub homepage: Option<String>,
    /// Has a public toilet.
    pub public_toilet: Option<bool>,
    /// Has a car park.
    pub parking: Option<bool>,
    /// Year of its foundation.
    pub founded_year: Option<u16>,
    /// Telephone number.
    pub phone: Option<String>,
    /// Date of the data, `YYYY-MM-DD`; empty if unknown.
    pub data_date: String,
    /// Provider of the data; empty if unknown.
    pub provider: String,
}

impl NewMarket {
    /// Merges this into the data known before. Newer data take precedence; of one day and provider these, which
    /// correct mistakes; of two providers' data of one day those that came first. The others fill the gaps: a missing
    /// value does not mean that something is gone. So importing the same data again changes nothing, unless other
    /// data corrected them in between.
    #[must_use]
    pub(super) fn over(self, before: &NewMarket) -> NewMarket {
        if self.holds_over(before) {
            self.filled_from(before.clone())
        } else {
            before.clone().filled_from(self)
        }
    }

    /// Returns true if this takes precedence over the data known before. Data of unknown date are older than all
    /// others.
    pub(super) fn holds_over(&self, before: &NewMarket) -> bool {
        self.data_date > before.data_date
            || (self.data_date == before.data_date && self.provider == before.provider)
    }

    /// Merges two rows of one file: the newer one takes precedence, of one day this one, and the other fills its gaps.
    #[must_use]
    pub fn and(self, other: NewMarket) -> NewMarket {
        if other.data_date > self.data_date {
            other.filled_from(self)
        } else {
            self.filled_from(other)
        }
    }

    fn filled_from(self, other: NewMarket) -> NewMarket {
        let list = |own: Vec<String>, other| if own.is_empty() { other } else { own };
        NewMarket {
            name: self.name,
            kind: self.kind.or(other.kind),
            cycle: self.cycle.or(other.cycle),
            road_address: self.road_address.or(other.road_address),
            lot_address: self.lot_address.or(other.lot_address),
            position: self.position.or(other.position),
            stores: self.stores.or(other.stores),
            goods: list(self.goods, other.goods),
            vouchers: list(self.vouchers, other.vouchers),
            homepage: self.homepage.or(other.homepage),
            public_toilet: self.public_toilet.or(other.public_toilet),
            parking: self.parking.or(other.parking),
            founded_year: self.founded_year.or(other.founded_year),
            phone: self.phone.or(other.phone),
            data_date: self.data_date,
            provider: self.provider,
        }
    }
}

/// A market in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Market {
    /// Identifier.
    pub id: MarketId,
    /// Regions of its address.
    pub place: AddressRegions,
    /// One bit for each of [`FACILITIES`]; `None` if unknown.
    pub facilities: Option<u32>,
    /// All other data.
    pub is: NewMarket,
}

/// Regions of an address; `None` if it does not name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AddressRegions {
    /// Its province.
    pub province: Option<RegionId>,
    /// Its municipality: a city, county or district.
    pub municipality: Option<RegionId>,
}

impl Market {
    pub(super) fn point(&self) -> Option<Point> {
        self.is.position.map(|(lat, lon)| Point { lat, lon, ele: None })
    }
}

impl AddressRegions {
    /// Returns true if it is in `region`: a province, a municipality, or a city with districts, whose codes are
    /// that of the city with another last digit (Statistics Korea).
    pub(super) fn lies_in(self, region: RegionId) -> bool {
        self.province == Some(region)
            || self.municipality.is_some_and(|own| {
                own == region || (region > 9_999 && region % 10 == 0 && own / 10 == region / 10)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Few values, so that equal dates, providers and gaps occur.
    fn any_data() -> impl Strategy<Value = NewMarket> {
        let day = prop::sample::select(vec!["", "2019-01-01", "2024-11-04"]);
        let provider = prop::sample::select(vec!["", "한 곳", "다른 곳"]);
        let goods = prop::collection::vec("[ab]", 0..2);
        (day, provider, goods, prop::option::of("[12]"), prop::option::of(1u32..3)).prop_map(
            |(day, provider, goods, phone, stores)| NewMarket {
                data_date: day.to_owned(),
                provider: provider.to_owned(),
                goods,
                phone,
                stores,
                ..NewMarket::default()
            },
        )
    }

    fn after(before: NewMarket, imports: &[&NewMarket]) -> NewMarket {
        imports.iter().fold(before, |before, data| (*data).clone().over(&before))
    }

    proptest! {
        #[test]
        fn the_same_data_again_change_nothing(before in any_data(), data in any_data()) {
            let once = after(before, &[&data]);
            prop_assert_eq!(&after(once.clone(), &[&data]), &once);
        }

        #[test]
        fn what_is_known_is_never_blanked(before in any_data(), data in any_data()) {
            let now = after(before.clone(), &[&data]);
            for known in [&before, &data] {
                prop_assert!(now.phone.is_some() || known.phone.is_none());
                prop_assert!(now.stores.is_some() || known.stores.is_none());
                prop_assert!(!now.goods.is_empty() || known.goods.is_empty());
            }
        }

        #[test]
        fn two_editions_again_change_nothing_in_between(a in any_data(), b in any_data()) {
            // Two editions of one day and provider correct each other, and the last takes precedence.
            prop_assume!((&a.data_date, &a.provider) != (&b.data_date, &b.provider));
            let both = after(a.clone(), &[&b]);
            prop_assert_eq!(&after(both.clone(), &[&a]), &both);
            prop_assert_eq!(&after(both.clone(), &[&b]), &both);
        }

        #[test]
        fn newer_data_hold(a in any_data(), b in any_data()) {
            prop_assume!(a.data_date != b.data_date);
            let (a, b) = if a.data_date < b.data_date { (a, b) } else { (b, a) };
            for now in [after(a.clone(), &[&b]), after(b.clone(), &[&a])] {
                prop_assert_eq!(&now.data_date, &b.data_date);
                prop_assert_eq!(&now.provider, &b.provider);
                prop_assert_eq!(now.phone, b.phone.clone().or(a.phone.clone()));
            }
        }
    }
}
