//! Table with the columns of other load-testing tools.

use super::figures::{Figures, Times};
use super::{Language, Report};
use crate::judge::metric::{Metric, Statistic, digits};

const DASH: &str = "–";

/// A head, and a row for each measured variant.
pub(crate) fn table(report: &Report) -> Vec<Vec<String>> {
    let lang = report.language;
    let mut heads = [
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
    ]
    .map(|(en, ko)| lang.pick(en, ko).to_owned())
    .to_vec();
    let measured = || report.variants.iter().filter_map(|one| Some((&one.name, one.figures?)));
    let has_price = measured().any(|(_, figures)| figures.cost_per_million_good.is_some());
    if has_price {
        heads.push(lang.pick("cost/million good", "정상 백만 건당 비용").to_owned());
    }
    let rows = measured().map(|(name, figures)| row(name, &figures, has_price));
    [heads].into_iter().chain(rows).collect()
}

pub(crate) fn note(lang: Language) -> &'static str {
    lang.pick(
        "Arithmetic means of the rounds, as other tools have them; total, min, max, peak and memory \
         are of all rounds. Which difference is more than chance is in the table above.",
        "다른 도구의 표와 비교할 수 있도록 라운드의 산술 평균을 씁니다. 총 요청, 최소, 최대, 최고, \
         메모리는 모든 라운드에서 구했습니다. 우연이 아닌 차이는 위의 표에 있습니다.",
    )
}

fn row(name: &str, figures: &Figures, has_price: bool) -> Vec<String> {
    let dash = || DASH.to_owned();
    let time = |get: fn(&Times) -> f64| {
        let show = |times: Times| Metric::Latency(Statistic::Mean).show(get(&times));
        figures.response_ms.map_or_else(dash, show)
    };
    let cpu = figures.cpu_us_per_good_request;
    let mut cells = vec![
        name.to_owned(),
        figures.rounds.to_string(),
        count(figures.requests),
        digits(figures.good_per_second),
        figures.peak_good_per_second.map_or_else(dash, digits),
        time(|times| times.avg),
        time(|times| times.min),
        time(|times| times.max),
        time(|times| times.stddev),
        time(|times| times.p50),
        time(|times| times.p90),
        time(|times| times.p95),
        time(|times| times.p99),
        digits(figures.kilobytes_per_second),
        percent(figures.failed_share),
        percent(figures.not_good_share),
        cpu.map_or_else(dash, |value| Metric::CpuPerGoodRequest.show(value)),
        figures.peak_memory_bytes.map_or_else(dash, |value| Metric::PeakMemory.show(value as f64)),
    ];
    if has_price {
        cells.push(figures.cost_per_million_good.map_or_else(dash, |cost| format!("{cost:.4}")));
    }
    cells
}

/// Transposes a table for a terminal.
pub(crate) fn turned(table: &[Vec<String>]) -> Vec<Vec<String>> {
    let columns = table.first().map_or(0, Vec::len);
    let column = |place| table.iter().filter_map(|row| row.get(place).cloned()).collect();
    (0..columns).map(column).collect()
}

pub(crate) fn count(number: u64) -> String {
    if number < 100 { number.to_string() } else { digits(number as f64) }
}

pub(crate) fn percent(share: f64) -> String {
    if share == 0.0 { "0 %".to_owned() } else { format!("{} %", digits(share * 100.0)) }
}
