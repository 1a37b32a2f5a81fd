//! What k6 has and this engine does not fails by its name, with exit code 104.

use std::time::Duration;

use crate::support::{Script, Server, ok};
use madang_load::ExitStatus;

/// Each is reported in a line of its own.
fn all_reported(script: &str, told: &[&str]) {
    let ran = Script::new(script).run();
    for one in told {
        let said = ran.messages.iter().filter(|message| message.contains(one));
        assert_eq!(said.count(), 1, "{one}: {:?}", ran.messages);
    }
    assert_eq!(ran.messages.len(), told.len(), "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::InvalidConfig);
}

fn refused(script: Script, name: &str) {
    let ran = script.run();
    assert!(ran.said(&format!("{name} is not supported yet")), "{name}: {:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::InvalidConfig, "{name}");
}

#[test]
fn modules() {
    for name in ["k6/net/grpc", "k6/crypto/x509", "k6/browser", "k6/x/sql"] {
        let script =
            Script::new(&format!("import x from '{name}'; export default function () {{}}"));
        refused(script, &format!("module `{name}`"));
    }
}

#[test]
fn all_that_is_missing_is_told_at_once() {
    all_reported(
        "import grpc, { StatusOK } from 'k6/net/grpc'; import x509 from 'k6/crypto/x509';
         const browser = require('k6/browser').browser;
         const client = new grpc.Client(); client.load([StatusOK + 1], 'a.proto');
         export const options = { vuss: 1, paused: true, scenarios: { a: {} }, thresholds: { m: ['avg'] } };
         export default function () {}",
        &[
            "module `k6/net/grpc` is not supported yet; k6 itself runs",
            "module `k6/crypto/x509` is not supported yet; read the certificate",
            "module `k6/browser` is not supported yet; k6 itself runs",
            "unknown option `vuss`",
            "option `paused` is not supported yet; ",
            "option `scenarios.a.executor`: it is required",
            "option `thresholds.m`: `avg` is no threshold",
        ],
    );
    all_reported(
        "export const options = { scenarios: {
             a: { executor: 'shared-iterations', exec: 'one' }, b: { executor: 'shared-iterations', exec: 'two' },
         }, thresholds: { none: ['avg<1'], iterations: ['avg<1', 'p(9)<1'] } };",
        &["function `one`", "function `two`", "none", "has no `avg`", "has no `p(9)`"],
    );
}

#[test]
fn modules_whose_names_are_computed() {
    let name = "['k6', 'net', 'grpc'].join('/')";
    for script in [
        format!("try {{ require({name}).x(); }} catch (e) {{}} export default function () {{}}"),
        format!("import({name}).catch(() => {{}}); export default function () {{}}"),
        format!(
            "export default async function () {{ try {{ await import({name}); }} catch (e) {{}} }}"
        ),
    ] {
        refused(Script::new(&script), "module `k6/net/grpc`");
    }
}

#[test]
fn modules_that_are_no_more_say_what_to_do() {
    for (name, told) in [
        ("timers", "k6/experimental/timers: its functions are global: remove the import"),
        ("webcrypto", "k6/experimental/webcrypto: `crypto` is global: remove the import"),
        ("tracing", "k6/experimental/tracing: it has been removed"),
        ("nothing", "unknown module: k6/experimental/nothing"),
    ] {
        let script =
            format!("import x from 'k6/experimental/{name}'; export default function () {{}}");
        let ran = Script::new(&script).run();
        assert!(ran.said(told), "{:?}", ran.messages);
        assert_eq!(ran.status, ExitStatus::ScriptException);
    }
    for (name, told) in [
        ("k6/experimental/grpc", "k6 has it as k6/net/grpc"),
        ("k6/experimental/browser", "k6 has it as k6/browser"),
        ("k6/x/redis", "k6/experimental/redis is"),
        ("k6/x/sql", "a k6 that is built with it"),
    ] {
        let told = format!("module `{name}` is not supported yet; {told}");
        all_reported(&format!("import x from '{name}'; export default function () {{}}"), &[&told]);
    }
}

#[test]
fn members_reached_only_while_running_even_when_the_script_catches() {
    let server = Server::start(|_| ok("x"));
    let script = Script::body(
        "const answer = http.get(URL);
         while (true) { try { answer['js' + 'on']('a.@' + 'reverse'); } catch (e) {} }",
    );
    refused(script.against(&server), "`response.json(a.@reverse)`");
}

#[test]
fn a_script_may_define_such_a_name_itself() {
    let ran = Script::new(
        "import { check } from 'k6';
         const open = () => 1; globalThis.crypto = 2;
         export default function () { check(null, { own: () => open() === 1 && crypto === 2 }); }",
    );
    ran.run().assert_all_checks_passed();
}

#[test]
fn request_parameters() {
    let server = Server::start(|_| ok("x"));
    let script = Script::body("http.get(URL, { auth: 'ntlm' });").against(&server);
    refused(script, "`the request parameter auth with ntlm`");
}

#[test]
fn parts_of_a_response() {
    let server = Server::start(|_| ok("{}"));
    let script = Script::body("http.get(URL).html('p:matches(a+)');").against(&server);
    refused(script, "`the selector :matches(`");
    let script = Script::body("http.get(URL).json('a.@reverse');").against(&server);
    refused(script, "`response.json(a.@reverse)`");
}

#[test]
fn archives() {
    let mut script = Script::body("");
    script.config.script = script.path("archive.tar");
    let told = format!("the archive `{}`", script.config.script.display());
    refused(script, &told);
}

#[test]
fn messages_of_level_debug() {
    let said = |verbose| {
        let mut script = Script::body("console.debug('seen', 1);");
        script.config.verbose = verbose;
        script.run().said("seen 1")
    };
    assert!(said(true) && !said(false));
}

#[test]
fn executors() {
    let script = Script::new(
        "export const options = { scenarios: { s: { executor: 'externally-controlled' } } };
         export default function () {}",
    );
    refused(script, "executor `externally-controlled` (scenario `s`)");
}

#[test]
fn unknown_options_are_named_too() {
    let ran =
        Script::new("export const options = { durration: '1s' }; export default function () {}")
            .run();
    assert!(ran.said("unknown option `durration`"), "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::InvalidConfig);
    // What cannot be meant for an option that there is does no harm, as in k6.
    let ran =
        Script::new("export const options = { name: 'x' }; export default function () {}").run();
    assert!(ran.said("unknown option `name`: it has no effect"), "{:?}", ran.messages);
    assert_eq!(ran.status, ExitStatus::Success);
}

#[test]
fn a_warm_up_of_executors_that_count_iterations() {
    for (options, name) in [
        ("{}", "per-vu-iterations"),
        ("{ vus: 1, iterations: 5 }", "shared-iterations"),
        ("{ scenarios: { default: { executor: 'per-vu-iterations' } } }", "per-vu-iterations"),
    ] {
        let mut script = Script::new(&format!(
            "export const options = {options}; export default function () {{}}"
        ));
        script.config.warm_up = Duration::from_millis(10);
        refused(script, &format!("`--warm-up` with the executor `{name}` (scenario `default`)"));
    }
}

#[test]
fn options_that_are_no_numbers() {
    for (options, told) in [
        (
            "{ vus: Number(__ENV.VUS), duration: '1s' }",
            "option `vus`: a number is expected, not NaN",
        ),
        (
            "{ scenarios: { s: { executor: 'ramping-vus', stages: [{ duration: '1s', target: 1 / 0 }] } } }",
            "option `scenarios.s.stages[0].target`: a number is expected, not Infinity",
        ),
        ("{ userAgent: '\\ud800' }", "`options` cannot be read: "),
    ] {
        let ran = Script::new(&format!(
            "export const options = {options}; export default function () {{}}"
        ))
        .run();
        assert!(ran.said(told), "{options}: {:?}", ran.messages);
        assert_eq!(ran.status, ExitStatus::InvalidConfig);
    }
}

#[test]
fn stages_in_which_nobody_runs() {
    for (options, told) in [
        (
            "{ vus: 0, stages: [{ duration: '1s', target: 0 }] }",
            "option `stages`: either the virtual users at the start or the target of one stage",
        ),
        (
            "{ stages: [{ duration: '0s', target: 5 }] }",
            "option `stages`: together they must be longer than zero",
        ),
    ] {
        let ran = Script::new(&format!(
            "export const options = {options}; export default function () {{}}"
        ))
        .run();
        assert!(ran.said(told), "{options}: {:?}", ran.messages);
        assert_eq!(ran.status, ExitStatus::InvalidConfig);
    }
    let ran = Script::new("export const options = { stages: [] }; export default function () {}");
    let ran = ran.run();
    assert_eq!(ran.report().iterations.complete, 1);
    assert!(ran.said("`stages` is empty and has no effect"), "{:?}", ran.messages);
}
