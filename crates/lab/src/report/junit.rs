//! JUnit XML for CI: a test case per figure in question and per prediction.

use super::Report;
use super::document::escaped as text;

/// Worse, refuted and broken are failures; undecided ones are skipped.
pub(crate) fn render(report: &Report) -> String {
    let broken = report.broken.iter().map(|line| ("broken", "system", line.as_str()));
    let found = report.headlines.iter().map(|one| (one.answer.word(), "answer", &*one.sentence));
    let predictions = report.predictions.iter();
    let predictions = predictions.map(|one| (one.verdict.word(), "prediction", &*one.sentence));
    let further = report.also_worse.iter().map(|one| ("worse", "answer", &*one.sentence));
    let all: Vec<(&str, &str, &str)> =
        broken.chain(found).chain(further).chain(predictions).collect();
    let is_failure = |word: &str| matches!(word, "broken" | "worse" | "refuted");
    let is_skipped = |word: &str| matches!(word, "cannot-tell" | "undecided");
    let count = |is: &dyn Fn(&str) -> bool| all.iter().filter(|(word, ..)| is(word)).count();
    let case = |(word, class, line): &(&str, &str, &str)| {
        let line = text(line);
        let inside = if is_failure(word) {
            format!("<failure message=\"{line}\"/>")
        } else if is_skipped(word) {
            format!("<skipped message=\"{line}\"/>")
        } else {
            String::new()
        };
        let name = text(&report.experiment.name);
        format!("  <testcase classname=\"{name}.{class}\" name=\"{line}\">{inside}</testcase>\n")
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" \
         skipped=\"{}\">\n{}</testsuite>\n",
        text(&report.experiment.name),
        all.len(),
        count(&is_failure),
        count(&is_skipped),
        all.iter().map(case).collect::<String>()
    )
}
