//! What a market is to the rest of the program.

use crate::accounts::RegionId;
use madang_path::Point;

/// Identifier of a market, never reused.
pub type MarketId = i64;

/// Facilities that a market may have, in the order of their bits: the column of the public data without
/// `보유여부` and spaces, and the name here.
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

/// A market as it comes from a file: values are trimmed, composed (NFC) and without control characters.
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
    /// Lot address. One of the two is there.
    pub lot_address: Option<String>,
    /// Where it is, WGS 84 degrees.
    pub position: Option<(f64, f64)>,
    /// Number of stores.
    pub stores: Option<u32>,
    /// What is sold.
    pub goods: Vec<String>,
    /// Vouchers that are taken.
    pub vouchers: Vec<String>,
    /// Address of its home page.
    pub homepage: Option<String>,
    /// Whether it has a public toilet.
    pub public_toilet: Option<bool>,
    /// Whether it has a car park.
    pub parking: Option<bool>,
    /// Year it was founded.
    pub founded_year: Option<u16>,
    /// Telephone number.
    pub phone: Option<String>,
    /// Date of the data, `YYYY-MM-DD`; empty when not known.
    pub data_date: String,
    /// Who provides the data; empty when not known.
    pub provider: String,
}

impl NewMarket {
    /// What is known when this comes to what was known before. The newer data hold, this one's when both
    /// are of one day. A provider's newer data replace its older ones; of different providers' data
    /// the older ones fill what the newer ones leave out.
    #[must_use]
    pub fn over(self, before: &NewMarket) -> NewMarket {
        if self.data_date < before.data_date {
            before.clone().filled_from(self)
        } else if self.provider == before.provider {
            self
        } else {
            self.filled_from(before.clone())
        }
    }

    /// This, and what it leaves out from `other`.
    #[must_use]
    pub fn filled_from(self, other: NewMarket) -> NewMarket {
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
    /// Where it lies, as far as its address says so.
    pub place: Place,
    /// One bit for each of [`FACILITIES`]; nothing when not known.
    pub facilities: Option<u32>,
    /// All else.
    pub is: NewMarket,
}

/// Regions of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its province.
    pub province: Option<RegionId>,
    /// Its municipality: a city, county or district.
    pub municipality: Option<RegionId>,
}

impl Market {
    /// Its position as a point.
    pub fn point(&self) -> Option<Point> {
        self.is.position.map(|(lat, lon)| Point { lat, lon, ele: None })
    }
}

impl Place {
    /// Whether it lies in `region`: a province, a municipality, or a city with districts, whose codes are
    /// that of the city with another last digit (Statistics Korea).
    pub fn lies_in(self, region: RegionId) -> bool {
        self.province == Some(region)
            || self.municipality.is_some_and(|own| {
                own == region || (region > 9_999 && region % 10 == 0 && own / 10 == region / 10)
            })
    }
}
