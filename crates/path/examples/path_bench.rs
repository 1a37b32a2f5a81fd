//! Times of reading, simplifying and writing a track.
//!
//! `cargo run --release -p madang-path --example path_bench -- FILE [TOLERANCE_METRES]`
//!
//! Each figure is the median of at least 21 runs in this process, and of as many as fit in half a
//! second. For comparison the path is also simplified by a plain recursive Ramer–Douglas–Peucker on
//! an equirectangular projection, its usual form; the last column is the ratio to it. The projection
//! is wrong over the antimeridian and near the poles.

use std::hint::black_box;
use std::time::{Duration, Instant};

use madang_path::{
    EARTH_RADIUS_METRES, Limits, Path, Point, compact, geojson, gpx, polyline, read, simplify,
    write,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        return Err("usage: path_bench FILE [TOLERANCE_METRES]".into());
    };
    let tolerance: f64 = arguments.next().map_or(Ok(10.0), |text| text.parse())?;
    let bytes = std::fs::read(&file)?;
    let limits = Limits::default();
    let path = read(&bytes, &limits)?.path;
    let short = simplify::metres(&path, tolerance)?;
    println!(
        "{file}: {} bytes, {} points in {} segments, {:.1} km; {} points at {tolerance} m",
        bytes.len(),
        path.points(),
        path.segments().len(),
        path.length_metres() / 1000.0,
        short.points(),
    );

    let plain = median(|| Path::new(projected(&path, tolerance)));
    let compare = |name: &str, time: Duration| {
        let ratio = time.as_secs_f64() / plain.as_secs_f64();
        println!("{name:36} {:10.1} µs {ratio:8.2}", time.as_secs_f64() * 1e6);
    };
    println!("{:36} {:>13} {:>8}", "", "median", "ratio");
    compare("simplify, plain and projected", plain);
    compare("simplify::metres", median(|| simplify::metres(&path, tolerance)));
    compare("simplify::degrees(0.0005)", median(|| simplify::degrees(&path, 0.0005)));
    compare("read", median(|| read(&bytes, &limits)));
    compare("length_metres", median(|| path.length_metres()));
    compare("write::points_json", written(|out| write::points_json(&path, out)));
    compare("geojson::write", written(|out| geojson::write(&path, &serde_json::Map::new(), out)));
    compare("gpx::write", written(|out| gpx::write(None, &path, out)));
    let encode = || path.segments().iter().map(|s| polyline::encode(s, 5)).collect::<Vec<_>>();
    compare("polyline::encode", median(encode));
    let stored = compact::encode(&path);
    compare("compact::encode", median(|| compact::encode(&path)));
    compare("compact::decode", median(|| compact::decode(&stored)));
    compare("serde_json of nested arrays", written(|out| general_json(&path, out)));

    let mut json = Vec::new();
    write::points_json(&path, &mut json);
    println!("{} bytes as JSON, {} as compact", json.len(), stored.len());

    let hostile = fading_zigzag(limits.max_points / 2)?;
    let time = median(|| simplify::metres(&hostile, 1.0));
    println!("{} points of a fading zigzag: {:.0} ms", hostile.points(), time.as_secs_f64() * 1e3);
    Ok(())
}

fn median<T>(mut run: impl FnMut() -> T) -> Duration {
    const AT_LEAST: usize = 21;
    const LONG_ENOUGH: Duration = Duration::from_millis(500);
    let began = Instant::now();
    let mut times = Vec::new();
    while times.len() < AT_LEAST || began.elapsed() < LONG_ENOUGH {
        let start = Instant::now();
        black_box(run());
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

fn written(write: impl Fn(&mut Vec<u8>)) -> Duration {
    median(|| {
        let mut out = Vec::new();
        write(&mut out);
        out
    })
}

fn general_json(path: &Path, out: &mut Vec<u8>) {
    let position = |point: &Point| match point.ele {
        Some(ele) => vec![point.lat, point.lon, ele],
        None => vec![point.lat, point.lon],
    };
    let lines: Vec<Vec<Vec<f64>>> =
        path.segments().iter().map(|line| line.iter().map(position).collect()).collect();
    serde_json::to_writer(out, &lines).expect("numbers are finite");
}

/// Ramer–Douglas–Peucker as in a textbook, with x scaled by the cosine of the mean latitude.
fn projected(path: &Path, tolerance: f64) -> Vec<Vec<Point>> {
    let latitudes = || path.segments().iter().flatten().map(|point| point.lat);
    let (south, north) = (latitudes().fold(90.0, f64::min), latitudes().fold(-90.0, f64::max));
    let scale = ((north + south) / 2.0).to_radians().cos();
    let metres = EARTH_RADIUS_METRES.to_radians();
    let simplified = |line: &Vec<Point>| {
        let plane: Vec<(f64, f64)> =
            line.iter().map(|p| (p.lon * scale * metres, p.lat * metres)).collect();
        let mut keep = vec![false; line.len()];
        keep[0] = true;
        keep[line.len() - 1] = true;
        divide(&plane, 0, line.len() - 1, tolerance, &mut keep);
        line.iter().zip(keep).filter(|(_, keep)| *keep).map(|(point, _)| *point).collect()
    };
    path.segments().iter().map(simplified).collect()
}

fn divide(plane: &[(f64, f64)], a: usize, b: usize, tolerance: f64, keep: &mut [bool]) {
    let mut farthest = (a, 0.0);
    for i in a + 1..b {
        let distance = distance_to_line(plane[i], plane[a], plane[b]);
        if distance > farthest.1 {
            farthest = (i, distance);
        }
    }
    if farthest.1 > tolerance {
        keep[farthest.0] = true;
        divide(plane, a, farthest.0, tolerance, keep);
        divide(plane, farthest.0, b, tolerance, keep);
    }
}

fn distance_to_line(p: (f64, f64), a: (f64, f64), b: (f64, f64)) -> f64 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let square = dx * dx + dy * dy;
    let along = if square > 0.0 {
        (((p.0 - a.0) * dx + (p.1 - a.1) * dy) / square).clamp(0.0, 1.0)
    } else {
        0.0
    };
    (p.0 - a.0 - along * dx).hypot(p.1 - a.1 - along * dy)
}

/// A line whose farthest point is always the next one: the worst case of the method.
fn fading_zigzag(points: usize) -> Result<Path, madang_path::InvalidPath> {
    let line = (0..points).map(|i| {
        let side = if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        let fading = 1.0 - i as f64 / points as f64;
        Point::new(37.0 + side * fading * 0.1, 127.0 + i as f64 * 1e-5)
    });
    Path::new(vec![line.collect()])
}
