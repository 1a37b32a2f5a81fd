//! Sections of the report of a comparison.

use std::collections::BTreeMap;

use super::columns::count;
use super::document::{Document, Part, Section, Table};
use super::means::{Subsets, Summed, rounds, summed};
use super::{Report, broken, columns, invariants, method, plots, table};
use crate::file::experiment::Sources;
use crate::judge::metric::{Metric, Statistic, digits};
use crate::load::report::{LoadReport, Subset};

pub(crate) fn document(report: &Report) -> Document {
    let lang = report.language;
    let experiment = &report.experiment;
    let section = |en, ko, parts| Section { title: lang.pick(en, ko), parts };
    Document {
        lang,
        command: "madang compare",
        name: experiment.name.clone(),
        question: experiment.question.clone(),
        top: top(report),
        sections: vec![
            section("Every round", "모든 라운드", plots::rounds(report)),
            section("Ratios", "비율", ratios(report, true)),
            section("Figures", "수치", figures(report)),
            section("Latency by percentile", "백분위별 응답 시간", plots::percentiles(report)),
            section("Over time", "시간에 따른 변화", plots::over_time(report)),
            section(
                "By endpoint",
                "엔드포인트별",
                by_name(report, |load| load.names.iter().collect()),
            ),
            section("By group", "그룹별", by_name(report, |load| load.groups.iter().collect())),
            section("By scenario", "시나리오별", by_name(report, scenarios)),
            section("Answers by status code", "상태 코드별 응답", status_codes(report)),
            section("Warnings", "경고", vec![Part::List(report.warnings.clone())]),
            section("How it was measured", "측정 방법", measured(report)),
            section("Configuration", "설정", configuration(report)),
        ],
        series: report.variants.iter().map(|variant| variant.name.clone()).collect(),
    }
}

fn top(report: &Report) -> Vec<Part> {
    let lang = report.language;
    let mut parts = vec![Part::Broken(broken::headed(&report.broken, lang))];
    let found = report.found().into_iter();
    parts.extend(found.map(|(class, line)| Part::Answer(class, line.to_owned())));
    let (_, held) = invariants::lines(&report.invariants, lang);
    parts.extend(held.map(Part::Text));
    parts.extend(report.pace.clone().map(Part::Note));
    parts.extend(ratios(report, false));
    parts
}

fn ratios(report: &Report, is_full: bool) -> Vec<Part> {
    let tables = table::tables(report, is_full);
    let is_only = tables.len() == 1;
    let mut parts = Vec::new();
    for one in tables {
        if !is_only {
            let title = report.language.beside(&one.variant, &report.experiment.reference);
            parts.push(Part::Heading(title));
        }
        parts.push(Part::Table(Table { rows: one.rows, has_scale: true }));
    }
    parts
}

fn figures(report: &Report) -> Vec<Part> {
    let note = columns::note(report.language).to_owned();
    vec![Part::Table(Table::new(columns::table(report))), Part::Note(note)]
}

fn scenarios(load: &LoadReport) -> Vec<(&String, &Subset)> {
    let parts = load.scenarios.iter();
    parts.filter_map(|(name, scenario)| Some((name, scenario.part.as_ref()?))).collect()
}

/// Table of subsets of the requests, if there are several.
fn by_name(report: &Report, subsets: Subsets) -> Vec<Part> {
    let lang = report.language;
    let mut all: BTreeMap<String, Vec<(&str, Summed)>> = BTreeMap::new();
    for variant in &report.variants {
        for (name, part) in summed(&rounds(report, &variant.name), subsets) {
            all.entry(name).or_default().push((&variant.name, part));
        }
    }
    if all.len() < 2 {
        return Vec::new();
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
                if place == 0 { name.to_owned() } else { String::new() },
                (*variant).to_owned(),
                count(part.requests),
                digits(part.good_per_second),
                time(part.avg),
                time(part.p95),
                time(part.p99),
                count(part.failed),
            ]);
        }
    }
    vec![Part::Table(Table::new(rows))]
}

fn status_codes(report: &Report) -> Vec<Part> {
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
        return Vec::new();
    }
    let names = report.variants.iter().map(|variant| variant.name.clone());
    let head = lang.pick("status", "상태").to_owned();
    let mut rows = vec![[head].into_iter().chain(names).collect::<Vec<_>>()];
    for (code, counts) in codes {
        let label = if code == "0" { lang.pick("no answer", "응답 없음") } else { code };
        let cells = report
            .variants
            .iter()
            .map(|variant| count(counts.get(variant.name.as_str()).copied().unwrap_or(0)));
        rows.push([label.to_owned()].into_iter().chain(cells).collect());
    }
    vec![Part::Table(Table::new(rows))]
}

fn measured(report: &Report) -> Vec<Part> {
    let facts = method::facts(report).into_iter();
    let facts = facts.map(|(name, value)| format!("{name}: {value}"));
    vec![Part::Text(method::words(report.language).to_owned()), Part::List(facts.collect())]
}

fn configuration(report: &Report) -> Vec<Part> {
    let lang = report.language;
    let Sources { file, scripts, .. } = report.sources.clone();
    vec![
        Part::List(method::circumstances(report)),
        Part::Source(lang.pick("The experiment", "실험 파일"), file),
        Part::Source(lang.pick("Its script", "스크립트"), scripts),
    ]
}
