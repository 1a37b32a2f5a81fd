//! The tables and texts of the page.

use std::collections::BTreeMap;

use super::{
    escape::text,
    figures::{Summed, rounds, summed},
};
use crate::{
    load_report::{LoadReport, Part},
    metric::{Metric, Statistic, digits},
    report::{Report, columns, columns::count, method, table as short},
};

/// A table from its rows; the first is the head.
pub fn table(rows: &[Vec<String>]) -> String {
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let row = |cells: &[String], tag: &str| {
        let cells: Vec<String> =
            cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
        format!("<tr>{}</tr>\n", cells.join(""))
    };
    let body: String = body.iter().map(|cells| row(cells, "td")).collect();
    let head = row(head, "th");
    format!(
        "<div class=\"wide\"><table>\n<thead>{head}</thead>\n<tbody>{body}</tbody></table></div>\n"
    )
}

/// Every metric with its ratios.
pub fn ratios(report: &Report) -> String {
    let tables = short::tables(report, true);
    let is_only = tables.len() == 1;
    let one = |one: &short::Table| {
        let cells = |row: &Vec<String>| -> Vec<String> {
            let Some((plot, cells)) = row.split_last() else { return Vec::new() };
            let plot = format!("<code class=\"scale\">{}</code>", text(plot));
            cells.iter().map(|cell| text(cell)).chain([plot]).collect()
        };
        let rows: Vec<Vec<String>> = one.rows.iter().map(cells).collect();
        let title = report.language.beside(&one.variant, &report.experiment.reference);
        let title = if is_only { String::new() } else { format!("<h3>{}</h3>\n", text(&title)) };
        title + &table(&rows)
    };
    tables.iter().map(one).collect()
}

/// The columns other tools' reports have.
pub fn figures(report: &Report) -> String {
    let rows = columns::table(report);
    if rows.len() == 1 {
        return String::new();
    }
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| text(cell)).collect()).collect();
    let note = columns::note(report.language);
    format!("{}<p class=\"faint\">{}</p>\n", table(&rows), text(note))
}

/// Requests by some name, when there is more than one: else it is the table above.
pub fn parts(report: &Report, get: fn(&LoadReport) -> &BTreeMap<String, Part>) -> String {
    by_name(report, |load| Box::new(get(load).iter()))
}

/// Requests by group.
pub fn groups(report: &Report) -> String {
    parts(report, |load| &load.groups)
}

/// Requests by scenario.
pub fn scenarios(report: &Report) -> String {
    by_name(report, |load| {
        let parts = load.scenarios.iter();
        Box::new(parts.filter_map(|(name, scenario)| Some((name, scenario.part.as_ref()?))))
    })
}

fn by_name(
    report: &Report,
    get: impl for<'l> Fn(&'l LoadReport) -> Box<dyn Iterator<Item = (&'l String, &'l Part)> + 'l>,
) -> String {
    let lang = report.language;
    let mut all: BTreeMap<String, Vec<(&str, Summed)>> = BTreeMap::new();
    for variant in &report.variants {
        for (name, part) in summed(&rounds(report, &variant.name), &get) {
            all.entry(name).or_default().push((&variant.name, part));
        }
    }
    if all.len() < 2 {
        return String::new();
    }
    let heads = [
        ("name", "이름"),
        ("variant", "변형"),
        ("total", "총 요청"),
        ("good/s", "정상/초"),
        ("avg", "평균"),
        ("p95", "p95"),
        ("p99", "p99"),
        ("failed", "실패"),
    ];
    let mut rows = vec![heads.map(|(en, ko)| lang.pick(en, ko).to_owned()).to_vec()];
    let time = |value| Metric::Latency(Statistic::Mean).show(value);
    for (name, variants) in &all {
        for (place, (variant, part)) in variants.iter().enumerate() {
            let outside = lang.pick("(outside of groups)", "(그룹 밖)");
            let name = if name.is_empty() { outside } else { name };
            rows.push(vec![
                if place == 0 { text(name) } else { String::new() },
                text(variant),
                count(part.requests),
                digits(part.good_per_second),
                time(part.avg),
                time(part.p95),
                time(part.p99),
                count(part.failed),
            ]);
        }
    }
    table(&rows)
}

/// How many answers had which status.
pub fn status_codes(report: &Report) -> String {
    let lang = report.language;
    let mut codes: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for variant in &report.variants {
        for round in rounds(report, &variant.name) {
            for (code, count) in &round.load.status_codes {
                *codes.entry(code).or_default().entry(&variant.name).or_default() += count;
            }
        }
    }
    if codes.is_empty() {
        return String::new();
    }
    let names = report.variants.iter().map(|variant| text(&variant.name));
    let head = lang.pick("status", "상태").to_owned();
    let mut table_rows = vec![[head].into_iter().chain(names).collect::<Vec<_>>()];
    for (code, counts) in codes {
        let label = if code == "0" { lang.pick("no answer", "응답 없음") } else { code };
        let cells = report
            .variants
            .iter()
            .map(|variant| count(counts.get(variant.name.as_str()).copied().unwrap_or(0)));
        table_rows.push([text(label)].into_iter().chain(cells).collect());
    }
    table(&table_rows)
}

/// What the numbers are and how they came about.
pub fn method(report: &Report) -> String {
    let facts = method::facts(report).into_iter();
    let facts = facts.map(|(name, value)| format!("{name}: {value}"));
    format!("<p>{}</p>\n{}", text(method::words(report.language)), list(facts))
}

/// Lines as the items of a list.
pub fn list(lines: impl IntoIterator<Item = String>) -> String {
    let items = lines.into_iter().map(|line| format!("<li>{}</li>\n", text(&line)));
    let items: String = items.collect();
    if items.is_empty() { items } else { format!("<ul>\n{items}</ul>\n") }
}

/// Where and with what, so that somebody else can repeat it.
pub fn configuration(report: &Report) -> String {
    let lang = report.language;
    let texts = [
        (lang.pick("The experiment", "실험 파일"), &report.sources.file),
        (lang.pick("Its script", "스크립트"), &report.sources.scripts),
    ];
    let texts = texts.map(|(title, body)| {
        format!(
            "<details><summary>{}</summary><pre>{}</pre></details>\n",
            text(title),
            text(body.trim())
        )
    });
    list(method::circumstances(report)) + &texts.concat()
}
