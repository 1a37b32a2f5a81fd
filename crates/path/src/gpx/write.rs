//! Writing GPX 1.1.

use crate::number::{push_degrees, push_metres};
use crate::path::Path;

/// Appends a GPX 1.1 file of one track, with one `<trkseg>` for each segment.
///
/// Coordinates have up to 7 decimals (11 mm), elevations up to 2. Characters that XML 1.0 cannot
/// represent are left out of the name.
pub fn write(name: Option<&str>, path: &Path, out: &mut Vec<u8>) {
    /// Bytes of a point with elevation, so that the buffer grows once.
    const POINT: usize = 70;
    out.reserve(300 + path.points() * POINT);
    out.extend_from_slice(
        b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
          <gpx version=\"1.1\" creator=\"Madang\" xmlns=\"http://www.topografix.com/GPX/1/1\">\n<trk>",
    );
    if let Some(name) = name {
        out.extend_from_slice(b"<name>");
        push_escaped(name, out);
        out.extend_from_slice(b"</name>");
    }
    out.push(b'\n');
    for segment in path.segments() {
        out.extend_from_slice(b"<trkseg>\n");
        for point in segment {
            out.extend_from_slice(b"<trkpt lat=\"");
            push_degrees(point.lat, out);
            out.extend_from_slice(b"\" lon=\"");
            push_degrees(point.lon, out);
            match point.ele {
                Some(ele) => {
                    out.extend_from_slice(b"\"><ele>");
                    push_metres(ele, out);
                    out.extend_from_slice(b"</ele></trkpt>\n");
                }
                None => out.extend_from_slice(b"\"/>\n"),
            }
        }
        out.extend_from_slice(b"</trkseg>\n");
    }
    out.extend_from_slice(b"</trk>\n</gpx>\n");
}

fn push_escaped(text: &str, out: &mut Vec<u8>) {
    for c in text.chars() {
        match c {
            '&' => out.extend_from_slice(b"&amp;"),
            '<' => out.extend_from_slice(b"&lt;"),
            // `]]>` is not allowed in text (XML 1.0, section 2.4).
            '>' => out.extend_from_slice(b"&gt;"),
            // A reader would turn a bare carriage return into a line feed (section 2.11).
            '\r' => out.extend_from_slice(b"&#13;"),
            // Not in the production Char of section 2.2.
            '\0'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => {}
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Point};

    #[test]
    fn what_is_written_reads_back_with_its_segments_and_name() {
        let path = Path::new(vec![
            vec![Point::new(33.25, 126.5).at_elevation(-1.25), Point::new(33.26, -126.500_000_1)],
            vec![Point::new(-90.0, 180.0), Point::new(0.0, -0.0)],
        ])
        .unwrap();
        for name in ["올레 <1> & \"두\" ]]> 😀", "a\u{0}b\u{FFFF}"] {
            let mut file = Vec::new();
            write(Some(name), &path, &mut file);
            let document = crate::gpx::read(&file, &Limits::default()).unwrap();
            assert_eq!(document.path, path);
            let expected = name.replace(['\0', '\u{FFFF}'], "");
            assert_eq!(document.name.as_deref(), Some(expected.as_str()));
        }
        let mut file = Vec::new();
        write(Some("a]]>b"), &path, &mut file);
        assert!(file.windows(8).any(|window| window == b"a]]&gt;b"), "`]]>` stands in text");
        let mut file = b"before".to_vec();
        write(None, &path, &mut file);
        assert!(file.starts_with(b"before<?xml "));
        assert_eq!(crate::gpx::read(&file[6..], &Limits::default()).unwrap().name, None);
    }
}
