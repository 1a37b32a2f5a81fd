//! Scripts as users of k6 write them; expected values were obtained from k6 1.8.1 with the same
//! script, unless a comment says otherwise.

use madang_load::{ExitStatus, Layer};

use crate::support::{Answer, Script, Server, ok, response};

#[test]
fn json_paths_may_ask_which_element() {
    let server = Server::start(|_| {
        ok(
            r#"{"users":[{"id":1,"name":"가람","ok":true},{"id":2,"name":"나래"},{"id":3,"name":"b.c"}]}"#,
        )
    });
    Script::body(
        "const r = http.get(URL);
         check(r, {
            first: () => r.json('users.#(id>=2).name') === '나래',
            all: () => r.json('users.#(id>=2)#.name').join() === '나래,b.c',
            text: () => r.json('users.#(name==\"b.c\").id') === 3,
            pattern: () => r.json('users.#(name%\"b*\").id') === 3,
            present: () => r.json('users.#(ok)#').length === 1,
            none: () => r.json('users.#(id==9)') === undefined && r.json('users.#(id==9)#').length === 0,
         });",
    )
    .against(&server)
    .run()
    .assert_all_checks_passed();
}

#[test]
fn a_body_that_is_no_json_is_told_as_that() {
    let server = Server::start(|_| ok("<html>"));
    let ran = Script::body("http.get(URL).json();").against(&server).run();
    assert!(ran.said("cannot parse json due to an error"), "{:?}", ran.messages);
    assert_eq!(ran.report().iterations.complete, 1);
}

#[test]
fn a_body_that_is_no_json_has_no_parts() {
    let server = Server::start(|_| ok("<html>"));
    Script::body("const r = http.get(URL); check(r, { none: () => r.json('a.b') === undefined });")
        .against(&server)
        .run()
        .assert_all_checks_passed();
}

#[test]
fn a_seed_makes_random_numbers_repeatable() {
    Script::new(
        "import { check, randomSeed } from 'k6';
         import { randomItem } from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';
         const draw = (seed) => { randomSeed(seed); return [Math.random(), Math.random(), randomItem([1, 2, 3, 4])].join(); };
         const init = draw(3);
         export default function () { check(null, {
            same: () => draw(5) === draw(5) && draw(3) === init,
            other: () => draw(5) !== draw(6) && draw(0.25) !== draw(0.75),
            range: () => { for (let i = 0; i < 1000; i++) { const x = Math.random(); if (x < 0 || x >= 1) return false; } return true; },
         }); }",
    )
    .run()
    .assert_all_checks_passed();
}

#[test]
fn a_redirect_says_where_it_comes_from_and_the_request_stays_what_was_asked() {
    let server = Server::start(|request| match request.path() {
        "/there" => ok(request.header("referer").unwrap_or("-")),
        "/own" => response("302 Found", "Location: /there\r\n", ""),
        path => response("302 Found", &format!("Location: {path}x\r\n"), ""),
    });
    let ran = Script::body(
        "const r = http.get(`${URL}/own`);
         check(r, {
            referer: () => r.body === `${URL}/own`,
            answered: () => r.url === `${URL}/there`,
            asked: () => r.request.url === `${URL}/own` && r.request.method === 'GET',
            kept: () => http.get(`${URL}/own`, { headers: { Referer: 'mine' } }).body === 'mine',
            limit: () => http.get(`${URL}/`).status === 302 && http.get(`${URL}/`, { redirects: 1 }).status === 302,
         });",
    )
    .against(&server)
    .run();
    ran.assert_all_checks_passed();
    let warned = ran.messages.iter().filter(|line| line.contains("stopped after 10 redirects"));
    assert_eq!(warned.count(), 1, "{:?}", ran.messages);
}

#[test]
fn the_export_has_the_data_of_setup_and_groups_only_with_content() {
    let script = |body: &str| {
        Script::new(&format!(
            "import {{ check, group }} from 'k6';
             export function setup() {{ {body} return {{ token: 'abc' }}; }}
             export default function () {{ group('g', () => {{}}); }}"
        ))
    };
    let export = script("").run().export.unwrap();
    assert_eq!(export["setup_data"], serde_json::json!({ "token": "abc" }));
    let names = |export: &serde_json::Value| -> Vec<String> {
        export["root_group"]["groups"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&export), ["g"]);
    let export = script("check(1, { one: true });").run().export.unwrap();
    assert_eq!(names(&export), ["setup", "g"]);
}

#[test]
fn functions_say_which_argument_is_missing() {
    Script::new(
        "import { check, group, sleep } from 'k6';
         import { SharedArray } from 'k6/data';
         const message = (f) => { try { f(); return ''; } catch (e) { return e.message; } };
         const shared = message(() => new SharedArray('a'));
         export default function () {
            sleep();
            const messages = { group: message(() => group('a')), check: message(() => check(1)) };
            check(messages, {
               group: (m) => m.group === 'group() requires a callback as a second argument',
               check: (m) => m.check === 'no checks provided to `check`',
               shared: () => shared === \"a function is expected as the second argument of SharedArray's constructor\",
            });
         }",
    )
    .run()
    .assert_all_checks_passed();
}

#[test]
fn a_value_that_is_no_number_is_named_as_it_is() {
    let ran = Script::new(
        "import { Trend } from 'k6/metrics';
         const t = new Trend('t');
         export default function () { t.add('x'); t.add(undefined); t.add(null); t.add('5'); t.add(true); }",
    )
    .run();
    for value in ["x", "undefined", "null"] {
        let text = format!("'{value}' is an invalid value for metric 't'");
        assert!(ran.said(&text), "{text}: {:?}", ran.messages);
    }
    assert_eq!(ran.report().trends["t"].count, 2);
}

#[test]
fn options_for_the_cloud_change_nothing_here() {
    let ran = Script::new(
        "export const options = { iterations: 2, cloud: { name: 'x' }, ext: { loadimpact: {} } };
         export default function () {}",
    )
    .run();
    assert_eq!((ran.status, ran.report().iterations.complete), (ExitStatus::Success, 2));
}

#[test]
fn virtual_users_alone_share_as_many_iterations() {
    let script = |options: &str| {
        Script::new(&format!("export const options = {options}; export default function () {{}}"))
    };
    let ran = script("{ vus: 3 }").run();
    assert_eq!((ran.report().iterations.complete, ran.report().vus_max), (3, 3));
    assert_eq!(ran.report().scenarios["default"].executor, "shared-iterations");
    let layer = Layer { vus: Some(2), ..Layer::default() };
    let ran = script("{ stages: [] }").options(layer).run();
    assert_eq!((ran.report().iterations.complete, ran.report().vus_max), (2, 2));
}

#[test]
fn what_max_duration_left_undone_is_not_blamed_on_the_generator() {
    let ran = Script::new(
        "import { sleep } from 'k6';
         export const options = { scenarios: { s: { executor: 'per-vu-iterations', vus: 2, iterations: 9,
            maxDuration: '1s', gracefulStop: '5s' } } };
         export default function () { sleep(1.5); }",
    )
    .run();
    let counts = ran.report().iterations;
    assert_eq!((counts.complete, counts.dropped), (2, 16), "{:?}", ran.messages);
    assert!(
        ran.said("16 of 18 iterations were not started before maxDuration"),
        "{:?}",
        ran.messages
    );
    assert!(!ran.said("could not be started in time"), "{:?}", ran.messages);
}

#[test]
fn a_run_marked_as_failed_says_so() {
    let ran = Script::new(
        "import exec from 'k6/execution';
         export default function () { exec.test.fail('wrong'); }",
    )
    .run();
    assert_eq!(ran.status, ExitStatus::MarkedAsFailed);
    assert!(ran.said("test run was marked as failed"), "{:?}", ran.messages);
}

/// The layout of k6 before version 1: blogs and parsers of many people expect it.
#[test]
fn k6_summary_makes_text_and_junit() {
    let server = Server::start(|_| ok("x"));
    let script = Script::new(
        "import http from 'k6/http'; import { check, group } from 'k6'; import { Trend, Gauge } from 'k6/metrics';
         import { textSummary, jUnit, humanizeValue } from 'https://jslib.k6.io/k6-summary/0.0.2/index.js';
         const size = new Trend('size'); const level = new Gauge('level');
         export const options = { vus: 1, iterations: 2, thresholds: { http_reqs: ['count==2', 'count>9'], checks: ['rate>0.1'] } };
         export default function () {
            const r = http.get(__ENV.URL);
            check(r, { 'is 200': (r) => r.status === 200, even: () => __ITER % 2 === 0 });
            group('inner', () => check(r, { body: (r) => r.body === 'x' }));
            size.add(10 * __ITER); level.add(3 + __ITER);
         }
         export function handleSummary(data) {
            const time = { type: 'trend', contains: 'time' }, bytes = { type: 'counter', contains: 'data' };
            const values = [humanizeValue(1234.5, time), humanizeValue(0.25, time), humanizeValue(75000, time), humanizeValue(1500, bytes),
               humanizeValue(0.98765, { type: 'rate' }), humanizeValue(12.3, time, 's')];
            return { [__ENV.OUT]: textSummary(data, { indent: '>', enableColors: false }) + '\\n' + values.join('|') + '\\n' + jUnit(data) };
         }",
    )
    .against(&server);
    let out = script.path("summary.txt");
    let mut script = script;
    script.config.environment.insert("OUT".to_owned(), out.display().to_string());
    script.config.no_summary = false;
    let mut text = String::new();
    let ran = script.run_and_keep(|| text = std::fs::read_to_string(&out).unwrap());
    assert_eq!(ran.status, ExitStatus::ThresholdsFailed, "{:?}", ran.messages);
    // The columns are as wide as what was measured.
    let figures = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text
        .lines()
        .map(|line| match line.split_once(": ") {
            Some((name, values)) => format!("{name}: {}", figures(values)),
            None => line.to_owned(),
        })
        .collect();
    for line in [
        ">    ✓ is 200",
        ">    ✗ even",
        ">     ↳  50% — ✓ 1 / ✗ 1",
        ">    █ inner",
        ">      ✓ body",
        ">  ✓ checks.........................: 83.33% ✓ 5 ✗ 1",
        ">      { expected_response:true }...: avg=",
        ">    level..........................: 4 min=3 max=4",
        ">    size...........................: avg=5",
        "1.23s|250µs|1m15s|1.5 kB|98.76%|0.01s",
        "    <testsuites tests=\"3\" failures=\"1\">",
        "<testcase name=\"http_reqs - count&gt;9\" classname=\"Unnamed folder\"><failure \
         message=\"counter threshold failed: count value: 2, rate value: ",
    ] {
        assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{text}");
    }
    assert!(text.contains(">  ✗ http_reqs......................: 2"), "{text}");
}

#[test]
fn papaparse_reads_csv() {
    Script::new(
        r#"import { check } from 'k6'; import { SharedArray } from 'k6/data';
         import papaparse from 'https://jslib.k6.io/papaparse/5.1.1/index.js';
         const users = new SharedArray('users', () => papaparse.parse(open('./users.csv'), { header: true }).data);
         const parse = (text, config) => JSON.stringify(papaparse.parse(text, config).data);
         export default function () { check(users, {
            rows: (u) => u.length === 2 && u[1].user === 'b, "c"' && u[1].pass === 'two\nlines',
            plain: () => parse('a,b\r\n1,2') === '[["a","b"],["1","2"]]',
            guessed: () => parse('a;b\n1;2') === '[["a","b"],["1","2"]]' && parse('a\tb') === '[["a","b"]]',
            typed: () => parse('x,y\n1.5,TRUE\n,z', { header: true, dynamicTyping: true }) === '[{"x":1.5,"y":true},{"x":null,"y":"z"}]',
            last: () => parse('a\n') === '[["a"],[""]]' && parse('a\n\nb\n', { skipEmptyLines: true }) === '[["a"],["b"]]',
            comments: () => parse('#x\na\n#y', { comments: '#' }) === '[["a"]]',
            empty: () => parse('a,b\n,', { delimiter: ',' }) === '[["a","b"],["",""]]',
            few: () => papaparse.parse('a,b\n1', { header: true }).errors.some((e) => e.code === 'TooFewFields'),
            extra: () => parse('a\n1,2', { header: true, delimiter: ',' }) === '[{"a":"1","__parsed_extra":["2"]}]',
            unclosed: () => papaparse.parse('"a').errors.some((e) => e.code === 'MissingQuotes'),
            preview: () => parse('1\n2\n3', { preview: 2 }) === '[["1"],["2"]]',
         }); }"#,
    )
    .file("users.csv", "user,pass\na,1\n\"b, \"\"c\"\"\",\"two\nlines\"")
    .run()
    .assert_all_checks_passed();
}

#[test]
fn an_answer_that_never_comes_is_told_with_the_method_as_in_k6() {
    let server = Server::start(|_| Answer::SendAndClose(Vec::new()));
    let ran = Script::body("http.get(URL);").against(&server).run();
    // The text is quoted once more in the line of the log.
    assert!(ran.said(&format!("Get \\\"{}\\\": EOF", server.url(""))), "{:?}", ran.messages);
}

#[test]
fn numbers_of_options_may_be_texts_as_those_of_the_environment_are() {
    for options in [
        "{ vus: __ENV.N, iterations: __ENV.N }",
        "{ scenarios: { s: { executor: 'shared-iterations', vus: __ENV.N, iterations: __ENV.N } } }",
    ] {
        let mut script = Script::new(&format!(
            "export const options = {options}; export default function () {{}}"
        ));
        script.config.environment.insert("N".to_owned(), "3".to_owned());
        let ran = script.run();
        assert_eq!((ran.report().vus_max, ran.report().iterations.complete), (3, 3), "{options}");
    }
    let ran = Script::new(
        "export const options = { vus: 'x', iterations: 3 }; export default function () {}",
    )
    .run();
    assert!(ran.said("option `vus`: a whole number is expected"), "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::InvalidConfig);
}

#[test]
fn an_abort_is_seen_by_no_catch_or_finally_and_drops_nothing() {
    let ran = Script::new(
        "import exec from 'k6/execution'; import { group } from 'k6';
         export const options = { vus: 1, iterations: 5 };
         export default function () {
            group('g', () => { try { exec.test.abort('enough'); } catch (e) { console.log('seen'); } finally { console.log('seen'); } });
            console.log('seen');
         }
         export function teardown() { console.log('torn down'); }",
    )
    .run();
    assert_eq!(ran.status, ExitStatus::ScriptAborted);
    assert!(ran.said("test aborted: enough") && ran.said("torn down"), "{:?}", ran.messages);
    assert!(!ran.said("seen"), "{:?}", ran.messages);
    assert_eq!(ran.report().iterations.dropped, 0);
}

#[test]
fn a_secure_cookie_is_sent_to_the_own_machine() {
    let server = Server::start(|request| match request.path() {
        "/set" => response("200 OK", "Set-Cookie: session=1; Secure; HttpOnly\r\n", ""),
        _ => ok(request.header("cookie").unwrap_or("-")),
    });
    Script::body("http.get(`${URL}/set`); check(http.get(`${URL}/`), { sent: (r) => r.body === 'session=1' });")
        .against(&server)
        .run()
        .assert_all_checks_passed();
}

#[test]
fn flags_that_replace_the_scenarios_and_a_run_without_a_whole_iteration_say_so() {
    let script = || {
        Script::new(
            "import { sleep } from 'k6';
             export const options = { scenarios: { s: { executor: 'constant-vus', duration: '100ms', gracefulStop: '0s' } } };
             export default function () { sleep(Number(__ENV.PAUSE || 0)); }",
        )
    };
    let layer = Layer { iterations: Some(2), ..Layer::default() };
    let ran = script().options(layer).run();
    assert!(ran.said("scenarios are not used"), "{:?}", ran.messages);
    assert_eq!(ran.report().iterations.complete, 2);
    let mut script = script();
    script.config.environment.insert("PAUSE".to_owned(), "5".to_owned());
    let ran = script.run();
    assert!(ran.said("no iteration was over"), "{:?}", ran.messages);
}
