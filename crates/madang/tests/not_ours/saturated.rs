//! A generator that is the limit measures itself: where it is for both variants, there is no verdict. A
//! slow server is no such generator, whatever form the load has.
//!
//! Other tests keep the processors busy meanwhile, so a generator that does nothing wrong may be late
//! all the same. It is called the limit for that, and for nothing else; then they are run again, until it was
//! left in peace once.

use serde_json::Value;

use crate::{ACCEPT, Lab, Ran, experiments};

/// nginx answers at once, from memory.
fn nginx() -> String {
    let program = experiments().join("nginx-gzip/nginx.sh");
    let answer = "location = /one { return 200 one; }";
    format!("command = [{program:?}, \"{{port}}\", \"{{dir}}\", {answer:?}]\n{READY}")
}

/// From 10 ms of computing on a fast machine to 30 ms for each answer, one after the other.
fn slow() -> String {
    let program = experiments().join("five-percent/server.py");
    format!("command = [\"python3\", {program:?}, \"{{port}}\", \"60000\"]\n{READY}")
}

const READY: &str = "ready = \"http://127.0.0.1:{port}/ready\"";

/// A script of one scenario.
fn script(scenario: &str, before: &str, after: &str) -> String {
    format!(
        "import http from 'k6/http';
         import {{ sleep }} from 'k6';
         export const options = {{ scenarios: {{ only: {{ {scenario} }} }} }};
         function compute(ms) {{ const end = Date.now() + ms; while (Date.now() < end); }}
         export default function () {{
           {before}
           http.get(`${{__ENV.BASE_URL}}/one`);
           {after}
         }}"
    )
}

fn run(server: &str, script: &str, blocks: u32) -> Ran {
    let experiment = format!(
        "name = \"saturated\"\nquestion = \"Who is the limit?\"\nreference = \"one\"\n\
         prediction = {{ metric = \"goodput\", variant = \"other\", ratio_at_least = 0.01 }}\n\
         [load]\nscript = \"script.js\"\n[rounds]\nblocks = {blocks}\nwarm_up = \"0s\"\n{ACCEPT}\n\
         [variants.one]\n{server}\n[variants.other]\n{server}\n"
    );
    Lab::new(&experiment, script).run("", &[])
}

/// Both variants may be faster than measured, so their ratio is not judged.
#[track_caller]
fn assert_untold(ran: &Ran) {
    assert_eq!(ran.code, Some(3), "{:#}", ran.report["warnings"]);
    assert_eq!(ran.report["verdict"], "undecided");
    let why = ran.report["undecided_because"].as_str().unwrap();
    assert!(why.contains("the load generator, not the server, was the limit"), "{why}");
    for round in ran.rounds() {
        let generator = &round["load"]["generator"];
        assert_eq!(generator["limited"], true, "{generator:#}");
    }
    assert!(ran.warns("the load generator, not the server"), "{}", ran.report["warnings"]);
}

/// A run that is taken as it is: with a verdict, if two blocks allow one. Others may keep the generator
/// waiting, so that it is called the limit, or spread the figures; they do not every time.
#[track_caller]
fn taken(server: &str, script: &str, blocks: u32) -> Ran {
    let mut runs = (0..20).map(|_| run(server, script, blocks));
    let found = runs.find(|ran| {
        assert_right(ran);
        // A single block has no verdict, whatever it shows.
        let verdict = if ran.report["complete_blocks"] == 1 { "undecided" } else { "supported" };
        ran.code == Some(0) && ran.report["verdict"] == verdict
    });
    found.expect("others were in the way every time")
}

/// Never wrong: called the limit only for having been late, and never told the opposite.
#[track_caller]
fn assert_right(ran: &Ran) {
    let limited = |round: &&Value| round["load"]["generator"]["limited"] == true;
    for round in ran.rounds().filter(limited).map(|round| &round["load"]) {
        let generator = &round["generator"];
        let reason = generator["reason"].as_str().unwrap();
        assert!(reason.contains(" late ") || generator["starved"] == true, "{generator:#}");
        let [used, of] = [&generator["cpu_seconds"], &round["duration_seconds"]];
        assert!(used.as_f64().unwrap() < 0.5 * of.as_f64().unwrap(), "{generator:#}");
    }
    assert_ne!(ran.report["verdict"], "refuted", "{:#}", ran.report["warnings"]);
}

/// Every round with a punctual generator has the warning.
#[track_caller]
fn assert_dropped(ran: &Ran) {
    let mut fair = 0;
    for round in ran.rounds().filter(|round| round["load"]["generator"]["limited"] == false) {
        fair += 1;
        let mut warnings = round["warnings"].as_array().unwrap().iter();
        assert!(warnings.any(|warning| warning == "dropped"), "{round:#}");
    }
    assert!(fair > 0, "{:#}", ran.report["warnings"]);
}

const CLOSED: &str = "executor: 'constant-vus', vus: 8, duration: '1200ms'";
const ALONE: &str = "executor: 'constant-vus', vus: 1, duration: '1200ms'";
const ARRIVALS: &str = "executor: 'constant-arrival-rate', rate: 200, duration: '1200ms', \
                        preAllocatedVUs: 20";
const RAMPING: &str = "executor: 'ramping-arrival-rate', startRate: 200, preAllocatedVUs: 20, \
                       stages: [{ duration: '1200ms', target: 200 }]";
const SHARED: &str = "executor: 'shared-iterations', vus: 8, iterations: 100000, \
                      maxDuration: '1200ms'";
const EACH: &str = "executor: 'per-vu-iterations', vus: 8, iterations: 100000, \
                    maxDuration: '1200ms'";

/// So much that even a server whose processor others have answers while the next virtual user computes:
/// the loops, or with one virtual user the script, never rest for long.
const MUCH: &str = "compute(25)";
const ENDLESS: &str = "compute(600)";

#[test]
fn virtual_users_that_compute_more_than_the_server_are_untold() {
    assert_untold(&run(&nginx(), &script(CLOSED, MUCH, ""), 2));
}

#[test]
fn so_is_a_single_one_that_only_computes() {
    if !madang_testing::drill!() {
        return;
    }
    assert_untold(&run(&nginx(), &script(ALONE, ENDLESS, ""), 1));
}

#[test]
fn so_are_starts_by_the_clock_that_compute_more_than_there_is_time() {
    if !madang_testing::drill!() {
        return;
    }
    assert_untold(&run(&nginx(), &script(ARRIVALS, MUCH, ""), 1));
    assert_untold(&run(&nginx(), &script(RAMPING, MUCH, ""), 1));
}

#[test]
fn so_are_iterations_that_computing_leaves_no_time_for() {
    if !madang_testing::drill!() {
        return;
    }
    assert_untold(&run(&nginx(), &script(SHARED, MUCH, ""), 1));
}

#[test]
fn a_slow_server_under_a_light_script_is_taken() {
    let ran = taken(&slow(), &script(CLOSED, "", ""), 2);
    assert!(!ran.warns("dropped"), "{}", ran.report["warnings"]);
}

#[test]
fn iterations_that_a_slow_server_leaves_no_time_for_are_no_fault_of_the_generator() {
    if !madang_testing::drill!() {
        return;
    }
    for scenario in [SHARED, EACH] {
        let ran = taken(&slow(), &script(scenario, "", ""), 1);
        let dropped = |round: &Value| round["load"]["iterations"]["dropped"].as_u64();
        assert!(ran.rounds().all(|round| dropped(round) > Some(0)), "{scenario}");
    }
}

#[test]
fn dropped_iterations_are_told_whoever_kept_the_virtual_users() {
    if !madang_testing::drill!() {
        return;
    }
    for scenario in [ARRIVALS, RAMPING] {
        assert_dropped(&taken(&slow(), &script(scenario, "", ""), 1));
    }
    assert_dropped(&taken(&nginx(), &script(ARRIVALS, "", "sleep(0.3)"), 1));
}
