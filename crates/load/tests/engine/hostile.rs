//! Scripts that misbehave.

use std::time::Instant;

use madang_load::ExitStatus;

use crate::support::{Request, Script, Server, ok, response};

/// Two virtual users for 200 ms and at most 200 ms more.
const SHORT: &str = "export const options = { scenarios: { s: { executor: 'constant-vus', vus: 2, \
                     duration: '200ms', gracefulStop: '200ms' } } };";

/// Time enough for both to begin on a busy machine.
const SECOND: &str = "export const options = { scenarios: { s: { executor: 'constant-vus', vus: 2, \
                      duration: '1s', gracefulStop: '100ms' } } };";

#[test]
fn an_endless_loop_ends_with_the_test() {
    let ran =
        Script::new(&format!("{SECOND} export default function () {{ while (true) {{}} }}")).run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    assert_eq!((ran.report().iterations.complete, ran.report().iterations.interrupted), (0, 2));
}

#[test]
fn catching_everything_does_not_keep_a_script_alive() {
    let ran = Script::new(&format!(
        "import {{ sleep }} from 'k6';
         {SECOND}
         export default function () {{
            while (true) {{
                try {{ while (true) sleep(0.01); }} catch (e) {{}}
                finally {{ try {{ sleep(0.01); }} catch (e) {{ while (true) {{}} }} }}
            }}
         }}"
    ))
    .run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    assert_eq!(ran.report().iterations.interrupted, 2);
}

#[test]
fn a_promise_that_calls_itself_for_ever_ends_with_the_test() {
    let ran = Script::new(&format!(
        "{SHORT} export default async function () {{ const f = async () => {{ await null; return f(); }}; await f(); }}"
    ))
    .run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    assert_eq!(ran.report().iterations.complete, 0);
}

#[test]
fn work_that_nobody_awaits_and_that_never_ends_ends_with_the_test() {
    for function in ["async function () { f(); }", "function () { f(); }"] {
        let ran = Script::new(&format!(
            "{SHORT} const f = async () => {{ await null; return f(); }}; export default {function}"
        ))
        .run();
        assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
        assert_eq!(ran.report().iterations.complete, 0, "{function}");
    }
}

#[test]
fn rejections_are_described_even_when_that_rejects_and_throws() {
    let ran = Script::body(
        "const reason = () => ({ toJSON() { Promise.reject(reason()); throw new Error('x'); } });
         const error = new Error('e');
         Object.defineProperty(error, 'name', { get() { throw reason(); } });
         for (let i = 0; i < 1000; i++) Promise.reject(reason());
         Promise.reject(error);
         check(1, { alive: true });",
    )
    .run();
    ran.assert_all_checks_passed();
    assert!(ran.said("Uncaught (in promise) Uncaught [object Object]"), "{:?}", ran.messages);
}

#[test]
fn a_hostile_regular_expression_ends_with_the_test() {
    let ran = Script::new(&format!(
        "{SECOND} export default function () {{ /(a+)+$/.test('a'.repeat(40) + 'b'); }}"
    ))
    .run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    assert_eq!(ran.report().iterations.interrupted, 2);
}

#[test]
fn an_endless_loop_of_one_does_not_stop_the_others() {
    let server = Server::start(|_| ok("x"));
    let mut script = Script::new(
        "import http from 'k6/http'; import exec from 'k6/execution';
         export const options = { scenarios: { s: { executor: 'constant-vus', vus: 2,
            duration: '60s', gracefulStop: '0s' } } };
         export default function () {
            if (__VU === 1) while (true) {}
            http.get(__ENV.URL);
            if (__ITER === 2) exec.test.abort();
         }",
    )
    .against(&server);
    script.config.event_loops = Some(1);
    let ran = script.run();
    assert_eq!(ran.report().requests.good, 3, "{:?}", ran.messages);
}

#[test]
fn deep_recursion_is_an_error_the_script_can_catch() {
    Script::body(
        "const f = (n) => f(n + 1) + 1;
         const thrown = (g) => { try { g(); } catch (e) { return e instanceof RangeError; } return false; };
         let deep = {}; for (let i = 0, at = deep; i < 100000; i++) at = at.a = {};
         check(null, {
            calls: () => thrown(() => f(0)),
            parse: () => thrown(() => JSON.parse('['.repeat(100000))),
            stringify: () => thrown(() => JSON.stringify(deep)),
            getters: () => thrown(() => { const o = { get a() { return this.a; } }; o.a; }),
            sort: () => thrown(() => { const g = () => [2, 1].sort(g); g(); }),
            native: () => thrown(() => { const g = () => group('g', g); g(); }),
         });",
    )
    .run()
    .assert_all_checks_passed();
}

#[test]
fn a_memory_hog_gets_an_error_that_names_the_limit() {
    let ran =
        Script::body("const all = []; while (true) all.push(new Array(1000).fill(all.length));")
            .run();
    assert_eq!(ran.status, ExitStatus::Success);
    assert!(
        ran.said("out of memory: a virtual user's script may use 256 MiB"),
        "{:?}",
        ran.messages
    );
}

#[test]
fn a_syntax_error_is_told_with_file_and_line() {
    let ran = Script::new("\n\nconst = 5;").run();
    assert_eq!(ran.status, ExitStatus::ScriptException);
    assert!(ran.said("SyntaxError") && ran.said("script.js:3"), "{:?}", ran.messages);
}

#[test]
fn throwing_in_the_init_code_is_an_exception_of_the_script() {
    let ran = Script::new("throw new Error('at start'); export default function () {}").run();
    assert_eq!(ran.status, ExitStatus::ScriptException);
    assert!(ran.said("Error: at start") && ran.said("script.js:1"), "{:?}", ran.messages);
}

#[test]
fn a_script_that_is_not_there_is_told_by_name() {
    let mut script = Script::new("");
    script.config.script = script.path("missing.js");
    let ran = script.run();
    assert!(ran.said("missing.js"), "{:?}", ran.messages);
    assert_ne!(ran.status, ExitStatus::Success);
}

#[test]
fn an_exception_ends_its_iteration_and_not_the_run() {
    let ran = Script::body("if (__ITER % 2 === 0) throw new Error('odd one out');")
        .options(madang_load::Layer { vus: Some(1), iterations: Some(4), ..Default::default() })
        .run();
    assert_eq!(ran.status, ExitStatus::Success);
    let report = ran.report();
    assert_eq!((report.iterations.complete, report.iterations.threw), (4, 2));
    let found: Vec<(&str, u64)> =
        report.exceptions.iter().map(|one| (one.message.as_str(), one.count)).collect();
    let [(message, 2)] = found[..] else { panic!("{found:?}") };
    let place = message.strip_prefix("Error: odd one out (script.js:");
    assert!(place.is_some_and(|place| place.ends_with(')')), "{message}");
    let told = ran.messages.iter().filter(|line| line.contains("odd one out")).count();
    assert_eq!(told, 2);
    assert!(ran.said("scenario=default"), "{:?}", ran.messages);
}

/// Such an iteration did not go wrong by itself: its bad request is counted already.
#[test]
fn giving_up_after_a_bad_request_is_not_counted_as_an_exception() {
    let answer = |request: &Request| match request.path() {
        "/full" => response("503 Service Unavailable", "", "full"),
        _ => ok("{}"),
    };
    let server = Server::start(answer);
    let threw = |body: &str| {
        let once = madang_load::Layer { vus: Some(1), iterations: Some(1), ..Default::default() };
        let ran = Script::body(body).against(&server).options(once).run();
        let report = ran.report();
        assert_eq!(report.exceptions.len(), 1, "{body}");
        report.iterations.threw
    };
    let given_up = [
        "const r = http.get(URL + '/full'); if (!check(r, { ok: (r) => r.status === 200 })) fail('no');",
        "const r = http.get(URL); if (!check(r, { full: (r) => r.json('id') > 0 })) fail('empty');",
        "http.get(URL + '/full').json().id;",
        "http.get(URL + '/full'); http.get(URL); throw new Error('no');",
        "http.get('http://127.0.0.1:9/', { throw: true });",
    ];
    given_up.iter().for_each(|body| assert_eq!(threw(body), 0, "{body}"));
    let by_itself = [
        "http.get(URL).json('id').toString();",
        "check(null, { never: () => false }); throw new Error('no request at all');",
        "http.get(URL + '/full', { responseCallback: http.expectedStatuses(503) }); fail('expected');",
    ];
    by_itself.iter().for_each(|body| assert_eq!(threw(body), 1, "{body}"));
    // The bad request of one iteration excuses no other.
    let body = "if (__ITER === 0) http.get(URL + '/full'); else { http.get(URL); fail('no'); }";
    let twice = madang_load::Layer { vus: Some(1), iterations: Some(2), ..Default::default() };
    let ran = Script::body(body).against(&server).options(twice).run();
    assert_eq!(ran.report().iterations.threw, 1);
}

#[test]
fn a_flood_of_exceptions_is_not_a_flood_of_messages() {
    let begin = Instant::now();
    let ran = Script::body("throw new Error('always');")
        .options(madang_load::Layer { vus: Some(4), iterations: Some(1000), ..Default::default() })
        .run();
    assert_eq!(ran.report().iterations.complete, 1000);
    // 20 in each second that the run touches, and how many were not shown.
    let most = 21 * (begin.elapsed().as_secs() as usize + 2);
    assert!(ran.messages.len() <= most, "{} messages", ran.messages.len());
}

#[test]
fn anything_can_be_thrown() {
    for thrown in [
        "null", "undefined", "'text'", "{ toString() { throw 1; } }", "Symbol('s')",
        "new Proxy({}, {})",
    ] {
        let ran = Script::body(&format!("throw {thrown};")).run();
        assert_eq!(ran.status, ExitStatus::Success, "{thrown}: {:?}", ran.messages);
        assert_eq!(ran.report().iterations.complete, 1, "{thrown}");
    }
}

#[test]
fn tampering_with_the_globals_harms_only_the_script() {
    let server = Server::start(|_| ok("x"));
    let ran = Script::body(
        "Object.prototype.toString = null; JSON.stringify = null; globalThis.console = null;
         Array.prototype[Symbol.iterator] = null; Promise = null; delete globalThis.__ITER; delete globalThis.__ENV;
         http.get(URL);",
    )
    .against(&server)
    .options(madang_load::Layer { vus: Some(1), iterations: Some(3), ..Default::default() })
    .run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    assert_eq!(ran.report().requests.good, 3);
}

#[test]
fn what_a_timer_throws_ends_its_iteration_and_fails_setup() {
    let text = "import { check } from 'k6';
         const later = (text, ms) => setTimeout(() => { throw new Error(text); }, ms);
         export function setup() { if (__ENV.SETUP) later('in setup', 1); }
         export default function () { later('first', 1); later('second', 5); check(1, { ran: true }); }";
    let ran = Script::new(text).run();
    ran.assert_all_checks_passed();
    assert!(ran.said("first") && !ran.said("second"), "{:?}", ran.messages);
    assert_eq!(ran.report().iterations.complete, 1);
    let mut script = Script::new(text);
    script.config.environment = crate::support::variable("SETUP", "1");
    let ran = script.run();
    assert_eq!(ran.status, ExitStatus::ScriptException);
    assert!(ran.said("Error: in setup"), "{:?}", ran.messages);
}
