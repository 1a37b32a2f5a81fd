//! What every page has around its sections.

use std::fmt::Write;

use super::{
    escape::{self, text},
    plot,
};
use crate::report::Language;

const STYLE: &str = include_str!("style.css");

/// What is on a page.
pub struct Page<'p> {
    pub lang: Language,
    /// What made it.
    pub command: &'p str,
    pub name: &'p str,
    pub question: &'p str,
    /// HTML above all sections: the answers.
    pub top: &'p str,
    /// Titles and HTML; empty ones are left out.
    pub sections: &'p [(&'p str, String)],
    /// Of the series in plots, in their order.
    pub names: &'p [&'p str],
    /// JSON, for whoever wants to go on from it.
    pub raw: &'p str,
}

/// The page: no network, no script.
pub fn render(page: &Page<'_>) -> String {
    let (name, question) = (text(page.name), text(page.question));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n<title>{name} · {}</title>\n<style>\n{STYLE}\
         </style>\n</head>\n<body>\n<header>\n<h1>{name}</h1>\n\
         <p class=\"question\">{question}</p>\n{}</header>\n<main>\n",
        page.lang.code(),
        page.command,
        page.top,
    );
    for (title, body) in page.sections.iter().filter(|(_, body)| !body.is_empty()) {
        let _ = write!(html, "<section>\n<h2>{}</h2>\n", text(title));
        // Where series are told apart by nothing but their drawing.
        if body.contains("<polyline") || body.contains("class=\"dots") {
            html += &plot::legend(page.names);
        }
        html += body;
        html.push_str("</section>\n");
    }
    let raw = escape::json(page.raw);
    let _ = write!(
        html,
        "</main>\n<script type=\"application/json\" id=\"report\">{raw}</script>\n\
         </body>\n</html>\n"
    );
    html
}

/// Nothing around a plot that there is nothing to draw of.
pub fn figure(title: &str, svg: &str) -> String {
    if svg.is_empty() {
        return String::new();
    }
    format!("<figure><figcaption>{}</figcaption>{svg}</figure>\n", text(title))
}

/// Figures beside each other where there is room.
pub fn grid(figures: &str) -> String {
    if figures.is_empty() {
        String::new()
    } else {
        format!("<div class=\"plots\">{figures}</div>\n")
    }
}
