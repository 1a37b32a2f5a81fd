//! Prints the outlines of the 17 provinces (시도) as GeoJSON, small enough for a web page, from the
//! municipalities of Statistics Korea.
//!
//! ```text
//! cargo run -p madang-service --example province_outlines -- MUNICIPALITIES.json > data/regions/sido_2018_outlines.geojson
//! ```
//! `MUNICIPALITIES.json` is `kostat/2018/json/skorea-municipalities-2018-topo-simple.json` of
//! github.com/southkorea/southkorea-maps (commit fe65e05e54). It is TopoJSON: a border that two areas
//! share is one arc. So a province is dissolved by dropping the arcs that two of its own municipalities
//! share, and since each arc that is left is simplified once, neighbours still meet without a gap.

use madang_path::{Path, Point, simplify};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;

/// No point of a border moves by more.
const TOLERANCE_METRES: f64 = 850.0;
/// Smaller islands are left out, unless a province had none left.
const SMALLEST_KM2: f64 = 10.0;
const METRES_PER_DEGREE: f64 = madang_path::EARTH_RADIUS_METRES * std::f64::consts::PI / 180.0;
/// Names and codes of the provinces.
const PROVINCES: &str = include_str!("../../../data/regions/sido_2018_centroids.csv");

type Ring = Vec<Point>;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: province_outlines MUNICIPALITIES.json")?;
    let topology: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let arcs = arcs(&topology).ok_or("this is no TopoJSON with a transform")?;
    let provinces = borders(&topology).ok_or("this is no collection of municipalities")?;
    println!("{{\"type\":\"FeatureCollection\",\"features\":[");
    let mut separator = "";
    for row in PROVINCES.lines().skip(1) {
        let mut cells = row.split(',');
        let (Some(code), Some(name), Some(english)) = (cells.next(), cells.next(), cells.next())
        else {
            return Err(format!("unexpected row {row:?}").into());
        };
        let border = provinces.get(code).ok_or_else(|| format!("no municipality of {name}"))?;
        let polygons: Vec<Value> =
            large(rings(border, &arcs)).iter().map(|ring| json!([positions(ring)])).collect();
        let feature = json!({
            "type": "Feature",
            "properties": {"code": code, "name": name, "name_eng": english},
            "geometry": {"type": "MultiPolygon", "coordinates": polygons},
        });
        print!("{separator}{feature}");
        separator = ",\n";
    }
    println!("\n]}}");
    Ok(())
}

/// Every arc in degrees, simplified: differences of whole steps become positions.
fn arcs(topology: &Value) -> Option<Vec<Ring>> {
    let pair = |value: &Value| Some((value.get(0)?.as_f64()?, value.get(1)?.as_f64()?));
    let scale = pair(&topology["transform"]["scale"])?;
    let origin = pair(&topology["transform"]["translate"])?;
    let arc = |steps: &Value| {
        let (mut x, mut y) = (0.0, 0.0);
        let mut points = Vec::new();
        for step in steps.as_array()? {
            let (dx, dy) = pair(step)?;
            (x, y) = (x + dx, y + dy);
            points.push(Point::new(origin.1 + y * scale.1, origin.0 + x * scale.0));
        }
        let path = simplify::metres(&Path::new(vec![points]).ok()?, TOLERANCE_METRES).ok()?;
        path.segments().last().cloned()
    };
    topology["arcs"].as_array()?.iter().map(arc).collect()
}

/// The directed arcs around each province, by its code. Those between two of its municipalities are
/// there twice, once in each direction, and go.
fn borders(topology: &Value) -> Option<BTreeMap<String, Vec<i64>>> {
    let mut counts: BTreeMap<String, HashMap<i64, i64>> = BTreeMap::new();
    let geometries = topology["objects"].as_object()?.values().next()?["geometries"].as_array()?;
    for municipality in geometries {
        let code = municipality["properties"]["code"].as_str()?.get(..2)?;
        let arcs = counts.entry(code.to_owned()).or_default();
        let polygons = municipality["arcs"].as_array()?.iter();
        for ring in polygons.filter_map(Value::as_array).flatten() {
            for arc in ring.as_array()? {
                // `!n` is arc n run backwards.
                let arc = arc.as_i64()?;
                *arcs.entry(arc.max(!arc)).or_default() += if arc < 0 { -1 } else { 1 };
            }
        }
    }
    let outer = |arcs: HashMap<i64, i64>| {
        let mut outer: Vec<i64> = arcs
            .into_iter()
            .filter(|(_, count)| *count != 0)
            .map(|(arc, count)| if count < 0 { !arc } else { arc })
            .collect();
        outer.sort_unstable();
        outer
    };
    Some(counts.into_iter().map(|(code, arcs)| (code, outer(arcs))).collect())
}

/// Joins directed arcs, end to start, into closed rings.
fn rings(border: &[i64], arcs: &[Ring]) -> Vec<Ring> {
    let points = |arc: i64| -> Ring {
        let line = usize::try_from(arc.max(!arc)).ok().and_then(|at| arcs.get(at));
        let mut line = line.cloned().unwrap_or_default();
        if arc < 0 {
            line.reverse();
        }
        line
    };
    let spot = |point: &Point| (point.lat.to_bits(), point.lon.to_bits());
    let mut open: Vec<Ring> = border.iter().map(|arc| points(*arc)).collect();
    let mut closed = Vec::new();
    while let Some(mut ring) = open.pop() {
        while let (Some(first), Some(last)) = (ring.first(), ring.last()) {
            if spot(first) == spot(last) {
                break;
            }
            let next = open.iter().position(|l| l.first().map(spot) == Some(spot(last)));
            let Some(next) = next else { break };
            ring.extend_from_slice(&open.swap_remove(next)[1..]);
        }
        closed.push(ring);
    }
    closed
}

/// The largest ring, and all others that are large enough.
fn large(mut rings: Vec<Ring>) -> Vec<Ring> {
    rings.sort_by(|a, b| area_km2(b).total_cmp(&area_km2(a)));
    let count = rings.iter().take_while(|ring| area_km2(ring) >= SMALLEST_KM2).count();
    rings.truncate(count.max(1));
    rings
}

/// Shoelace formula on degrees made square at the ring's first latitude: good enough to sort islands.
fn area_km2(ring: &Ring) -> f64 {
    let kilometre = METRES_PER_DEGREE / 1000.0;
    let width = ring.first().map_or(0.0, |point| point.lat.to_radians().cos());
    let twice: f64 =
        ring.windows(2).map(|pair| pair[0].lon * pair[1].lat - pair[1].lon * pair[0].lat).sum();
    (twice / 2.0).abs() * width * kilometre * kilometre
}

/// GeoJSON positions, longitude first, to a thousandth of a degree: about 100 m.
fn positions(ring: &Ring) -> Vec<Value> {
    let round = |degrees: f64| (degrees * 1000.0).round() / 1000.0;
    ring.iter().map(|point| json!([round(point.lon), round(point.lat)])).collect()
}
