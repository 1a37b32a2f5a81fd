//! The tables and texts of the page.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    escape::text,
    figures::{Summed, rounds, summed},
};
use crate::{
    load_report::{LoadReport, Part},
    metric::{Metric, Statistic, digits},
    report::{Answer, Comparison, Report, TargetPart, figures::Times, summary},
    stats::Level,
    time,
};

/// A table from its rows; the first is the head.
fn table(rows: &[Vec<String>]) -> String {
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
            if let Some(documented) = &row.documented {
                let label = lang.pick("as documented", "문서");
                let _ = write!(cell, "<small>{label}: {}</small>", text(documented));
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
    let lang = report.language;
    let heads: [(&str, &str); 18] = [
        ("variant", "변형"),
        ("rounds", "라운드"),
        ("total", "총 요청"),
        ("good/s", "정상/초"),
        ("peak/s", "최고/초"),
        ("avg", "평균"),
        ("min", "최소"),
        ("max", "최대"),
        ("std dev", "표준편차"),
        ("p50", "p50"),
        ("p90", "p90"),
        ("p95", "p95"),
        ("p99", "p99"),
        ("KB/s", "KB/초"),
        ("failed", "실패"),
        ("not good", "비정상"),
        ("CPU/request", "CPU/요청"),
        ("memory", "메모리"),
    ];
    let mut rows = vec![heads.map(|(en, ko)| lang.pick(en, ko).to_owned()).to_vec()];
    let figures = report.variants.iter().filter_map(|variant| variant.figures);
    let has_price = figures.clone().any(|one| one.cost_per_million_good.is_some());
    if has_price {
        rows[0].push(lang.pick("cost/million good", "정상 백만 건당 비용").to_owned());
    }
    let dash = || "–".to_owned();
    for variant in &report.variants {
        let Some(one) = variant.figures else { continue };
        let time = |get: fn(&Times) -> f64| {
            one.response_ms
                .map_or_else(dash, |times| Metric::Latency(Statistic::Mean).show(get(&times)))
        };
        rows.push(vec![
            text(&variant.name),
            one.rounds.to_string(),
            count(one.requests),
            digits(one.good_per_second),
            one.peak_good_per_second.map_or_else(dash, digits),
            time(|times| times.avg),
            time(|times| times.min),
            time(|times| times.max),
            time(|times| times.stddev),
            time(|times| times.p50),
            time(|times| times.p90),
            time(|times| times.p95),
            time(|times| times.p99),
            digits(one.kilobytes_per_second),
            percent(one.failed_share),
            percent(one.not_good_share),
            one.cpu_us_per_good_request
                .map_or_else(dash, |value| Metric::CpuPerGoodRequest.show(value)),
            one.peak_rss_bytes.map_or_else(dash, |value| Metric::PeakRss.show(value as f64)),
        ]);
        let cost = || one.cost_per_million_good.map_or_else(dash, |cost| format!("{cost:.4}"));
        if let Some(row) = rows.last_mut().filter(|_| has_price) {
            row.push(cost());
        }
    }
    if rows.len() == 1 {
        return String::new();
    }
    let note = lang.pick(
        "Arithmetic means of the rounds, as other tools have them; total, min, max, peak and memory \
         are of all rounds. Which difference is more than chance is in the table above.",
        "다른 도구의 표와 비교할 수 있도록 라운드의 산술 평균을 씁니다. 총 요청, 최소, 최대, 최고, \
         메모리는 모든 라운드에서 구했습니다. 우연이 아닌 차이는 위의 표에 있습니다.",
    );
    format!("{}<p class=\"faint\">{}</p>\n", table(&rows), text(note))
}

/// Whole numbers as such, with thousands apart.
fn count(number: u64) -> String {
    if number < 100 { number.to_string() } else { digits(number as f64) }
}

fn percent(share: f64) -> String {
    if share == 0.0 { "0 %".to_owned() } else { format!("{} %", digits(share * 100.0)) }
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

/// Figures of others that are none of our metrics.
pub fn documented(report: &Report) -> String {
    let mut items = String::new();
    for variant in &report.variants {
        for (name, figure) in &variant.documented {
            let (variant, name, figure) = (text(&variant.name), text(name), text(figure));
            let _ = write!(items, "<li>{variant}: {name} {figure}</li>");
        }
    }
    if items.is_empty() { items } else { format!("<ul>{items}</ul>\n") }
}

/// What the numbers are and how they came about.
pub fn method(report: &Report) -> String {
    let lang = report.language;
    let settings = &report.settings;
    let of = format!("{} / {}", report.complete_blocks, settings.blocks);
    let measured = settings
        .duration
        .map_or_else(|| lang.pick("as the script says", "스크립트에 따름").to_owned(), time::exact);
    let band = digits(report.experiment.band * 100.0);
    let facts = [
        (lang.pick("complete blocks", "완료된 블록"), of),
        (lang.pick("seed of the order", "순서의 시드"), report.seed.to_string()),
        (lang.pick("warm-up", "예열"), time::exact(settings.warm_up)),
        (lang.pick("measured", "측정 시간"), measured),
        (lang.pick("band of no difference", "차이 없음의 범위"), format!("± {band} %")),
    ];
    let facts = facts.map(|(name, value)| format!("<li>{}: {}</li>", text(name), text(&value)));
    let words = lang.pick(
        "Each block ran every variant once, in random order, on a fresh process with the same data. \
         The round is the unit: ratios are taken within a block, averaged as logarithms, with a 95 % \
         interval by Student's paired t. A ratio that nobody predicted is “no difference” when its \
         whole interval lies inside the band, “higher” or “lower” when its p-value, adjusted by Holm \
         over all of them, is at most 0.05. Good requests are those that did not fail and none of \
         whose checks failed. Server CPU and memory are of its whole process tree.",
        "블록마다 모든 변형을 무작위 순서로 한 번씩, 같은 데이터와 새 프로세스로 실행했습니다. 통계의 \
         단위는 라운드입니다. 비율은 블록 안에서 구해 로그로 평균하고, 대응표본 t로 95 % 신뢰 구간을 \
         냅니다. 예측하지 않은 비율은 구간 전체가 범위 안에 있으면 ‘차이 없음’, Holm 보정 p-값이 0.05 \
         이하이면 ‘높음’ 또는 ‘낮음’입니다. 정상 요청은 실패하지 않았고 검사도 모두 통과한 요청입니다. \
         서버 CPU와 메모리는 프로세스 트리 전체의 값입니다.",
    );
    format!("<p>{}</p>\n<ul>{}</ul>\n", text(words), facts.join("\n"))
}

/// Where and with what, so that somebody else can repeat it.
pub fn configuration(report: &Report) -> String {
    let lang = report.language;
    let machine = &report.machine;
    let unknown = || "?".to_owned();
    let mut lines = vec![
        format!(
            "{} × {}, {}, Linux {}, {}",
            machine.cpus.map_or_else(unknown, |cpus| cpus.to_string()),
            machine.cpu.clone().unwrap_or_else(unknown),
            machine.memory_bytes.map_or_else(unknown, |bytes| format!("{} MiB", bytes >> 20)),
            machine.kernel.clone().unwrap_or_else(unknown),
            machine.system.clone().unwrap_or_else(unknown),
        ),
        format!("{} – {}", report.started, report.finished.as_deref().unwrap_or("?")),
    ];
    lines.extend(report.versions.iter().map(|(name, version)| format!("{name} {version}")));
    for variant in &report.experiment.variants {
        let how = match &variant.target {
            TargetPart::Serve(settings) if settings.is_empty() => {
                lang.pick("defaults", "기본값").to_owned()
            }
            TargetPart::Serve(settings) => settings.to_string().trim().replace('\n', ", "),
            TargetPart::Command(argv) => argv.join(" "),
            TargetPart::Url(url) => url.clone(),
        };
        lines.push(format!("{}: {how}", variant.name));
    }
    let items: Vec<String> = lines.iter().map(|line| format!("<li>{}</li>", text(line))).collect();
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
    format!("<ul>{}</ul>\n{}", items.join("\n"), texts.concat())
}
