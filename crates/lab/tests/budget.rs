//! CPU budgets of variants: enforced if the machine permits it, else rejected with the reason.

use madang_lab::{Cancel, Options, RunError, Warning};

use crate::help::{Lab, measured, two};

/// Requests that use all CPU time.
const BURN: &str = "serve = { burn_ms = 5 }";

fn burning(budget: &str) -> String {
    two(&format!("{BURN}\n{budget}"), "serve = {}", 1, "")
}

#[test]
fn a_variant_uses_no_more_than_its_budget() {
    let text = burning("cpus = 0.2").replace("\"300ms\"", "\"1s\"");
    match Lab::new("get", &text).try_run(&Options::default(), &Cancel::default()) {
        Ok(report) => {
            let slow = report.rounds.iter().find(|round| round.variant == "slow").unwrap();
            let slow = measured(slow);
            let used = slow.server.as_ref().unwrap().cpu_seconds.unwrap();
            // A quota of one period, and the error of ten samples a second.
            let most = 0.2 * slow.load.duration_seconds + 0.1;
            assert!(used <= most, "{used} s of CPU, {most} allowed");
            assert!(used > 0.0 && !slow.warnings.contains(&Warning::NoBudget), "{slow:?}");
            assert!(report.to_markdown().contains(", 0.2 cores\n"), "{}", report.to_markdown());
        }
        Err(error @ RunError::Budget { .. }) => {
            assert!(matches!(&error, RunError::Budget { variant, .. } if variant == "slow"));
            madang_testing::skip!(madang_testing::can_make_cgroups(), "no CPU budgets: {error}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn an_experiment_may_accept_that_there_is_no_budget() {
    let accept = ["\"foreign_cpu\"]", "\"foreign_cpu\", \"no_budget\"]"];
    let text = burning("cpus = { base = 0.5, burst = 1, credit_seconds = 1 }");
    let report = Lab::new("get", &text.replace(accept[0], accept[1])).run();
    assert_eq!(report.rounds.len(), 2);
    // The machine may or may not support budgets; the run succeeds either way.
    for round in &report.rounds {
        measured(round);
    }
}

#[test]
fn a_wrong_budget_is_named_with_its_line() {
    for (budget, expected) in [
        ("cpus = 0.01", "from 0.05 to 100000, not 0.01"),
        ("cpus = \"half\"", "`cpus` in [variants.slow] must be a positive number, not \"half\""),
        ("cpus = { base = 0.5, burst = 0.5, credit_seconds = 1 }", "must be above `base`"),
        ("cpus = { base = 0.5, burst = 1 }", "`credit_seconds` is missing"),
        ("cpus = { base = 0.5, burst = 1, credit_seconds = 1, x = 1 }", "unknown key `x`"),
        ("cpus = { base = 0.5, burst = 1, credit_seconds = 1e9 }", "at most 100000"),
    ] {
        let error = Lab::new("get", &burning(budget)).read().unwrap_err().to_string();
        assert!(error.contains(expected), "no {expected:?} in {error}");
        assert!(error.contains("toml:16:"), "{error}");
    }
    let stack = "stack = {}\ncpus = { base = 0.5, burst = 1, credit_seconds = 1 }";
    let error = Lab::new("get", &burning(stack)).read().unwrap_err().to_string();
    assert!(error.contains("nodes of a `stack` have no burstable budget"), "{error}");
    let url = two("url = \"http://127.0.0.1:1\"\ncpus = 1", "serve = {}", 1, "");
    let error = Lab::new("get", &url).read().unwrap_err().to_string();
    assert!(error.contains("is not ours to limit"), "{error}");
}
