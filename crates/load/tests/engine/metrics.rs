//! What is measured, and how it is told.

use madang_load::{ExitStatus, Layer};

use crate::support::{Script, Server, ok, response};

#[test]
fn custom_metrics_of_all_kinds_are_reported() {
    let ran = Script::new(
        "import { Counter, Gauge, Rate, Trend } from 'k6/metrics';
         import { check } from 'k6';
         const counter = new Counter('c'), gauge = new Gauge('g'), rate = new Rate('r'), trend = new Trend('t', true);
         export default function () {
            counter.add(2); counter.add(3); gauge.add(5); gauge.add(1);
            rate.add(true); rate.add(0); rate.add(1); rate.add(false);
            [1, 2, 3, 4].forEach((v) => trend.add(v, { tag: 'x' }));
            check(counter, { name: (c) => c.name === 'c', 'not a number': (c) => c.add('x') === false, added: (c) => c.add(0) === true });
         }",
    )
    .run();
    ran.assert_all_checks_passed();
    let export = ran.export.as_ref().unwrap();
    assert_eq!(export["metrics"]["c"]["count"], 5);
    assert_eq!(export["metrics"]["g"], serde_json::json!({"value": 1, "min": 1, "max": 5}));
    assert_eq!(export["metrics"]["r"], serde_json::json!({"value": 0.5, "passes": 2, "fails": 2}));
    assert_eq!(export["metrics"]["t"]["med"], 2.5);
    let trend = ran.report().trends["t"];
    assert_eq!((trend.count, trend.avg, trend.min, trend.max, trend.med), (4, 2.5, 1.0, 4.0, 2.5));
    assert!(ran.said("is an invalid value for metric 'c'"));
}

#[test]
fn a_counter_that_was_only_given_zero_is_shown() {
    let ran = Script::new(
        "import { Counter } from 'k6/metrics';
         const zero = new Counter('zero'), unused = new Counter('unused');
         export default function () { zero.add(0); }",
    )
    .run();
    let metrics = &ran.export.as_ref().unwrap()["metrics"];
    assert_eq!(metrics["zero"]["count"], 0);
    assert!(metrics.get("unused").is_none());
}

#[test]
fn metrics_outside_of_the_init_code_or_with_wrong_names_are_refused() {
    let ran = Script::new(
        "import { Trend } from 'k6/metrics';
         export default function () { new Trend('late'); }",
    )
    .run();
    assert!(ran.said("init context"), "{:?}", ran.messages);
    for name in ["a-b", "vus"] {
        let ran = Script::new(&format!(
            "import {{ Trend }} from 'k6/metrics'; new Trend('{name}'); export default function () {{}}"
        ))
        .run();
        assert_eq!(ran.status, ExitStatus::ScriptException, "{name}");
    }
}

#[test]
fn a_request_is_good_when_its_checks_succeed_and_a_check_that_throws_has_failed() {
    let server = Server::start(|request| match request.path() {
        "/missing" => response("404 Not Found", "", ""),
        _ => ok("x"),
    });
    let ran = Script::body(
        "http.get(`${URL}/unchecked`);
         check(http.get(`${URL}/passes`), { a: (r) => r.status === 200 });
         check(http.get(`${URL}/fails`), { b: () => false });
         const first = http.get(`${URL}/later`); http.get(`${URL}/between`);
         check(first, { c: false });
         http.get(`${URL}/value`); check('no response', { d: false });
         check(http.get(`${URL}/missing`), { e: (r) => r.status === 404 });
         http.get(`${URL}/throws`); check(1, { f: () => { throw new Error('in a check'); } });",
    )
    .against(&server)
    .run();
    let requests = ran.report().requests;
    assert_eq!((requests.total, requests.good, requests.failed), (8, 3, 1));
    let good = |path: &str| ran.report().names[&server.url(path)].requests.good;
    let of =
        ["/unchecked", "/passes", "/fails", "/later", "/between", "/value", "/missing", "/throws"]
            .map(good);
    assert_eq!(of, [1, 1, 0, 0, 1, 0, 0, 0]);
    assert_eq!(ran.check("f"), (0, 1));
    assert!(ran.said("in a check"));
    assert_eq!(ran.report().series.steps.iter().map(|step| step.good).sum::<u64>(), 3);
}

#[test]
fn a_check_of_the_library_is_about_the_response_that_it_got() {
    let server = Server::start(|_| ok("x"));
    let ran = Script::new(
        "import http from 'k6/http';
         import { check } from 'https://jslib.k6.io/k6-utils/1.6.0/index.js';
         export default () => {
           const first = http.get(`${__ENV.URL}/first`); http.get(`${__ENV.URL}/second`);
           check(first, { a: () => false });
         };",
    )
    .against(&server)
    .run();
    let good = |path: &str| ran.report().names[&server.url(path)].requests.good;
    assert_eq!((good("/first"), good("/second")), (0, 1), "{:?}", ran.messages);
}

#[test]
fn a_check_on_a_request_that_was_never_made_changes_no_other_one() {
    let server = Server::start(|_| ok("x"));
    let ran = Script::body(
        "http.get(URL);
         check(http.get('http://h:99999/'), { answered: (r) => r.status === 200 });",
    )
    .against(&server)
    .run();
    assert_eq!(ran.check("answered"), (0, 1));
    let requests = ran.report().requests;
    assert_eq!((requests.total, requests.good), (1, 1));
}

#[test]
fn a_response_of_an_earlier_iteration_no_longer_changes_what_it_counted_as() {
    let server = Server::start(|_| ok("x"));
    let ran = Script::new(
        "import http from 'k6/http'; import { check } from 'k6';
         let kept;
         export default function () {
            if (__ITER === 0) { kept = http.get(__ENV.URL); } else { http.get(__ENV.URL); check(kept, { late: false }); }
         }",
    )
    .against(&server)
    .options(Layer { vus: Some(1), iterations: Some(2), ..Layer::default() })
    .run();
    assert_eq!(ran.report().requests.good, 2);
}

#[test]
fn requests_are_told_apart_by_their_name_tag() {
    let server = Server::start(|request| match request.path() {
        "/2" => response("500 Oops", "", ""),
        _ => ok("x"),
    });
    let ran = Script::body(
        "for (let i = 0; i < 3; i++) http.get(`${URL}/${i}`, { tags: { name: 'item', other: 'x' } });
         http.get(`${URL}/plain`);",
    )
    .against(&server)
    .run();
    let report = ran.report();
    let item = report.names["item"];
    assert_eq!((item.requests.total, item.requests.good, item.requests.failed), (3, 2, 1));
    assert_eq!(item.http_req_duration.count, 3);
    assert!(report.names.contains_key(&server.url("/plain")));
    assert_eq!(report.status_codes["200"], 3);
    assert_eq!(report.status_codes["500"], 1);
}

#[test]
fn endless_names_stay_bounded() {
    let server = Server::start(|_| ok("x"));
    let ran = Script::body("for (let i = 0; i < 700; i++) http.get(`${URL}/${i}`);")
        .against(&server)
        .run();
    let names = &ran.report().names;
    assert!(names.len() <= 501);
    assert_eq!(names["(other)"].requests.total, 200);
}

#[test]
fn the_summary_export_has_the_shape_of_k6() {
    let server = Server::start(|_| ok("x"));
    let ran = Script::body(
        "check(http.get(URL), { 'status is 200': (r) => r.status === 200 });
         group('grp', () => check(http.get(URL), { 'in group': false }));",
    )
    .against(&server)
    .run();
    let export = ran.export.as_ref().unwrap();
    let root = &export["root_group"];
    assert_eq!(root["id"], "d41d8cd98f00b204e9800998ecf8427e");
    assert_eq!(
        root["checks"]["status is 200"],
        serde_json::json!({"name": "status is 200", "path": "::status is 200",
            "id": "6210a8cd14cd70477eba5c5e4cb3fb5f", "passes": 1, "fails": 0})
    );
    assert_eq!(root["groups"]["grp"]["path"], "::grp");
    assert_eq!(
        root["groups"]["grp"]["checks"]["in group"]["id"],
        "722a41e261c9bada114d0394683a495d"
    );
    let metrics = export["metrics"].as_object().unwrap();
    for name in [
        "http_req_duration",
        "http_req_duration{expected_response:true}",
        "http_req_waiting",
        "http_req_blocked",
        "http_req_tls_handshaking",
        "http_req_sending",
        "http_req_receiving",
        "http_req_connecting",
    ] {
        let keys: Vec<&str> =
            metrics[name].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["avg", "min", "med", "max", "p(90)", "p(95)"], "{name}");
    }
    assert_eq!(metrics["checks"], serde_json::json!({"value": 0.5, "passes": 1, "fails": 1}));
    assert_eq!(
        metrics["http_req_failed"],
        serde_json::json!({"value": 0, "passes": 0, "fails": 2})
    );
    assert_eq!(metrics["http_reqs"]["count"], 2);
    assert_eq!(metrics["vus_max"], serde_json::json!({"value": 1, "min": 1, "max": 1}));
    assert!(metrics.contains_key("group_duration") && metrics.contains_key("data_sent"));
}

#[test]
fn the_report_survives_a_round_trip() {
    let server = Server::start(|_| ok("x"));
    let mut script = Script::body("http.get(URL);").against(&server);
    let path = script.path("report.json");
    script.config.report = Some(path.clone());
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("report.json");
    script.config.report = Some(kept.clone());
    let ran = script.run();
    let read: madang_load::report::Report =
        serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(read.requests, ran.report().requests);
    assert_eq!(read.version, madang_load::report::REPORT_VERSION);
    assert!(read.generator.cpu_seconds > 0.0);
}

#[test]
fn a_threshold_holds_for_a_sub_metric_however_it_is_written() {
    let server = Server::start(|_| ok("x"));
    let ran = Script::new(
        "import http from 'k6/http';
         export const options = { thresholds: {
            'http_req_duration{expected_response:true}': ['max>0'],
            'http_req_duration{expected_response: true}': ['max<0'],
            \"http_req_duration{expected_response:'true'}\": ['min<0'],
         } };
         export default function () { http.get(__ENV.URL); }",
    )
    .against(&server)
    .run();
    assert_eq!(ran.status, ExitStatus::ThresholdsFailed, "{:?}", ran.messages);
    let failed = ran.report().thresholds.iter().filter(|threshold| !threshold.ok).count();
    assert_eq!((ran.report().thresholds.len(), failed), (3, 2), "{:?}", ran.report().thresholds);
}
