//! Executors on the real clock. What is exact is tested on the plans themselves; here only what
//! must hold however slow the machine is.

use std::time::Duration;

use madang_load::report::Sum;
use madang_load::{Layer, Stage};

use crate::support::{Answer, Request, Script, Server, ok};

#[test]
fn constant_vus_keep_iterating_for_the_whole_time() {
    let server = Server::start(|_| ok("x"));
    let ran = Script::body("http.get(URL); sleep(0.01);")
        .against(&server)
        .constant_vus(3, Duration::from_secs(1))
        .run();
    let report = ran.report();
    assert!(report.duration_seconds >= 1.0);
    assert_eq!(report.vus_max, 3);
    assert_eq!(report.requests.total, report.iterations.complete);
    assert_eq!(report.requests.total as usize, server.requests().len());
    let connections: std::collections::BTreeSet<u64> =
        server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections.len(), 3);
}

#[test]
fn the_last_iteration_may_finish_within_its_grace() {
    let script = Script::new(
        "import { sleep } from 'k6';
         export const options = { scenarios: { s: { executor: 'constant-vus', vus: 1, duration: '1s' } } };
         export default function () { sleep(1.5); }",
    );
    let ran = script.run();
    assert_eq!((ran.report().iterations.complete, ran.report().iterations.interrupted), (1, 0));
    assert!(ran.report().duration_seconds >= 1.5);
}

#[test]
fn an_iteration_beyond_its_grace_is_interrupted_and_counts_for_nothing() {
    let server = Server::start(|_| Answer::Hang);
    let script = Script::new(
        "import http from 'k6/http';
         export const options = { scenarios: { s: { executor: 'constant-vus', vus: 2, duration: '800ms', gracefulStop: '50ms' } } };
         export default function () { http.get(__ENV.URL); }",
    );
    let ran = script.against(&server).run();
    let report = ran.report();
    assert_eq!((report.iterations.complete, report.iterations.interrupted), (0, 2));
    assert_eq!(report.requests.total, 0);
    // Less than a second says nothing; the end may come later on a busy machine.
    assert!(report.requests.unanswered == 0 || report.duration_seconds > 1.0, "{report:?}");
    assert!(!report.trends.contains_key("iteration_duration"));
}

/// The script with a scenario `s` that ends after `duration`, in the middle of an iteration.
fn cut_off(vus: u32, duration: &str, body: &str) -> Script {
    Script::new(&format!(
        "import http from 'k6/http';
         const URL = __ENV.URL;
         export const options = {{ scenarios: {{ s: {{
            executor: 'constant-vus', vus: {vus}, duration: '{duration}', gracefulStop: '0s',
         }} }} }};
         export default function () {{ {body} }}"
    ))
}

#[test]
fn requests_that_a_script_cuts_off_early_are_not_held_against_the_server() {
    // The second request waits for a second at the end, less than the first one did.
    let server = Server::start(|_| {
        let Answer::Send(bytes) = ok("x") else { panic!() };
        Answer::SendAfter(Duration::from_secs(2), bytes)
    });
    let ran = cut_off(1, "3s", "http.get(URL);").against(&server).run();
    let report = ran.report();
    assert_eq!((report.iterations.complete, report.iterations.interrupted), (1, 1));
    assert_eq!((report.requests.total, report.requests.unanswered), (1, 0));
}

#[test]
fn requests_that_waited_longer_than_any_answer_took_are_unanswered() {
    let hang = |request: &Request| if request.path() == "/" { ok("x") } else { Answer::Hang };
    let server = Server::start(hang);
    let ran =
        cut_off(2, "3s", "http.get(URL + '/'); http.get(URL + '/hang');").against(&server).run();
    let requests = ran.report().requests;
    assert_eq!((requests.total, requests.good, requests.unanswered), (2, 2, 2));
}

#[test]
fn asynchronous_requests_that_nobody_awaits_are_unanswered_as_well() {
    let hang = |request: &Request| if request.path() == "/" { ok("x") } else { Answer::Hang };
    let server = Server::start(hang);
    let body =
        "http.get(URL + '/'); for (let i = 0; i < 3; i++) http.asyncRequest('GET', URL + '/hang');";
    let ran = cut_off(1, "3s", body).against(&server).run();
    let requests = ran.report().requests;
    assert_eq!((requests.total, requests.unanswered), (1, 3));
}

#[test]
fn a_server_that_answers_nothing_for_a_second_has_not_answered() {
    let server = Server::start(|_| Answer::Hang);
    let ran = cut_off(2, "3s", "http.get(URL);").against(&server).run();
    let requests = ran.report().requests;
    assert_eq!((requests.total, requests.unanswered), (0, 2));
}

#[test]
fn a_ramp_goes_up_and_down_and_reuses_its_virtual_users() {
    let stage = |ms, target| Stage { duration: Duration::from_millis(ms), target };
    let stages = vec![stage(300, 4), stage(300, 0), stage(300, 4), stage(300, 4)];
    let ran = Script::body("sleep(0.005);")
        .options(Layer { vus: Some(1), stages: Some(stages), ..Layer::default() })
        .run();
    assert_eq!(ran.report().vus_max, 4);
    assert!(ran.report().iterations.complete > 4);
    assert_eq!(ran.report().iterations.interrupted, 0);
}

/// Its last iteration is over after half of that time.
#[test]
fn a_constant_arrival_rate_lasts_for_its_duration() {
    let script = Script::new(
        "export const options = { scenarios: { s: { executor: 'constant-arrival-rate', rate: 2,
            duration: '1s', preAllocatedVUs: 1 } } };
         export default function () {}",
    );
    let ran = script.run();
    let iterations = ran.report().iterations;
    assert_eq!(iterations.complete + iterations.dropped, 2);
    assert!(ran.report().duration_seconds >= 1.0, "{}", ran.report().duration_seconds);
    assert_eq!(ran.report().arrivals_seconds, Some(1.0));
}

#[test]
fn how_long_iterations_start_by_the_clock_is_told_whatever_comes_after() {
    let script = Script::new(
        "import { sleep } from 'k6';
         const open = (startTime, duration) => ({ executor: 'constant-arrival-rate', rate: 1,
           duration, startTime, preAllocatedVUs: 1, gracefulStop: '5s' });
         export const options = { scenarios: { one: open('100ms', '100ms'), two: open('200ms', '400ms'),
           closed: { executor: 'per-vu-iterations', vus: 1, iterations: 1 } } };
         export default function () { sleep(1); }",
    );
    let ran = script.run();
    assert_eq!(ran.report().arrivals_seconds, Some(0.5));
    assert!(ran.report().duration_seconds > 1.0);
    let closed = Script::body("sleep(0.1);").run();
    assert_eq!(closed.report().arrivals_seconds, None);
}

/// A server's data have all of it in them.
#[test]
fn sums_over_the_whole_run_have_setup_and_warm_up_in_them() {
    let mut script = Script::new(
        "import { check, sleep } from 'k6';
         import { Counter } from 'k6/metrics';
         const made = new Counter('made');
         export const options = { vus: 1, duration: '1s' };
         export function setup() { made.add(100); }
         export default function () { made.add(1); check(1, { fine: true }); sleep(0.02); }
         export function teardown() { made.add(1000); }",
    );
    script.config.warm_up = Duration::from_secs(1);
    let ran = script.run();
    let report = ran.report();
    let Some(Sum::Counter { count }) = report.overall.get("made") else { panic!("{report:?}") };
    let Some(Sum::Counter { count: all }) = report.overall.get("iterations") else {
        panic!("{report:?}")
    };
    assert!((*count - (1100.0 + all)).abs() < 0.5, "{count} of {all} iterations");
    let recorded = report.iterations.complete as f64;
    assert!(*all > recorded && recorded > 0.0, "{all} and {recorded}");
    let Some(Sum::Rate { passes, fails: 0 }) = report.overall.get("checks") else { panic!() };
    assert_eq!(*passes as f64, *all);
    // The iteration that was under way when the recording began may have checked before.
    let passes = report.checks[0].passes as f64;
    assert!((recorded - 1.0..=recorded).contains(&passes), "{passes} and {recorded}");
}

#[test]
fn iterations_that_do_not_fit_into_the_maximum_are_dropped_and_counted() {
    let script = Script::new(
        "import { sleep } from 'k6';
         export const options = { scenarios: {
            own: { executor: 'per-vu-iterations', vus: 2, iterations: 1000, maxDuration: '100ms' },
            shared: { executor: 'shared-iterations', vus: 2, iterations: 1000, maxDuration: '100ms' },
         } };
         export default function () { sleep(0.01); }",
    );
    let report_of = script.run();
    let report = report_of.report();
    assert_eq!(report.iterations.complete + report.iterations.dropped, 3000);
    assert!(report.iterations.dropped > 0);
    for name in ["own", "shared"] {
        let text = format!("scenario {name}: ");
        assert!(report_of.said(&text), "{:?}", report_of.messages);
    }
}

#[test]
fn a_scenario_starts_at_its_time() {
    let script = Script::new(
        "import { check } from 'k6';
         export const options = { scenarios: {
            now: { executor: 'per-vu-iterations', exec: 'now' },
            later: { executor: 'per-vu-iterations', exec: 'later', startTime: '150ms' },
         } };
         export function now() {}
         export function later() { check(1, { ran: true }); }",
    );
    let ran = script.run();
    assert_eq!(ran.check("ran"), (1, 0));
    assert!(ran.report().duration_seconds >= 0.15);
}

#[test]
fn nothing_of_the_warm_up_is_counted() {
    let server = Server::start(|_| ok("x"));
    let mut script = Script::body("http.get(URL); sleep(0.02);")
        .against(&server)
        .constant_vus(2, Duration::from_secs(1));
    script.config.warm_up = Duration::from_secs(1);
    let ran = script.run();
    let report = ran.report();
    let seen = server.requests().len() as u64;
    assert!(report.requests.total < seen, "{} of {seen}", report.requests.total);
    assert_eq!(report.warm_up_seconds, 1.0);
    assert!(report.duration_seconds >= 1.0 && report.duration_seconds < 1.0 + 30.0);
    assert_eq!(report.requests.total, report.trends["http_req_duration"].count);
    let steps: u64 = report.series.steps.iter().map(|step| step.requests).sum();
    assert_eq!(steps, report.requests.total);
}

#[test]
fn a_loop_whose_work_ended_early_does_not_make_the_generator_the_limit() {
    let mut script = Script::new(
        "import { sleep } from 'k6';
         export const options = { scenarios: {
            short: { executor: 'per-vu-iterations', exec: 'short' },
            long: { executor: 'constant-vus', duration: '1500ms', exec: 'long' },
         } };
         export function short() { const end = Date.now() + 200; while (Date.now() < end) {} }
         export function long() { sleep(0.1); }",
    );
    script.config.event_loops = Some(2);
    let ran = script.run();
    let generator = &ran.report().generator;
    assert!(generator.busiest_loop < 0.5, "{generator:?}");
    // An eighth of the time; less when the end comes late.
    assert!((0.05..0.6).contains(&generator.wanting_loop), "{generator:?}");
}
