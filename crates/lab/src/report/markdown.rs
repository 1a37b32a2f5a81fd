//! The report for a page: everything a reader needs to judge or repeat it, except the raw rounds.

use std::fmt::Write;

use super::{Report, broken, columns, invariants, method, text};
use crate::report::Comparison;

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
    for answer in &report.predictions {
        writeln!(page, "**{}**\n", answer.sentence)?;
    }
    for caveat in &report.caveats {
        writeln!(page, "**{caveat}**\n")?;
    }
    if let Some(held) = held {
        writeln!(page, "{held}\n")?;
    }
    if let Some(pace) = &report.pace {
        writeln!(page, "{pace}\n")?;
    }
    if let Some(noise) = &report.noise {
        writeln!(page, "**{noise}**\n")?;
    }
    for prediction in &experiment.predictions {
        let claim = lang.claim(prediction, &experiment.reference);
        writeln!(page, "{}: {claim}.\n", lang.pick("Predicted beforehand", "사전 예측"))?;
    }
    write_table(page, report)?;
    write_figures(page, report)?;
    if !report.warnings.is_empty() {
        writeln!(page, "## {}\n", lang.pick("Warnings", "경고"))?;
        for warning in &report.warnings {
            writeln!(page, "- {}", warning.replace('\n', "\n  "))?;
        }
        writeln!(page)?;
    }
    write_method(page, report)?;
    write_circumstances(page, report)
}

fn write_table(page: &mut String, report: &Report) -> std::fmt::Result {
    let lang = report.language;
    write!(page, "| {} |", lang.pick("metric", "지표"))?;
    for variant in &report.variants {
        write!(page, " {} |", text::head(&variant.name, variant.is_reference, lang))?;
    }
    write!(page, "\n|---|")?;
    for _ in &report.variants {
        write!(page, "---|")?;
    }
    writeln!(page)?;
    let rows = report.variants.first().map_or(0, |variant| variant.metrics.len());
    for place in 0..rows {
        let Some(first) = report.variants.first() else { break };
        write!(page, "| {} |", cell(&lang.metric(&first.metrics[place].metric)))?;
        for variant in &report.variants {
            let row = &variant.metrics[place];
            write!(page, " {}", text::value(row))?;
            match &row.comparison {
                Comparison::Reference => {}
                Comparison::Ratio(estimate) => {
                    write!(page, "<br>{}", lang.estimate(estimate))?;
                    if let Some(found) = row.finding {
                        write!(page, ": {}", lang.finding(found.word))?;
                    }
                }
                Comparison::NoRatio(why) => write!(page, "<br>{}", lang.no_ratio(why))?,
            }
            write!(page, " |")?;
        }
        writeln!(page)?;
    }
    writeln!(page)
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
