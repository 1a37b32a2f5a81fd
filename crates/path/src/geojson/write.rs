//! Writing a GeoJSON feature.

use serde_json::{Map, Value};

use crate::path::Path;
use crate::point::Point;
use crate::write::{push_array, push_lines, push_position};

/// Appends a `Feature` with a `LineString` for a path of one segment, else a `MultiLineString`;
/// **longitude first**, as RFC 7946 requires.
///
/// A line needs two positions (section 3.1.4), so a segment of one point is written with its
/// position twice. A path over the antimeridian is not cut in two, although section 3.1.9
/// recommends it: the line read back is the line written.
pub fn write(path: &Path, properties: &Map<String, Value>, out: &mut Vec<u8>) {
    let one_line = path.segments().len() == 1;
    out.extend_from_slice(br#"{"type":"Feature","geometry":{"type":""#);
    out.extend_from_slice(if one_line { b"LineString" } else { b"MultiLineString" });
    out.extend_from_slice(br#"","coordinates":"#);
    match path.segments() {
        [line] => push_array(line, out, push_point),
        segments if segments.iter().any(|segment| segment.len() == 1) => {
            push_array(segments, out, |segment, out| match segment.as_slice() {
                [alone] => push_array(&[*alone, *alone], out, push_point),
                line => push_array(line, out, push_point),
            });
        }
        _ => push_lines(path, out, push_point),
    }
    out.extend_from_slice(br#"},"properties":"#);
    serde_json::to_writer(&mut *out, properties)
        .expect("keys are strings and a Vec takes all bytes");
    out.push(b'}');
}

fn push_point(point: &Point, out: &mut Vec<u8>) {
    push_position([point.lon, point.lat], point.ele, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn written(segments: Vec<Vec<Point>>, properties: &Value) -> Value {
        let path = Path::new(segments).unwrap();
        let mut out = Vec::new();
        write(&path, properties.as_object().unwrap(), &mut out);
        let read = crate::geojson::read(&out, &Limits::default()).unwrap();
        assert_eq!(read.path.length_metres(), path.length_metres());
        assert_eq!(read.path.segments().len(), path.segments().len());
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn one_segment_is_a_line_string_and_more_are_a_multi_line_string() {
        let line = vec![Point::new(37.5, 127.0), Point::new(37.6, 127.1).at_elevation(3.0)];
        let properties = serde_json::json!({"name": "a\"b", "lengthMetres": 5});
        let one = written(vec![line.clone()], &properties);
        assert_eq!(
            one,
            serde_json::json!({
                "type": "Feature",
                "geometry": {
                    "type": "LineString",
                    "coordinates": [[127, 37.5], [127.1, 37.6, 3]],
                },
                "properties": properties,
            })
        );
        let two = written(vec![line.clone(), line], &serde_json::json!({}));
        assert_eq!(two["geometry"]["type"], "MultiLineString");
        assert_eq!(two["geometry"]["coordinates"][1], one["geometry"]["coordinates"]);
    }

    #[test]
    fn a_segment_of_one_point_is_written_as_two_equal_positions() {
        let alone = vec![Point::new(1.0, 2.0)];
        let value = written(vec![alone.clone(), alone], &serde_json::json!({}));
        let line = serde_json::json!([[2, 1], [2, 1]]);
        assert_eq!(value["geometry"]["coordinates"], serde_json::json!([line, line]));
    }
}
