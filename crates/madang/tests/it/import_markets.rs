//! `madang import markets`: three kinds of files, and everything that can be wrong with them.

use crate::harness::{Madang, Output, Setup, data, database};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const HEADER: &str = "시장명,시장유형,소재지도로명주소,소재지지번주소,시장개설주기,위도,경도,점포수,취급품목,공중화장실보유여부,개설연도,데이터기준일자,제공기관명";

fn import<S: AsRef<OsStr>>(dir: &Path, files: impl IntoIterator<Item = S>) -> Madang {
    let mut args = vec!["import".into(), "markets".into(), "--data".into(), dir.into()];
    args.extend(files.into_iter().map(|file| file.as_ref().to_owned()));
    Madang::new::<std::ffi::OsString>(args)
}

/// Imports a file of these bytes into a directory.
fn import_bytes(dir: &Path, bytes: impl AsRef<[u8]>) -> Output {
    let file = dir.join("input");
    std::fs::write(&file, bytes).unwrap();
    import(dir, [&file]).run()
}

/// A table of these rows under the usual header.
fn table(rows: &[&str]) -> String {
    rows.iter().fold(format!("{HEADER}\n"), |text, row| text + row + "\n")
}

fn row(name: &str) -> String {
    format!(
        "{name},상설장,강원도 원주시 중앙로 1,,매일,37.3,127.9,10,농산물+의류,Y,1980,2024-01-01,A"
    )
}

fn value(dir: &Path, column: &str) -> String {
    database::text(dir, &format!("select cast({column} as char) from markets order by id"))
}

/// A file of the larger collection; says so when it is not there.
fn from_collection(file: &str) -> Option<PathBuf> {
    let path = data::collection()?.join("markets").join(file);
    path.is_file().then_some(path)
}

#[test]
fn a_second_import_changes_nothing_and_a_newer_edition_updates_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let said = import(dir.path(), data::bundled_markets()).succeeds();
    assert_eq!(said.stdout, "imported 1388, updated 0, unchanged 0, refused 0\n");
    assert_eq!(said.stderr, "");
    let again = import(dir.path(), data::bundled_markets()).succeeds();
    assert_eq!(again.stdout, "imported 0, updated 0, unchanged 1388, refused 0\n");
    let dir = tempfile::tempdir().unwrap();
    import_bytes(dir.path(), table(&[&row("중앙시장")]));
    let newer = row("중앙 시장").replace("2024-01-01", "2025-01-01").replace(",10,", ",77,");
    // The old province is the new one.
    let newer = newer.replace("강원도", "강원특별자치도").replace("중앙로 1", "중앙로 2");
    let said = import_bytes(dir.path(), table(&[&newer]));
    assert_eq!(said.stdout, "imported 0, updated 1, unchanged 0, refused 0\n");
    assert_eq!(value(dir.path(), "id || name || stores"), "1중앙 시장77");
    let older = row("중앙시장").replace("2024-01-01", "2019-01-01").replace(",10,", ",5,");
    let said = import_bytes(dir.path(), table(&[&older]));
    assert_eq!(said.stdout, "imported 0, updated 0, unchanged 1, refused 0\n");
    assert_eq!(value(dir.path(), "stores"), "77", "older data replace nothing");
}

#[test]
fn utf8_with_and_without_a_mark_and_cp949_are_one() {
    let text = table(&[&row("똠방각하시장"), &row("중앙시장")]);
    let (cp949, _, unmappable) = encoding_rs::EUC_KR.encode(&text);
    assert!(!unmappable);
    let marked = [b"\xef\xbb\xbf", text.as_bytes()].concat();
    for bytes in [text.as_bytes(), &marked, &cp949] {
        let dir = tempfile::tempdir().unwrap();
        let said = import_bytes(dir.path(), bytes);
        assert_eq!(
            said.stdout, "imported 2, updated 0, unchanged 0, refused 0\n",
            "{}",
            said.stderr
        );
        assert_eq!(value(dir.path(), "name || goods || public_toilet"), "똠방각하시장농산물+의류1");
    }
}

#[test]
fn rows_that_cannot_be_imported_are_named_with_line_and_reason() {
    let dir = tempfile::tempdir().unwrap();
    let good = row("좋은시장");
    let no_name = row("");
    let no_address = "주소없는시장,상설장,,,매일,37,127,1,,Y,1980,2024-01-01,A";
    let short = "짧은시장,상설장";
    let long = row(&"긴".repeat(201));
    let far = row("먼시장").replace("37.3,127.9", "34.567899,123.456788");
    let half = row("반시장").replace("37.3,127.9", "37.3,");
    let words = row("말시장").replace("37.3,127.9", "북,남").replace(",10,", ",많음,");
    let said = import_bytes(
        dir.path(),
        table(&[&good, &no_name, no_address, short, &long, &far, &half, &words]),
    );
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert_eq!(said.stdout, "imported 4, updated 0, unchanged 0, refused 4\n");
    let input = dir.path().join("input").display().to_string();
    for (line, reason) in [
        ("refused", "3: no name"),
        ("refused", "4: 주소없는시장 has no address"),
        ("refused", "5: 2 fields instead of 13"),
        ("refused", "6: the name is longer than 200 characters"),
        (
            "warning",
            "7: 먼시장 is imported without its position: 34.567899, 123.456788 is outside Korea",
        ),
        ("warning", "8: 반시장 is imported without its position: only one coordinate: 37.3"),
        ("warning", "9: 말시장 is imported without its position: 북, 남 are not degrees"),
        ("warning", "9: 말시장 is imported without 점포수: invalid value 많음"),
    ] {
        let wanted = format!("{line} {input}:{reason}");
        assert!(said.stderr.contains(&wanted), "{wanted} is not in\n{}", said.stderr);
    }
    assert_eq!(
        database::number(dir.path(), "select count(*) from markets where lat is null"),
        Some(3)
    );
}

#[test]
fn a_hundred_thousand_bad_rows_do_not_flood() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = table(&[&row("좋은시장")]);
    for _ in 0..100_000 {
        text.push_str(",,,,,,,,,,,,\n");
    }
    let said = import_bytes(dir.path(), text);
    assert_eq!(said.stdout, "imported 1, updated 0, unchanged 0, refused 100000\n");
    assert_eq!(said.code, Some(1));
    assert_eq!(said.stderr.lines().filter(|line| line.starts_with("refused")).count(), 50);
    assert!(said.stderr.contains("99950 more refused"), "{}", said.stderr);
}

#[test]
fn files_that_are_none_of_markets_are_refused_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    for (bytes, reason) in [
        (&b""[..], "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
        (b"a,b,c\n1,2,3\n", "has no column 시장명, 소재지도로명주소, 소재지지번주소, 위도, 경도"),
        (
            "시장명,소재지도로명주소,소재지지번주소,위도\na,b,c,37\n".as_bytes(),
            "has no column 경도",
        ),
        (b"{}", "has no records"),
        (b"{\"records\": 7}", "a list of records"),
        (b"{\"records\": [", "EOF"),
        (&b"{\"x\": ".repeat(300), "EOF"),
        (&[0; 5000], "has no column"),
        (&[0xff; 5000], "has no column"),
    ] {
        let said = import_bytes(dir.path(), bytes);
        assert_eq!(said.code, Some(1), "{reason}");
        assert!(said.stderr.contains(reason), "{reason} is not in {}", said.stderr);
        said.is_calm();
    }
    let missing = import(dir.path(), ["/nowhere/markets.csv"]).fails_with(1);
    assert!(missing.stderr.contains("cannot be opened"), "{}", missing.stderr);
    let large = dir.path().join("large.csv");
    std::fs::File::create(&large).unwrap().set_len(1 << 30).unwrap();
    let said = import(dir.path(), [&large]).fails_with(1);
    assert!(said.stderr.contains("is larger than 64 MiB"), "{}", said.stderr);
    assert_eq!(database::number(dir.path(), "select count(*) from markets"), Some(0));
}

#[test]
fn damaged_text_costs_the_rows_that_have_it() {
    let text = table(&[&row("하나시장"), &row("둘시장"), &row("셋시장")]);
    let mut cut = encoding_rs::EUC_KR.encode(&text).0.into_owned();
    // Half of a pair in the name of the second.
    let second = encoding_rs::EUC_KR.encode("둘").0.into_owned();
    let at = cut.windows(2).position(|pair| pair == second).unwrap();
    cut.remove(at + 1);
    let dir = tempfile::tempdir().unwrap();
    let said = import_bytes(dir.path(), &cut);
    assert_eq!(said.stdout, "imported 2, updated 0, unchanged 0, refused 1\n", "{}", said.stderr);
    assert!(said.stderr.contains(":3: "), "{}", said.stderr);

    let dir = tempfile::tempdir().unwrap();
    let huge = format!("\"{}\",a", "가".repeat(3 << 20));
    let open = format!("\"{}", row("열린시장"));
    let rows =
        table(&[&row("하나시장"), &huge, &row("둘\u{0}시장"), &open, &row("셋시장").repeat(200)]);
    let said = import_bytes(dir.path(), rows);
    assert_eq!(said.stdout, "imported 2, updated 0, unchanged 0, refused 2\n");
    assert!(said.stderr.contains("unclosed quote?"), "{}", said.stderr);
    let name = "select name from markets where id = 2";
    assert_eq!(database::text(dir.path(), name), "둘 시장", "a control character is no character");
}

#[test]
fn damaged_text_elsewhere_costs_the_fields_that_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = row("하나시장")
        .replace("농산물", "농\u{fffd}물")
        .replace(",매일,", ",매\u{fffd},")
        .replace(",Y,", ",\u{fffd},")
        .replace(",2024-01-01,A", ",2024-01-01,\u{fffd}A");
    let said = import_bytes(dir.path(), table(&[&damaged]));
    assert_eq!(said.stdout, "imported 1, updated 0, unchanged 0, refused 0\n", "{}", said.stderr);
    for column in ["시장개설주기", "취급품목", "공중화장실보유여부", "제공기관명"]
    {
        let wanted = format!(
            ":2: 하나시장 is imported without {column}: it contains bytes that are not text"
        );
        assert!(said.stderr.contains(&wanted), "{wanted} is not in {}", said.stderr);
    }
    let left = "goods || provider || coalesce(cycle, '') || coalesce(public_toilet, '') || stores";
    assert_eq!(value(dir.path(), left), "10", "all else is kept");
}

#[test]
fn a_quote_that_is_not_closed_costs_the_lines_that_it_swallows_and_says_which() {
    let dir = tempfile::tempdir().unwrap();
    let open = row("열린시장").replace("01-01,A", "01-01,\"A");
    let names = ["하나", "둘", "셋", "넷"].map(|name| row(&format!("{name}시장")));
    let closed = names[2].replace("01-01,A", "01-01,\"A\"");
    let said = import_bytes(
        dir.path(),
        table(&[&names[0], &open, &names[1], &closed, &names[3], &row("끝시장")]),
    );
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert_eq!(said.stdout, "imported 3, updated 0, unchanged 0, refused 1\n", "{}", said.stderr);
    assert!(said.stderr.contains(":3: a line break in a field, lines 3 to 5"), "{}", said.stderr);
    let dir = tempfile::tempdir().unwrap();
    let said = import_bytes(dir.path(), table(&[&names[0], &open, &names[1], &names[3]]));
    assert_eq!(said.stdout, "imported 1, updated 0, unchanged 0, refused 1\n");
    assert!(said.stderr.contains(":3: a line break in a field, lines 3 to "), "{}", said.stderr);
    let said = import_bytes(dir.path(), format!("{HEADER},\"비고\n{}\n", names[1]));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("its header has a line break in a field"), "{}", said.stderr);
}

#[test]
fn a_table_with_a_column_twice_is_refused_when_that_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let twice = |column: &str| format!("{HEADER},{column}\n{},B\n", row("하나시장"));
    for column in ["제공기관명", "점포수", "위 도"] {
        let said = import_bytes(dir.path(), twice(column));
        assert_eq!(said.code, Some(1), "{column}");
        let wanted = format!("has more than one column {}", column.replace(' ', ""));
        assert!(said.stderr.contains(&wanted), "{wanted} is not in {}", said.stderr);
    }
    let said = import_bytes(dir.path(), format!("{HEADER},비고,비고\n{},B,C\n", row("하나시장")));
    assert_eq!(said.stdout, "imported 1, updated 0, unchanged 0, refused 0\n", "{}", said.stderr);
    let facilities = "시장명,지번주소,도로명주소,아케이드 보유여부,아케이드보유여부\n하나시장,,강원도 원주시 중앙로 1,Y,N\n";
    let said = import_bytes(dir.path(), facilities);
    assert!(said.stderr.contains("more than one column 아케이드보유여부"), "{}", said.stderr);
}

#[test]
fn dates_are_read_as_people_write_them_and_others_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dated = |name: &str, date: &str| row(name).replace("2024-01-01", date);
    let said = import_bytes(
        dir.path(),
        table(&[
            &dated("하나시장", "20251104"),
            &dated("둘시장", "2025.11.04"),
            &dated("셋시장", "2025/11/4"),
            &dated("넷시장", "작년"),
            &dated("빈시장", ""),
        ]),
    );
    assert_eq!(said.stdout, "imported 5, updated 0, unchanged 0, refused 0\n", "{}", said.stderr);
    let input = dir.path().join("input").display().to_string();
    let wanted = format!(
        "warning {input}:5: 넷시장 is imported without 데이터기준일자: invalid value 작년\n"
    );
    assert_eq!(said.stderr, wanted);
    let dates = "select group_concat(data_date) from (select data_date from markets order by id) t";
    assert_eq!(database::text(dir.path(), dates), "2025-11-04,2025-11-04,2025-11-04,,");
}

#[test]
fn what_one_file_leaves_out_another_fills_and_keeps_filled() {
    let without = |name: &str| row(name).replace(",10,", ",,").replace("강원도", "강원특별자치도");
    let older = table(&[&row("중앙시장").replace("2024-01-01,A", "2019-01-01,B")]);
    let newer = table(&[&without("중앙시장")]);
    let newest =
        table(&[&without("중앙시장").replace("2024-01-01", "2025-01-01").replace(",Y,", ",N,")]);
    for (first, second) in [(&older, &newer), (&newer, &older)] {
        let dir = tempfile::tempdir().unwrap();
        import_bytes(dir.path(), first);
        import_bytes(dir.path(), second);
        for again in [&newer, &newer, &older, &newer] {
            let said = import_bytes(dir.path(), again);
            assert_eq!(said.stdout, "imported 0, updated 0, unchanged 1, refused 0\n");
        }
        assert_eq!(value(dir.path(), "stores || data_date || provider"), "102024-01-01A");
        import_bytes(dir.path(), &newest);
        assert_eq!(value(dir.path(), "stores || public_toilet || data_date"), "1002025-01-01");
    }
}

#[test]
fn json_records_of_one_market_become_one() {
    let dir = tempfile::tempdir().unwrap();
    let record = |provider: &str, date: &str, rest: &str| {
        format!(
            "{{\"시장명\":\"죽도 시장\",\"소재지지번주소\":\"경상북도 포항시 북구 죽도동 {rest}\",\"제공기관명\":\"{provider}\",\"데이터기준일자\":\"{date}\",\"시장유형\":\"상설장 + 5일장\",\"취급품목\":\"수산물. 건어물 등\",\"점포수\":{}}}",
            rest.len()
        )
    };
    let text = format!(
        "{{\"fields\":[],\"records\":[{},{},7,{}]}}",
        record("국가", "2018-01-01", "1"),
        record("포항시", "2019-01-01", "22"),
        record("국가", "2019-01-01", "333").replace("죽도 시장", "죽도시장"),
    );
    let said = import_bytes(dir.path(), text);
    assert_eq!(
        said.stdout,
        "imported 1, updated 0, unchanged 0, refused 1 (rows merged into another of the same market: 2)\n"
    );
    assert!(said.stderr.contains(":3: is not an object"), "{}", said.stderr);
    assert_eq!(
        value(dir.path(), "kind || goods || stores || provider"),
        "상설장+5일장수산물+건어물2포항시"
    );
}

#[test]
fn facilities_are_joined_and_what_fits_nothing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    import_bytes(dir.path(), table(&[&row("하나시장"), &row("둘시장")]));
    let text = "시장코드,시장명,시장 유형,지번주소,도로명주소,시도,시군구,아케이드 보유 여부,물품보관함_보유여부\n\
        a,하나시장,전통시장,,강원특별자치도 원주시 어디로 9,강원,원주시,Y,N\n\
        b,하나 시장,전통시장,,강원도 원주시 중앙로 1,강원,원주시,N,y\n\
        c,없는시장,전통시장,,강원도 원주시 중앙로 1,강원,원주시,Y,Y\n\
        d,둘시장,전통시장,,강원도 원주시 중앙로 1,강원,원주시,\u{fffd},N\n";
    let said = import_bytes(dir.path(), text);
    assert_eq!(said.code, Some(1));
    assert_eq!(
        said.stdout,
        "imported 0, updated 1, unchanged 0, refused 2 (rows merged into another of the same market: 1)\n"
    );
    assert!(said.stderr.contains(":4: 없는시장 matches no stored market"), "{}", said.stderr);
    assert!(
        said.stderr.contains(":5: 아케이드보유여부 contains bytes that are not text"),
        "{}",
        said.stderr
    );
    let server = Setup::new().data(dir.path()).start();
    let markets = server.get("/v1/markets").json();
    let one =
        markets["items"].as_array().unwrap().iter().find(|m| m["name"] == "하나시장").unwrap();
    assert_eq!(one["facilities"], serde_json::json!(["arcade", "lockers"]));
}

#[test]
fn the_other_editions_are_read_whole() {
    let (Some(json), Some(facilities)) = (
        from_collection("traditional_markets_standard_2019_utf8.json"),
        from_collection("semas_market_facilities_20240719_cp949.csv"),
    ) else {
        data::no_collection("the bundled markets alone were imported");
        let dir = tempfile::tempdir().unwrap();
        import(dir.path(), data::bundled_markets()).succeeds();
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    import(dir.path(), data::bundled_markets()).succeeds();
    let said = import(dir.path(), [&facilities]).fails_with(1);
    assert_eq!(said.stdout, "imported 0, updated 1386, unchanged 0, refused 2\n");
    let said = import(dir.path(), [&facilities]).fails_with(1);
    assert_eq!(said.stdout, "imported 0, updated 0, unchanged 1386, refused 2\n");
    let fresh = tempfile::tempdir().unwrap();
    let said = import(fresh.path(), [&json]).succeeds();
    assert_eq!(
        said.stdout,
        "imported 2185, updated 0, unchanged 0, refused 0 (rows merged into another of the same market: 1487)\n"
    );
    assert_eq!(said.stderr.matches("34.567899, 123.456788 is outside Korea").count(), 3);
    let again = import(fresh.path(), [&json]).succeeds();
    assert!(
        again.stdout.starts_with("imported 0, updated 0, unchanged 2185, refused 0"),
        "{}",
        again.stdout
    );
}

#[test]
fn a_market_lies_where_the_newer_data_say() {
    // The county has moved to another province.
    let older = row("군위시장").replace("강원도 원주시", "경상북도 군위군");
    let older = table(&[&older.replace("2024-01-01,A", "2019-01-01,B")]);
    let newer = table(&[&row("군위시장").replace("강원도 원주시", "대구광역시 군위군")]);
    for files in [[&older, &newer], [&newer, &older]] {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            import_bytes(dir.path(), file);
        }
        for again in files {
            let said = import_bytes(dir.path(), again);
            assert_eq!(said.stdout, "imported 0, updated 0, unchanged 1, refused 0\n");
        }
        assert_eq!(value(dir.path(), "id || ' ' || province_id"), "1 22");
    }
}

#[test]
fn editions_imported_again_and_in_either_order_change_nothing_and_lose_nothing() {
    let bundled = data::bundled_markets().remove(0);
    let Some(json) = from_collection("traditional_markets_standard_2019_utf8.json") else {
        data::no_collection("the bundled markets alone were imported");
        let dir = tempfile::tempdir().unwrap();
        let twice = import(dir.path(), [&bundled, &bundled]).succeeds();
        assert_eq!(twice.stdout, "imported 1388, updated 0, unchanged 1388, refused 0\n");
        return;
    };
    for files in [[&json, &bundled], [&bundled, &json]] {
        let dir = tempfile::tempdir().unwrap();
        import(dir.path(), files).succeeds();
        let rows = || {
            let phones = database::number(dir.path(), "select count(phone) from markets");
            let all = "select group_concat(name || coalesce(phone, '') || coalesce(province_id, '') ||
                 coalesce(municipality_id, '') || goods || provider || data_date || coalesce(stores, ''))
               from (select * from markets order by id) t";
            (phones, database::text(dir.path(), all))
        };
        let before = rows();
        let again = import(dir.path(), files).succeeds();
        assert!(
            again.stdout.starts_with("imported 0, updated 0, unchanged 3573,"),
            "{}",
            again.stdout
        );
        for file in [&bundled, &json, &bundled] {
            let again = import(dir.path(), [file]).succeeds();
            assert!(
                again.stdout.starts_with("imported 0, updated 0, unchanged "),
                "{}",
                again.stdout
            );
        }
        assert!(rows() == before, "{:?} phones of {:?}", rows().0, before.0);
        let older = tempfile::tempdir().unwrap();
        import(older.path(), [&json]).succeeds();
        let phones = database::number(older.path(), "select count(phone) from markets");
        assert!(before.0 >= phones, "{:?} of {phones:?}", before.0);
    }
}

#[test]
fn a_hundred_thousand_markets_are_imported_and_searched() {
    if !madang_testing::drill!() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut text = format!("{HEADER}\n");
    for n in 0..100_000 {
        let (lat, lon) = (33.5 + f64::from(n % 500) * 0.01, 126.0 + f64::from(n / 500) * 0.015);
        let _ = writeln!(
            text,
            "제{n}시장,5일장,강원도 원주시 중앙로 {n},,1일+6일,{lat},{lon},10,농산물+의류,Y,1980,2024-01-01,A"
        );
    }
    let file = dir.path().join("input");
    std::fs::write(&file, text).unwrap();
    let (mut import, _home) = import(dir.path(), [&file]).spawn();
    assert!(madang_testing::ended_within(&mut import, madang_testing::LONGEST).success());
    let server = Setup::new().data(dir.path()).start();
    assert_eq!(server.metric("madang_markets", &[]), 100_000.0);
    let found = server.get("/v1/markets?q=%EC%A0%9C77777%EC%8B%9C%EC%9E%A5").json();
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    assert_eq!(found["items"][0]["name"], "제77777시장");
    let near = server.get("/v1/markets?near=35.0,127.5&limit=1").json();
    assert!(near["items"][0]["distanceMetres"].as_f64().unwrap() < 1.0, "{near}");
    assert_eq!(
        server.get("/v1/markets?limit=100&sort=views").json()["items"].as_array().unwrap().len(),
        100
    );
}
