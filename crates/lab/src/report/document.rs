//! Documents that are rendered as HTML and as Markdown.

mod escape;
mod html;
mod markdown;

pub(crate) use escape::text as escaped;

use super::Language;

pub struct Document {
    pub lang: Language,
    pub command: &'static str,
    pub name: String,
    /// Line below the title.
    pub question: String,
    /// Answers, caveats, the short table.
    pub top: Vec<Part>,
    pub sections: Vec<Section>,
    /// Names of series in plots, in the order of their colours.
    pub series: Vec<String>,
}

/// Omitted if it has nothing to show.
pub struct Section {
    pub title: &'static str,
    pub parts: Vec<Part>,
}

/// Texts are plain; the renderers escape them.
pub enum Part {
    Answer(&'static str, String),
    /// Lines that begin with two spaces belong to the line above.
    Broken(Vec<String>),
    Text(String),
    Note(String),
    Heading(String),
    List(Vec<String>),
    Table(Table),
    /// Not in Markdown.
    Plots(Vec<Plot>),
    /// A title that unfolds a table.
    Folded(&'static str, Table),
    /// A title that unfolds a file. Not in Markdown, which is read as a comment.
    Source(&'static str, String),
}

/// Rows of equal length; the first is the head.
pub struct Table {
    pub rows: Vec<Vec<String>>,
    /// The last column is a drawing in a monospaced font.
    pub has_scale: bool,
}

pub struct Plot {
    pub title: String,
    /// SVG; empty without data.
    pub svg: String,
}

impl Document {
    /// A self-contained page. `raw` is the report as JSON, embedded for other programs.
    pub fn to_html(&self, raw: &str) -> String {
        html::render(self, raw)
    }

    /// The top, and all sections folded.
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

    /// Explains other parts.
    fn is_beside(&self) -> bool {
        matches!(self, Self::Note(_) | Self::Heading(_))
    }
}

impl Section {
    /// Parts with content; none if only explanations are left.
    fn shown(&self, may_show: impl Fn(&Part) -> bool) -> Vec<&Part> {
        let parts: Vec<&Part> =
            self.parts.iter().filter(|part| !part.is_empty() && may_show(part)).collect();
        if parts.iter().all(|part| part.is_beside()) { Vec::new() } else { parts }
    }
}

impl Table {
    pub fn new(rows: Vec<Vec<String>>) -> Self {
        Self { rows, has_scale: false }
    }
}
