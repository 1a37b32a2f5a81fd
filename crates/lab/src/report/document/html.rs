//! Renders a self-contained HTML page, with all rounds as JSON.

use std::fmt::Write;

use super::escape::{self, text};
use super::{Document, Part, Table};
use crate::report::plot;

const STYLE: &str = include_str!("style.css");

pub(crate) fn render(document: &Document, raw: &str) -> String {
    let (name, question) = (text(&document.name), text(&document.question));
    let top: String = document.top.iter().map(html).collect();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"{}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n<title>{name} · {}</title>\n<style>\n{STYLE}\
         </style>\n</head>\n<body>\n<header>\n<h1>{name}</h1>\n\
         <p class=\"question\">{question}</p>\n{top}</header>\n<main>\n",
        document.lang.code(),
        document.command,
    );
    for section in &document.sections {
        let parts = section.shown(|_| true);
        if parts.is_empty() {
            continue;
        }
        let _ = write!(page, "<section>\n<h2>{}</h2>\n", text(section.title));
        // Plots do not name their series.
        if parts.iter().any(|part| matches!(part, Part::Plots(_))) {
            page += &plot::legend(&document.series);
        }
        page.extend(parts.into_iter().map(html));
        page.push_str("</section>\n");
    }
    let raw = escape::json(raw);
    let _ = write!(
        page,
        "</main>\n<script type=\"application/json\" id=\"report\">{raw}</script>\n\
         </body>\n</html>\n"
    );
    page
}

fn html(part: &Part) -> String {
    if part.is_empty() {
        return String::new();
    }
    match part {
        Part::Answer(class, line) => format!("<p class=\"answer {class}\">{}</p>\n", text(line)),
        Part::Broken(lines) => {
            format!("<pre class=\"answer broken\">{}</pre>\n", text(&lines.join("\n")))
        }
        Part::Text(line) => format!("<p>{}</p>\n", text(line)),
        Part::Note(line) => format!("<p class=\"faint\">{}</p>\n", text(line)),
        Part::Heading(line) => format!("<h3>{}</h3>\n", text(line)),
        Part::List(lines) => {
            let items = lines.iter().map(|line| format!("<li>{}</li>\n", text(line)));
            format!("<ul>\n{}</ul>\n", items.collect::<String>())
        }
        Part::Table(rows) => table(rows),
        Part::Plots(plots) => {
            let drawn = plots.iter().filter(|plot| !plot.svg.is_empty()).map(|plot| {
                let title = text(&plot.title);
                format!("<figure><figcaption>{title}</figcaption>{}</figure>\n", plot.svg)
            });
            format!("<div class=\"plots\">{}</div>\n", drawn.collect::<String>())
        }
        Part::Folded(title, rows) => folded(title, &table(rows)),
        Part::Source(title, body) => folded(title, &format!("<pre>{}</pre>", text(body.trim()))),
    }
}

fn folded(title: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>{body}</details>\n", text(title))
}

fn table(table: &Table) -> String {
    let Some((head, body)) = table.rows.split_first() else { return String::new() };
    let row = |cells: &[String], tag: &str| {
        let cells = cells.iter().enumerate().map(|(place, cell)| {
            let cell = text(cell);
            if table.has_scale && place + 1 == table.rows[0].len() {
                format!("<{tag}><code class=\"scale\">{cell}</code></{tag}>")
            } else {
                format!("<{tag}>{cell}</{tag}>")
            }
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let body: String = body.iter().map(|cells| row(cells, "td")).collect();
    let head = row(head, "th");
    format!(
        "<div class=\"wide\"><table>\n<thead>{head}</thead>\n<tbody>{body}</tbody></table></div>\n"
    )
}
