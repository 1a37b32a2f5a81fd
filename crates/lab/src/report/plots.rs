//! Plots of a comparison.

use super::document::{Part, Plot};
use super::means::{self, rounds as rounds_of, typical};
use super::plot::{self, Line, Row};
use super::{Report, all};
use crate::journal::record::Measured;
use crate::judge::metric::{Metric, Statistic, digits};
use crate::load::report::Step;
use crate::observe::ServerStep;

/// Values of a round over time.
type Series<'g> = dyn Fn(&Measured) -> Vec<f64> + 'g;
type Label = dyn Fn(f64) -> String;

const MEBIBYTE: f64 = 1_048_576.0;

/// Metrics with a plot of every round.
const SHOWN: [Metric; 4] = [
    Metric::Goodput,
    Metric::Latency(Statistic::P95),
    Metric::CpuPerGoodRequest,
    Metric::PeakMemory,
];

pub(crate) fn rounds(report: &Report) -> Vec<Part> {
    let predicted = report.predictions.iter().map(|answer| &answer.prediction.metric);
    let mut metrics: Vec<&Metric> = SHOWN.iter().collect();
    for metric in predicted {
        if !metrics.contains(&metric) {
            metrics.insert(0, metric);
        }
    }
    let has_pairs = report.settings.design.has_pairs();
    metrics.sort_by_key(|metric| !(has_pairs && metric.is_cost()));
    let figures = metrics.into_iter().map(|metric| {
        let title = report.language.metric(metric);
        // The rounds that its ratio is based on.
        let is_paired = has_pairs && metric.is_cost();
        let rows: Vec<Row<'_>> = report
            .variants
            .iter()
            .enumerate()
            .map(|(series, variant)| {
                let rounds = all(&report.rounds, &variant.name);
                let rounds = rounds.filter(|(round, _)| round.beside.is_some() == is_paired);
                let values: Vec<f64> =
                    rounds.filter_map(|(_, measured)| metric.level(measured).ok()).collect();
                Row { name: &variant.name, series, mean: typical(&values), values }
            })
            .collect();
        let svg = plot::points(&title, &rows, &|value| metric.show(value));
        Plot { title, svg }
    });
    let note = report.language.pick(
        "Each point is a round; below them the mean (diamond) and its 95 % interval.",
        "점 하나가 라운드 하나입니다. 그 아래는 평균(마름모)과 95 % 신뢰구간입니다.",
    );
    vec![Part::Note(note.to_owned()), Part::Plots(figures.collect())]
}

/// Response times by percentile, on a logarithmic scale.
pub(crate) fn percentiles(report: &Report) -> Vec<Part> {
    let title = report.language.pick("Response time by percentile", "백분위별 응답 시간");
    let figures = report.variants.iter().enumerate().filter_map(|(series, variant)| {
        let times = variant.figures?.response_ms?;
        let values = [times.p50, times.p90, times.p95, times.p99, times.max];
        let points = values.into_iter().enumerate().map(|(at, value)| (at as f64, value));
        Some(Line { name: &variant.name, series, points: points.collect() })
    });
    let lines: Vec<Line<'_>> = figures.collect();
    let labels = ["p50", "p90", "p95", "p99", "max"];
    let svg = plot::lines(title, &lines, Some(&labels), true, &milliseconds);
    vec![Part::Plots(vec![Plot { title: title.to_owned(), svg }])]
}

fn milliseconds(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    Metric::Latency(Statistic::Mean).show(value)
}

pub(crate) fn over_time(report: &Report) -> Vec<Part> {
    let lang = report.language;
    let first = report.variants.first().map(|variant| rounds_of(report, &variant.name));
    let first = first.and_then(|rounds| rounds.first()?.load.whole_steps());
    let step = first.map_or(1.0, |(seconds, _)| seconds);
    let load = |get: fn(&Step) -> f64| {
        move |round: &Measured| match &round.load.series {
            // An incomplete last step has fewer requests.
            Some(series) => whole(&series.steps, round, step).iter().map(get).collect(),
            None => Vec::new(),
        }
    };
    let server = |get: fn(&ServerStep) -> Option<f64>| {
        move |round: &Measured| match &round.server {
            Some(server) => server.steps.iter().filter_map(get).collect(),
            None => Vec::new(),
        }
    };
    let good = load(|step| step.good as f64);
    let good = |round: &Measured| good(round).into_iter().map(|good| good / step).collect();
    let p95 = load(|step| step.p95_ms);
    let cpu = server(|step| step.cpu_cores);
    // In MiB, for round labels.
    let memory = server(|step| Some(step.rss_bytes as f64 / MEBIBYTE));
    let plots: [(&str, &Series<'_>, &Label); 4] = [
        (lang.pick("Good requests per second", "초당 정상 요청"), &good, &digits),
        (lang.pick("Response time, p95", "응답 시간, p95"), &p95, &milliseconds),
        (lang.pick("Server CPU, cores", "서버 CPU, 코어"), &cpu, &digits),
        (
            lang.pick("Resident memory of the server, MiB", "서버 상주 메모리, MiB"),
            &memory,
            &digits,
        ),
    ];
    let figure_of = |title: &str, get: &Series<'_>, show: &Label| {
        let lines = report.variants.iter().enumerate().map(|(series, variant)| {
            let points = means::over_time(&rounds_of(report, &variant.name), step, get);
            Line { name: &variant.name, series, points }
        });
        let svg = plot::lines(title, &lines.collect::<Vec<_>>(), None, false, show);
        Plot { title: title.to_owned(), svg }
    };
    let mut figures: Vec<Plot> =
        plots.into_iter().map(|(title, get, show)| figure_of(title, get, show)).collect();
    for series in observed(report) {
        let per_second = lang.pick("per second", "초당");
        let is_counter = is_counter(&series);
        let get = |round: &Measured| {
            let own = round.observed.iter().find(|observed| observed.series == series);
            let steps = own.map_or(&[][..], |own| &own.steps);
            if is_counter { rates(steps, step) } else { steps.to_vec() }
        };
        let title = if is_counter { format!("{series}, {per_second}") } else { series.clone() };
        figures.push(figure_of(&title, &get, &digits));
    }
    vec![Part::Plots(figures)]
}

fn observed(report: &Report) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for variant in &report.variants {
        let rounds = rounds_of(report, &variant.name);
        let sampled = rounds.iter().flat_map(|round| &round.observed);
        for one in sampled.filter(|one| !one.steps.is_empty()) {
            if !names.contains(&one.series) {
                names.push(one.series.clone());
            }
        }
    }
    names
}

/// By the suffixes of Prometheus ("Metric and label naming") and OpenMetrics.
fn is_counter(series: &str) -> bool {
    let name = series.split('{').next().unwrap_or_default();
    ["_total", "_count", "_sum", "_bucket"].iter().any(|suffix| name.ends_with(suffix))
}

/// Growth of a counter per second in each step but the first. A counter that falls was reset with its server.
fn rates(steps: &[f64], step: f64) -> Vec<f64> {
    let rate = |pair: &[f64]| ((pair[1] - pair[0]) / step).max(0.0);
    let first = steps.first().map(|_| f64::NAN);
    first.into_iter().chain(steps.windows(2).map(rate)).collect()
}

/// Complete steps of the window.
fn whole<'s, T>(steps: &'s [T], round: &Measured, step: f64) -> &'s [T] {
    // Tolerates clocks.
    let count = ((round.load.duration_seconds + 0.05) / step).floor() as usize;
    &steps[..count.min(steps.len())]
}
