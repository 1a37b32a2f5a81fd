//! Reading GeoJSON: accepted and refused files.

use madang_path::geojson::read;
use madang_path::{Document, Limits, Point, ReadError};

fn document(text: &str) -> Document {
    read(text.as_bytes(), &Limits::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn refusal(text: &str) -> ReadError {
    match read(text.as_bytes(), &Limits::default()) {
        Ok(document) => panic!("{document:?} came out of\n{text}"),
        Err(error) => error,
    }
}

const LINE: &str = r#"{"type":"LineString","coordinates":[[127,37],[127.5,37.5,12]]}"#;

fn the_line() -> Vec<Point> {
    vec![Point::new(37.0, 127.0), Point::new(37.5, 127.5).at_elevation(12.0)]
}

#[test]
fn a_bare_geometry_a_feature_and_a_collection_hold_the_same_line() {
    let feature = format!(r#"{{"type":"Feature","properties":null,"geometry":{LINE}}}"#);
    let collection = format!(r#"{{"features":[{feature}],"type":"FeatureCollection"}}"#);
    let geometries = format!(r#"{{"type":"GeometryCollection","geometries":[{LINE}]}}"#);
    for text in [LINE, &feature, &collection, &geometries, &format!("\u{FEFF}{LINE}")] {
        assert_eq!(document(text).path.segments(), [the_line()], "{text}");
    }
}

#[test]
fn lines_keep_the_order_of_the_file_and_other_geometries_are_skipped() {
    let text = format!(
        r#"{{"type":"FeatureCollection","features":[
        {{"type":"Feature","geometry":null,"properties":{{}}}},
        {{"type":"Feature","properties":{{}},"geometry":{{"type":"Point","coordinates":[1,2]}}}},
        {{"type":"Feature","properties":{{}},"geometry":
          {{"coordinates":[[[1,2],[3,4],[5,6],[1,2]]],"type":"Polygon"}}}},
        {{"type":"Feature","properties":{{}},"geometry":
          {{"coordinates":[[[[1,2],[3,4]]],[]],"type":"MultiPolygon"}}}},
        {{"type":"Feature","properties":{{}},"geometry":
          {{"coordinates":[[[1,2],[3,4]],[],[[5,6]]],"type":"MultiLineString"}}}},
        {{"type":"Feature","properties":{{}},"geometry":{{"type":"GeometryCollection",
          "geometries":[{{"type":"LineString","coordinates":[]}},{LINE}]}}}},
        {{"type":"Feature","properties":{{"coordinates":[1],"geometry":{LINE}}},"geometry":null}},
        {{"type":"Sphere","coordinates":{{"not":"coordinates"}}}}]}}"#
    );
    let expected =
        [vec![Point::new(2.0, 1.0), Point::new(4.0, 3.0)], vec![Point::new(6.0, 5.0)], the_line()];
    assert_eq!(document(&text).path.segments(), expected);
}

#[test]
fn a_third_number_is_the_elevation_and_more_are_ignored() {
    let text = r#"{"type":"LineString","coordinates":[[1,2,null],[1,2,3.5,"t",{}],[190,2]]}"#;
    let expected =
        [Point::new(2.0, 1.0), Point::new(2.0, 1.0).at_elevation(3.5), Point::new(2.0, -170.0)];
    assert_eq!(document(text).path.segments(), [expected]);
}

#[test]
fn the_name_is_that_of_the_first_feature_that_has_one_else_of_the_collection() {
    let name = |first: &str, second: &str, own: &str| {
        let feature = |properties: &str| {
            format!(r#"{{"type":"Feature","properties":{properties},"geometry":{LINE}}}"#)
        };
        document(&format!(
            r#"{{"type":"FeatureCollection","name":{own},"features":[{},{}]}}"#,
            feature(first),
            feature(second)
        ))
        .name
    };
    assert_eq!(name("null", "{}", "null"), None);
    let both = name(r#"{"title":"first"}"#, r#"{"name":"second"}"#, "null");
    assert_eq!(both.as_deref(), Some("first"));
    assert_eq!(name("{}", "{}", r#"" layer""#).as_deref(), Some("layer"));
    assert_eq!(
        name(r#"{"name":7,"title":[1]}"#, r#"{"title":"a\u0000\nb"}"#, r#""l""#).as_deref(),
        Some("a b")
    );
    assert_eq!(name(r#"{"name":" "}"#, r#"{"name":"서울"}"#, "{}").as_deref(), Some("서울"));
}

#[test]
fn what_is_not_geojson_is_refused_with_the_reason() {
    let cases = [
        (r#"{"a":1}"#, "no GeoJSON `type`"),
        (r#"{"type":"Topology","objects":{}}"#, "no GeoJSON `type`"),
        (r#"{"type":"LineString","coordinates":[1,2]}"#, "not an array of positions"),
        (r#"{"coordinates":[[[1,2]]],"type":"LineString"}"#, "not an array of positions"),
        (r#"{"type":"MultiLineString","coordinates":[[1,2]]}"#, "not an array of lines"),
        (r#"{"type":"LineString","coordinates":[[1]]}"#, "a longitude and a latitude"),
        (r#"{"type":"LineString","coordinates":[[1,2],3]}"#, "different depths"),
        (r#"{"type":"LineString","coordinates":[[1,2],[[3,4]]]}"#, "different depths"),
        (r#"{"type":"LineString","coordinates":[[1,2,[]]]}"#, "inside a position"),
        (r#"{"type":"LineString","coordinates":[[null,2]]}"#, "null stands"),
    ];
    for (text, expected) in cases {
        let error = refusal(text);
        assert!(matches!(error, ReadError::NotGeoJson { .. }), "{text}: {error:?}");
        assert!(error.to_string().contains(expected), "{text}: {error}");
        assert!(error.to_string().contains("line 1"), "{text}: {error}");
    }
    for text in [
        "{",
        r#"{"type":"LineString","coordinates":[[1,2],[3,4]]} {}"#,
        r#"{"type":"LineString","coordinates":"here"}"#,
        r#"{"type":"LineString","coordinates":[["1","2"]]}"#,
        r#"{"type":"LineString","coordinates":[[1,NaN]]}"#,
        r#"{"type":"LineString","coordinates":[[1,1e999]]}"#,
        r#"{"type":"FeatureCollection","features":{}}"#,
    ] {
        let error = read(text.as_bytes(), &Limits::default()).unwrap_err();
        assert!(
            matches!(error, ReadError::Json { .. } | ReadError::NotGeoJson { .. }),
            "{error:?}"
        );
    }
    let not_utf8 = read(b"{\"type\":\"\xFF\"}", &Limits::default());
    assert!(matches!(not_utf8, Err(ReadError::Json { .. })), "{not_utf8:?}");
    assert_eq!(refusal(r#"{"type":"Feature","geometry":null}"#), ReadError::TooFewPoints(0));
    assert_eq!(
        refusal("{\"type\":\"LineString\",\n\"coordinates\":[[1,91.2]]}").to_string(),
        "latitude 91.2 is not between -90 and 90 degrees, at line 2, column 23"
    );
}

#[test]
fn nesting_points_and_lines_are_bounded() {
    let nested = format!(
        "{}{LINE}{}",
        r#"{"type":"GeometryCollection","geometries":["#.repeat(100_000),
        "]}".repeat(100_000)
    );
    assert!(matches!(refusal(&nested), ReadError::Json { .. }));
    let brackets = format!(r#"{{"type":"LineString","coordinates":{}"#, "[".repeat(1_000_000));
    assert!(matches!(refusal(&brackets), ReadError::Json { .. }));
    let ignored = format!(r#"{{"x":{}"#, "[".repeat(1_000_000));
    assert!(matches!(refusal(&ignored), ReadError::Json { .. }));

    let limits = Limits { max_points: 4, max_segments: 2, ..Limits::default() };
    let lines = |count: usize| {
        let lines = vec!["[[1,2],[3,4]]"; count].join(",");
        format!(r#"{{"type":"MultiLineString","coordinates":[{lines}]}}"#)
    };
    assert!(read(lines(2).as_bytes(), &limits).is_ok());
    let too_many = Err(ReadError::TooManyPoints { limit: 4 });
    assert_eq!(read(lines(3).as_bytes(), &limits), too_many);
    let limits = Limits { max_points: 6, ..limits };
    let too_many = Err(ReadError::TooManySegments { limit: 2 });
    assert_eq!(read(lines(3).as_bytes(), &limits), too_many);
    let limits = Limits { max_bytes: 10, ..limits };
    assert!(matches!(read(LINE.as_bytes(), &limits), Err(ReadError::TooManyBytes { .. })));
}
