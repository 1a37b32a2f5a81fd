//! `--html`: the report as one page.

use std::collections::BTreeMap;

use madang_lab::report::Language;
use madang_lab::report::page::{Document, Line, Part, Plot, Section, Table, lines};
use madang_load::report::{NameReport, Report, Requests, Step, Trend, Trouble};

/// Names in the legend of plots.
const SERIES: [&str; 2] = ["all", "good"];

/// The page. `raw`: the report as JSON, for other programs.
pub(crate) fn page(report: &Report, raw: &str) -> String {
    let section = |title, parts| Section { title, parts };
    let name = report.script.rsplit('/').next().unwrap_or_default();
    let document = Document {
        lang: Language::En,
        command: "madang load",
        name: name.to_owned(),
        question: question(report),
        top: top(report),
        sections: vec![
            section("Load over time", over_time(report)),
            section("Response times", response_times(report)),
            section("Thresholds", vec![Part::Table(thresholds(report))]),
            section("Checks", vec![Part::Table(checks(report))]),
            section("Scenarios", vec![Part::Table(scenarios(report))]),
            section("Groups", vec![Part::Table(names("Group", &report.groups))]),
            section("Requests", vec![Part::Table(names("Name", &report.names))]),
            section("Errors", errors(report)),
            section("All metrics", vec![Part::Folded("As a table", metrics(report))]),
            section("The load generator", generator(report)),
        ],
        series: SERIES.map(str::to_owned).to_vec(),
    };
    document.to_html(raw)
}

fn question(report: &Report) -> String {
    let users = report.vus_max;
    let warm_up = match report.warm_up_seconds {
        0.0 => String::new(),
        seconds => format!(", after a warm-up of {}", duration(seconds)),
    };
    let measured = duration(report.duration_seconds);
    format!("{measured} measured, at most {users} virtual users{warm_up}")
}

fn top(report: &Report) -> Vec<Part> {
    let mut parts = Vec::new();
    let crossed = report.thresholds.iter().filter(|one| !one.ok).count();
    match (report.thresholds.len(), crossed) {
        (0, _) => {}
        (1, 0) => parts.push(Part::Answer("supported", "The threshold holds.".to_owned())),
        (all, 0) => parts.push(Part::Answer("supported", format!("All {all} thresholds hold."))),
        (all, crossed) => {
            let text = format!("Thresholds that do not hold: {crossed} of {all}.");
            parts.push(Part::Answer("refuted", text));
        }
    }
    if report.aborted {
        parts.push(Part::Answer("undecided", "The run was ended before its time.".to_owned()));
    }
    if let Some(reason) = &report.generator.reason {
        let text =
            format!("The load generator, not the server, may have been the limit: {reason}.");
        parts.push(Part::Answer("undecided", text));
    }
    let Requests { total, good, failed, unanswered } = report.requests;
    let seconds = report.duration_seconds.max(1e-9);
    let (passes, fails) = report
        .checks
        .iter()
        .fold((0, 0), |(passes, fails), check| (passes + check.passes, fails + check.fails));
    let mut cells = vec![
        ("Requests", total.to_string()),
        ("a second", number(total as f64 / seconds)),
        ("good", share(good, total)),
        ("failed", format!("{failed} ({})", share(failed, total))),
        ("unanswered", unanswered.to_string()),
    ];
    if passes + fails > 0 {
        cells.push(("checks passed", share(passes, passes + fails)));
    }
    for (name, value) in [
        ("iterations", report.iterations.complete),
        ("iterations cut short", report.iterations.interrupted),
        ("iterations dropped", report.iterations.dropped),
    ] {
        if value > 0 || name == "iterations" {
            cells.push((name, value.to_string()));
        }
    }
    let (head, cells): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
    parts.push(Part::Table(table(&head, std::iter::once(cells))));
    parts
}

fn over_time(report: &Report) -> Vec<Part> {
    let length = f64::from(report.series.step_seconds);
    // The last step may be shorter, and would look like less load.
    let whole = (report.duration_seconds / length).floor().max(1.0) as usize;
    let steps: Vec<&Step> = report.series.steps.iter().take(whole).collect();
    let line = |series: usize, value: &dyn Fn(&Step) -> f64| Line {
        name: SERIES[series],
        series,
        points: steps
            .iter()
            .enumerate()
            .map(|(at, step)| (at as f64 * length, value(step)))
            .collect(),
    };
    let requests = [
        line(0, &|step| step.requests as f64 / length),
        line(1, &|step| step.good as f64 / length),
    ];
    let plot = |title: &str, lines_of: &[Line<'_>], show: &dyn Fn(f64) -> String| Plot {
        title: title.to_owned(),
        svg: lines(title, lines_of, None, false, show),
    };
    vec![Part::Plots(vec![
        plot("Requests a second", &requests, &number),
        plot("Response time, p95", &[line(0, &|step| step.p95_ms)], &milliseconds),
    ])]
}

fn response_times(report: &Report) -> Vec<Part> {
    let Some(times) = report.trends.get("http_req_duration").filter(|trend| trend.count > 0) else {
        return Vec::new();
    };
    let labels = ["p50", "p90", "p95", "p99", "p99.9", "max"];
    let values = [times.p50, times.p90, times.p95, times.p99, times.p999, times.max];
    let points = values.into_iter().enumerate().map(|(at, value)| (at as f64, value)).collect();
    let title = "Response time by percentile";
    let line = Line { name: SERIES[0], series: 0, points };
    let svg = lines(title, &[line], Some(&labels), true, &milliseconds);
    let head = ["", "count", "mean", "p50", "p90", "p95", "p99", "max"];
    let parts = report.trends.iter().filter(|(name, trend)| {
        name.starts_with("http_req_") && !name.contains('{') && trend.count > 0
    });
    let rows = parts.map(|(name, trend)| {
        let values = [trend.avg, trend.p50, trend.p90, trend.p95, trend.p99, trend.max];
        let cells = [name.clone(), trend.count.to_string()];
        cells.into_iter().chain(values.map(milliseconds)).collect()
    });
    let plot = Plot { title: title.to_owned(), svg };
    vec![Part::Plots(vec![plot]), Part::Table(table(&head, rows))]
}

fn thresholds(report: &Report) -> Table {
    let rows = report.thresholds.iter().map(|one| {
        let cells = [mark(one.ok), &one.metric, &one.threshold, &number(one.value)];
        cells.map(str::to_owned).to_vec()
    });
    table(&["", "Metric", "Threshold", "Found"], rows)
}

fn mark(is_good: bool) -> &'static str {
    if is_good { "✓" } else { "✗" }
}

fn checks(report: &Report) -> Table {
    let rows = report.checks.iter().map(|check| {
        let group = check.group.replacen("::", "", 1).replace("::", " › ");
        let (passes, fails) = (check.passes.to_string(), check.fails.to_string());
        vec![mark(check.fails == 0).to_owned(), check.name.clone(), group, passes, fails]
    });
    table(&["", "Check", "Group", "Passed", "Failed"], rows)
}

/// Columns about requests.
const OF_REQUESTS: [&str; 7] = ["Requests", "a second", "failed", "p50", "p95", "p99", "max"];

fn of_requests(requests: &Requests, times: &Trend, seconds: f64) -> Vec<String> {
    let values = [times.p50, times.p95, times.p99, times.max];
    let counts = [
        requests.total.to_string(),
        number(requests.total as f64 / seconds.max(1e-9)),
        share(requests.failed, requests.total),
    ];
    counts.into_iter().chain(values.map(milliseconds)).collect()
}

fn scenarios(report: &Report) -> Table {
    let head = [&["Scenario", "Executor", "Iterations", "dropped"][..], &OF_REQUESTS].concat();
    let rows = report.scenarios.iter().map(|(name, scenario)| {
        let mut cells = vec![
            name.clone(),
            scenario.executor.clone(),
            scenario.iterations.complete.to_string(),
            scenario.iterations.dropped.to_string(),
        ];
        let seconds = report.duration_seconds;
        cells.extend(of_requests(&scenario.requests, &scenario.http_req_duration, seconds));
        cells
    });
    table(&head, rows)
}

fn names(title: &str, all: &BTreeMap<String, NameReport>) -> Table {
    let head = [&[title][..], &OF_REQUESTS[..1], &OF_REQUESTS[2..]].concat();
    let rows = all.iter().map(|(name, found)| {
        let mut cells = of_requests(&found.requests, &found.http_req_duration, 1.0);
        cells.remove(1);
        let name = name.replacen("::", "", 1).replace("::", " › ");
        cells.insert(0, if name.is_empty() { "(outside of groups)".to_owned() } else { name });
        cells
    });
    table(&head, rows)
}

fn errors(report: &Report) -> Vec<Part> {
    let list = |title: &str, troubles: &[Trouble]| {
        let lines = troubles.iter().map(|one| format!("{} × {}", one.count, one.message));
        [Part::Heading(title.to_owned()), Part::List(lines.collect())]
    };
    let statuses = report.status_codes.iter().map(|(code, count)| {
        let shown = if code == "0" { "no answer" } else { code };
        vec![shown.to_owned(), count.to_string()]
    });
    let mut parts = Vec::new();
    if !report.failures.is_empty() {
        parts.extend(list("Failed requests", &report.failures));
    }
    if !report.exceptions.is_empty() {
        parts.extend(list("Exceptions", &report.exceptions));
    }
    parts.push(Part::Table(table(&["Status", "Requests"], statuses)));
    parts
}

fn metrics(report: &Report) -> Table {
    let rows = report.metrics.iter().map(|(name, metric)| {
        // The fields depend on its kind.
        let fields = serde_json::to_value(metric).unwrap_or_default();
        let fields = fields.as_object().cloned().unwrap_or_default();
        let fields = fields.iter().map(|(field, value)| match value.as_f64() {
            Some(value) => format!("{field} {}", number(value)),
            None => format!("{field} {}", value.as_str().unwrap_or_default()),
        });
        vec![name.clone(), fields.collect::<Vec<_>>().join(", ")]
    });
    table(&["Metric", "Values"], rows)
}

fn generator(report: &Report) -> Vec<Part> {
    let generator = &report.generator;
    let mut lines = vec![
        format!(
            "{} s of CPU on {} cores, {} event loops; the busiest used {} of its time",
            number(generator.cpu_seconds),
            generator.cores,
            generator.event_loops,
            percent(generator.busiest_loop),
        ),
        format!(
            "event loops were late by {} (p99), {} at most",
            milliseconds(generator.lag_p99_ms),
            milliseconds(generator.lag_max_ms)
        ),
    ];
    if let Some(lag) = generator.start_lag_p99_ms {
        lines.push(format!("iterations started late by {} (p99)", milliseconds(lag)));
    }
    vec![Part::List(lines)]
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    Table::new(std::iter::once(head).chain(rows).collect())
}

/// With three significant digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => return "0".to_owned(),
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn milliseconds(value: f64) -> String {
    if value >= 1000.0 {
        format!("{} s", number(value / 1000.0))
    } else {
        format!("{} ms", number(value))
    }
}

fn duration(seconds: f64) -> String {
    format!("{} s", number(seconds))
}

fn share(part: u64, all: u64) -> String {
    percent(part as f64 / all.max(1) as f64)
}

fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}
