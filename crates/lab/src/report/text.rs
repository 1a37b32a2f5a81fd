//! The report for a terminal: what is broken or was found, what could overturn it, and a table. All figures are below,
//! for whom asks.

use unicode_width::UnicodeWidthStr;

use super::{Language, Report, broken, columns, invariants, table};

/// Columns are this far apart.
const GAP: usize = 3;

/// With `is_full`, followed by the table of all figures.
pub(crate) fn render(report: &Report, is_full: bool) -> String {
    let lang = report.language;
    // Nothing is worth a look in the table of a service that lost something.
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

/// The lines of a table, its columns as wide as their widest cell; a Korean syllable is as wide as two
/// Latin letters.
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
