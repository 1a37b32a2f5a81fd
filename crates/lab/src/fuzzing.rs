//! Targets of the fuzzer: each feeds arbitrary bytes to a parser of this crate and panics when a property does not
//! hold. Unit tests replay the kept inputs; otherwise they are built for `scripts/fuzz` only.

use std::path::Path;

use crate::file::expression::{Expression, NotFinite};
use crate::file::outline::Outline;
use crate::judge::metric::Metric;
use crate::load::metric::LoadMetric;
use crate::load::report::LoadReport;
use crate::observe::database::Figure;
use crate::observe::prometheus::Selector;
use crate::round::values::json;
use crate::{Experiment, RoundRecord};

/// Name of a directory in `fuzz/seeds`, and the function that gets its inputs.
pub type FuzzTarget = (&'static str, fn(&[u8]));

pub const TARGETS: &[FuzzTarget] = &[
    ("experiments", experiments),
    ("formulas", formulas),
    ("measured_pages", measured_pages),
    ("load_reports", load_reports),
];

fn experiments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The script is missing; everything else is checked.
    if let Err(error) = Experiment::of_command_line(text, Path::new("/nonexistent")) {
        assert!(!error.to_string().is_empty());
    }
}

fn formulas(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(formula) = Expression::parse(text) {
        assert_eq!(formula.to_string(), text);
        if let Ok(value) = formula.evaluate(&|_| Ok::<_, NotFinite>(3.0)) {
            assert!(value.is_finite());
        }
    }
    let _ = (LoadMetric::parse(text), Figure::parse(text));
    if let Some(metric) = Metric::from_id(text) {
        assert_eq!(Metric::from_id(&metric.id()), Some(metric));
    }
}

/// A page of metrics or JSON of a server; its first line is the selector or path.
fn measured_pages(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (wanted, page) = text.split_once('\n').unwrap_or((&text, ""));
    if let Ok(selector) = Selector::parse(wanted) {
        let _ = selector.sum(page);
        let written = selector.to_string();
        let again = Selector::parse(&written).map(|again| again.to_string());
        // Names are not checked: one that contains a quotation mark may become another.
        assert!(wanted.matches('"').count() > 2 || again.as_ref() == Ok(&written), "{written}");
    }
    let _ = json::number(page.as_bytes(), wanted);
}

/// Reports of load generators, and journals of runs.
fn load_reports(data: &[u8]) {
    if let Ok(report) = LoadReport::parse(data, Path::new("report.json")) {
        let _ = (report.http_req_duration(), report.good_share(), report.has_dropped());
        let _ = (report.response_times(), report.threw_share());
        let text = serde_json::to_vec(&report).expect("numbers and texts");
        let again = LoadReport::parse(&text, Path::new("report.json")).expect("what is written");
        assert_eq!(serde_json::to_vec(&again).ok(), Some(text));
    }
    if let Ok(record) = serde_json::from_slice::<RoundRecord>(data) {
        let text = serde_json::to_vec(&record).expect("numbers and texts");
        let again: RoundRecord = serde_json::from_slice(&text).expect("what is written");
        assert_eq!(serde_json::to_vec(&again).ok(), Some(text));
    }
    let _ = serde_json::from_slice::<Outline>(data);
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_fuzzer_has_found_stays_mended() {
        madang_testing::replay(super::TARGETS);
    }
}
