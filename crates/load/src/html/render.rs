//! Pages as text, with the escapes that Go's `html.Render` writes.

use super::tree::{Data, Document, Element};

const VOID: [&str; 15] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "keygen", "link", "meta", "param",
    "source", "track", "wbr",
];

/// Elements whose text is written without escapes.
const LITERAL: [&str; 8] =
    ["iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "xmp"];

impl Document {
    pub(crate) fn inner_html(&self, at: usize) -> String {
        let mut html = String::new();
        // Open elements: their end and their index.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let end = self.nodes[at].end;
        for inner in at + 1..=end {
            while let Some((_, closing)) = open.pop_if(|(end, _)| *end <= inner) {
                let Some(element) = self.element(closing) else { continue };
                html.extend(["</", &element.name.local, ">"]);
            }
            if inner == end {
                break;
            }
            let node = &self.nodes[inner];
            match &node.data {
                Data::Document => {}
                Data::Doctype { name, public, system } => doctype(&mut html, name, public, system),
                Data::Comment(text) => {
                    html.push_str("<!--");
                    comment(&mut html, text);
                    html.push_str("-->");
                }
                // As in goquery, which writes each child by itself: text directly in the node is always escaped.
                Data::Text(text) => {
                    let around = node.parent.filter(|parent| *parent != at);
                    match around.and_then(|parent| self.element(parent)) {
                        Some(parent) if is_literal(parent) => html.push_str(text),
                        _ => escape(&mut html, text),
                    }
                }
                Data::Element(element) => {
                    start_tag(&mut html, element);
                    let name = &*element.name.local;
                    if VOID.contains(&name) {
                        html.push_str("/>");
                        continue;
                    }
                    html.push('>');
                    open.push((node.end, inner));
                    // A line end at the start would be lost when the text is parsed again.
                    if matches!(name, "pre" | "listing" | "textarea")
                        && inner + 1 < node.end
                        && matches!(&self.nodes[inner + 1].data, Data::Text(text) if text.starts_with('\n'))
                    {
                        html.push('\n');
                    }
                }
            }
        }
        html
    }
}

fn is_literal(element: &Element) -> bool {
    element.name.ns == html5ever::ns!(html) && LITERAL.contains(&&*element.name.local)
}

fn start_tag(html: &mut String, element: &Element) {
    html.extend(["<", &element.name.local]);
    for attribute in &element.attributes {
        html.push(' ');
        if let Some(prefix) = &attribute.name.prefix {
            html.extend([prefix, ":"]);
        }
        html.extend([&attribute.name.local, "=\""]);
        escape(html, &attribute.value);
        html.push('"');
    }
}

fn escape(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '\'' => html.push_str("&#39;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&#34;"),
            '\r' => html.push_str("&#13;"),
            c => html.push(c),
        }
    }
}

fn comment(html: &mut String, text: &str) {
    let mut before = None;
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '>' if matches!(before, None | Some('!' | '-')) => html.push_str("&gt;"),
            c => html.push(c),
        }
        before = Some(c);
    }
}

fn doctype(html: &mut String, name: &str, public: &str, system: &str) {
    let quoted = |html: &mut String, text: &str| {
        let quote = if text.contains('"') { "'" } else { "\"" };
        html.extend([quote, &text.replace('>', "&gt;"), quote]);
    };
    html.push_str("<!DOCTYPE ");
    escape(html, name);
    if !public.is_empty() {
        html.push_str(" PUBLIC ");
        quoted(html, public);
        if !system.is_empty() {
            html.push(' ');
            quoted(html, system);
        }
    } else if !system.is_empty() {
        html.push_str(" SYSTEM ");
        quoted(html, system);
    }
    html.push('>');
}
