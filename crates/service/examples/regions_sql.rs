//! Prints the rows of the tables `regions` and `region_names` from the bundled tables of Statistics
//! Korea, as they stand in the migration that made them.
//!
//! ```text
//! cargo run -p madang-service --example regions_sql > regions.sql
//! ```
//! A migration never changes once released: when the bundled tables do, the difference becomes a new
//! one. What is not in the tables and added here: names that have changed since 2018, short names, the
//! cities that the tables know only by their districts, and two English names that are wrong there.
//! Borders are those of 2018 (군위군 in 경상북도).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Names of today where they differ from those of 2018: special self-governing provinces, of which
/// 강원 is one since 2023 and 전북 since 2024, and 남구 of 인천, 미추홀구 since July 2018. Then English
/// names that the table has wrong: 철원군 carries that of 공주시, 광주시 lacks its ending.
const RENAMED: &[(u32, &str, &str)] = &[
    (32, "강원특별자치도", "Gangwon State"),
    (35, "전북특별자치도", "Jeonbuk State"),
    (23030, "미추홀구", "Michuhol-gu"),
    (32360, "철원군", "Cheorwon-gun"),
    (31250, "광주시", "Gwangju-si"),
];

/// Other names: those of 2018, short ones, and the usual English spellings.
const NAMES: &[(u32, &[&str])] = &[
    (11, &["서울", "서울시", "Seoul-si"]),
    (21, &["부산", "부산시", "Busan-si"]),
    (22, &["대구", "대구시", "Daegu-si"]),
    (23, &["인천", "인천시", "Incheon-si"]),
    (24, &["광주", "Gwangju Metropolitan City"]),
    (25, &["대전", "대전시", "Daejeon-si"]),
    (26, &["울산", "울산시", "Ulsan-si"]),
    (29, &["세종", "세종시", "Sejong", "Sejong-si"]),
    (31, &["경기", "Gyeonggi"]),
    (32, &["강원", "강원도", "Gangwon", "Gangwon-do"]),
    (33, &["충북", "Chungbuk"]),
    (34, &["충남", "Chungnam"]),
    (35, &["전북", "전라북도", "Jeonbuk", "Jeollabuk-do"]),
    (36, &["전남", "Jeonnam"]),
    (37, &["경북", "Gyeongbuk"]),
    (38, &["경남", "Gyeongnam"]),
    (39, &["제주", "제주도", "Jeju"]),
    (23030, &["남구", "Nam-gu"]),
];

/// Cities with districts. The table has only the districts; the code of the city ends in 0.
const CITIES: &[(&str, &str)] = &[
    ("수원시", "Suwon-si"),
    ("성남시", "Seongnam-si"),
    ("안양시", "Anyang-si"),
    ("안산시", "Ansan-si"),
    ("고양시", "Goyang-si"),
    ("용인시", "Yongin-si"),
    ("청주시", "Cheongju-si"),
    ("천안시", "Cheonan-si"),
    ("전주시", "Jeonju-si"),
    ("포항시", "Pohang-si"),
    ("창원시", "Changwon-si"),
];

/// A region's province, its Korean and its English name.
type Regions = BTreeMap<u32, (Option<u32>, String, String)>;

fn main() {
    let (regions, names) = collect();
    let mut out = String::from("INSERT INTO regions (id, province_id, name, name_en) VALUES\n");
    let rows: Vec<String> = regions
        .iter()
        .map(|(id, (province, ko, en))| {
            let province = province.map_or("NULL".to_owned(), |code| code.to_string());
            format!("  ({id}, {province}, '{ko}', '{en}')")
        })
        .collect();
    let _ = writeln!(out, "{};\n", rows.join(",\n"));
    out.push_str("INSERT INTO region_names (region_id, name) VALUES\n");
    let rows: Vec<String> = names.iter().map(|(id, name)| format!("  ({id}, '{name}')")).collect();
    let _ = writeln!(out, "{};", rows.join(",\n"));
    print!("{out}");
}

fn collect() -> (Regions, Vec<(u32, String)>) {
    let mut regions = Regions::new();
    let mut names = Vec::new();
    for row in table("sido_2018_centroids.csv") {
        let id = code(&row[0]);
        let (ko, en) = of_today(id, &row[1], &row[2]);
        regions.insert(id, (None, ko, en));
    }
    for row in table("sigungu_2018_centroids.csv") {
        let (id, province) = (code(&row[0]), code(&row[0][..2]));
        let (ko, en) = of_today(id, &row[2], &row[4]);
        regions.insert(id, (Some(province), ko, en.clone()));
        let Some((city, city_en)) = CITIES.iter().find(|(city, _)| row[2].starts_with(city)) else {
            continue;
        };
        regions.insert(id / 10 * 10, (Some(province), (*city).to_owned(), (*city_en).to_owned()));
        // 분당구 alone, and Bundang-gu for what the table calls Seongnamsibundanggu.
        names.push((id, row[2][city.len()..].to_owned()));
        let joined = city_en.to_lowercase().replace('-', "");
        if let Some(district) = en.to_lowercase().strip_prefix(&joined) {
            names.push((id, district.to_owned()));
        } else {
            names.push((id, format!("{city_en} {en}")));
        }
    }
    for (id, more) in NAMES {
        names.extend(more.iter().map(|name| (*id, (*name).to_owned())));
    }
    names.sort();
    (regions, names)
}

fn of_today(id: u32, ko: &str, en: &str) -> (String, String) {
    let found = RENAMED.iter().find(|(code, ..)| *code == id);
    let (ko, en) = found.map_or((ko, en), |(_, ko, en)| (*ko, *en));
    (ko.to_owned(), en.to_owned())
}

fn code(text: &str) -> u32 {
    text.parse().expect("codes are numbers")
}

/// The rows of a bundled table, without its head. No field of them is quoted.
fn table(file: &str) -> Vec<Vec<String>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/regions").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}
