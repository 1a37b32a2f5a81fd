//! The tables and texts of the page.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    escape::text,
    figures::{Summed, rounds, summed},
};
use crate::{
    load_report::{LoadReport, Part},
    metric::{Metric, Statistic, digits},
    report::{Answer, Comparison, Report, columns, columns::count, method, summary},
    stats::Level,
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

/// What was predicted, or that this is a calibration.
pub fn claim(report: &Report, answer: &Answer) -> String {
    let lang = report.language;
    if report.kind == "calibration" {
        let what = lang.pick("the reference is like itself", "기준을 자기 자신과 비교");
        return format!("{}: {what}", lang.metric(&answer.prediction.metric));
    }
    lang.claim(&answer.prediction, &report.experiment.reference)
}

/// What was found about it.
pub fn measured(report: &Report, answer: &Answer) -> String {
    let lang = report.language;
    let prediction = &answer.prediction;
    let show = |value| prediction.metric.show(value);
    let variant = report.variants.iter().find(|variant| variant.name == prediction.variant);
    let row =
        variant.and_then(|one| one.metrics.iter().find(|row| row.metric == prediction.metric));
    let found = match (&answer.level, row.map(|row| &row.comparison)) {
        (Some(Level { value, interval, .. }), _) => {
            let interval = interval.map(|(low, high)| lang.interval(&show(low), &show(high)));
            with(&show(*value), interval)
        }
        (None, Some(Comparison::Ratio(estimate))) => {
            let ends = estimate.interval.map(|(low, high)| [low, high].map(summary::ratio));
            let interval = ends.map(|[low, high]| lang.interval(&low, &high));
            with(&format!("×{}", summary::ratio(estimate.ratio)), interval)
        }
        (None, Some(Comparison::NoRatio(why))) => why.clone(),
        _ => lang.pick("nothing was measured", "측정된 값이 없음").to_owned(),
    };
    let label = lang.pick("measured", "측정값");
    let blocks = lang.pick("blocks", "블록");
    format!("{label}: {found}, {} {blocks}", report.complete_blocks)
}

fn with(value: &str, interval: Option<String>) -> String {
    interval.map_or_else(|| value.to_owned(), |interval| format!("{value} ({interval})"))
}

/// Every metric with its ratios.
pub fn ratios(report: &Report) -> String {
    let lang = report.language;
    let reference = lang.pick("reference", "기준");
    let heads = report.variants.iter().map(|variant| {
        let mark = if variant.is_reference {
            format!(" <small>{reference}</small>")
        } else {
            String::new()
        };
        text(&variant.name) + &mark
    });
    let mut table_rows = vec![[String::new()].into_iter().chain(heads).collect::<Vec<_>>()];
    let first = report.variants.first().map_or(&[][..], |variant| &variant.metrics);
    for (place, metric) in first.iter().map(|row| &row.metric).enumerate() {
        let cells = report.variants.iter().filter_map(|variant| variant.metrics.get(place));
        let cells = cells.map(|row| {
            let mut cell =
                row.value.map_or_else(|| "–".to_owned(), |value| text(&metric.show(value)));
            match &row.comparison {
                Comparison::Reference => {}
                Comparison::NoRatio(why) => {
                    let _ = write!(cell, "<small>{}</small>", text(why));
                }
                Comparison::Ratio(estimate) => {
                    let _ = write!(cell, "<small>×{}", summary::ratio(estimate.ratio));
                    if let Some((low, high)) = estimate.interval {
                        let (low, high) = (summary::ratio(low), summary::ratio(high));
                        let _ = write!(cell, " [{low} – {high}]");
                    }
                    cell.push_str("</small>");
                }
            }
            if let Some(found) = row.finding {
                let word = lang.finding(found.word);
                let _ = write!(cell, "<small>{}</small>", text(word));
            }
            cell
        });
        let label = text(&lang.metric(metric));
        table_rows.push([label].into_iter().chain(cells).collect());
    }
    table(&table_rows)
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
