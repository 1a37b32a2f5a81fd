//! Conclusions of whole runs.

use madang_lab::{Conclusion, Options, Undecided, Verdict};

use crate::help::{Lab, two};

const SLOW: &str = "serve = { delay_ms = 10 }";
const FAST: &str = "serve = { delay_ms = 1 }";

/// A test can dictate memory; response times depend on the machine.
fn memory(reference: u32, other: u32, blocks: u32) -> Lab {
    let variant = |megabytes| format!("serve = {{ ballast_mb = {megabytes} }}");
    let text = two(&variant(reference), &variant(other), blocks, "");
    Lab::new("get", &text.replace("http_req_duration.p50", "peak_memory"))
}

#[test]
fn a_true_prediction_is_supported() {
    let lab = memory(100, 0, 3);
    let report = lab.run();
    assert_eq!(report.verdict, Some(Verdict::Supported), "{}", report.to_text());
    assert_eq!(report.conclusion(), Conclusion::Done);
    let json = lab.json();
    assert_eq!(json["verdict"], "supported");
    assert_eq!(json["complete_blocks"], 3);
    assert_eq!(json["rounds"].as_array().unwrap().len(), 6);
    let memory = &json["variants"][1]["metrics"][8];
    assert_eq!((&memory["metric"], &memory["unit"]), (&"peak_memory".into(), &"bytes".into()));
    let ratio = &memory["ratio"];
    assert!(ratio["ratio"].as_f64().unwrap() < 0.5, "{ratio}");
    assert!(ratio["interval"][0].as_f64() < ratio["interval"][1].as_f64(), "{ratio}");
}

#[test]
fn a_false_prediction_is_refuted() {
    let report = memory(0, 100, 3).run();
    assert_eq!(report.verdict, Some(Verdict::Refuted), "{}", report.to_text());
    assert_eq!(report.conclusion(), Conclusion::Done, "it ran: that is no failure");
}

#[test]
fn one_block_decides_nothing() {
    let report = Lab::new("get", &two(SLOW, FAST, 1, "")).run();
    assert_eq!(report.verdict.unwrap().word(), "undecided");
    assert_eq!(report.conclusion(), Conclusion::Done);
    assert!(report.sentence().contains("fewer than two complete blocks"), "{}", report.sentence());
}

#[test]
fn a_variant_that_only_refuses_refutes_a_promise_of_throughput() {
    let text = two(SLOW, "serve = { status = 503 }", 6, "")
        .replace("http_req_duration.p50", "goodput")
        .replace("ratio_at_most = 0.5", "ratio_at_least = 1");
    let lab = Lab::new("get", &text);
    let report = lab.run();
    assert_eq!(report.verdict, Some(Verdict::Refuted), "it answers fast, and nothing good");
    let text = report.to_text();
    assert!(text.contains("no request was good (fast, 6 of 6 rounds)"), "{text}");
    assert!(text.contains("fewer than 99 % of the requests were good"), "{text}");
    assert_eq!(lab.json()["variants"][1]["metrics"][0]["value"], 0.0);
}

#[test]
fn a_variant_that_only_refuses_does_not_win_on_latency() {
    let report = Lab::new("get", &two(SLOW, "serve = { status = 503 }", 2, "")).run();
    assert_eq!(
        report.verdict,
        Some(Verdict::Undecided(Undecided::NothingGood)),
        "{}",
        report.to_text()
    );
    assert_eq!(report.conclusion(), Conclusion::SystemBroken);
    assert!(report.to_text().contains("no request was good"), "{}", report.to_text());
}

#[test]
fn a_latency_with_refusals_in_it_decides_nothing() {
    for (reference, other) in
        [(SLOW, "serve = { refuse_every = 10 }"), ("serve = { refuse_every = 10 }", FAST)]
    {
        let report = Lab::new("get", &two(reference, other, 2, "")).run();
        let text = report.to_text();
        assert_eq!(report.verdict, Some(Verdict::Undecided(Undecided::BadRequests)), "{text}");
        assert!(report.sentence().contains("fewer than 99 % of the requests were good"), "{text}");
    }
}

#[test]
fn a_calibration_compares_the_reference_with_itself() {
    let lab = Lab::new("get", &two(SLOW, FAST, 3, ""));
    let report = lab.run_with(&Options { calibration: true, ..Options::default() });
    let names: Vec<&str> = report.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["slow", "slow-again"]);
    let word = report.answer.word().replace('-', " ").to_uppercase();
    assert!(report.sentence().starts_with(&word), "{}", report.sentence());
    // The fields, because the sentence is another one if chance finds a difference, as in one run of twenty.
    let headline = &lab.json()["headlines"][0];
    assert_eq!(headline["metric"], "http_req_duration.p50");
    assert_eq!(headline["variant"], "slow-again");
    assert_eq!((report.verdict, report.predictions.len()), (None, 0));
    assert_eq!(lab.json()["kind"], "calibration");
    assert_eq!(lab.json()["experiment"]["predictions"], serde_json::json!([]));
}

#[test]
fn a_report_tells_where_and_how_it_was_made() {
    let lab = Lab::new("get", &two(SLOW, FAST, 1, ""));
    lab.run_with(&Options { seed: Some(42), ..Options::default() });
    let json = lab.json();
    assert_eq!((&json["seed"], &json["format"]), (&42.into(), &3.into()));
    assert_eq!(json["versions"][0][0], "fixture");
    assert!(json["machine"]["cpus"].as_u64().unwrap() >= 1);
    assert_eq!(json["experiment"]["variants"][0]["serve"]["delay_ms"], 10);
    assert!(json["started"].as_str().unwrap().ends_with('Z'));
    assert_eq!(json["settings"]["duration_seconds"], 0.3);
}

#[test]
fn several_predictions_are_answered_and_the_worst_counts() {
    let more = "[[prediction]]\nmetric = \"peak_rss\"\nvariant = \"fast\"\nratio_at_most = 0.5\n\
                [[prediction]]\nmetric = \"peak_rss\"\nvariant = \"slow\"\nat_most = 1\n\
                [[prediction]]\nmetric = \"http_req_failed.rate\"\nvariant = \"fast\"\nat_most = 0\n";
    let one = "prediction = { metric = \"http_req_duration.p50\", variant = \"fast\", ratio_at_most = 0.5 }";
    let memory = "serve = { ballast_mb = 100 }";
    let lab = Lab::new("get", &two(memory, "serve = {}", 3, "").replace(one, more));
    let report = lab.run();
    let verdicts: Vec<Verdict> = report.predictions.iter().map(|answer| answer.verdict).collect();
    // Three zeros are no evidence for zero.
    let few = Verdict::Undecided(Undecided::TooFewBlocks);
    let expected = [Verdict::Supported, Verdict::Refuted, few];
    assert_eq!(verdicts, expected, "{}", report.to_text());
    assert_eq!(report.verdict, Some(Verdict::Refuted));
    let answered =
        report.sentence().lines().filter(|line| line.starts_with("Prediction: ")).count();
    assert_eq!(answered, 3, "{}", report.sentence());
    let json = lab.json();
    assert_eq!(json["predictions"][1]["at_most"], 1.0);
    assert!(json["predictions"][1]["level"]["value"].as_f64().unwrap() > 1e8, "{json}");
    assert_eq!(json["predictions"][2]["metric"], "http_req_failed.rate");
}

#[test]
fn a_variant_s_own_environment_reaches_its_script_only() {
    let text = two(SLOW, "serve = { delay_ms = 1 }\nload_env = { WEIGHT = \"7\" }", 2, "")
        .replace("http_req_duration.p50", "weight.value")
        .replace("ratio_at_most = 0.5", "ratio_at_least = 7")
        .replace("vus = 2", "vus = 2\nenv = { WEIGHT = \"1\" }");
    let report = Lab::new("get new Gauge('weight') __ENV.WEIGHT", &text).run();
    assert_eq!(report.verdict, Some(Verdict::Supported), "{}", report.to_text());
    assert!(report.to_text().contains("weight.value"), "{}", report.to_text());
}

#[test]
fn every_ratio_gets_a_word_and_the_band_says_what_is_the_same() {
    let words = |band: &str, other: &str| {
        let text = two("serve = { ballast_mb = 100 }", other, 3, "");
        let lab = Lab::new("get", &format!("{band}\n{text}"));
        lab.run();
        let json = lab.json();
        let row = |metric: &str| {
            let rows = json["variants"][1]["metrics"].as_array().unwrap();
            rows.iter().find(|row| row["metric"] == metric).unwrap().clone()
        };
        assert!(row("http_req_duration.p50")["answer"].is_string());
        assert_eq!(row("peak_memory")["answer"], json["metrics"]["peak_memory"]["answer"]);
        let word = json["metrics"]["peak_memory"]["answer"].as_str().unwrap().to_owned();
        (word, json["experiment"]["band"].as_f64().unwrap())
    };
    assert_eq!(words("", "serve = {}"), ("better".to_owned(), 0.01));
    assert_eq!(words("", "serve = { ballast_mb = 300 }"), ("worse".to_owned(), 0.01));
    let alike = words("band = 1000", "serve = { ballast_mb = 100 }");
    assert!(["same", "better", "worse"].contains(&&*alike.0), "{alike:?}");
    assert_ne!(words("band = 1000", "serve = { ballast_mb = 100 }").0, "cannot-tell");
}

#[test]
fn without_a_prediction_the_question_is_whether_it_is_worse() {
    let text = two("serve = { ballast_mb = 100 }", "serve = { ballast_mb = 300 }", 3, "");
    let line = text.lines().find(|line| line.starts_with("prediction")).unwrap();
    let text = text.replace(line, "").replace("question = \"Which is faster?\"", "");
    let lab = Lab::new("get", &text);
    let report = lab.run();
    assert_eq!(report.experiment.question, "Is fast worse than slow?");
    assert_eq!((report.verdict, report.headlines.len()), (None, 1));
    let json = lab.json();
    assert!(json["verdict"].is_null() && json["answer"].is_string(), "{json}");
    assert_eq!(json["headlines"][0]["metric"], "response_time.p95");
    let memory = &json["metrics"]["peak_memory"];
    let (low, high) = (memory["low"].as_f64().unwrap(), memory["high"].as_f64().unwrap());
    assert!(low > 1.0 && low < memory["ratio"].as_f64().unwrap() && high > low, "{memory}");
    let mut further = json["also_worse"].as_array().unwrap().iter();
    assert!(further.any(|one| one["metric"] == "peak_memory"), "{}", report.to_text());
    assert!(report.to_text().contains("Also worse: fast needs "), "{}", report.to_text());
    assert_eq!(report.is_worse_by(0.05), Some(true));
    let junit = std::fs::read_to_string(lab.out().join("junit.xml")).unwrap();
    assert!(junit.contains("<failure message=\"Also worse: fast needs "), "{junit}");
    assert_ne!(report.is_worse_by(1000.0), Some(true));
}

#[test]
fn a_variant_with_a_price_has_costs() {
    let priced = format!("{FAST}\nprice_per_hour = 3.6");
    let lab = Lab::new("get", &two(SLOW, &priced, 1, ""));
    lab.run();
    let json = lab.json();
    let figures = |place: usize| &json["variants"][place]["figures"];
    assert!(figures(0)["cost_per_million_good"].is_null(), "it has no price");
    let goodput = figures(1)["good_per_second"].as_f64().unwrap();
    let cost = figures(1)["cost_per_million_good"].as_f64().unwrap();
    assert!((cost * goodput - 1000.0).abs() < 1e-6, "0.001 a second for each million: {cost}");
    for file in ["report.md", "report.html"] {
        let page = std::fs::read_to_string(lab.out().join(file)).unwrap();
        assert!(page.contains("cost/million good"), "{file}");
    }
}

/// Columns of other tools' reports, in the words of each of ours.
#[test]
fn every_report_has_the_columns_of_other_tools() {
    let lab = Lab::new("get", &two(SLOW, FAST, 1, ""));
    let report = lab.run();
    let (short, full) = (report.to_text(), report.to_full_text());
    let read = |file: &str| std::fs::read_to_string(lab.out().join(file)).unwrap();
    let (page, html, json) = (read("report.md"), read("report.html"), lab.json());
    for (word, key) in [
        ("total", "requests"),
        ("good/s", "good_per_second"),
        ("peak/s", "peak_good_per_second"),
        ("avg", "response_ms/avg"),
        ("min", "response_ms/min"),
        ("max", "response_ms/max"),
        ("std dev", "response_ms/stddev"),
        ("p50", "response_ms/p50"),
        ("p90", "response_ms/p90"),
        ("p95", "response_ms/p95"),
        ("p99", "response_ms/p99"),
        ("KB/s", "kilobytes_per_second"),
        ("failed", "failed_share"),
        ("not good", "not_good_share"),
        ("CPU/request", "cpu_us_per_good_request"),
        ("memory", "peak_memory_bytes"),
    ] {
        let rows = full.lines().filter(|line| line.starts_with(word));
        assert!(rows.count() >= 1, "no {word:?} in {full}");
        assert!(page.contains(&format!("| {word} |")), "no {word:?} in {page}");
        assert!(html.contains(&format!("<th>{word}</th>")), "no {word:?}");
        let figure = json.pointer(&format!("/variants/1/figures/{key}"));
        assert!(figure.is_some(), "no {key:?} in {}", json["variants"][1]["figures"]);
    }
    assert!(full.starts_with(&short), "what everybody needs comes first");
    assert!(!short.contains("not good"), "every request was good");
    let lines = short.lines().skip(2).take_while(|line| !line.is_empty()).count();
    assert!(lines <= 15, "{short}");
    let refusing = Lab::new("get", &two(SLOW, "serve = { refuse_every = 4 }", 1, "")).run();
    let text = refusing.to_text();
    let line = text.lines().find(|line| line.starts_with("requests not good")).unwrap();
    assert!(line.contains("0 %") && line.contains("2"), "{line}");
}

#[test]
fn what_is_zero_everywhere_is_left_out_of_the_terminal_unless_it_was_predicted() {
    let rest = "[observe]\nload = [\"dropped_iterations.count\", \"http_reqs.count\"]\n";
    let lab = Lab::new("get", &two(SLOW, FAST, 1, rest));
    let text = lab.run().to_text();
    assert!(!text.contains("dropped_iterations") && text.contains("http_reqs.count"), "{text}");
    assert!(text.contains("left out: 1 metric that is 0 everywhere"), "{text}");
    for file in ["report.json", "report.md", "report.html"] {
        let page = std::fs::read_to_string(lab.out().join(file)).unwrap();
        assert!(page.contains("dropped_iterations.count"), "{file}");
    }
    let predicted = two(SLOW, FAST, 1, rest)
        .replace("http_req_duration.p50", "dropped_iterations.count")
        .replace("ratio_at_most = 0.5", "at_most = 0");
    let text = Lab::new("get", &predicted).run().to_text();
    assert!(text.contains("\ndropped_iterations.count ") && !text.contains("left out"), "{text}");
}
