//! The JSON array of points for API responses.

use crate::number::{push_degrees, push_metres};
use crate::path::Path;
use crate::point::Point;

/// Appends `[[[lat,lon,ele?],…],…]`: one array for each segment, **latitude first**, the elevation
/// left out of a point that has none. Up to 7 decimals for degrees, 2 for metres.
pub fn points_json(path: &Path, out: &mut Vec<u8>) {
    push_lines(path, out, |point, out| {
        push_position([point.lat, point.lon], point.ele, out);
    });
}

/// Appends every segment as an array of what `push` appends.
pub(crate) fn push_lines(path: &Path, out: &mut Vec<u8>, push: impl Fn(&Point, &mut Vec<u8>)) {
    /// Bytes of a point with elevation, so that the buffer grows once.
    const POINT: usize = 35;
    out.reserve(path.points() * POINT + path.segments().len() * 3 + 2);
    push_array(path.segments(), out, |segment, out| push_array(segment, out, &push));
}

/// Appends a JSON array of what `push` appends for each item.
pub(crate) fn push_array<T>(items: &[T], out: &mut Vec<u8>, push: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push(item, out);
    }
    out.push(b']');
}

/// Appends `[first,second,ele?]`.
pub(crate) fn push_position(degrees: [f64; 2], ele: Option<f64>, out: &mut Vec<u8>) {
    out.push(b'[');
    push_degrees(degrees[0], out);
    out.push(b',');
    push_degrees(degrees[1], out);
    if let Some(ele) = ele {
        out.push(b',');
        push_metres(ele, out);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_latitude_first_and_grouped_by_segment() {
        let path = Path::new(vec![
            vec![Point::new(37.5, 127.0).at_elevation(12.345), Point::new(37.6, 127.1)],
            vec![Point::new(-1.0, -2.0).at_elevation(0.0)],
        ])
        .unwrap();
        let mut out = b"x".to_vec();
        points_json(&path, &mut out);
        let expected = "x[[[37.5,127,12.35],[37.6,127.1]],[[-1,-2,0]]]";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
