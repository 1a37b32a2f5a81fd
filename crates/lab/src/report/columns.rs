//! Table with the columns of other load-testing tools.

use super::figures::{Figures, Times};
use super::{Language, Report};
use crate::judge::metric::{Metric, Statistic, digits};

/// Head of a column in both languages, and its value for a variant.
type Column = (&'static str, &'static str, fn(&Figures) -> String);

const COLUMNS: [Column; 17] = [
    ("rounds", "라운드", |figures| figures.rounds.to_string()),
    ("total", "총 요청", |figures| count(figures.requests)),
    ("good/s", "정상/초", |figures| digits(figures.good_per_second)),
    ("peak/s", "최고/초", |figures| or_dash(figures.peak_good_per_second, digits)),
    ("avg", "평균", |figures| time(figures, |times| times.avg)),
    ("min", "최소", |figures| time(figures, |times| times.min)),
    ("max", "최대", |figures| time(figures, |times| times.max)),
    ("std dev", "표준편차", |figures| time(figures, |times| times.stddev)),
    ("p50", "p50", |figures| time(figures, |times| times.p50)),
    ("p90", "p90", |figures| time(figures, |times| times.p90)),
    ("p95", "p95", |figures| time(figures, |times| times.p95)),
    ("p99", "p99", |figures| time(figures, |times| times.p99)),
    ("KB/s", "KB/초", |figures| digits(figures.kilobytes_per_second)),
    ("failed", "실패", |figures| percent(figures.failed_share)),
    ("not good", "비정상", |figures| percent(figures.not_good_share)),
    ("CPU/request", "CPU/요청", |figures| {
        or_dash(figures.cpu_us_per_good_request, |cpu| Metric::CpuPerGoodRequest.show(cpu))
    }),
    ("memory", "메모리", |figures| {
        or_dash(figures.peak_memory_bytes, |bytes| Metric::PeakMemory.show(bytes as f64))
    }),
];

/// Only with a price.
const COST: Column = ("cost/million good", "정상 백만 건당 비용", |figures| {
    or_dash(figures.cost_per_million_good, |cost| format!("{cost:.4}"))
});

/// A head, and a row for each measured variant.
pub(crate) fn table(report: &Report) -> Vec<Vec<String>> {
    let lang = report.language;
    let measured = || report.variants.iter().filter_map(|one| Some((&one.name, one.figures?)));
    let has_price = measured().any(|(_, figures)| figures.cost_per_million_good.is_some());
    let columns: Vec<Column> = COLUMNS.into_iter().chain(has_price.then_some(COST)).collect();
    let heads = columns.iter().map(|(en, ko, _)| lang.pick(*en, *ko).to_owned());
    let mut rows =
        vec![[lang.pick("variant", "변형").to_owned()].into_iter().chain(heads).collect()];
    for (name, figures) in measured() {
        let cells = columns.iter().map(|(.., value)| value(&figures));
        rows.push([name.clone()].into_iter().chain(cells).collect());
    }
    rows
}

pub(crate) fn note(lang: Language) -> &'static str {
    lang.pick(
        "Arithmetic means of the rounds, as other tools have them; total, min, max, peak and memory \
         are of all rounds. Which difference is more than chance is in the table above.",
        "다른 도구의 표와 비교할 수 있도록 라운드의 산술 평균을 씁니다. 총 요청, 최소, 최대, 최고, \
         메모리는 모든 라운드에서 구했습니다. 우연이 아닌 차이는 위의 표에 있습니다.",
    )
}

fn or_dash<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

fn time(figures: &Figures, get: fn(&Times) -> f64) -> String {
    or_dash(figures.response_ms, |times| Metric::Latency(Statistic::Mean).show(get(&times)))
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
