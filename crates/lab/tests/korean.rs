//! Korean reports are Korean throughout, except for names, units and output of programs.

use std::collections::BTreeSet;
use std::fs;

use madang_lab::report::Language;
use madang_lab::{Options, Report, Stored};
use serde_json::Value;

use crate::help::{Lab, two};
use crate::rich::{self, HOSTILE, large};

/// Units, terms without a Korean name, and names that are the same in every language.
const KNOWN: &str = "ms s µs us min MiB KB req CPU CPUs lab Holm JSON json report p avg max min p50 p90 p95 p99 \
     Linux proc madang compare url serve command t br maxVUs accept failed_checks failed checks";

/// Words of a Korean report that are neither Korean nor a name.
fn foreign(text: &str, report: &Value) -> BTreeSet<String> {
    let mut names = vec![HOSTILE.to_owned()];
    names_in(report, &mut names);
    // Longest first: a name may be part of another.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let mut text = without(text, '«', '»');
    for name in names.iter().filter(|name| name.len() > 1) {
        text = text.replace(name.as_str(), " ");
    }
    let words = text.split(|letter: char| !letter.is_alphanumeric() || !letter.is_ascii());
    let words = words.filter(|word| word.chars().any(|letter| letter.is_ascii_alphabetic()));
    let known: BTreeSet<&str> = KNOWN.split_whitespace().collect();
    words.filter(|word| !known.contains(word)).map(str::to_owned).collect()
}

/// Words of machine and versions, and all names and texts of the author or a program.
fn names_in(report: &Value, names: &mut Vec<String>) {
    let experiment = &report["experiment"];
    for text in ["/experiment/name", "/experiment/file", "/experiment/script", "/sources/file"]
        .into_iter()
        .chain(["/sources/scripts", "/machine/cpu", "/machine/kernel", "/machine/system"])
        .filter_map(|place| report.pointer(place)?.as_str())
    {
        names.extend([text.trim().to_owned(), text.to_owned()]);
    }
    let rows = report["variants"].as_array().unwrap().iter();
    let metrics = rows.flat_map(|one| one["metrics"].as_array().unwrap());
    names.extend(metrics.filter_map(|row| row["metric"].as_str()).map(str::to_owned));
    for variant in experiment["variants"].as_array().unwrap() {
        names.push(variant["name"].as_str().unwrap().to_owned());
        let settings = variant["serve"].as_object();
        names.extend(settings.into_iter().flatten().map(|(name, _)| name.clone()));
    }
    for pair in report["versions"].as_array().unwrap() {
        names.extend([0, 1].map(|place| pair[place].as_str().unwrap().to_owned()));
    }
    for invariant in experiment["invariants"].as_array().unwrap() {
        names.push(invariant["name"].as_str().unwrap().to_owned());
    }
    // Formulas, dates and CPU lists.
    names.extend(["max(0, before)", "before", "1 + 1"].map(str::to_owned));
    for moment in ["started", "finished"] {
        names.extend(report[moment].as_str().map(str::to_owned));
    }
    names
        .extend(report["resumed"].as_array().unwrap().iter().map(|at| at.as_str().unwrap().into()));
    names.extend(["requests_total{kind=\"any\"}", "in_flight"].map(str::to_owned));
    // Other processes on the machine.
    let rounds = report["rounds"].as_array().unwrap().iter();
    let others = rounds.filter_map(|round| round.pointer("/measured/machine/others")?.as_array());
    names.extend(others.flatten().filter_map(|one| one["name"].as_str()).map(str::to_owned));
    names.extend(["::browse", "/v1/tracks", "spike", "main"].map(str::to_owned));
}

/// Removes text between two marks.
fn without(text: &str, from: char, to: char) -> String {
    let mut rest = String::new();
    let mut depth = 0_u32;
    for letter in text.chars() {
        match letter {
            _ if letter == from => depth += 1,
            _ if letter == to && depth > 0 => depth -= 1,
            _ if depth == 0 => rest.push(letter),
            _ => {}
        }
    }
    rest
}

/// Visible text of a page.
fn visible(html: &str) -> String {
    let (page, _) = html.split_once("<script").unwrap();
    let (_, page) = page.split_once("</style>").unwrap();
    let mut page = page.to_owned();
    // The experiment and its script are not translated.
    while let Some((before, rest)) = page.split_once("<details>") {
        let (details, after) = rest.split_once("</details>").unwrap();
        let (summary, _) = details.split_once("<pre>").unwrap();
        page = format!("{before}{summary}{after}");
    }
    // A cell ends a word.
    let text = without(&page.replace('<', " <"), '<', '>');
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#39;", "'")
}

#[track_caller]
fn assert_korean(report: &Report) {
    let json: Value = serde_json::from_str(&report.to_json()).unwrap();
    let html = report.to_html();
    let page = report.to_markdown().replace("details>", ">").replace("summary>", ">");
    for text in [report.to_full_text(), page, visible(&html)] {
        let words = foreign(&text, &json);
        assert!(words.is_empty(), "{words:?} in:\n{text}");
        // An empty report would pass, too. A quiet run without warnings has the least text.
        let korean = text.chars().filter(|letter| ('가'..='힣').contains(letter)).count();
        assert!(korean > 100, "{korean} letters in:\n{text}");
    }
    // Text in the machine-readable report is in the same language.
    for place in [
        "/broken", "/caveats", "/headlines/0/sentence", "/warnings", "/noise", "/pace",
        "/undecided_because",
    ] {
        let text = json.pointer(place).unwrap().to_string();
        let words = foreign(&text.replace("null", "").replace("\\n", " "), &json);
        assert!(words.is_empty(), "{words:?} in {place}: {text}");
    }
}

fn in_korean() -> Options {
    Options { language: Language::Ko, ..Options::default() }
}

#[test]
fn a_rich_run_is_korean_throughout() {
    let (lab, report) = rich::run(&in_korean());
    assert_korean(&report);
    let written = fs::read_to_string(lab.out().join("report.md")).unwrap();
    assert_eq!(written, report.to_markdown());
    let text = report.to_full_text();
    for part in ["고장", "깨졌습니다", "측정값", "표준편차", "비정상 요청"] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    let calibration = rich::run(&Options { calibration: true, ..in_korean() }).1;
    assert!(calibration.sentence().contains("판정"), "{}", calibration.sentence());
    assert_korean(&calibration);
}

#[test]
fn every_doubt_and_every_ending_has_korean_words() {
    let lab = Lab::new(
        "get",
        &two("serve = {}", "serve = {}", 1, "").replace("Which is faster?", rich::QUESTION),
    );
    let dir = large(&lab);
    let report =
        |dir| madang_lab::report_again(&Stored::read(dir).unwrap(), Some(Language::Ko)).unwrap();
    assert_korean(&report(&dir));
    rich::doubtful(&dir, 9);
    let mut run = Stored::read(&dir).unwrap();
    run.plan.language = Language::Ko;
    let killed = report(&dir);
    assert!(killed.to_text().contains("실행이 중단되었습니다"), "{}", killed.to_text());
    assert_korean(&killed);
}

#[test]
fn a_report_again_in_another_language_is_the_same_run() {
    let lab = Lab::new("get", &two("serve = {}", "serve = {}", 2, ""));
    lab.run();
    let stored = Stored::read(&lab.out()).unwrap();
    let again = |language| madang_lab::report_again(&stored, language).unwrap();
    let english = again(None);
    let korean = again(Some(Language::Ko));
    assert_eq!(english.verdict, korean.verdict);
    assert_ne!(english.sentence(), korean.sentence());
    assert_eq!(again(None).to_json(), english.to_json(), "the run keeps its own language");
}

#[test]
fn columns_of_korean_tables_stand_under_each_other() {
    let lab = Lab::new("get", &two("serve = {}", "serve = {}", 1, ""));
    let report = lab.run_with(&in_korean());
    let text = report.to_text();
    let table = text.lines().skip_while(|line| !line.starts_with("test · ")).skip(2);
    let starts = table.take_while(|line| !line.is_empty()).filter_map(|line| {
        let first = line.split("   ").next().filter(|cell| !cell.trim().is_empty())?;
        let rest = line[first.len()..].trim_start();
        let before = &line[..line.len() - rest.len()];
        Some(before.chars().map(|letter| if letter > '\u{1100}' { 2 } else { 1 }).sum::<usize>())
    });
    let starts: Vec<usize> = starts.collect();
    assert!(starts.len() > 6, "{text}");
    let starts: BTreeSet<usize> = starts.into_iter().collect();
    assert_eq!(starts.len(), 1, "{text}");
}
