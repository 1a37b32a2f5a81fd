//! The guarantees of simplification, measured by other means than its own.

use madang_path::simplify::{InvalidTolerance, degrees, metres};
use madang_path::{EARTH_RADIUS_METRES, Path, Point};
use proptest::prelude::*;

/// The point `metres` away from `from` in the direction `bearing`, both in degrees.
fn walk(from: &Point, bearing: f64, metres: f64) -> Point {
    let (lat, angle) = (from.lat.to_radians(), metres / EARTH_RADIUS_METRES);
    let bearing = bearing.to_radians();
    let sin = lat.sin() * angle.cos() + lat.cos() * angle.sin() * bearing.cos();
    let east = bearing.sin() * angle.sin() * lat.cos();
    let lon = from.lon.to_radians() + east.atan2(angle.cos() - lat.sin() * sin);
    let lon = (lon.to_degrees() + 540.0).rem_euclid(360.0) - 180.0;
    Point::new(sin.clamp(-1.0, 1.0).asin().to_degrees(), lon)
}

/// Distance in metres from `p` to the great-circle arc from `a` to `b`, all within a quarter of the
/// Earth. In the gnomonic projection centred on `p` (Snyder 1987, equations 22-4 and 22-5) the arc
/// is a straight line, and what is nearer to the centre on the map is nearer on the ground.
fn metres_to_arc(p: &Point, a: &Point, b: &Point) -> f64 {
    let project = |q: &Point| {
        let (sin_p, cos_p) = p.lat.to_radians().sin_cos();
        let (sin_q, cos_q) = q.lat.to_radians().sin_cos();
        let (sin_lon, cos_lon) = (q.lon - p.lon).to_radians().sin_cos();
        let scale = sin_p * sin_q + cos_p * cos_q * cos_lon;
        assert!(scale > 0.0, "{p:?} and {q:?} are on different halves of the Earth");
        (cos_q * sin_lon / scale, (cos_p * sin_q - sin_p * cos_q * cos_lon) / scale)
    };
    let (a, b) = (project(a), project(b));
    EARTH_RADIUS_METRES * distance_to_line(a, b).atan()
}

/// Distance from the origin to the line from `a` to `b`, by bisection of its slope.
fn distance_to_line(a: (f64, f64), b: (f64, f64)) -> f64 {
    let at = |t: f64| (a.0 + t * (b.0 - a.0), a.1 + t * (b.1 - a.1));
    let rises = |t: f64| {
        let (x, y) = at(t);
        x * (b.0 - a.0) + y * (b.1 - a.1) > 0.0
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if rises(middle) { high = middle } else { low = middle }
    }
    // The ends are exact where the middle of a bisection is not.
    [0.0, low, 1.0].map(|t| at(t).0.hypot(at(t).1)).into_iter().fold(f64::INFINITY, f64::min)
}

/// Gives every point its index as elevation, which simplification must carry and not look at.
fn numbered(mut points: Vec<Point>) -> Vec<Point> {
    for (index, point) in points.iter_mut().enumerate() {
        point.ele = Some(index as f64);
    }
    points
}

fn number(point: &Point) -> usize {
    point.ele.expect("numbered") as usize
}

/// Checks all guarantees for one segment; `deviation` measures from a point to the line of two others.
fn keeps_its_promises(
    line: &[Point],
    simplify: impl Fn(&Path) -> Path,
    limit: f64,
    deviation: impl Fn(&Point, &Point, &Point) -> f64,
) -> Path {
    let path = Path::new(vec![line.to_vec()]).unwrap();
    let short = simplify(&path);
    let kept = &short.segments()[0];
    assert!(kept.len() <= line.len());
    assert!(kept.iter().all(|point| line[number(point)] == *point), "a point was made up");
    assert_eq!((number(&kept[0]), number(&kept[kept.len() - 1])), (0, line.len() - 1));
    for pair in kept.windows(2) {
        assert!(number(&pair[0]) < number(&pair[1]), "points changed their order");
        for left_out in &line[number(&pair[0])..number(&pair[1])] {
            let deviation = deviation(left_out, &pair[0], &pair[1]);
            assert!(deviation <= limit, "{left_out:?} is {deviation} from {pair:?}");
        }
    }
    assert_eq!(simplify(&short), short, "not idempotent");
    short
}

/// Starts of walks: latitudes with different lengths of a degree, a city near the antimeridian, one
/// step from either pole, and a pole.
const STARTS: [(f64, f64); 8] = [
    (0.0, 0.0),
    (45.0, 10.0),
    (69.0, 19.0),
    (-44.0, 179.9999),
    (89.9999, 30.0),
    (-89.9999, -120.0),
    (90.0, 0.0),
    (37.5, -180.0),
];

fn walks() -> impl Strategy<Value = Vec<Point>> {
    // Mostly onward, sometimes anywhere, sometimes standing still or back to the beginning.
    let step = prop_oneof![
        6 => (-40.0..40.0f64, 0.5..60.0f64).prop_map(Some),
        2 => (-180.0..180.0f64, 0.01..200.0f64).prop_map(Some),
        1 => Just(Some((0.0, 0.0))),
        1 => Just(None),
    ];
    (prop::sample::select(&STARTS[..]), prop::collection::vec(step, 1..80)).prop_map(
        |((lat, lon), steps)| {
            let mut points = vec![Point::new(lat, lon)];
            let mut heading = 60.0;
            for step in steps {
                let last = points[points.len() - 1];
                points.push(match step {
                    Some((_, 0.0)) => last,
                    Some((turn, metres)) => {
                        heading += turn;
                        walk(&last, heading, metres)
                    }
                    None => points[0],
                });
            }
            numbered(points)
        },
    )
}

proptest! {
    #[test]
    fn every_point_left_out_is_within_the_metres_at_any_latitude(
        line in walks(),
        tolerance in prop_oneof![Just(2.0), Just(10.0), Just(50.0), 0.001..500.0f64],
    ) {
        let simplify = |path: &Path| metres(path, tolerance).unwrap();
        keeps_its_promises(&line, simplify, tolerance + 0.001, metres_to_arc);
    }

    #[test]
    fn arcs_of_thousands_of_kilometres_are_great_circles(
        start in prop::sample::select(&STARTS[..]),
        steps in prop::collection::vec((0.0..360.0f64, 1e3..400e3f64), 2..15),
        tolerance in 100.0..200e3f64,
    ) {
        let mut points = vec![Point::new(start.0, start.1)];
        for (bearing, metres) in steps {
            points.push(walk(&points[points.len() - 1], bearing, metres));
        }
        let simplify = |path: &Path| metres(path, tolerance).unwrap();
        keeps_its_promises(&numbered(points), simplify, tolerance + 0.001, metres_to_arc);
    }

    #[test]
    fn every_point_left_out_is_within_the_degrees_of_the_raw_line(
        line in walks(),
        tolerance in 0.000_01..0.01f64,
    ) {
        let flat = |p: &Point, a: &Point, b: &Point| {
            let from_p = |q: &Point| (q.lon - p.lon, q.lat - p.lat);
            distance_to_line(from_p(a), from_p(b))
        };
        let simplify = |path: &Path| degrees(path, tolerance).unwrap();
        keeps_its_promises(&line, simplify, tolerance + 1e-12, flat);
    }
}

#[test]
fn points_on_a_great_circle_go_and_points_on_a_parallel_do_not() {
    // Along the equator and along a meridian over the pole: both are great circles.
    let equator: Vec<Point> = (0..100).map(|i| Point::new(0.0, f64::from(i) / 100.0)).collect();
    let over_the_pole: Vec<Point> = (0..=20)
        .map(|i| match f64::from(i) - 10.0 {
            short if short <= 0.0 => Point::new(90.0 + short * 0.1, 30.0),
            past => Point::new(90.0 - past * 0.1, -150.0),
        })
        .collect();
    for line in [equator, over_the_pole] {
        let short = metres(&Path::new(vec![line]).unwrap(), 0.001).unwrap();
        assert_eq!(short.points(), 2);
    }
    // Ten degrees along 60° N leave the great circle by 10.5 km at the middle.
    let parallel: Vec<Point> = (0..=100).map(|i| Point::new(60.0, f64::from(i) / 10.0)).collect();
    let sagitta = metres_to_arc(&parallel[50], &parallel[0], &parallel[100]);
    assert!((10_400.0..10_600.0).contains(&sagitta), "{sagitta}");
    let parallel = Path::new(vec![parallel]).unwrap();
    assert_eq!(metres(&parallel, sagitta + 0.001).unwrap().points(), 2);
    assert_eq!(metres(&parallel, sagitta - 0.001).unwrap().points(), 3);
}

#[test]
fn the_antimeridian_is_a_place_like_any_other_in_metres_only() {
    let line = |west: f64| -> Path {
        let points = (0..200).map(|i| {
            let lon = west + f64::from(i) * 1e-3;
            let lat = 10.0 + f64::from(i % 7) * 1e-4;
            Point::new(lat, if lon > 180.0 { lon - 360.0 } else { lon })
        });
        Path::new(vec![points.collect()]).unwrap()
    };
    let (here, there) = (line(20.0), line(179.9));
    for tolerance in [5.0, 20.0, 60.0] {
        let here = metres(&here, tolerance).unwrap().points();
        assert_eq!(metres(&there, tolerance).unwrap().points(), here, "{tolerance} m");
    }
    assert_eq!(degrees(&here, 0.001).unwrap().points(), 2);
    assert!(degrees(&there, 0.001).unwrap().points() > 2);
}

#[test]
fn antipodes_and_a_loop_back_to_the_start_are_handled() {
    let far = [Point::new(10.0, 0.0), Point::new(50.0, 70.0), Point::new(-10.0, 180.0)];
    let far = Path::new(vec![far.to_vec()]).unwrap();
    assert_eq!(metres(&far, 1000.0).unwrap(), far);
    assert_eq!(metres(&far, 1e9).unwrap().points(), 2);
    let loop_of = |metres: f64| {
        let start = Point::new(37.5, 127.0);
        let points = (0..=36).map(|i| walk(&start, f64::from(i) * 10.0, metres));
        let mut points: Vec<Point> = points.collect();
        points[36] = points[0];
        Path::new(vec![points]).unwrap()
    };
    assert_eq!(metres(&loop_of(4.9), 10.0).unwrap().points(), 2);
    assert!(metres(&loop_of(100.0), 10.0).unwrap().points() > 8);
}

#[test]
fn a_hundred_thousand_equal_points_leave_the_two_ends() {
    let standing = vec![Point::new(37.5, 127.0); 100_000];
    let path = Path::new(vec![numbered(standing)]).unwrap();
    for tolerance in [0.0, 10.0] {
        let short = metres(&path, tolerance).unwrap();
        assert_eq!((short.points(), short.start(), short.end()), (2, path.start(), path.end()));
        assert_eq!(degrees(&path, tolerance).unwrap(), short);
    }
}

#[test]
fn a_tolerance_of_nothing_removes_repeated_points_only() {
    let spots =
        [(0.0, 0.0), (0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (0.0, 2.0), (0.0, 1.0), (0.0, 1.0)];
    let line = numbered(spots.iter().map(|&(lat, lon)| Point::new(lat, lon)).collect());
    let path = Path::new(vec![line]).unwrap();
    for short in [metres(&path, 0.0).unwrap(), degrees(&path, 0.0).unwrap()] {
        let kept: Vec<usize> = short.segments()[0].iter().map(number).collect();
        assert_eq!(kept, [0, 2, 3, 6]);
    }
}

#[test]
fn segments_of_one_and_two_points_stay_as_they_are() {
    let line = |points: &[(f64, f64)]| -> Vec<Point> {
        points.iter().map(|&(lat, lon)| Point::new(lat, lon)).collect()
    };
    let path = Path::new(vec![line(&[(1.0, 1.0)]), line(&[(2.0, 2.0), (2.0, 2.0)])]).unwrap();
    assert_eq!(metres(&path, 1e6).unwrap(), path);
    assert_eq!(degrees(&path, 1e6).unwrap(), path);
}

#[test]
fn a_tolerance_that_is_negative_or_no_number_is_refused() {
    let path = Path::new(vec![vec![Point::new(1.0, 1.0), Point::new(2.0, 2.0)]]).unwrap();
    for bad in [-1.0, -f64::MIN_POSITIVE, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(metres(&path, bad), Err(InvalidTolerance(bad)));
        assert_eq!(degrees(&path, bad), Err(InvalidTolerance(bad)));
    }
    assert!(metres(&path, f64::NAN).is_err() && degrees(&path, f64::NAN).is_err());
    assert!(metres(&path, f64::MAX).is_ok());
}
