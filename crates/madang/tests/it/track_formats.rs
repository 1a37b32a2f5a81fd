//! The same path as points, polyline, GeoJSON and GPX.

use crate::harness::{Answer, Madang, Server, Setup, stores};
use serde_json::Value;

const GEOJSON: &str = "application/geo+json";
const GPX: &str = "application/gpx+xml";

/// Lines of latitude and longitude.
type Lines = Vec<Vec<(f64, f64)>>;

fn serve() -> (tempfile::TempDir, Server) {
    let dir = stores::bundled();
    let server = Setup::new().data(dir.path()).start();
    (dir, server)
}

fn get_as(server: &Server, id: &Value, query: &str, accept: &str) -> Answer {
    let answer = server.get_with(&format!("/v1/tracks/{id}?{query}"), &[("Accept", accept)]);
    assert_eq!(answer.status, 200);
    answer
}

/// The pairs of a JSON array of arrays of numbers.
fn pairs(line: &Value) -> Vec<(f64, f64)> {
    let points = line.as_array().unwrap().iter();
    points.map(|point| (point[0].as_f64().unwrap(), point[1].as_f64().unwrap())).collect()
}

fn points(server: &Server, id: &Value) -> Lines {
    let track = get_as(server, id, "detail=full", "application/json").json();
    track["segments"].as_array().unwrap().iter().map(pairs).collect()
}

/// Decodes Google's encoding as its description says, apart from the program's own decoder:
/// five bits a character from 63, the sign in the lowest bit, differences of 1e-5 degrees.
fn decode_polyline(text: &str) -> Vec<(f64, f64)> {
    let mut numbers = Vec::new();
    let (mut value, mut shift) = (0i64, 0);
    for byte in text.bytes() {
        let bits = i64::from(byte) - 63;
        value |= (bits & 0x1f) << shift;
        shift += 5;
        if bits & 0x20 == 0 {
            numbers.push(if value & 1 == 1 { !(value >> 1) } else { value >> 1 });
            (value, shift) = (0, 0);
        }
    }
    assert_eq!(shift, 0, "the text ends within a number");
    let (mut lat, mut lon) = (0, 0);
    numbers
        .chunks_exact(2)
        .map(|step| {
            (lat, lon) = (lat + step[0], lon + step[1]);
            (lat as f64 / 1e5, lon as f64 / 1e5)
        })
        .collect()
}

fn are_within(a: &Lines, b: &Lines, degrees: f64) {
    assert_eq!(a.len(), b.len(), "lines");
    for (a, b) in a.iter().zip(b) {
        assert_eq!(a.len(), b.len(), "points");
        for (a, b) in a.iter().zip(b) {
            assert!((a.0 - b.0).abs() <= degrees && (a.1 - b.1).abs() <= degrees, "{a:?} {b:?}");
        }
    }
}

#[test]
fn a_polyline_decodes_to_the_same_points() {
    let (_dir, server) = serve();
    for track in server.tracks() {
        let body = get_as(&server, &track["id"], "detail=full&encoding=polyline", "*/*").json();
        assert!(body.get("segments").is_none(), "one or the other");
        let lines = body["polylines"].as_array().unwrap();
        let decoded: Lines = lines.iter().map(|l| decode_polyline(l.as_str().unwrap())).collect();
        // Five decimals: half of the last one, and what adding up to it costs.
        are_within(&decoded, &points(&server, &track["id"]), 0.5001e-5);
    }
}

#[test]
fn geojson_is_a_feature_with_longitude_first() {
    let (_dir, server) = serve();
    for track in server.tracks() {
        let answer = get_as(&server, &track["id"], "detail=full&encoding=polyline", GEOJSON);
        assert_eq!(answer.header("content-type"), Some(GEOJSON));
        let feature = answer.json();
        assert_eq!(feature["type"], "Feature");
        for field in ["name", "lengthMetres", "pointsTotal"] {
            assert_eq!(feature["properties"][field], track[field]);
        }
        let geometry = &feature["geometry"];
        let coordinates = &geometry["coordinates"];
        let lines: Vec<&Value> = match geometry["type"].as_str().unwrap() {
            "LineString" => vec![coordinates],
            "MultiLineString" => coordinates.as_array().unwrap().iter().collect(),
            other => panic!("{other}"),
        };
        // A line needs two positions there (RFC 7946, 3.1.4): a segment of one point has it twice.
        let mut wanted = points(&server, &track["id"]);
        for line in wanted.iter_mut().filter(|line| line.len() == 1) {
            line.extend_from_within(..);
        }
        let swapped: Lines = lines
            .iter()
            .map(|line| pairs(line).into_iter().map(|(lon, lat)| (lat, lon)).collect())
            .collect();
        assert_eq!(swapped, wanted);
    }
}

#[test]
fn gpx_and_geojson_import_again_as_the_same_tracks() {
    let (_dir, server) = serve();
    for (accept, ending) in [(GPX, "gpx"), (GEOJSON, "geojson")] {
        let (files, again) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tracks = server.tracks();
        let paths: Vec<_> = tracks
            .iter()
            .map(|track| {
                let answer = get_as(&server, &track["id"], "detail=full", accept);
                assert_eq!(answer.header("content-type"), Some(accept));
                let path = files.path().join(format!("{}.{ending}", track["id"]));
                std::fs::write(&path, &answer.body).unwrap();
                path
            })
            .collect();
        Madang::import(again.path(), paths).succeeds();
        let second = Setup::new().data(again.path()).start();
        for (a, b) in tracks.iter().zip(second.tracks()) {
            assert_eq!(a["name"], b["name"]);
            let (wanted, mut found) = (points(&server, &a["id"]), points(&second, &b["id"]));
            for (line, point) in found.iter_mut().zip(&wanted).filter(|(_, w)| w.len() == 1) {
                // Doubled by GeoJSON, which has no line of one point.
                assert!(line.iter().all(|doubled| doubled == &point[0]));
                line.truncate(1);
            }
            are_within(&wanted, &found, 1e-7);
        }
    }
}

#[test]
fn a_track_of_many_lines_keeps_them_in_every_format() {
    let (_dir, server) = serve();
    let id = Value::from(server.track_of(1243));
    for detail in ["full", "medium", "low"] {
        let query = format!("detail={detail}");
        let json = get_as(&server, &id, &query, "*/*").json();
        assert_eq!(json["segments"].as_array().unwrap().len(), 14);
        let json = get_as(&server, &id, &format!("{query}&encoding=polyline"), "*/*").json();
        assert_eq!(json["polylines"].as_array().unwrap().len(), 14);
        let geojson = get_as(&server, &id, &query, GEOJSON).json();
        assert_eq!(geojson["geometry"]["coordinates"].as_array().unwrap().len(), 14);
        let gpx = get_as(&server, &id, &query, GPX).text();
        assert_eq!(gpx.matches("<trkseg>").count(), 14);
    }
}

#[test]
fn the_media_type_follows_the_weights_of_the_client() {
    let (_dir, server) = serve();
    let id = Value::from(server.track_of(184));
    for (accept, wanted) in [
        ("*/*", "application/json"),
        ("text/html", "application/json"),
        ("application/gpx+xml;q=0.5, application/geo+json", GEOJSON),
        ("application/gpx+xml, application/geo+json;q=0.5", GPX),
        ("application/json;q=0, application/gpx+xml;q=0.1", GPX),
        (";;q=,,,", "application/json"),
    ] {
        let answer = get_as(&server, &id, "", accept);
        assert_eq!(answer.header("content-type"), Some(wanted), "{accept}");
    }
}
