//! What k6 has and this engine does not fails by its name, with exit code 104.

use std::time::Duration;

use crate::support::{Script, Server, ok};
use madang_load::ExitStatus;

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
    let script = Script::new(
        "import grpc from 'k6/net/grpc'; import x509 from 'k6/crypto/x509';
         export default function () {}",
    );
    let ran = script.run();
    let told = "each of module `k6/net/grpc`, module `k6/crypto/x509` is not supported yet";
    assert!(ran.said(told), "{:?}", ran.messages);
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
