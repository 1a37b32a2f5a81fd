//! Damaged and hostile files: each gives a valid path or an error, never a panic.

use madang_path::{Limits, ReadError, compact, geojson, gpx, read};

use crate::files::bundled_track;

/// Small tracks of both formats, so that thousands of damaged copies take seconds.
const TRACKS: [&str; 5] = [
    "be_small_tracks_and_segments.gpx",
    "cn_kr_dali_seoul_sparse.gpx",
    "synthetic_antimeridian.gpx",
    "us_ecology_trail_route_only.gpx",
    "world_vendee_globe_antimeridian.geojson",
];

/// Reads with all three readers, and checks that the result is valid.
fn survives(bytes: &[u8]) {
    let limits = Limits { max_points: 10_000, ..Limits::default() };
    for document in [read(bytes, &limits), gpx::read(bytes, &limits), geojson::read(bytes, &limits)]
    {
        match document {
            Ok(document) => {
                let points = document.path.segments().iter().flatten();
                assert!(points.clone().all(|point| point.check().is_ok()));
                assert_eq!(points.count(), document.path.points());
                assert!(document.path.length_metres().is_finite());
                assert!(document.name.is_none_or(|name| name.chars().count() <= 200));
            }
            Err(error) => assert!(error.to_string().len() < 1_000, "{error}"),
        }
    }
}

/// Damages at random: bytes flipped, cut or doubled, or markup inserted.
fn damage(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    const MARKUP: [&[u8]; 14] = [
        b"<", b">", b"</", b"\"", b"'", b"&", b"&#x;", b"<![CDATA[", b"<!--", b"<!DOCTYPE x [",
        b"[", b"{", b"1e999", b"\xFF\xFE",
    ];
    let at = random.usize(..bytes.len().max(1)).min(bytes.len());
    let end = (at + random.usize(1..200)).min(bytes.len());
    match random.u8(..5) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
        1 => bytes.truncate(at),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        _ => drop(bytes.splice(at..at, random.choice(MARKUP).unwrap_or(b"").iter().copied())),
    }
}

#[test]
fn damaged_copies_of_real_tracks_end_in_a_path_or_a_reason() {
    let mut random = fastrand::Rng::with_seed(0x006d_6164);
    for file in TRACKS {
        let whole = bundled_track(file);
        for _ in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..4) {
                damage(&mut bytes, &mut random);
            }
            survives(&bytes);
        }
    }
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    for file in ["synthetic_antimeridian.gpx", "world_vendee_globe_antimeridian.geojson"] {
        let whole = bundled_track(file);
        let content = whole.trim_ascii_end().len();
        for end in (0..content).step_by(37).chain(content - 20..content) {
            let error = read(&whole[..end], &Limits::default());
            assert!(error.is_err(), "{file} cut at {end} reads");
        }
        assert!(read(&whole[..content], &Limits::default()).is_ok());
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut random = fastrand::Rng::with_seed(7);
    for length in 0..2_000 {
        let mut bytes: Vec<u8> = (0..length % 97).map(|_| random.u8(..)).collect();
        survives(&bytes);
        assert!(read(&bytes, &Limits::default()).is_err());
        if let Some(first) = bytes.first_mut() {
            *first = if length % 2 == 0 { b'<' } else { b'{' };
            survives(&bytes);
        }
    }
}

#[test]
fn damaged_storage_ends_in_a_path_or_a_reason() {
    let mut random = fastrand::Rng::with_seed(11);
    let path = read(&bundled_track(TRACKS[0]), &Limits::default()).unwrap().path;
    let whole = compact::encode(&path);
    for _ in 0..5_000 {
        let mut bytes = whole.clone();
        damage(&mut bytes, &mut random);
        if let Ok(path) = compact::decode(&bytes) {
            assert!(path.segments().iter().flatten().all(|point| point.check().is_ok()));
        }
    }
}

/// Megabytes of one construct are read in linear time. A reader that looks back at every step takes
/// hours here.
#[test]
fn megabytes_of_one_construct_are_read_in_one_pass() {
    const MANY: usize = 300_000;
    let attributes: String = (0..MANY).map(|i| format!(" a{i}='1'")).collect();
    let line = r#"<trk><trkseg><trkpt lat="1" lon="2"/><trkpt lat="3" lon="4"/></trkseg></trk>"#;
    let gpx = |before: &str| format!("<gpx>{before}{line}</gpx>");
    for text in [
        gpx(&format!("<x{attributes}/>")),
        gpx(&"<trk/>".repeat(MANY)),
        gpx(&"<!---->".repeat(MANY)),
        gpx(&"<name>a</name>".repeat(MANY)),
        gpx(&format!("<name>{}</name>", "&amp;".repeat(MANY))),
        gpx(&format!("<trk><trkseg>{}</trkseg></trk>", "<trkpt lat='1' lon='2'/>".repeat(100_000))),
    ] {
        assert!(gpx::read(text.as_bytes(), &Limits::default()).is_ok(), "{}", &text[..60]);
    }
    let json =
        |members: &str| format!(r#"{{{members}"type":"LineString","coordinates":[[1,2],[3,4]]}}"#);
    for text in [
        json(&r#""type":"Feature","#.repeat(MANY)),
        json(&r#""coordinates":[[1,2],[3,4]],"#.repeat(MANY)),
        json(&format!(r#""features":[{}null],"#, "{},".repeat(MANY))),
        json(&format!(r#""properties":{{"name":"{}"}},"#, "\\n".repeat(MANY))),
    ] {
        assert!(geojson::read(text.as_bytes(), &Limits::default()).is_ok(), "{}", &text[..60]);
    }
    let open = format!("<gpx>{}", "<trk><trkseg>".repeat(MANY));
    assert!(matches!(
        gpx::read(open.as_bytes(), &Limits::default()),
        Err(ReadError::TooDeep { .. })
    ));
}
