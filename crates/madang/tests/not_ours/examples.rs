//! The worked examples, as short as can be, with differences that no other test can hide.

use crate::{ACCEPT, Lab, Ran};

/// The predictions' verdicts. Everything was answered well.
fn verdicts(ran: &Ran) -> Vec<&str> {
    assert_eq!(ran.code, Some(0), "{}", ran.report["warnings"]);
    for round in ran.rounds() {
        let requests = &round["load"]["requests"];
        assert!(requests["good"].as_u64().unwrap() > 0, "{round}");
        assert_eq!(requests["good"], requests["total"], "{round}");
        assert!(round["server"]["cpu_seconds"].as_f64().unwrap() > 0.0, "{round}");
    }
    let predictions = ran.report["predictions"].as_array().unwrap();
    predictions.iter().map(|one| one["verdict"].as_str().unwrap()).collect()
}

#[test]
fn nginx_compresses_for_more_cpu_and_fewer_bytes() {
    if !madang_testing::drill!() {
        return;
    }
    let lab = Lab::of(
        "nginx-gzip",
        &[
            ("blocks  = 10", &format!("blocks = 6\n{ACCEPT}")),
            ("[load]", "[load]\nenv = { DURATION = \"1500ms\" }"),
            // Nothing finer can be said in so short a time on a busy machine.
            ("ratio_at_least = 2", "ratio_at_least = 1"),
            ("ratio_at_most = 0.3", "ratio_at_most = 1"),
        ],
    );
    let ran = lab.run("nginx-gzip", &[]);
    assert_eq!(verdicts(&ran), ["supported", "supported"], "{}", ran.report["headlines"]);
}

#[test]
fn a_server_in_python_with_eight_times_the_work_is_told_from_itself() {
    if !madang_testing::drill!() {
        return;
    }
    let lab = Lab::of(
        "five-percent",
        &[
            // Many and short: with three blocks the interval was at times wider than what is asked of it.
            ("blocks  = 20", &format!("blocks = 6\n{ACCEPT}")),
            ("\"1s\"", "\"200ms\""),
            ("\"4s\"", "\"1s\""),
            ("\"2104\"", "\"16000\""),
            // Within half as much and twice as much, where eight times as much is the other variant.
            ("0.025", "1.0"),
        ],
    );
    let ran = lab.run("five-percent", &[]);
    assert_eq!(verdicts(&ran), ["supported", "supported"], "{}", ran.report["headlines"]);
}
