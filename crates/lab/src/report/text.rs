//! Report for a terminal.

use unicode_width::UnicodeWidthStr;

use super::{Language, Report, broken, columns, invariants, table};

const GAP: usize = 3;

/// `is_full` adds the table of all figures.
pub(crate) fn render(report: &Report, is_full: bool) -> String {
    let lang = report.language;
    let mut lines = broken::headed(&report.broken, lang);
    lines.push(report.sentence());
    lines.push(String::new());
    let (_, held) = invariants::lines(&report.invariants, lang);
    lines.push(format!("{} · {}", report.experiment.name, report.experiment.question));
    let tables = table::tables(report, false);
    for table in &tables {
        lines.push(String::new());
        let title = lang.beside(&table.variant, &report.experiment.reference);
        lines.extend((tables.len() > 1).then_some(title));
        lines.extend(align(&table.rows));
    }
    let left_out = table::left_out(report);
    lines.extend((left_out > 0).then(|| lang.left_out(left_out)));
    lines.push(String::new());
    lines.extend(held);
    lines.extend(report.pace.clone());
    let label = lang.pick("warning", "경고");
    for warning in &report.warnings {
        lines.push(format!("{label}: {}", warning.replace('\n', "\n  ")));
    }
    let figures = columns::table(report);
    if is_full && figures.len() > 1 {
        lines.push(String::new());
        lines.extend(align(&columns::turned(&figures)));
        lines.extend([String::new(), columns::note(lang).to_owned()]);
    }
    lines.join("\n") + "\n"
}

pub(crate) fn head(name: &str, is_reference: bool, lang: Language) -> String {
    let mark = if is_reference { lang.pick(" (reference)", " (기준)") } else { "" };
    format!("{name}{mark}")
}

/// Aligns the columns of a table; a Korean syllable is two columns wide.
pub(crate) fn align(table: &[Vec<String>]) -> Vec<String> {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        table.iter().filter_map(|row| Some(row.get(column)?.width())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            let fill = width - cell.width() + GAP;
            line.extend(std::iter::repeat_n(' ', fill));
        }
        line.trim_end().to_owned()
    };
    table.iter().map(line).filter(|line| !line.is_empty()).collect()
}
