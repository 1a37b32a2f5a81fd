//! The report for a page: everything a reader needs to judge or repeat it, except the raw rounds.

use std::fmt::Write;

use super::{Report, broken, columns, invariants, method, table};

pub fn render(report: &Report) -> String {
    let mut page = String::new();
    // Writing into a string cannot fail.
    let _ = write_page(&mut page, report);
    page
}

fn write_page(page: &mut String, report: &Report) -> std::fmt::Result {
    let lang = report.language;
    let experiment = &report.experiment;
    writeln!(page, "# {}\n\n{}\n", experiment.name, experiment.question)?;
    for line in broken::headed(&report.broken, lang) {
        match line.strip_prefix("  ") {
            Some(round) => writeln!(page, "- {round}")?,
            None => writeln!(page, "\n**{line}**\n")?,
        }
    }
    if !report.broken.is_empty() {
        writeln!(page)?;
    }
    let (_, held) = invariants::lines(&report.invariants, lang);
    for (_, line) in report.found() {
        writeln!(page, "**{line}**\n")?;
    }
    if let Some(held) = held {
        writeln!(page, "{held}\n")?;
    }
    if let Some(pace) = &report.pace {
        writeln!(page, "{pace}\n")?;
    }
    write_table(page, report, false)?;
    let rest = lang.pick(
        "All figures, warnings, method and circumstances",
        "모든 수치, 경고, 측정 방법과 환경",
    );
    writeln!(page, "<details><summary>{rest}</summary>\n")?;
    write_table(page, report, true)?;
    write_figures(page, report)?;
    if !report.warnings.is_empty() {
        writeln!(page, "## {}\n", lang.pick("Warnings", "경고"))?;
        for warning in &report.warnings {
            writeln!(page, "- {}", warning.replace('\n', "\n  "))?;
        }
        writeln!(page)?;
    }
    write_method(page, report)?;
    write_circumstances(page, report)?;
    writeln!(page, "\n</details>")
}

/// All rows, or the short selection.
fn write_table(page: &mut String, report: &Report, is_full: bool) -> std::fmt::Result {
    let tables = table::tables(report, is_full);
    for table in &tables {
        if tables.len() > 1 {
            let title = report.language.beside(&table.variant, &report.experiment.reference);
            writeln!(page, "### {title}\n")?;
        }
        let Some((head, rows)) = table.rows.split_first() else { continue };
        let line = |row: &Vec<String>| {
            let (plot, cells) =
                row.split_last().map_or(("", &row[..]), |(plot, cells)| (plot, cells));
            let cells: Vec<String> = cells.iter().map(|one| cell(one)).collect();
            // Spaces are kept in code, but for those at its ends: no-break spaces stay.
            let plot = plot.replace(' ', "\u{a0}");
            let plot = if plot.is_empty() { plot } else { format!("`{plot}`") };
            format!("| {} | {plot} |", cells.join(" | "))
        };
        writeln!(page, "{}\n|{}", line(head), "---|".repeat(head.len()))?;
        for row in rows {
            writeln!(page, "{}", line(row))?;
        }
        writeln!(page)?;
    }
    Ok(())
}

/// The columns that other tools' reports have, costs among them.
fn write_figures(page: &mut String, report: &Report) -> std::fmt::Result {
    let table = columns::table(report);
    let Some((heads, rows)) = table.split_first().filter(|(_, rows)| !rows.is_empty()) else {
        return Ok(());
    };
    let lang = report.language;
    writeln!(page, "## {}\n", lang.pick("Figures", "수치"))?;
    writeln!(page, "| {} |\n|{}", heads.join(" | "), "---|".repeat(heads.len()))?;
    for row in rows {
        writeln!(page, "| {} |", row.join(" | "))?;
    }
    writeln!(page, "\n{}\n", columns::note(lang))
}

fn write_method(page: &mut String, report: &Report) -> std::fmt::Result {
    let lang = report.language;
    writeln!(
        page,
        "## {}\n\n{}\n",
        lang.pick("How it was measured", "측정 방법"),
        method::words(lang)
    )?;
    for (name, value) in method::facts(report) {
        writeln!(page, "- {name}: {value}")?;
    }
    writeln!(page)
}

fn write_circumstances(page: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(page, "## {}\n", report.language.pick("Circumstances", "측정 환경"))?;
    for line in method::circumstances(report) {
        writeln!(page, "- {}", line.replace('\n', " "))?;
    }
    let raw = report.language.pick(
        "Every round is in `report.json` beside this page.",
        "모든 라운드는 이 문서와 같은 디렉터리의 `report.json`에 있습니다.",
    );
    writeln!(page, "\n{raw}")
}

/// A pipe or line end would break the table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
