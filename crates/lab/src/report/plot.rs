//! Plots as inline SVG. Colours come from the page's style (`.s0` to `.s7`); series also differ by shape or dash.

use std::fmt::Write;

use super::document::escaped as text;

/// Width in the plot's own units; the page scales it. Text of 12 units stays legible on a phone.
const WIDTH: f64 = 420.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
/// Half of a label at the end of an axis.
const EDGE: f64 = 34.0;
/// Height of a line plot.
const HEIGHT: f64 = 230.0;
const BOTTOM: f64 = 34.0;
const TOP: f64 = 10.0;
/// Positions of the lowest value, the right end, and the first and last value of the horizontal axis.
const BASE: f64 = HEIGHT - BOTTOM;
const END: f64 = WIDTH - RIGHT;
const ACROSS: (f64, f64) = (LEFT + 6.0, END - 10.0);
/// Height of a row of points.
const ROW: f64 = 46.0;
/// Further series reuse colours.
const COLOURS: usize = 8;
/// Most points of a line; longer series are thinned.
const POINTS: usize = 600;
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

/// Rounds of one variant in a plot of points.
pub(crate) struct Row<'p> {
    pub name: &'p str,
    pub series: usize,
    pub values: Vec<f64>,
    /// Mean and the ends of its interval.
    pub mean: Option<(f64, Option<(f64, f64)>)>,
}

/// A row of points for each variant, with mean and interval below.
pub(crate) fn points(title: &str, rows: &[Row<'_>], show: &dyn Fn(f64) -> String) -> String {
    let ends = rows.iter().filter_map(|row| row.mean?.1).flat_map(|(low, high)| [low, high]);
    let values: Vec<f64> = rows.iter().flat_map(|row| row.values.iter().copied()).collect();
    // An interval of two blocks may be much wider than the values: it is cut at the edge.
    let widest = values.iter().copied().fold(0.0, f64::max) * 1.5;
    let all: Vec<f64> = values.iter().copied().chain(ends.filter(|end| *end <= widest)).collect();
    let Some(axis) = Axis::new(&all, EDGE, WIDTH - EDGE) else { return String::new() };
    let height = rows.len() as f64 * ROW + BOTTOM;
    let mut svg = open(title, height);
    for tick in &axis.ticks {
        let x = axis.place(*tick);
        let bottom = height - BOTTOM;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"4\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>"
        );
        label(&mut svg, "middle", (x, bottom + 16.0), &show(*tick));
    }
    for (place, row) in rows.iter().enumerate() {
        let y = place as f64 * ROW;
        let class = row.series % COLOURS;
        let _ = write!(
            svg,
            "<g class=\"s{class}\"><text class=\"name\" x=\"4\" y=\"{:.1}\">{}</text>",
            y + 14.0,
            text(row.name)
        );
        for value in &row.values {
            let x = axis.place(*value);
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}</title></circle>",
                y + 25.0,
                text(&show(*value))
            );
        }
        if let Some((mean, interval)) = row.mean {
            let y = y + 37.0;
            if let Some((low, high)) = interval {
                let (from, to) = (axis.place(low), axis.place(high));
                let _ = write!(
                    svg,
                    "<line class=\"interval\" x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" \
                     y2=\"{y:.1}\"/>"
                );
            }
            let x = axis.place(mean);
            let _ = write!(
                svg,
                "<path class=\"mean\" d=\"M{x:.1} {:.1}l4 4l-4 4l-4 -4z\"><title>{}</title></path>",
                y - 4.0,
                text(&show(mean))
            );
        }
        svg.push_str("</g>");
    }
    svg + "</svg>"
}

pub struct Line<'p> {
    pub name: &'p str,
    /// Index of its colour.
    pub series: usize,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines over numbers or, with `labels`, over names at 0, 1, 2 and so on. The vertical axis is logarithmic if `is_log`,
/// else starts at zero. Empty without points.
pub fn lines(
    title: &str,
    series: &[Line<'_>],
    labels: Option<&[&str]>,
    is_log: bool,
    show: &dyn Fn(f64) -> String,
) -> String {
    let xs: Vec<f64> = series.iter().flat_map(|line| line.points.iter().map(|at| at.0)).collect();
    let ys = series.iter().flat_map(|line| line.points.iter().map(|at| at.1)).collect();
    let x = Axis::tight(&xs, ACROSS.0, ACROSS.1);
    let Some((mut svg, x, y)) = frame(title, x, ys, is_log, show) else { return String::new() };
    let mut below =
        |at: f64, name: &str| label(&mut svg, "middle", (x.place(at), BASE + 18.0), name);
    match labels {
        Some(names) => names.iter().enumerate().for_each(|(at, name)| below(at as f64, name)),
        None => x.ticks.iter().for_each(|tick| below(*tick, &format!("{tick} s"))),
    }
    for line in series {
        let class = line.series % COLOURS;
        let dash = DASHES[line.series % DASHES.len()];
        let step = line.points.len().div_ceil(POINTS).max(1);
        let is_finite = |(at, value): &&(f64, f64)| at.is_finite() && value.is_finite();
        let place =
            |(at, value): &(f64, f64)| format!("{:.1},{:.1}", x.place(*at), y.place(*value));
        let points: Vec<String> =
            line.points.iter().filter(is_finite).step_by(step).map(place).collect();
        let _ = write!(
            svg,
            "<g class=\"s{class}\"><polyline stroke-dasharray=\"{dash}\" points=\"{}\"><title>{}\
             </title></polyline>",
            points.join(" "),
            text(line.name)
        );
        // A line through few points would be hard to see.
        for (at, value) in line.points.iter().filter(is_finite).filter(|_| line.points.len() <= 12)
        {
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: {}</title></circle>",
                x.place(*at),
                y.place(*value),
                text(line.name),
                text(&show(*value))
            );
        }
        svg.push_str("</g>");
    }
    svg + "</svg>"
}

pub(crate) struct Dot<'p> {
    pub name: &'p str,
    pub series: usize,
    pub x: f64,
    pub y: f64,
    pub mark: Mark,
}

/// Shape of a dot, beside its colour.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    Full,
    Cross,
    Open,
}

impl Mark {
    /// Element and its name.
    fn drawn(self, x: f64, y: f64) -> (String, &'static str) {
        let (left, top) = (x - 3.5, y - 3.5);
        let circle = |class: &str| format!("<circle{class} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\">");
        match self {
            Self::Full => (circle(""), "circle"),
            Self::Open => (circle(" class=\"open\""), "circle"),
            Self::Cross => {
                (format!("<path class=\"cross\" d=\"M{left:.1} {top:.1}l7 7m0 -7l-7 7\">"), "path")
            }
        }
    }
}

/// Dots over a logarithmic horizontal axis; `limit` is a line across. The vertical axis is logarithmic if `is_log`,
/// else starts at zero. Empty without dots.
pub(crate) fn scatter(
    title: &str,
    dots: &[Dot<'_>],
    limit: Option<f64>,
    is_log: bool,
    show: &dyn Fn(f64) -> String,
) -> String {
    let xs: Vec<f64> = dots.iter().map(|dot| dot.x).collect();
    let ys = dots.iter().map(|dot| dot.y).chain(limit).collect();
    let x = Axis::log(&xs, ACROSS.0, ACROSS.1);
    let Some((mut svg, x, y)) = frame(title, x, ys, is_log, show) else { return String::new() };
    for tick in &x.ticks {
        label(&mut svg, "middle", (x.place(*tick), BASE + 18.0), &tick.to_string());
    }
    if let Some(limit) = limit {
        let at = y.place(limit);
        let _ = write!(
            svg,
            "<line class=\"limit\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{END}\" y2=\"{at:.1}\"/>"
        );
    }
    for dot in dots.iter().filter(|dot| dot.x.is_finite() && dot.y.is_finite()) {
        let (mark, element) = dot.mark.drawn(x.place(dot.x), y.place(dot.y));
        let _ = write!(
            svg,
            "<g class=\"dots s{}\">{mark}<title>{}: {}, {}</title></{element}></g>",
            dot.series % COLOURS,
            text(dot.name),
            dot.x,
            text(&show(dot.y)),
        );
    }
    svg + "</svg>"
}

/// An empty plot with axes and horizontal grid lines.
fn frame(
    title: &str,
    x: Option<Axis>,
    mut ys: Vec<f64>,
    is_log: bool,
    show: &dyn Fn(f64) -> String,
) -> Option<(String, Axis, Axis)> {
    if !is_log {
        ys.push(0.0);
    }
    let y = if is_log { Axis::log(&ys, BASE, TOP) } else { Axis::new(&ys, BASE, TOP) };
    let (x, y) = x.zip(y)?;
    let mut svg = open(title, HEIGHT);
    for tick in &y.ticks {
        let at = y.place(*tick);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{END}\" y2=\"{at:.1}\"/>"
        );
        label(&mut svg, "end", (LEFT - 5.0, at + 4.0), &show(*tick));
    }
    Some((svg, x, y))
}

fn label(svg: &mut String, anchor: &str, (x, y): (f64, f64), name: &str) {
    let name = text(name);
    let _ = write!(
        svg,
        "<text class=\"tick\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>"
    );
}

pub(crate) fn legend(names: &[String]) -> String {
    let mut html = String::from("<p class=\"legend\">");
    for (place, name) in names.iter().enumerate() {
        let dash = DASHES[place % DASHES.len()];
        let _ = write!(
            html,
            "<span class=\"s{}\"><svg viewBox=\"0 0 30 10\" width=\"30\" height=\"10\" \
             aria-hidden=\"true\"><polyline stroke-dasharray=\"{dash}\" points=\"1,5 29,5\"/></svg> \
             {}</span>",
            place % COLOURS,
            text(name)
        );
    }
    html + "</p>"
}

fn open(title: &str, height: f64) -> String {
    let title = text(title);
    format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\
         <title>{title}</title>"
    )
}

struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_log: bool,
    ticks: Vec<f64>,
}

impl Axis {
    /// Ends at round numbers. `None` without a finite value.
    fn new(values: &[f64], from: f64, to: f64) -> Option<Self> {
        let (low, high) = extent(values)?;
        // Nearly equal values would have equal labels.
        let step = step((high - low).max(high.abs() * 0.05).max(1e-9) / 4.0);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let ticks: Vec<f64> = (0..=12)
            .map(|place| (first + f64::from(place)) * step)
            .take_while(|tick| *tick <= last * step + step * 1e-6)
            .collect();
        let (low, high) = (first * step, (last * step).max(first * step + step));
        Some(Self { low, high, from, to, is_log: false, ticks })
    }

    /// From the first value to the last.
    fn tight(values: &[f64], from: f64, to: f64) -> Option<Self> {
        let (low, high) = extent(values)?;
        let axis = Self::new(values, from, to)?;
        let ticks = axis.ticks.into_iter().filter(|tick| (low..=high).contains(tick)).collect();
        let high = if high > low { high } else { low + 1.0 };
        Some(Self { low, high, ticks, ..axis })
    }

    /// Logarithmic, with 1, 2 and 5 of each decade. `None` without a positive value.
    fn log(values: &[f64], from: f64, to: f64) -> Option<Self> {
        let positive: Vec<f64> = values.iter().copied().filter(|value| *value > 0.0).collect();
        let (low, high) = extent(&positive)?;
        let (low, high) = (low * 0.9, high * 1.1);
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let many = decades.clone().count() > 5;
        let marks: &[f64] = if many { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let every = decades.clone().count().div_ceil(8);
        let decades = decades.step_by(every);
        let ticks =
            decades.flat_map(|decade| marks.iter().map(move |mark| mark * 10_f64.powi(decade)));
        let ticks = ticks.filter(|tick| (low..=high).contains(tick));
        let mut ticks: Vec<f64> = ticks.collect();
        // A decade may contain none of these.
        if ticks.len() < 3 {
            let step = step((high - low) / 4.0);
            let round = (0..12).map(|place| ((low / step).ceil() + f64::from(place)) * step);
            ticks = round.take_while(|tick| *tick <= high).collect();
        }
        Some(Self { low: low.log10(), high: high.log10(), from, to, is_log: true, ticks })
    }

    /// Position of a value; values outside of the axis are at its end.
    fn place(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(1e-12).log10() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }
}

fn extent(values: &[f64]) -> Option<(f64, f64)> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    Some((finite().reduce(f64::min)?, finite().reduce(f64::max)?))
}

/// Rounds up to 1, 2, 5 or 10 times a power of ten.
fn step(rough: f64) -> f64 {
    let decade = 10_f64.powf(rough.log10().floor());
    let factor = rough / decade;
    let round = [1.0, 2.0, 5.0].into_iter().find(|round| factor <= *round).unwrap_or(10.0);
    round * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers_and_contain_their_values() {
        let axis = Axis::new(&[13.0, 87.0], 0.0, 100.0).unwrap();
        assert_eq!(axis.ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!((axis.place(0.0), axis.place(100.0), axis.place(25.0)), (0.0, 100.0, 25.0));
        assert_eq!(axis.place(1e9), 100.0, "outside is at the edge");
        let log = Axis::log(&[1.0, 99.0], 0.0, 100.0).unwrap();
        assert_eq!(log.ticks, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        let narrow = Axis::log(&[22.0, 40.0], 0.0, 100.0).unwrap();
        assert_eq!(narrow.ticks, [20.0, 30.0, 40.0]);
    }

    #[test]
    fn whatever_the_values_there_is_no_nonsense_in_the_drawing() {
        let hostile: [&[f64]; 7] = [
            &[],
            &[0.0],
            &[5.0, 5.0],
            &[f64::NAN, 1.0],
            &[f64::INFINITY],
            &[1e-300, 1e300],
            &[-3.0, -3.0],
        ];
        for values in hostile {
            let points_of = |values: &[f64]| {
                values.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect()
            };
            for is_log in [false, true] {
                let series = [Line { name: "<a>", series: 9, points: points_of(values) }];
                let svg = lines("<t>", &series, None, is_log, &|value| value.to_string());
                assert!(!svg.contains("<a>") && !svg.contains("<t>"), "{svg}");
                assert!(!svg.contains("\"NaN") && !svg.contains(",NaN"), "{values:?}: {svg}");
                assert!(svg.len() < 10_000, "{values:?}: {}", svg.len());
            }
        }
    }
}
