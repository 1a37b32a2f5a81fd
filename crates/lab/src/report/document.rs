//! A report as a document: written once, rendered as HTML and as Markdown.

mod escape;
mod html;
mod markdown;

pub(crate) use escape::text as escaped;

use super::Language;

/// A report in the order in which it is read.
pub struct Document {
    pub lang: Language,
    pub command: &'static str,
    pub name: String,
    /// The line below the title.
    pub question: String,
    /// What is seen first: answers, caveats, the short table.
    pub top: Vec<Part>,
    /// What follows, in the order in which it is read.
    pub sections: Vec<Section>,
    /// Names of the series in plots, in the order of their colours.
    pub series: Vec<String>,
}

/// A section. Left out if nothing in it can be shown.
pub struct Section {
    pub title: &'static str,
    /// In the order in which they are read.
    pub parts: Vec<Part>,
}

/// A part of a document. Texts are plain; the renderers escape them.
pub enum Part {
    Answer(&'static str, String),
    /// What is broken; lines that begin with two spaces belong to the line above.
    Broken(Vec<String>),
    Text(String),
    Note(String),
    Heading(String),
    List(Vec<String>),
    Table(Table),
    /// Plots beside each other. Not in Markdown, which has no drawings.
    Plots(Vec<Plot>),
    /// A table behind its title.
    Folded(&'static str, Table),
    /// A file word by word, behind its title. Not in Markdown, which is read as a comment.
    Source(&'static str, String),
}

/// Rows of equal length; the first is the head.
pub struct Table {
    pub rows: Vec<Vec<String>>,
    /// Whether the last column is a drawing in letters of equal width.
    pub has_scale: bool,
}

pub struct Plot {
    /// What stands above it.
    pub title: String,
    /// SVG; empty if there was nothing to draw.
    pub svg: String,
}

impl Document {
    /// One HTML page, without network or scripts. `raw` is the report as JSON, embedded for other programs.
    pub fn to_html(&self, raw: &str) -> String {
        html::render(self, raw)
    }

    /// Markdown: the top as it is, all sections folded behind one line.
    pub fn to_markdown(&self) -> String {
        markdown::render(self)
    }
}

impl Part {
    fn is_empty(&self) -> bool {
        match self {
            Self::Answer(_, text) | Self::Text(text) | Self::Note(text) | Self::Heading(text) => {
                text.is_empty()
            }
            Self::Broken(lines) | Self::List(lines) => lines.is_empty(),
            Self::Table(table) | Self::Folded(_, table) => table.rows.len() < 2,
            Self::Plots(plots) => plots.iter().all(|plot| plot.svg.is_empty()),
            Self::Source(_, text) => text.trim().is_empty(),
        }
    }

    /// Whether it only explains other parts.
    fn is_beside(&self) -> bool {
        matches!(self, Self::Note(_) | Self::Heading(_))
    }
}

impl Section {
    /// Parts with something to show; none if only explanations are left.
    fn shown(&self, may_show: impl Fn(&Part) -> bool) -> Vec<&Part> {
        let parts: Vec<&Part> =
            self.parts.iter().filter(|part| !part.is_empty() && may_show(part)).collect();
        if parts.iter().all(|part| part.is_beside()) { Vec::new() } else { parts }
    }
}

impl Table {
    /// A table without a drawing.
    pub fn new(rows: Vec<Vec<String>>) -> Self {
        Self { rows, has_scale: false }
    }
}
