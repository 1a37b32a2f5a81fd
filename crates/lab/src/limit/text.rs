//! The report for a terminal: a table, and a sentence for each variant.

use super::goal::number;
use super::report::LimitReport;
use super::search::Length;
use super::summary::{Best, VariantLimit, Versus};
use crate::report::{Language, align, head, ratio};

/// The table with its header. Without the ratio column for a single variant.
pub(crate) fn table(report: &LimitReport) -> Vec<Vec<String>> {
    let heads = heads(report.language).map(str::to_owned);
    let is_single = report.variants.len() == 1;
    let rows = report.variants.iter().map(|variant| row(variant, !is_single, report.language));
    let mut table: Vec<Vec<String>> =
        [heads].into_iter().chain(rows).map(|cells| cells.to_vec()).collect();
    if is_single {
        table.iter_mut().for_each(|row| drop(row.remove(VERSUS)));
    }
    table
}

/// Index of the ratio column.
const VERSUS: usize = 2;

fn heads(lang: Language) -> [&'static str; 5] {
    [
        ("variant", "변형"),
        ("capacity, iterations/s", "한계, 초당 반복"),
        ("against the reference", "기준 대비"),
        ("gave way", "먼저 무너진 것"),
        ("at that rate", "그 속도에서"),
    ]
    .map(|(en, ko)| lang.pick(en, ko))
}

pub(crate) fn render(report: &LimitReport) -> String {
    let lang = report.language;
    let mut lines = vec![
        format!("{} · {}", report.name, report.question),
        format!("{}: {}", lang.pick("goal", "목표"), lang.goal(&report.goal)),
        String::new(),
    ];
    lines.extend(align(&table(report)));
    lines.push(String::new());
    lines.push(report.sentence.clone());
    let label = lang.pick("warning", "경고");
    for warning in &report.warnings {
        lines.push(format!("{label}: {}", warning.replace('\n', "\n  ")));
    }
    lines.join("\n") + "\n"
}

fn row(variant: &VariantLimit, is_compared: bool, lang: Language) -> [String; 5] {
    let versus = match &variant.versus {
        Versus::Reference => String::new(),
        Versus::NoRatio(_) => lang.pick("no ratio", "비율 없음").to_owned(),
        Versus::Ratio(estimate) => match estimate.interval {
            Some((low, high)) => {
                format!("×{} [{} – {}]", ratio(estimate.ratio), ratio(low), ratio(high))
            }
            None => format!("×{}", ratio(estimate.ratio)),
        },
    };
    let searches = variant.searches.len();
    let gave_way = variant
        .gave_way
        .iter()
        .map(|(word, count)| format!("{} {count}/{searches}", lang.gave_way(word)));
    [
        head(&variant.name, is_compared && variant.is_reference, lang),
        lang.capacity(&variant.capacity),
        versus,
        gave_way.collect::<Vec<_>>().join(", "),
        variant.at_best.as_ref().map_or_else(String::new, |one| best(one, lang)),
    ]
}

fn best(best: &Best, lang: Language) -> String {
    let p95 = best.figures.p95_ms.map_or_else(String::new, |ms| format!("p95 {} ms, ", number(ms)));
    let good = lang.pick("good/s", "정상/초");
    let cores = best.server_cores.map_or_else(String::new, |cores| {
        lang.pick(format!(", {cores:.2} cores"), format!(", 코어 {cores:.2}개"))
    });
    format!("{p95}{} {good}{cores}", number(best.figures.goodput))
}

/// Table of all tries, with its header.
pub(crate) fn tries(report: &LimitReport) -> Vec<Vec<String>> {
    let lang = report.language;
    let heads = [
        ("block", "블록"),
        ("variant", "변형"),
        ("rate", "속도"),
        ("try", "시도"),
        ("p95, ms", "p95, ms"),
        ("good/s", "정상/초"),
        ("outcome", "결과"),
    ];
    let heads = heads.map(|(en, ko)| lang.pick(en, ko).to_owned()).to_vec();
    let rows = report.tries.iter().map(|tried| {
        let outcome = match (&tried.void, &tried.missed) {
            (Some(why), _) => {
                format!("{}: {why}", lang.pick("does not count", "세지 않음"))
            }
            (None, Some(why)) => {
                format!("{}: {}", lang.pick("missed the goal", "목표에 못 이름"), lang.missed(why))
            }
            (None, None) => lang.pick("met the goal", "목표에 이름").to_owned(),
        };
        let figures = tried.figures;
        vec![
            tried.block.to_string(),
            tried.variant.clone(),
            tried.rate.to_string(),
            match tried.length {
                Length::Long => lang.pick("long", "김"),
                Length::Short => lang.pick("short", "짧음"),
            }
            .to_owned(),
            figures.and_then(|figures| figures.p95_ms).map_or_else(String::new, number),
            figures.map_or_else(String::new, |figures| number(figures.goodput)),
            outcome,
        ]
    });
    [heads].into_iter().chain(rows).collect()
}
