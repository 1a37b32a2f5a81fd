//! Regions: provinces and municipalities of Korea, found by what people write.
//!
//! The tables in the store are the truth; they are small and never change while the service runs, so
//! they are read once. A name is looked up without regard to spaces, hyphens, commas and the case of
//! ASCII letters: "서울특별시", "서울", "Seoul", "서울 종로구", "종로구", "Jongno-gu, Seoul" and
//! "jongno" all mean something. A name that several municipalities have, such as 중구, is refused with
//! the longer ones to choose from.

use std::collections::{BTreeSet, HashMap};

/// Code of Statistics Korea.
pub type RegionId = i64;

/// Longest name that is looked at, in characters.
pub const LONGEST: usize = 100;

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRow {
    /// Its code.
    pub id: RegionId,
    /// The province it belongs to; none for a province.
    pub province: Option<RegionId>,
    /// Korean name.
    pub name: String,
    /// English name.
    pub name_en: String,
}

/// Why a name is no region.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// Nothing is called so.
    #[error("a Korean province or municipality, such as 서울특별시, Seoul, 서울 종로구 or Jongno-gu")]
    Unknown,
    /// Several are.
    #[error("several regions are called so: write {}", .0.join(" or "))]
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

#[derive(Debug, Default)]
struct Names(HashMap<String, BTreeSet<RegionId>>);

impl Names {
    fn add(&mut self, name: &str, id: RegionId) {
        self.0.entry(name.to_owned()).or_default().insert(id);
    }

    fn get(&self, name: &str) -> impl Iterator<Item = RegionId> {
        self.0.get(name).into_iter().flatten().copied()
    }
}

impl Regions {
    /// Regions of these rows, with further names of theirs.
    pub fn new(rows: Vec<RegionRow>, names: Vec<(RegionId, String)>) -> Self {
        let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
        let mut regions = Self {
            rows: HashMap::new(),
            provinces: HashMap::new(),
            municipalities: Names::default(),
            stems: Names::default(),
        };
        let own = rows.values().flat_map(|r| [(r.id, r.name.clone()), (r.id, r.name_en.clone())]);
        for (id, name) in own.chain(names) {
            let name = folded(&name);
            if rows.get(&id).is_some_and(|row| row.province.is_none()) {
                regions.provinces.insert(name, id);
                continue;
            }
            if let Some(stem) = stem(&name) {
                regions.stems.add(stem, id);
            }
            regions.municipalities.add(&name, id);
        }
        regions.rows = rows;
        regions
    }

    /// The region that people mean by `text`: a province, else a municipality, alone or with its
    /// province before or after it, else one without its ending.
    ///
    /// # Errors
    /// When it is none, or several.
    pub fn find(&self, text: &str) -> Result<RegionId, RegionError> {
        let name = folded(text);
        if let Some(id) = self.provinces.get(&name) {
            return Ok(*id);
        }
        for names in [&self.municipalities, &self.stems] {
            let found: BTreeSet<_> = names.get(&name).chain(self.within(&name, names)).collect();
            match (found.len(), found.first()) {
                (0, _) => {}
                (1, Some(id)) => return Ok(*id),
                _ => return Err(RegionError::Ambiguous(self.choices(&found))),
            }
        }
        Err(RegionError::Unknown)
    }

    /// Municipalities whose name stands before or after that of their province.
    fn within<'a>(
        &'a self,
        name: &'a str,
        names: &'a Names,
    ) -> impl Iterator<Item = RegionId> + 'a {
        self.provinces.iter().flat_map(move |(province, id)| {
            let rests = [name.strip_prefix(province.as_str()), name.strip_suffix(province.as_str())];
            let found = rests.into_iter().flatten().flat_map(|rest| names.get(rest));
            found.filter(|found| self.rows.get(found).is_some_and(|r| r.province == Some(*id)))
        })
    }

    fn choices(&self, ids: &BTreeSet<RegionId>) -> Vec<String> {
        ids.iter().map(|id| self.full_name(*id).0).collect()
    }

    /// Names of a region in Korean and English, each with its province where it has one.
    pub fn full_name(&self, id: RegionId) -> (String, String) {
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

/// A name as it is compared.
fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '-' | ',' | '.' | '\'' | '·'))
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// A folded name without its ending; nothing when less than two characters would be left (중구).
fn stem(name: &str) -> Option<&str> {
    let endings = ["시", "군", "구", "gun", "si", "gu"];
    let stem = endings.iter().find_map(|ending| name.strip_suffix(ending))?;
    (stem.chars().count() >= 2).then_some(stem)
}
