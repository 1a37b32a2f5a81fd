//! Regions: provinces and municipalities of Korea, found by the names that users write.
//!
//! The tables in the store are small and never change while the service runs, so they are read once. A look-up ignores
//! spaces, hyphens, commas and the case of ASCII letters: "서울특별시", "서울", "Seoul", "서울 종로구", "종로구",
//! "Jongno-gu, Seoul" and "jongno" are all found. A name of several municipalities, such as 중구, is refused with the
//! longer ones to choose from.

use std::collections::{BTreeSet, HashMap};

/// Code of Statistics Korea.
pub type RegionId = i64;

/// Longest name accepted, in characters.
pub(crate) const LONGEST: usize = 100;

/// A row of the table.
#[derive(Debug)]
pub struct RegionRow {
    /// Code of Statistics Korea.
    pub id: RegionId,
    /// Its province; `None` for a province.
    pub province: Option<RegionId>,
    /// Korean name.
    pub name: String,
    /// English name.
    pub name_en: String,
}

/// Error of looking up a region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// No region has the name.
    #[error(
        "a Korean province or municipality, such as 서울특별시, Seoul, 서울 종로구 or Jongno-gu"
    )]
    Unknown,
    /// Several regions have the name; the longer names to choose from.
    #[error("several regions have this name; use {}", .0.join(" or "))]
    Ambiguous(Vec<String>),
}

/// All regions.
#[derive(Debug)]
pub struct Regions {
    rows: HashMap<RegionId, RegionRow>,
    provinces: HashMap<String, RegionId>,
    municipalities: Names,
    /// Names without their ending: 종로 and Jongno for 종로구.
    stems: Names,
}

/// Regions by folded name.
type Names = HashMap<String, BTreeSet<RegionId>>;

impl Regions {
    /// Regions of these rows, with further names.
    pub(crate) fn new(rows: Vec<RegionRow>, names: Vec<(RegionId, String)>) -> Self {
        let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
        let mut provinces = HashMap::new();
        let (mut municipalities, mut stems) = (Names::new(), Names::new());
        let own = rows.values().flat_map(|r| [(r.id, r.name.clone()), (r.id, r.name_en.clone())]);
        for (id, name) in own.chain(names) {
            let name = folded(&name);
            if rows.get(&id).is_some_and(|row| row.province.is_none()) {
                provinces.insert(name, id);
                continue;
            }
            if let Some(stem) = stem(&name) {
                stems.entry(stem.to_owned()).or_default().insert(id);
            }
            municipalities.entry(name).or_default().insert(id);
        }
        Self { rows, provinces, municipalities, stems }
    }

    /// The region called `text`: a province, else a municipality, alone or with its province before or after it, else
    /// one without its ending.
    ///
    /// # Errors
    /// No region, or several.
    pub fn find(&self, text: &str) -> Result<RegionId, RegionError> {
        if let Ok(id) = self.find_province(text) {
            return Ok(id);
        }
        self.find_municipality(text, None)
    }

    /// Municipalities called `name` without their province, which is before or after it.
    fn within<'a>(
        &'a self,
        name: &'a str,
        names: &'a Names,
    ) -> impl Iterator<Item = RegionId> + 'a {
        self.provinces.iter().flat_map(move |(province, id)| {
            let rests =
                [name.strip_prefix(province.as_str()), name.strip_suffix(province.as_str())];
            let found = rests.into_iter().flatten().filter_map(|rest| names.get(rest));
            let found = found.flatten().copied();
            found.filter(|found| self.rows.get(found).is_some_and(|r| r.province == Some(*id)))
        })
    }

    /// All names of a region, each once: its own two, and others without spaces and hyphens.
    pub(crate) fn names(&self, id: RegionId) -> Vec<&str> {
        let own = self.rows.get(&id).map(|row| [row.name.as_str(), row.name_en.as_str()]);
        let provinces = self.provinces.iter().filter(|(_, of)| **of == id).map(|(name, _)| name);
        let others = self.municipalities.iter().filter(|(_, of)| of.contains(&id));
        let others = provinces.chain(others.map(|(name, _)| name)).map(String::as_str);
        let names: BTreeSet<&str> = own.into_iter().flatten().chain(others).collect();
        names.into_iter().collect()
    }

    /// The row of a region.
    pub fn row(&self, id: RegionId) -> Option<&RegionRow> {
        self.rows.get(&id)
    }

    /// The province called `text`.
    ///
    /// # Errors
    /// No province.
    pub fn find_province(&self, text: &str) -> Result<RegionId, RegionError> {
        self.provinces.get(&folded(text)).copied().ok_or(RegionError::Unknown)
    }

    /// The municipality called `text`, alone or with its province before or after it. Within `province`, if given, 중구
    /// is unique, and 세종시 is not the province of that name.
    ///
    /// # Errors
    /// No municipality, or several.
    pub fn find_municipality(
        &self,
        text: &str,
        province: Option<RegionId>,
    ) -> Result<RegionId, RegionError> {
        let name = folded(text);
        let fits = |id: &RegionId| {
            province.is_none() || self.rows.get(id).is_some_and(|row| row.province == province)
        };
        for names in [&self.municipalities, &self.stems] {
            let alone = names.get(&name).into_iter().flatten().copied();
            let found = alone.chain(self.within(&name, names)).filter(fits);
            let found: BTreeSet<_> = found.collect();
            match (found.len(), found.first()) {
                (0, _) => {}
                (1, Some(id)) => return Ok(*id),
                _ => {
                    let choices = found.iter().map(|id| self.full_name(*id).0).collect();
                    return Err(RegionError::Ambiguous(choices));
                }
            }
        }
        Err(RegionError::Unknown)
    }

    /// Names of a region in Korean and English, each with its province if it has one.
    pub(crate) fn full_name(&self, id: RegionId) -> (String, String) {
        let Some(row) = self.rows.get(&id) else { return (String::new(), String::new()) };
        match row.province.and_then(|province| self.rows.get(&province)) {
            None => (row.name.clone(), row.name_en.clone()),
            Some(province) => (
                format!("{} {}", province.name, row.name),
                format!("{}, {}", row.name_en, province.name_en),
            ),
        }
    }
}

/// The form in which names are compared.
fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '-' | ',' | '.' | '\'' | '·'))
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// A folded name without its ending; `None` if less than two characters would be left (중구).
fn stem(name: &str) -> Option<&str> {
    let endings = ["시", "군", "구", "gun", "si", "gu"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending))?;
    (stem.chars().count() >= 2).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::AccountStore;
    use crate::config::Sources;
    use crate::store::Store;

    impl Regions {
        pub(crate) fn fresh() -> Self {
            let (store, _dir) = Store::fresh(&Sources::new());
            let (rows, names, ..) = AccountStore::new(store).remembered().unwrap();
            Self::new(rows, names)
        }
    }

    fn table(text: &str) -> impl Iterator<Item = Vec<&str>> {
        text.lines().skip(1).map(|line| line.split(',').collect())
    }

    #[test]
    fn every_region_of_the_bundled_tables_is_found_by_its_names() {
        let regions = Regions::fresh();
        let provinces = include_str!("../../../../data/regions/sido_2018_centroids.csv");
        let municipalities = include_str!("../../../../data/regions/sigungu_2018_centroids.csv");
        let mut rows = 0;
        for row in table(provinces) {
            let code: RegionId = row[0].parse().unwrap();
            assert_eq!(
                (regions.find(row[1]), regions.find(row[2])),
                (Ok(code), Ok(code)),
                "{row:?}"
            );
            rows += 1;
        }
        for row in table(municipalities) {
            let (code, [sido, sigungu, sido_en, en]) = (row[0], [row[1], row[2], row[3], row[4]]);
            let code: RegionId = code.parse().unwrap();
            // The table has the name of another municipality.
            let en = if code == 32360 { "Cheorwon-gun" } else { en };
            let found = |name: &str| regions.find(name).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(found(&format!("{sido} {sigungu}")), code, "{row:?}");
            for english in [format!("{en}, {sido_en}"), format!("{sido_en} {en}")] {
                let ambiguous = matches!(regions.find(&english), Err(RegionError::Ambiguous(_)));
                assert!(ambiguous || found(&english) == code, "{row:?}");
            }
            match regions.find(sigungu) {
                Ok(id) => assert!(id == code || code == 29010, "{row:?}"),
                Err(error) => {
                    assert!(matches!(error, RegionError::Ambiguous(_)), "{row:?}: {error}");
                }
            }
            rows += 1;
        }
        assert_eq!(rows, 267);
    }

    #[test]
    fn people_write_regions_in_many_ways() {
        let regions = Regions::fresh();
        for (code, names) in [
            (11, &["서울특별시", "서울", "서울시", "Seoul", "seoul", " SEOUL "][..]),
            (32, &["강원도", "강원특별자치도", "강원", "Gangwon-do", "Gangwon State", "gangwon"]),
            (35, &["전라북도", "전북특별자치도", "전북", "Jeollabuk-do", "Jeonbuk State"]),
            (
                11010,
                &[
                    "종로구", "서울 종로구", "서울특별시종로구", "Jongno-gu", "jongno",
                    "Jongno-gu, Seoul",
                ],
            ),
            (11020, &["서울 중구", "서울특별시 중구", "Jung-gu, Seoul", "Seoul Jung-gu"]),
            (24, &["광주", "광주광역시", "Gwangju"]),
            (31250, &["광주시", "경기도 광주시", "경기 광주", "Gwangju-si"]),
            (23030, &["인천 남구", "인천 미추홀구", "미추홀구", "Michuhol-gu"]),
            (31010, &["수원시", "경기도 수원시", "수원", "Suwon-si", "Suwon"]),
            (31023, &["성남시 분당구", "분당구", "경기 성남시 분당구", "Bundang-gu", "분당"]),
            (32360, &["철원군", "강원도 철원군", "강원특별자치도 철원군", "Cheorwon-gun"]),
            (39, &["제주도", "제주", "Jeju", "제주특별자치도"]),
            (39010, &["제주시", "Jeju-si"]),
            (29, &["세종", "세종시", "세종특별자치시", "Sejong"]),
        ] {
            for name in names {
                assert_eq!(regions.find(name), Ok(code), "{name}");
            }
        }
    }

    #[test]
    fn a_municipality_is_found_within_its_province() {
        let regions = Regions::fresh();
        for (province, name, code) in [
            (11, "중구", 11020),
            (11, "강서구", 11160),
            (21, "강서구", 21120),
            (29, "세종시", 29010),
            (31, "경기도 광주시", 31250),
            (31, "분당", 31023),
        ] {
            assert_eq!(regions.find_municipality(name, Some(province)), Ok(code), "{name}");
        }
        assert_eq!(regions.find_municipality("종로구", Some(21)), Err(RegionError::Unknown));
        assert_eq!(regions.find_municipality("서울", None), Err(RegionError::Unknown));
        assert_eq!(regions.find_municipality("세종시", None), Ok(29010));
        assert_eq!(regions.find_province("종로구"), Err(RegionError::Unknown));
        assert_eq!(regions.find_province("강원도"), Ok(32));
        assert_eq!(regions.row(11020).map(|row| row.name.as_str()), Some("중구"));
    }

    #[test]
    fn what_is_no_region_or_several_is_refused() {
        let regions = Regions::fresh();
        for name in [
            "", " ", "Atlantis", "평양", "서울특별시 없는구", "Tokyo", "gu", "구", "11",
            "부산 종로구",
        ] {
            assert_eq!(regions.find(name), Err(RegionError::Unknown), "{name}");
        }
        for name in ["중구", "Jung-gu", "고성군", "강서구", "남구"] {
            let Err(RegionError::Ambiguous(choices)) = regions.find(name) else {
                panic!("{name} is not ambiguous")
            };
            assert!(choices.len() >= 2, "{choices:?}");
            for choice in choices {
                assert!(regions.find(&choice).is_ok(), "{choice} is offered and not accepted");
            }
        }
    }
}
