//! Reading GPX: accepted and refused files.

use madang_path::gpx::{MAX_DEPTH, read};
use madang_path::{Document, InvalidPoint, Limits, Point, ReadError};

fn document(text: &str) -> Document {
    read(text.as_bytes(), &Limits::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn refusal(text: &str) -> ReadError {
    match read(text.as_bytes(), &Limits::default()) {
        Ok(document) => panic!("{document:?} came out of\n{text}"),
        Err(error) => error,
    }
}

/// Two points; enough for a path.
const LINE: &str = r#"<trkpt lat="1" lon="2"/><trkpt lat="3" lon="4"/>"#;

fn with_segment(points: &str) -> String {
    format!("<gpx>\n<trk>\n<trkseg>\n{points}\n</trkseg>\n</trk>\n</gpx>")
}

fn spots(document: &Document) -> Vec<Vec<(f64, f64)>> {
    let spot = |point: &Point| (point.lat, point.lon);
    document.path.segments().iter().map(|line| line.iter().map(spot).collect()).collect()
}

#[test]
fn tracks_and_routes_become_segments_in_the_order_of_the_file() {
    let document = document(
        r#"<?xml version="1.0"?><gpx>
        <wpt lat="80" lon="80"><name>not a point of the path</name></wpt>
        <rte><rtept lat="1" lon="1"/><rtept lat="1" lon="2"></rtept></rte>
        <trk><trkseg></trkseg><trkseg/><trkseg><trkpt lat="2" lon="1"/></trkseg></trk>
        <trk/>
        <rte><rtept lat="3" lon="1"/></rte>
        <trk><trkseq><trkpt lat="4" lon="1"/><trkpt lat="4" lon="2"/></trkseq></trk></gpx>"#,
    );
    let expected = vec![
        vec![(1.0, 1.0), (1.0, 2.0)],
        vec![(2.0, 1.0)],
        vec![(3.0, 1.0)],
        vec![(4.0, 1.0), (4.0, 2.0)],
    ];
    assert_eq!(spots(&document), expected);
}

#[test]
fn look_alikes_in_extensions_and_other_namespaces_do_not_count() {
    let document = document(
        r#"<gpx xmlns="http://www.topografix.com/GPX/1/1" xmlns:x="urn:x">
        <extensions><trk><trkseg><trkpt lat="9" lon="9"/></trkseg></trk></extensions>
        <trk><extensions><trkseg><trkpt lat="9" lon="9"/></trkseg></extensions>
        <x:trkseg><x:trkpt lat="9" lon="9"/></x:trkseg>
        <trkseg><trkpt lat="1" lon="2"><extensions><trkpt lat="9" lon="9"><ele>9</ele></trkpt>
          <ele>9</ele><name>no</name></extensions><x:ele>9</x:ele></trkpt>
          <x:trkpt lat="9" lon="9"/>
          <trkpt lat="3" lon="4"><link><trkpt lat="9" lon="9"/></link></trkpt></trkseg></trk>
        <trkpt lat="9" lon="9"/><trkseg><trkpt lat="9" lon="9"/></trkseg></gpx>"#,
    );
    assert_eq!(spots(&document), [[(1.0, 2.0), (3.0, 4.0)]]);
    assert_eq!(document.path.start().ele, None);
    assert_eq!(document.name, None);
}

#[test]
fn a_prefixed_namespace_is_as_good_as_a_default_one() {
    let document = document(
        r#"<g:gpx xmlns:g="http://www.topografix.com/GPX/1/0"><g:trk><g:name>n</g:name><g:trkseg>
        <g:trkpt lat="1" lon="2"><g:ele>5</g:ele></g:trkpt><g:trkpt lat="3" lon="4"/>
        <trkpt lat="9" lon="9"/></g:trkseg></g:trk></g:gpx>"#,
    );
    assert_eq!(spots(&document), [[(1.0, 2.0), (3.0, 4.0)]]);
    assert_eq!(document.path.start().ele, Some(5.0));
    assert_eq!(document.name.as_deref(), Some("n"));
}

#[test]
fn elevations_are_kept_as_they_are_and_empty_ones_are_none() {
    let document = document(&with_segment(
        r#"<trkpt lat="1" lon="2"><ele></ele></trkpt><trkpt lat="1" lon="2"><ele/></trkpt>
        <trkpt lat="1" lon="2"><time/><ele> -1 </ele></trkpt>
        <trkpt lat="1" lon="2"><ele>1.2345e2</ele></trkpt>
        <trkpt lat="1" lon="2"><ele>1<!-- c -->2<![CDATA[3]]>&#52;</ele></trkpt>
        <trkpt lat="1" lon="2"><ele>-32768</ele></trkpt>"#,
    ));
    let elevations: Vec<_> = document.path.segments()[0].iter().map(|p| p.ele).collect();
    let expected = [None, None, Some(-1.0), Some(123.45), Some(1234.0), Some(-32768.0)];
    assert_eq!(elevations, expected);
}

#[test]
fn the_name_is_that_of_the_metadata_then_of_the_first_track_or_route_that_has_one() {
    let name = |inner: &str| {
        document(&format!("<gpx>{inner}<trk><trkseg>{LINE}</trkseg></trk></gpx>")).name
    };
    let track = "<trk><name>\n track </name></trk>";
    assert_eq!(name(""), None);
    assert_eq!(name(track).as_deref(), Some("track"));
    assert_eq!(
        name(&format!("{track}<metadata><name>all</name></metadata>")).as_deref(),
        Some("all")
    );
    assert_eq!(name(&format!("<name>1.0</name>{track}")).as_deref(), Some("1.0"));
    let two = "<metadata><name>first</name><name>second</name></metadata>";
    assert_eq!(name(two).as_deref(), Some("first"));
    assert_eq!(
        name(&format!("<metadata><name> </name></metadata><rte><name/></rte>{track}")).as_deref(),
        Some("track")
    );
    assert_eq!(
        name("<metadata><author><name>somebody</name></author></metadata>"),
        None,
        "the author is not the path"
    );
    assert_eq!(
        name("<trk><name><![CDATA[<올레> & ]]>&#49;&lt;&amp;</name></trk>").as_deref(),
        Some("<올레> & 1<&")
    );
    let long = format!("<trk><name>{}</name></trk>", "길".repeat(100_000));
    assert_eq!(name(&long).unwrap().chars().count(), 200);
}

#[test]
fn a_byte_order_mark_carriage_returns_and_single_quotes_change_nothing() {
    let plain = document(&with_segment(LINE));
    let dressed = format!("\u{FEFF}<?xml version='1.0'?>\n{}", with_segment(LINE))
        .replace('\n', "\r\n")
        .replace('"', "'");
    assert_eq!(document(&dressed), plain);
    let utf16: Vec<u8> = dressed.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(madang_path::read(&utf16, &Limits::default()).unwrap(), plain);
}

#[test]
fn longitudes_beyond_the_antimeridian_are_brought_back() {
    let document = document(&with_segment(
        r#"<trkpt lat="0" lon="179.5"/><trkpt lat="0" lon="180.5"/><trkpt lat="0" lon="360"/>"#,
    ));
    assert_eq!(spots(&document), [[(0.0, 179.5), (0.0, -179.5), (0.0, 0.0)]]);
}

#[test]
fn a_refused_point_is_named_with_its_line() {
    let message = |points: &str| refusal(&with_segment(points)).to_string();
    assert_eq!(
        message("<trkpt lat='1' lon='1'/>\n  <trkpt lon='1'/>"),
        "<trkpt> without lat at line 5, column 3"
    );
    assert_eq!(message("<trkpt lat='1'/>"), "<trkpt> without lon at line 4, column 1");
    assert_eq!(
        message("<trkpt lat='91.2' lon='1'/>"),
        "latitude 91.2 is not between -90 and 90 degrees, at line 4, column 1"
    );
    assert_eq!(
        message("<trkpt lat='37,5' lon='1'/>"),
        "lat \"37,5\" is not a number at line 4, column 1"
    );
    assert_eq!(
        message("<trkpt lat='1' lon='1'><ele>high</ele></trkpt>"),
        "ele \"high\" is not a number at line 4, column 33"
    );
    for bad in ["NaN", "inf", "-Infinity", "1e999"] {
        for points in [
            format!("<trkpt lat='{bad}' lon='1'/>"),
            format!("<trkpt lat='1' lon='{bad}'/>"),
            format!("<trkpt lat='1' lon='1'><ele>{bad}</ele></trkpt>"),
        ] {
            let error = refusal(&with_segment(&points));
            assert!(matches!(error, ReadError::OutOfRange { .. }), "{points}: {error}");
        }
    }
    let east = refusal(&with_segment("<trkpt lat='1' lon='360.1'/>"));
    assert!(matches!(east, ReadError::OutOfRange { .. }), "{east}");
    let west = refusal(&with_segment("<trkpt lat='1' lon='-180.1'/>"));
    let ReadError::OutOfRange { reason: InvalidPoint::Longitude(lon), .. } = west else {
        panic!("{west}");
    };
    assert_eq!(lon, -180.1);
}

#[test]
fn files_without_a_path_are_refused_with_what_was_found() {
    assert_eq!(refusal("<kml><Document/></kml>"), ReadError::NotGpx("kml".into()));
    assert_eq!(refusal("<gpx/>"), ReadError::TooFewPoints(0));
    assert_eq!(refusal("<gpx><wpt lat='1' lon='1'/></gpx>"), ReadError::TooFewPoints(0));
    assert_eq!(refusal(&with_segment("<trkpt lat='1' lon='1'/>")), ReadError::TooFewPoints(1));
    assert_eq!(refusal("  \n"), ReadError::Empty);
    assert_eq!(refusal("<?xml version='1.0'?><!-- nothing -->"), ReadError::Empty);
}

#[test]
fn what_is_not_well_formed_is_refused_with_its_place() {
    let cases = [
        ("<gpx><trk></gpx>", "line 1, column 11"),
        ("<gpx>\n<trk>", "the file ends before the root element is closed"),
        ("<gpx>\n<trkpt lat='1", "line 2, column 1"),
        ("<gpx/>\nmore", "text outside the root element"),
        ("<gpx/>\n<gpx/>", "a second root element at line 2, column 1"),
        ("<gpx>\n&nbsp;</gpx>", "&nbsp; is not defined at line 2, column 1"),
        ("<gpx>&#0;</gpx>", "line 1"),
        ("</gpx>", "line 1"),
    ];
    for (text, expected) in cases {
        let error = refusal(text);
        assert!(matches!(error, ReadError::Xml { .. }), "{text}: {error:?}");
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}

#[test]
fn entity_definitions_are_refused_before_anything_is_expanded() {
    let mut laughs = String::from("<?xml version='1.0'?>\n<!DOCTYPE gpx [<!ENTITY a0 'ha'>");
    for level in 1..30 {
        let inner = format!("&a{};", level - 1).repeat(10);
        laughs.push_str(&format!("<!ENTITY a{level} '{inner}'>"));
    }
    laughs.push_str("]><gpx><trk><name>&a29;</name></trk></gpx>");
    assert!(matches!(refusal(&laughs), ReadError::DocumentType { place } if place.line == 2));
    // A bare reference to a document type harms nobody.
    let named = format!("<!DOCTYPE gpx SYSTEM 'gpx.dtd'>{}", with_segment(LINE));
    assert_eq!(document(&named).path.points(), 2);
}

#[test]
fn nesting_points_segments_and_bytes_are_bounded() {
    let deep = |levels: usize| {
        let inner = format!("{}{}", "<a>".repeat(levels), "</a>".repeat(levels));
        format!("<gpx>{inner}<trk><trkseg>{LINE}</trkseg></trk></gpx>")
    };
    assert_eq!(document(&deep(MAX_DEPTH - 1)).path.points(), 2);
    assert!(matches!(refusal(&deep(MAX_DEPTH)), ReadError::TooDeep { .. }));
    assert!(matches!(refusal(&deep(1_000_000)), ReadError::TooDeep { .. }));

    let limits = Limits { max_points: 4, max_segments: 2, ..Limits::default() };
    let file = |lines: usize| {
        let lines = format!("<trkseg>{LINE}</trkseg>").repeat(lines);
        format!("<gpx><trk>{lines}</trk></gpx>")
    };
    let read = |text: &str, limits: &Limits| read(text.as_bytes(), limits);
    assert!(read(&file(2), &limits).is_ok());
    assert_eq!(read(&file(3), &limits), Err(ReadError::TooManyPoints { limit: 4 }));
    let limits = Limits { max_points: 6, ..limits };
    assert_eq!(read(&file(3), &limits), Err(ReadError::TooManySegments { limit: 2 }));
    let bytes = file(2).len();
    let limits = Limits { max_bytes: bytes - 1, ..limits };
    assert_eq!(read(&file(2), &limits), Err(ReadError::TooManyBytes { bytes, limit: bytes - 1 }));
}
