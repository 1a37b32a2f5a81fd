//! The encoded polyline and the storage form.

use madang_path::compact::{self, CompactError};
use madang_path::polyline::{self, MAX_PRECISION, PolylineError};
use madang_path::{Path, Point};
use proptest::prelude::*;

#[test]
fn polylines_are_those_of_the_published_example() {
    let points =
        [Point::new(38.5, -120.2), Point::new(40.7, -120.95), Point::new(43.252, -126.453)];
    let text = polyline::encode(&points, 5);
    assert_eq!(text, "_p~iF~ps|U_ulLnnqC_mqNvxq`@");
    assert_eq!(polyline::decode(&text, 5).unwrap(), points);
    // The example of a single value, here as a latitude of zero and a longitude.
    assert_eq!(polyline::encode(&[Point::new(0.0, -179.983_210_4)], 5), "?`~oia@");
    assert_eq!(polyline::encode(&[], 5), "");
    assert_eq!(polyline::decode("", 5), Ok(vec![]));
}

#[test]
fn texts_that_are_no_polyline_are_refused() {
    assert_eq!(polyline::decode("_p~iF~ps|", 5), Err(PolylineError::Truncated));
    assert_eq!(polyline::decode("?", 5), Err(PolylineError::Truncated));
    assert_eq!(polyline::decode("? ", 5), Err(PolylineError::Character(1)));
    assert_eq!(polyline::decode("?\u{7f}", 5), Err(PolylineError::Character(1)));
    assert_eq!(polyline::decode("길", 5), Err(PolylineError::Character(0)));
    assert_eq!(polyline::decode(&"~".repeat(100), 5), Err(PolylineError::Overflow(12)));
    assert_eq!(polyline::decode("", 13), Err(PolylineError::Precision(13)));
    let beyond = polyline::encode(&[Point::new(90.0, 0.0)], 6);
    assert!(matches!(polyline::decode(&beyond, 5), Err(PolylineError::Point { index: 0, .. })));
    // The largest differences the format lets through, one after the other.
    let huge = format!("{}^", "~".repeat(11)).repeat(1000);
    assert!(matches!(polyline::decode(&huge, 5), Err(PolylineError::Point { .. })));
}

#[test]
#[should_panic(expected = "at most 12 decimals")]
fn a_precision_beyond_the_digits_of_a_number_is_a_mistake_of_the_caller() {
    let _ = polyline::encode(&[], MAX_PRECISION + 1);
}

fn points() -> impl Strategy<Value = Vec<Point>> {
    let ele = prop_oneof![Just(None), (-11_000.0..9_000.0f64).prop_map(Some)];
    let point = (-90.0..=90.0f64, -180.0..=180.0f64, ele).prop_map(|(lat, lon, ele)| Point {
        lat,
        lon,
        ele,
    });
    prop::collection::vec(point, 2..40)
}

proptest! {
    #[test]
    fn a_polyline_gives_back_every_point_rounded(points in points(), precision in 0..=MAX_PRECISION) {
        let text = polyline::encode(&points, precision);
        let back = polyline::decode(&text, precision).unwrap();
        prop_assert_eq!(back.len(), points.len());
        let half = 0.5 / 10f64.powi(precision as i32) + 1e-13;
        for (was, is) in points.iter().zip(&back) {
            prop_assert!((was.lat - is.lat).abs() <= half && (was.lon - is.lon).abs() <= half);
        }
    }

    #[test]
    fn decoding_any_text_ends_in_points_or_a_reason(text in "[?-~]{0,60}", precision in 0..20u32) {
        if let Ok(points) = polyline::decode(&text, precision) {
            prop_assert!(points.iter().all(|point| point.check().is_ok()));
        }
    }

    #[test]
    fn storage_gives_back_every_point_rounded(lines in prop::collection::vec(points(), 1..5)) {
        let path = Path::new(lines).unwrap();
        let back = compact::decode(&compact::encode(&path)).unwrap();
        prop_assert_eq!(back.segments().len(), path.segments().len());
        for (was, is) in path.segments().iter().flatten().zip(back.segments().iter().flatten()) {
            prop_assert!((was.lat - is.lat).abs() <= 0.500_001e-7);
            prop_assert!((was.lon - is.lon).abs() <= 0.500_001e-7);
            match (was.ele, is.ele) {
                (Some(was), Some(is)) => prop_assert!((was - is).abs() <= 0.005_001),
                (was, is) => prop_assert_eq!(was, is),
            }
        }
    }

    #[test]
    fn decoding_any_bytes_ends_in_a_path_or_a_reason(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = compact::decode(&bytes);
        if let Some(version) = bytes.first_mut() {
            *version = 1;
        }
        if let Ok(path) = compact::decode(&bytes) {
            prop_assert!(path.points() <= bytes.len() / 2);
        }
    }
}

#[test]
fn stored_bytes_that_lie_about_themselves_are_refused() {
    let line = vec![Point::new(1.0, 2.0).at_elevation(3.0), Point::new(1.5, 2.5)];
    let bytes = compact::encode(&Path::new(vec![line]).unwrap());
    for end in 0..bytes.len() {
        assert_eq!(compact::decode(&bytes[..end]), Err(CompactError::Truncated), "{end}");
    }
    let longer = [&bytes[..], &[0, 0]].concat();
    assert_eq!(compact::decode(&longer), Err(CompactError::Trailing(2)));
    let newer = [&[2], &bytes[1..]].concat();
    assert_eq!(compact::decode(&newer), Err(CompactError::Version(2)));
    // 2^63 segments, or points, in a dozen bytes.
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    let segments = [&[1], &huge[..], &[0; 50]].concat();
    assert_eq!(compact::decode(&segments), Err(CompactError::Truncated));
    let points = [&[1, 1], &huge[..], &[0; 50]].concat();
    assert_eq!(compact::decode(&points), Err(CompactError::Truncated));
    // An eleventh byte, or bits beyond 64.
    let long = [&[1, 0x80], &huge[..], &[0; 50]].concat();
    assert_eq!(compact::decode(&long), Err(CompactError::Malformed(10)));
    let wide = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
    let bits = [&[1, 1, 2, 0][..], &wide, &[0; 50]].concat();
    assert_eq!(compact::decode(&bits), Err(CompactError::Malformed(13)));
    // Two points of latitude 2^62 each, with signs that would overflow the sum.
    let far = [0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
    let overflow = [&[1, 1, 2, 0][..], &far, &[0], &far, &[0]].concat();
    assert!(matches!(compact::decode(&overflow), Err(CompactError::Malformed(_))));
    // An empty segment, a point beyond the pole, an unknown mark for elevations.
    assert!(matches!(compact::decode(&[1, 2, 0, 0, 2, 0, 0, 0, 0, 0]), Err(CompactError::Path(_))));
    assert_eq!(compact::decode(&[1, 1, 1, 7, 0, 0]), Err(CompactError::Malformed(3)));
}
