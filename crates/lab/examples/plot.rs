//! One plot of a report as a picture of its own, for a text that shows it:
//!
//! ```text
//! cargo run -p madang-lab --example plot -- results/RUN/report.html "server CPU per good request" > plot.svg
//! ```
//!
//! The plot is the one under that caption, with the names of its lines below, and the page's colours for
//! light and dark. Without a caption, all captions are listed.

use std::process::ExitCode;
use std::{env, fs};

/// Height of the line with the names of the series, in the plot's units.
const LEGEND: f64 = 26.0;
/// Approximate width of a letter.
const LETTER: f64 = 7.5;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let (page, caption) = match args.as_slice() {
        [page] => (page, None),
        [page, caption] => (page, Some(caption)),
        _ => return told("plot REPORT.html [CAPTION]"),
    };
    let html = match fs::read_to_string(page) {
        Ok(html) => html,
        Err(error) => return told(&format!("{page}: {error}")),
    };
    let legend = legend(&html);
    let figures =
        || html.split("<figure>").skip(1).filter_map(|figure| Figure::of(figure, &legend));
    let Some(caption) = caption else {
        figures().for_each(|figure| println!("{}", figure.caption));
        return ExitCode::SUCCESS;
    };
    match figures().find(|figure| figure.caption == *caption) {
        Some(figure) => {
            println!("{}", figure.alone(between(&html, "<style>", "</style>").unwrap_or_default()));
            ExitCode::SUCCESS
        }
        None => told(&format!("{page}: no plot under {caption:?}")),
    }
}

fn told(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::FAILURE
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(from)?;
    Some(rest.split_once(to)?.0)
}

/// Class and name of each line, once per page.
fn legend(html: &str) -> Vec<(&str, &str)> {
    let names = between(html, "class=\"legend\"", "</p>").unwrap_or_default();
    names
        .split("<span class=\"")
        .skip(1)
        .filter_map(|span| {
            let (class, rest) = span.split_once("\">")?;
            // A sample of the line stands before the name.
            Some((class, rest.split("</span>").next()?.rsplit('>').next()?.trim()))
        })
        .collect()
}

/// A figure of the page.
struct Figure<'t> {
    caption: &'t str,
    /// Content of `<svg …>`, and its width and height.
    drawing: &'t str,
    size: (f64, f64),
    /// Class and name of each line.
    legend: Vec<(&'t str, &'t str)>,
}

impl<'t> Figure<'t> {
    fn of(html: &'t str, legend: &[(&'t str, &'t str)]) -> Option<Self> {
        let html = html.split("</figure>").next()?;
        let caption = between(html, "<figcaption>", "</figcaption>")?;
        let mut size = between(html, "viewBox=\"0 0 ", "\"")?.split(' ').map(str::parse);
        let (_, drawing) = html.split_once("<svg")?.1.split_once('>')?;
        let drawing = drawing.split("</svg>").next()?;
        // Rows of points have their names beside them.
        let has_lines = drawing.contains("<polyline");
        Some(Self {
            caption,
            drawing,
            size: (size.next()?.ok()?, size.next()?.ok()?),
            legend: if has_lines { legend.to_vec() } else { Vec::new() },
        })
    }

    fn alone(&self, style: &str) -> String {
        let (width, drawn) = self.size;
        let height = drawn + if self.legend.is_empty() { 0.0 } else { LEGEND };
        let mut names = String::new();
        let mut x = 8.0;
        for (class, name) in &self.legend {
            names += &format!(
                "<text class=\"name {class}\" x=\"{x}\" y=\"{}\">{name}</text>",
                drawn + LEGEND - 9.0
            );
            x += name.chars().count() as f64 * LETTER + 20.0;
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" viewBox=\"0 0 {width} {height}\" \
             width=\"{}\"><title>{}</title><style>{style}.plot{{font-family:system-ui,sans-serif}}</style>\
             <rect width=\"100%\" height=\"100%\" fill=\"var(--card)\"/>{}{names}</svg>",
            width * 1.5,
            self.caption,
            self.drawing
        )
    }
}
