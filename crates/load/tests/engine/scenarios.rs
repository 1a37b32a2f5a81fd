//! Open models, several scenarios at once, the life-cycle, thresholds, `k6/execution`.

use std::sync::atomic::{AtomicU64, Ordering};

use madang_load::ExitStatus;

use crate::support::{Answer, Script, Server, ok, response};

fn scenario(fields: &str, body: &str) -> Script {
    Script::new(&format!(
        "import http from 'k6/http'; import {{ check, sleep }} from 'k6';
         export const options = {{ scenarios: {{ s: {{ {fields} }} }} }};
         export default function () {{ {body} }}"
    ))
}

#[test]
fn every_iteration_of_a_constant_rate_is_started_or_dropped() {
    let fields =
        "executor: 'constant-arrival-rate', rate: 100, duration: '500ms', preAllocatedVUs: 20";
    let ran = scenario(fields, "sleep(0.01)").run();
    let iterations = ran.report().iterations;
    assert_eq!(iterations.complete + iterations.dropped, 50);
    let open = ran.report().scenarios["s"].open_model.unwrap();
    assert_eq!(open.start_lag_ms.count, iterations.complete);
    assert!(open.iteration_response_ms.min >= ran.report().trends["iteration_duration"].min);
    assert!(ran.report().generator.start_lag_p99_ms.is_some());
}

#[test]
fn a_ramping_rate_starts_as_many_as_the_area_under_it() {
    let fields = "executor: 'ramping-arrival-rate', startRate: 0, preAllocatedVUs: 30,
        stages: [{ duration: '300ms', target: 100 }, { duration: '200ms', target: 100 }]";
    let iterations = scenario(fields, "").run().report().iterations;
    // 0.3 · 100 / 2 + 0.2 · 100.
    assert_eq!(iterations.complete + iterations.dropped, 35);
}

#[test]
fn virtual_users_are_added_on_demand_up_to_the_maximum_and_the_rest_is_dropped() {
    // Time enough to make three on a busy machine; each iteration outlasts it.
    let fields = "executor: 'constant-arrival-rate', rate: 50, duration: '2s',
        preAllocatedVUs: 1, maxVUs: 4, gracefulStop: '10s'";
    let ran = scenario(fields, "sleep(2.5)").run();
    let report = ran.report();
    assert_eq!((report.iterations.complete, report.iterations.dropped), (4, 96));
    assert_eq!(report.vus_max, 4);
    assert!(ran.said("Insufficient VUs, reached 4 active VUs"), "{:?}", ran.messages);
    assert!(ran.said("96 of 100 iterations were dropped"), "{:?}", ran.messages);
}

#[test]
fn one_virtual_user_serves_the_starts_of_all_event_loops() {
    let fields =
        "executor: 'constant-arrival-rate', rate: 50, duration: '400ms', preAllocatedVUs: 2";
    let mut script = scenario(fields, "");
    script.config.event_loops = Some(4);
    let iterations = script.run().report().iterations;
    assert_eq!(iterations.complete + iterations.dropped, 20);
    assert!(iterations.complete > 0);
}

#[test]
fn iterations_of_an_open_model_beyond_their_grace_are_interrupted() {
    let server = Server::start(|_| Answer::Hang);
    let fields = "executor: 'constant-arrival-rate', rate: 20, duration: '100ms', preAllocatedVUs: 5, gracefulStop: '50ms'";
    let ran = scenario(fields, "http.get(__ENV.URL)").against(&server).run();
    let iterations = ran.report().iterations;
    assert_eq!((iterations.complete, iterations.interrupted + iterations.dropped), (0, 2));
    assert_eq!(ran.report().scenarios["s"].iterations.interrupted, iterations.interrupted);
}

#[test]
fn scenarios_names_and_groups_have_figures_of_their_own() {
    let server = Server::start(|request| match request.path() {
        "/bad" => response("500 Oops", "", ""),
        _ => ok("x"),
    });
    let ran = Script::new(
        "import http from 'k6/http'; import { check, group } from 'k6';
         const ok = (r) => check(r, { ok: (r) => r.status === 200 });
         export const options = {
            scenarios: {
               bystander: { executor: 'shared-iterations', iterations: 3, exec: 'calm' },
               spike: { executor: 'shared-iterations', iterations: 5, exec: 'spike', tags: { kind: 'rush' } },
            },
            thresholds: {
               'http_reqs{scenario:spike}': ['count==5'], 'http_reqs{kind:rush}': ['count==5'],
               'http_req_duration{scenario:bystander}': ['p(95)<60000'], 'http_reqs{group:::calm}': ['count==3'],
            },
         };
         export function calm() { group('calm', () => ok(http.get(__ENV.URL + '/a', { tags: { name: 'read' } }))); }
         export function spike() { ok(http.get(__ENV.URL + '/bad', { tags: { name: 'write' } })); }",
    )
    .against(&server)
    .run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    let report = ran.report();
    let (calm, spike) = (&report.scenarios["bystander"], &report.scenarios["spike"]);
    assert_eq!((calm.requests.total, calm.requests.good, calm.requests.failed), (3, 3, 0));
    assert_eq!((spike.requests.total, spike.requests.good, spike.requests.failed), (5, 0, 5));
    assert_eq!((calm.checks.passes, calm.checks.fails, spike.checks.fails), (3, 0, 5));
    assert_eq!((calm.names["read"].requests.total, calm.names.len()), (3, 1));
    assert_eq!(report.names["write"].http_req_duration.count, 5);
    assert_eq!((report.groups["::calm"].requests.total, report.groups[""].requests.total), (3, 5));
    assert_eq!((calm.iterations.complete, calm.iteration_duration.count), (3, 3));
    assert_eq!(report.trends["http_req_duration{scenario:bystander}"].count, 3);
    assert!(report.thresholds.len() == 4 && report.thresholds.iter().all(|one| one.ok));
}

#[test]
fn setup_gives_every_virtual_user_a_copy_of_its_data_and_teardown_gets_it_too() {
    let server = Server::start(|_| ok("token"));
    let ran = Script::new(
        "import http from 'k6/http'; import { check } from 'k6';
         export const options = { vus: 3, iterations: 9, thresholds: {
            'http_reqs{group:::setup}': ['count==2'], http_reqs: ['count==3'], 'checks{group:::teardown}': ['rate==1'] } };
         export function setup() {
            return { tokens: [1, 2].map(() => http.get(__ENV.URL).body), at: new Date(0), gone: undefined };
         }
         export default function (data) {
            data.mine = (data.mine || 0) + 1;
            check(data, { tokens: (d) => d.tokens.join() === 'token,token', at: (d) => d.at === '1970-01-01T00:00:00.000Z',
               'own copy': (d) => d.mine <= 9 && d.gone === null });
         }
         export function teardown(data) {
            check(data, { untouched: (d) => d.mine === undefined && d.tokens.length === 2 });
            http.get(__ENV.URL);
         }",
    )
    .against(&server)
    .run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    assert_eq!((ran.check("tokens"), ran.check("own copy")), ((9, 0), (9, 0)));
    let report = ran.report();
    assert_eq!(report.requests.total, 0, "the measured window is the scenarios'");
    assert_eq!(report.setup.unwrap().requests.total, 2);
    assert_eq!(report.teardown.unwrap().requests.total, 1);
    let export = ran.export.unwrap();
    assert_eq!(export["metrics"]["http_reqs"]["count"], 3);
    assert_eq!(export["root_group"]["groups"]["teardown"]["checks"]["untouched"]["passes"], 1);
}

#[test]
fn a_setup_that_fails_ends_the_run_without_teardown() {
    let run = |setup: &str, options: &str| {
        Script::new(&format!(
            "import {{ sleep }} from 'k6'; import exec from 'k6/execution';
             export const options = {{ {options} }};
             export function setup() {{ {setup} }}
             export default function () {{ console.log('iterated'); }}
             export function teardown() {{ console.log('torn down'); }}"
        ))
        .run()
    };
    for (setup, options, status, said) in [
        ("throw new Error('no setup')", "", ExitStatus::ScriptException, "no setup"),
        (
            "sleep(60)",
            "setupTimeout: '50ms'",
            ExitStatus::SetupTimeout,
            "setup() execution timed out",
        ),
        ("while (true) {}", "setupTimeout: '50ms'", ExitStatus::SetupTimeout, "timed out"),
        ("exec.test.abort('enough')", "", ExitStatus::ScriptAborted, "test aborted: enough"),
        ("const a = {}; a.a = a; return a;", "", ExitStatus::ScriptException, "circular"),
    ] {
        let ran = run(setup, options);
        assert_eq!(ran.status, status, "{setup}: {:?}", ran.messages);
        assert!(ran.said(said), "{setup}: {:?}", ran.messages);
        assert!(!ran.said("iterated") && !ran.said("torn down"), "{setup}");
    }
    let skipped = run("throw new Error('no setup')", "noSetup: true, noTeardown: true");
    assert_eq!(skipped.status, ExitStatus::Success);
    assert!(skipped.said("iterated") && !skipped.said("torn down"));
}

#[test]
fn a_teardown_that_fails_is_told_and_what_was_measured_is_kept() {
    let ran = Script::new(
        "export default function () {} export function teardown() { throw new Error('torn'); }",
    )
    .run();
    assert_eq!((ran.status, ran.report().iterations.complete), (ExitStatus::ScriptException, 1));
    assert!(ran.said("torn"), "{:?}", ran.messages);
}

#[test]
fn failed_thresholds_are_told_marked_and_end_with_99() {
    let script = |metric: &str, rule: &str| {
        Script::new(&format!(
            "import {{ Trend }} from 'k6/metrics'; const t = new Trend('t');
             export const options = {{ iterations: 3, vus: 1, thresholds: {{ '{metric}': ['{rule}'] }} }};
             export default function () {{ t.add(__ITER, {{ part: 'a' }}); }}"
        ))
    };
    let ran = script("t{part:a}", "max<2").run();
    assert_eq!(ran.status, ExitStatus::ThresholdsFailed);
    assert!(ran.said("thresholds on metrics 't{part:a}' have been crossed"), "{:?}", ran.messages);
    let failed = &ran.report().thresholds[0];
    assert_eq!((failed.value, failed.ok), (2.0, false));
    assert_eq!(ran.export.as_ref().unwrap()["metrics"]["t{part:a}"]["thresholds"]["max<2"], true);
    assert_eq!(script("t{part:a}", "max<3").run().status, ExitStatus::Success);
    assert_eq!(script("t{part:b}", "max<1").run().status, ExitStatus::Success, "nothing is 0");
    for (metric, rule) in [("nothing", "max<1"), ("t", "rate<1"), ("t{part}", "max<1")] {
        assert_eq!(script(metric, rule).run().status, ExitStatus::InvalidConfig, "{metric} {rule}");
    }
    let mut ignored = script("t", "max<1");
    ignored.config.no_thresholds = true;
    assert_eq!(ignored.run().status, ExitStatus::Success);
}

#[test]
fn a_threshold_may_end_the_run_early_and_teardown_is_called_all_the_same() {
    let ran = Script::new(
        "import { sleep } from 'k6'; import { Counter } from 'k6/metrics'; const c = new Counter('bad_ones');
         export const options = { vus: 1, duration: '10m',
            thresholds: { bad_ones: [{ threshold: 'count<1', abortOnFail: true }] } };
         export default function () { c.add(1); sleep(0.05); }
         export function teardown() { console.log('torn down'); }",
    )
    .run();
    assert_eq!(ran.status, ExitStatus::ThresholdsFailed);
    assert!(ran.said("stopping test prematurely") && ran.said("torn down"), "{:?}", ran.messages);
    assert!(ran.report().aborted && ran.report().duration_seconds < 300.0);
}

#[test]
fn the_script_may_abort_the_test_or_mark_it_as_failed() {
    let script = |call: &str| {
        Script::new(&format!(
            "import exec from 'k6/execution'; import {{ sleep }} from 'k6';
             export const options = {{ scenarios: {{ s: {{ executor: 'per-vu-iterations', vus: 2, iterations: 2 }} }} }};
             export default function () {{ if (__VU === 1) {{ try {{ {call} }} catch (e) {{}} }} sleep(0.01); }}
             export function teardown() {{ console.log('torn down'); }}"
        ))
    };
    let ran = script("exec.test.abort('enough'); while (true) {}").run();
    assert_eq!(ran.status, ExitStatus::ScriptAborted);
    assert!(ran.said("test aborted: enough") && ran.said("torn down"), "{:?}", ran.messages);
    assert!(ran.report().aborted);
    let ran = script("exec.test.fail('why')").run();
    assert_eq!(ran.status, ExitStatus::MarkedAsFailed);
    assert!(ran.said("test marked as failed: why"), "{:?}", ran.messages);
    assert_eq!(ran.report().iterations.complete, 4);
}

#[test]
fn the_execution_module_tells_where_the_script_is() {
    let ran = Script::new(
        "import exec, { vu as me } from 'k6/execution'; import { check, group } from 'k6'; import { Counter } from 'k6/metrics';
         const c = new Counter('c'); let last = -1;
         let early; try { exec.vu.idInTest; } catch (e) { early = e; }
         export const options = { scenarios: { here: { executor: 'shared-iterations', vus: 2, iterations: 6, tags: { t: '1' } } },
            thresholds: { 'c{mine:yes}': ['count==6'] } };
         export function setup() { let error; try { exec.scenario.name; } catch (e) { error = e; } check(error, { 'no scenario in setup': (e) => e }); }
         export default function () {
            const s = exec.scenario;
            check(s, { name: (s) => s.name === 'here', executor: (s) => s.executor === 'shared-iterations',
               started: (s) => Math.abs(Date.now() - s.startTime) < 60000, progress: (s) => s.progress >= 0 && s.progress <= 1,
               'iteration in test': (s) => s.iterationInTest >= 0 && s.iterationInTest < 6 && s.iterationInInstance === s.iterationInTest });
            check(me, { id: (v) => v.idInTest === __VU && v.idInInstance === __VU,
               iteration: (v) => v.iterationInInstance === __ITER && v.iterationInScenario === __ITER });
            check(exec.instance, { vus: (i) => i.vusInitialized === 2 && i.vusActive >= 1, time: (i) => i.currentTestRunDuration > 0 });
            check(exec.test.options, { options: (o) => o.scenarios.here.iterations === 6 && Object.isFrozen(o.scenarios) });
            exec.vu.metrics.tags.mine = 'yes'; c.add(1);
            check(exec.vu.tags, { tags: (t) => t.mine === 'yes' && t.scenario === 'here' && t.t === '1' && 'mine' in t && Object.keys(t).includes('t') });
            delete exec.vu.tags.mine;
            check(exec.vu.tags, { deleted: (t) => t.mine === undefined });
            let error; try { exec.vu.tags.x = {}; } catch (e) { error = e; } check(error, { 'no objects': (e) => e instanceof TypeError });
            group('g', () => check(exec.vu.tags, { group: (t) => t.group === '::g' }));
            check(early, { 'not in init': (e) => e.message.includes('init context') });
         }",
    )
    .run();
    ran.assert_all_checks_passed();
}

#[test]
fn handle_summary_replaces_the_summary_and_writes_files() {
    let mut script = Script::new(
        "import { check, group } from 'k6';
         export const options = { thresholds: { checks: ['rate>0.5'] } };
         export function setup() { return { a: 1 }; }
         export default function () { group('g', () => check(1, { fine: true })); }
         export function handleSummary(data) {
            return { [__ENV.OUT]: JSON.stringify(data), [__ENV.OUT + '.bin']: new Uint8Array([1, 2]).buffer };
         }",
    );
    let out = script.path("summary.json");
    script.config.no_summary = false;
    script.config.environment = crate::support::variable("OUT", out.to_str().unwrap());
    let ran = script.run_and_keep(|| {
        assert_eq!(std::fs::read(out.with_extension("json.bin")).unwrap(), [1, 2]);
        let data: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
        assert_eq!(data["metrics"]["checks"]["values"]["passes"], 1);
        assert_eq!(data["metrics"]["checks"]["thresholds"]["rate>0.5"]["ok"], true);
        assert_eq!(data["metrics"]["iteration_duration"]["type"], "trend");
        // As in k6 1.8.1, `setup()` is a group only with something in it.
        assert_eq!(data["root_group"]["groups"][0]["path"], "::g");
        assert_eq!(data["root_group"]["groups"][0]["checks"][0]["name"], "fine");
        assert_eq!(data["setup_data"]["a"], 1);
        assert!(data["state"]["testRunDurationMs"].as_f64().unwrap() > 0.0);
    });
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
}

#[test]
fn the_documented_sign_up_runs_as_k6_users_write_it() {
    let users = AtomicU64::new(0);
    let server = Server::start(move |_| match users.fetch_add(1, Ordering::Relaxed) % 10 {
        9 => response("409 Conflict", "", "{}"),
        _ => response("201 Created", "", "{}"),
    });
    let ran = Script::new(
        "import http from 'k6/http'; import { check } from 'k6'; import { Counter } from 'k6/metrics';
         const created = new Counter('created'); const conflict = new Counter('conflict');
         export const options = { vus: 100, duration: '1s' };
         export default function () {
            const body = JSON.stringify({ nickname: `u${__VU}x${__ITER}`, password: 'secret-pass', region_name: 'Seoul' });
            const res = http.post(`${__ENV.URL}/v1/auth/user/register`, body, { headers: { 'Content-Type': 'application/json' } });
            if (res.status === 201) created.add(1); else if (res.status === 409) conflict.add(1);
            check(res, { 'created or taken': (r) => r.status === 201 || r.status === 409 });
         }",
    )
    .against(&server)
    .run();
    ran.assert_all_checks_passed();
    let export = ran.export.as_ref().unwrap();
    let count = |name: &str| export["metrics"][name]["count"].as_u64().unwrap();
    assert_eq!(count("created") + count("conflict"), ran.report().requests.total);
    assert_eq!(ran.report().vus_max, 100);
}

#[test]
fn the_documented_attack_at_a_rate_with_a_setup_of_200_logins_runs() {
    let server = Server::start(|request| match request.path() {
        "/v1/auth/user/login" => ok("{\"token\":\"t\"}"),
        _ => response("429 Too Many Requests", "", "{}"),
    });
    let ran = Script::new(
        "import http from 'k6/http'; import { check } from 'k6'; import exec from 'k6/execution';
         export const options = { scenarios: { attack: { executor: 'constant-arrival-rate', rate: 10000, timeUnit: '1s',
            duration: '200ms', preAllocatedVUs: 50, maxVUs: 200 } } };
         export function setup() {
            const tokens = [];
            for (let i = 0; i < 200; i++) tokens.push(http.post(`${__ENV.URL}/v1/auth/user/login`, JSON.stringify({ nickname: `u${i}` })).json('token'));
            return { tokens };
         }
         export default function (data) {
            const token = data.tokens[exec.scenario.iterationInTest % data.tokens.length];
            const res = http.get(`${__ENV.URL}/v1/users/me`, { headers: { Authorization: `Bearer ${token}` } });
            check(res, { limited: (r) => r.status === 429 });
         }",
    )
    .against(&server)
    .run();
    assert_eq!(ran.status, ExitStatus::Success, "{:?}", ran.messages);
    let report = ran.report();
    assert_eq!(report.iterations.complete + report.iterations.dropped, 2000);
    assert_eq!(report.setup.unwrap().requests.total, 200);
    assert_eq!(ran.check("limited"), (report.iterations.complete, 0));
    assert!(report.vus_max >= 50 && report.vus_max <= 200);
}

#[test]
fn the_documented_baseline_and_spike_run_side_by_side() {
    let server = Server::start(|_| ok("{\"liked\":true}"));
    let ran = Script::new(
        "import http from 'k6/http'; import { check } from 'k6';
         const like = () => check(http.post(`${__ENV.URL}/v1/articles/1/like`), { ok: (r) => r.status === 200 });
         export const options = { scenarios: {
            baseline: { executor: 'constant-arrival-rate', rate: 20, timeUnit: '1s', duration: '600ms', preAllocatedVUs: 10, exec: 'baseline' },
            spike: { executor: 'constant-arrival-rate', rate: 100, timeUnit: '1s', duration: '200ms', startTime: '300ms', preAllocatedVUs: 20, maxVUs: 40, exec: 'spike' },
         } };
         export const baseline = like; export const spike = like;",
    )
    .against(&server)
    .run();
    ran.assert_all_checks_passed();
    let of = |name: &str| {
        let iterations = ran.report().scenarios[name].iterations;
        iterations.complete + iterations.dropped
    };
    assert_eq!((of("baseline"), of("spike")), (12, 20));
}
