//! The report for a page.

use std::fmt::Write;

use super::{method, report::LimitReport, text};

pub fn render(report: &LimitReport) -> String {
    let mut page = String::new();
    // Writing into a string cannot fail.
    let _ = write_page(&mut page, report);
    page
}

fn write_page(page: &mut String, report: &LimitReport) -> std::fmt::Result {
    let lang = report.language;
    writeln!(page, "# {}\n\n{}\n", report.name, report.question)?;
    writeln!(page, "{}: {}\n", lang.pick("Goal", "목표"), lang.goal(&report.goal))?;
    for line in report.sentence.lines() {
        writeln!(page, "**{line}**\n")?;
    }
    write_table(page, text::table(report).into_iter())?;
    if !report.warnings.is_empty() {
        writeln!(page, "\n## {}\n", lang.pick("Warnings", "경고"))?;
        for warning in &report.warnings {
            writeln!(page, "- {}", warning.replace('\n', "\n  "))?;
        }
    }
    let title = lang.pick("How it was measured", "측정 방법");
    writeln!(page, "\n## {title}\n\n{}\n", method::words(report))?;
    for line in method::circumstances(report) {
        writeln!(page, "- {line}")?;
    }
    writeln!(page, "\n## {}\n", lang.pick("Every try", "모든 시도"))?;
    write_table(page, text::tries(report).into_iter())
}

/// The first row is the head.
fn write_table(page: &mut String, rows: impl Iterator<Item = Vec<String>>) -> std::fmt::Result {
    for (place, row) in rows.enumerate() {
        // A pipe or line end would break the table.
        let cells = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        writeln!(page, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
        if place == 0 {
            writeln!(page, "|{}", "---|".repeat(row.len()))?;
        }
    }
    Ok(())
}
