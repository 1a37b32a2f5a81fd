//! The report as one page that needs nothing else: no network, no script. Plots are drawn here, as
//! SVG; all rounds are in the page as JSON, for whoever wants to go on from them.

pub(crate) mod escape;
mod figures;
pub(crate) mod page;
pub(crate) mod plot;
mod plots;
pub(crate) mod tables;

use std::fmt::Write;

use super::{Report, invariants};
use escape::text;
use page::Page;

/// The page.
pub fn render(report: &Report) -> String {
    let lang = report.language;
    let experiment = &report.experiment;
    let mut top = String::new();
    answers(&mut top, report);
    let names: Vec<&str> = report.variants.iter().map(|variant| variant.name.as_str()).collect();
    let sections = [
        (lang.pick("Every round", "모든 라운드"), plots::rounds(report)),
        (lang.pick("Ratios", "비율"), tables::ratios(report)),
        (lang.pick("Figures", "수치"), tables::figures(report)),
        (lang.pick("Latency by percentile", "백분위별 응답 시간"), plots::percentiles(report)),
        (lang.pick("Over time", "시간에 따른 변화"), plots::over_time(report)),
        (lang.pick("By endpoint", "엔드포인트별"), tables::parts(report, |load| &load.names)),
        (lang.pick("By group", "그룹별"), tables::groups(report)),
        (lang.pick("By scenario", "시나리오별"), tables::scenarios(report)),
        (lang.pick("Answers by status code", "상태 코드별 응답"), tables::status_codes(report)),
        (lang.pick("Warnings", "경고"), tables::list(report.warnings.clone())),
        (lang.pick("How it was measured", "측정 방법"), tables::method(report)),
        (lang.pick("Configuration", "설정"), tables::configuration(report)),
    ];
    page::render(&Page {
        lang,
        command: "madang compare",
        name: &experiment.name,
        question: &experiment.question,
        top: &top,
        sections: &sections,
        names: &names,
        raw: &serde_json::to_string(report).unwrap_or_default(),
    })
}

/// First what is broken, then what was predicted and found.
fn answers(page: &mut String, report: &Report) {
    let lang = report.language;
    if !report.broken.is_empty() {
        let label = lang.pick("Broken", "고장");
        let _ = writeln!(
            page,
            "<div class=\"answer broken\"><b>{label}</b><pre>{}</pre></div>",
            text(&report.broken.join("\n"))
        );
    }
    let (_, held) = invariants::lines(&report.invariants, lang);
    for (class, line) in report.found() {
        let _ = writeln!(page, "<p class=\"answer {class}\">{}</p>", text(line));
    }
    if let Some(held) = held {
        let _ = writeln!(page, "<p class=\"answer held\">{}</p>", text(&held));
    }
    if let Some(pace) = &report.pace {
        let _ = writeln!(page, "<p class=\"faint\">{}</p>", text(pace));
    }
}
