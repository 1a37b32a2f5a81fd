//! Content of the report of a search, in the form of a comparison's.

use super::blocks::Try;
use super::goal::{Goal, number, percent};
use super::report::LimitReport;
use super::summary::{Capacity, SearchPart, VariantLimit};
use super::{method, text};
use crate::judge::metric::digits;
use crate::report::document::{Document, Part, Plot, Section, Table};
use crate::report::plot::{self, Dot, Row};

pub(crate) fn document(report: &LimitReport) -> Document {
    let lang = report.language;
    let sentences = report.sentence.lines().zip(&report.variants);
    let mut top: Vec<Part> =
        sentences.map(|(line, variant)| Part::Answer(class(variant), line.to_owned())).collect();
    top.push(Part::Text(format!("{}: {}", lang.pick("Goal", "목표"), lang.goal(&report.goal))));
    top.push(Part::Table(Table::new(text::table(report))));
    let section = |en, ko, parts| Section { title: lang.pick(en, ko), parts };
    Document {
        lang,
        command: "madang limit",
        name: report.name.clone(),
        question: report.question.clone(),
        top,
        sections: vec![
            section("Every search", "모든 탐색", searches(report)),
            section("Every try", "모든 시도", tries(report)),
            section("Warnings", "경고", vec![Part::List(report.warnings.clone())]),
            section("How it was measured", "측정 방법", measured(report)),
        ],
        series: report.variants.iter().map(|variant| variant.name.clone()).collect(),
    }
}

fn class(variant: &VariantLimit) -> &'static str {
    match variant.capacity {
        Capacity::Exactly { .. } => "supported",
        Capacity::AtLeast { .. } | Capacity::Unknown => "undecided",
        Capacity::Nothing { .. } => "refuted",
    }
}

/// Result of each search, with median and interval.
fn searches(report: &LimitReport) -> Vec<Part> {
    let lang = report.language;
    let row = |(series, variant): (usize, &VariantLimit)| {
        let mean = match variant.capacity {
            Capacity::Exactly { rate, interval } => Some((f64::from(rate), interval)),
            _ => None,
        };
        let values = variant.searches.iter().filter_map(SearchPart::limit).map(f64::from).collect();
        (series, values, mean)
    };
    let found: Vec<(usize, Vec<f64>, _)> = report.variants.iter().enumerate().map(row).collect();
    let rows = found.into_iter().zip(&report.variants);
    let rows = rows.map(|((series, values, mean), variant)| Row {
        name: &variant.name,
        series,
        values,
        mean,
    });
    let title = lang.pick("Limit, iterations per second", "한계, 초당 반복");
    let svg = plot::points(title, &rows.collect::<Vec<_>>(), &digits);
    let note = lang.pick(
        "Each point is the highest rate that a search confirmed; below them the median (diamond) and the 95 % interval.",
        "점 하나가 탐색 하나에서 확인된 가장 높은 속도입니다. 그 아래는 중앙값(마름모)과 95 % 신뢰구간입니다.",
    );
    let plot = Plot { title: title.to_owned(), svg };
    vec![Part::Note(note.to_owned()), Part::Plots(vec![plot])]
}

/// Value of a plot.
type Value = fn(&super::goal::Figures) -> Option<f64>;
/// Formats a value.
type Show = fn(f64) -> String;

/// Response time and errors by rate, a mark for each try, and all of them in a table.
fn tries(report: &LimitReport) -> Vec<Part> {
    let lang = report.language;
    let Goal { p95_ms, p99_ms, errors, max_dropped } = report.goal;
    let share = |value: f64| percent(value / 100.0);
    let milliseconds = |value: f64| format!("{} ms", number(value));
    let mut plots: Vec<(&str, Value, Option<f64>, bool, Show)> = vec![(
        lang.pick("Response time, p95, by rate", "속도에 따른 응답 시간, p95"),
        |figures| figures.p95_ms,
        p95_ms,
        true,
        milliseconds,
    )];
    if p99_ms.is_some() {
        let title = lang.pick("Response time, p99, by rate", "속도에 따른 응답 시간, p99");
        plots.push((title, |figures| figures.p99_ms, p99_ms, true, milliseconds));
    }
    let title = lang.pick("Errors by rate", "속도에 따른 오류");
    plots.push((title, |figures| Some(figures.errors * 100.0), Some(errors * 100.0), false, share));
    let title =
        lang.pick("Iterations that could not start, by rate", "속도에 따라 시작 못 한 반복");
    plots.push((
        title,
        |figures| Some(figures.dropped * 100.0),
        Some(max_dropped * 100.0),
        false,
        share,
    ));
    let figures = plots.into_iter().map(|(title, get, limit, is_log, show)| {
        let dots: Vec<Dot<'_>> = report
            .variants
            .iter()
            .enumerate()
            .flat_map(|(series, variant)| {
                let own = report.tries.iter().filter(|tried| tried.variant == variant.name);
                own.filter_map(move |tried| dot(tried, series, get))
            })
            .collect();
        let svg = plot::scatter(title, &dots, limit, is_log, &show);
        Plot { title: title.to_owned(), svg }
    });
    let note = lang.pick(
        "● the goal was reached, × it was missed, ○ the try does not count. The dashed line is the \
         goal. The axis across is the rate, in iterations per second.",
        "● 목표에 이른 시도, × 이르지 못한 시도, ○ 세지 않는 시도입니다. 점선은 목표이고, 가로축은 초당 \
         반복 수입니다.",
    );
    let all = lang.pick("All tries as a table", "모든 시도의 표");
    vec![
        Part::Note(note.to_owned()),
        Part::Plots(figures.collect()),
        Part::Folded(all, Table::new(text::tries(report))),
    ]
}

fn dot(tried: &Try, series: usize, get: Value) -> Option<Dot<'_>> {
    let value = get(tried.figures.as_ref()?)?;
    let mark = match (&tried.void, &tried.missed) {
        (Some(_), _) => plot::Mark::Open,
        (None, Some(_)) => plot::Mark::Cross,
        (None, None) => plot::Mark::Full,
    };
    Some(Dot { name: &tried.variant, series, x: f64::from(tried.rate), y: value, mark })
}

fn measured(report: &LimitReport) -> Vec<Part> {
    vec![Part::Text(method::words(report)), Part::List(method::circumstances(report))]
}
