//! Renders Markdown of GitHub and GitLab, for a comment on a pull request.

use std::fmt::Write;

use super::{Document, Part, Table};

pub(crate) fn render(document: &Document) -> String {
    let lang = document.lang;
    let mut page = format!("# {}\n\n{}\n\n", document.name, document.question);
    page.extend(document.top.iter().map(markdown));
    let rest = lang.pick(
        "All figures, warnings, method and circumstances",
        "모든 수치, 경고, 측정 방법과 환경",
    );
    let _ = write!(page, "<details><summary>{rest}</summary>\n\n");
    for section in &document.sections {
        let parts = section.shown(|part| !matches!(part, Part::Plots(_) | Part::Source(..)));
        if parts.is_empty() {
            continue;
        }
        let _ = write!(page, "## {}\n\n", section.title);
        page.extend(parts.into_iter().map(markdown));
    }
    let raw = lang.pick(
        "Every round is in `report.json` beside this page.",
        "모든 라운드는 이 문서와 같은 디렉터리의 `report.json`에 있습니다.",
    );
    let _ = write!(page, "{raw}\n\n</details>\n");
    page
}

/// A part and an empty line.
fn markdown(part: &Part) -> String {
    if part.is_empty() {
        return String::new();
    }
    match part {
        Part::Answer(_, line) => format!("**{line}**\n\n"),
        Part::Broken(lines) => {
            let line = |line: &String| match line.strip_prefix("  ") {
                Some(round) => format!("- {round}\n"),
                None => format!("\n**{line}**\n\n"),
            };
            lines.iter().map(line).collect::<String>() + "\n"
        }
        Part::Text(line) | Part::Note(line) => format!("{line}\n\n"),
        Part::Heading(line) => format!("### {line}\n\n"),
        Part::List(lines) => {
            let items = lines.iter().map(|line| format!("- {}\n", line.replace('\n', "\n  ")));
            items.collect::<String>() + "\n"
        }
        Part::Table(rows) => table(rows) + "\n",
        Part::Folded(title, rows) => format!("### {title}\n\n{}\n", table(rows)),
        Part::Plots(_) | Part::Source(..) => String::new(),
    }
}

fn table(table: &Table) -> String {
    let Some((head, rows)) = table.rows.split_first() else { return String::new() };
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(place, text)| {
            if table.has_scale && place + 1 == head.len() { scale(text) } else { cell(text) }
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rows: String = rows.iter().map(line).collect();
    format!("{}|{}\n{rows}", line(head), "---|".repeat(head.len()))
}

/// A pipe or line end would break the table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Code loses spaces at its ends, but not no-break spaces.
fn scale(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace(' ', "\u{a0}")) }
}
