//! Real k6 as the load generator of an experiment.

use super::{EXPERIMENT, Lab, text_of};
use std::path::Path;
use std::process::Command;

/// k6 as `make drills` installs it, or the one in `PATH`.
fn k6() -> Option<String> {
    let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/bin/k6");
    let found = Command::new("k6").arg("version").output().is_ok().then(|| "k6".to_owned());
    if Path::new(tools).exists() { Some(tools.to_owned()) } else { found }
}

/// k6 and the built-in generator count the same requests, checks and errors of one load.
#[test]
fn k6_loads_as_the_built_in_generator_does() {
    if !madang_testing::drill!() {
        return;
    }
    let Some(k6) = k6() else {
        madang_testing::skip!(false, "no k6: it needs Go to be installed");
        return;
    };
    let runs = ["", &format!("generator = [{k6:?}]\n")].map(|generator| {
        let text = EXPERIMENT
            .replace("[rounds]", &format!("{generator}[rounds]"))
            .replace("duration = \"1s\"", "duration = \"2s\"");
        let lab = Lab::new(&text);
        let output = lab.run(&["--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", text_of(&output)));
        let round = report["rounds"][0]["measured"]["load"].clone();
        assert!(!round.is_null(), "{}", text_of(&output));
        round
    });
    for load in &runs {
        let [total, good] = ["total", "good"].map(|key| load["requests"][key].as_u64().unwrap());
        assert!(total > 50 && good == total, "{load}");
        let checks = load["checks"].as_array().unwrap();
        assert_eq!(checks.len(), 2, "{load}");
        assert!(
            checks.iter().all(|check| check["passes"] == total && check["fails"] == 0),
            "{load}"
        );
        let seconds = load["duration_seconds"].as_f64().unwrap();
        assert!((seconds - 2.0).abs() < 0.1, "{load}");
        let steps = load["series"]["steps"].as_array().unwrap();
        let requests: u64 = steps.iter().map(|step| step["requests"].as_u64().unwrap()).sum();
        assert_eq!(requests, total, "{load}");
    }
}
