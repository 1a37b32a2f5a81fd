//! Other load generators.

use std::fs;

use crate::help::{Lab, measured, two};

/// A minimal generator, in a language that Debian has.
const GENERATOR: &str = r#"
import json, sys, time, urllib.request
args = sys.argv[2:]
value = lambda name: args[args.index(name) + 1]
if "--check" in args:
    sys.exit(104 if "refused" in open(sys.argv[1]).read() else 0)
base = [pair for i, pair in enumerate(args) if args[i - 1] == "--env" and pair.startswith("BASE_URL=")][0][9:]
seconds = lambda name: float(value(name)[:-2]) / 1000
def requests(limit):
    times, end = [], time.time() + limit
    while time.time() < end:
        begun = time.time()
        urllib.request.urlopen(base + "/").read()
        times.append(1000 * (time.time() - begun))
    return sorted(times)
requests(seconds("--warm-up"))
start = time.time()
open(value("--started"), "w").write("%f\n" % start)
times = requests(seconds("--duration"))
end = time.time()
at = lambda share: times[int(share * (len(times) - 1))]
mean = sum(times) / len(times)
trend = {"count": len(times), "avg": mean, "min": times[0], "max": times[-1], "stddev": 0,
         "p50": at(0.5), "p90": at(0.9), "p95": at(0.95), "p99": at(0.99)}
json.dump({"version": 1, "started_at_seconds": start, "ended_at_seconds": end, "duration_seconds": end - start,
           "requests": {"total": len(times), "good": len(times)}, "trends": {"http_req_duration": trend}},
          open(value("--report"), "w"))
"#;

fn lab(script: &str, generator: &str) -> Lab {
    let text = two("serve = { delay_ms = 20 }", "serve = {}", 1, "");
    let lab =
        Lab::new(script, &text.replace("[load]", &format!("[load]\ngenerator = {generator}")));
    fs::write(lab.path().join("generator.py"), GENERATOR).unwrap();
    lab
}

#[test]
fn any_program_that_writes_the_report_can_be_the_generator() {
    let lab = lab("anything", r#"["python3", "generator.py"]"#);
    let report = lab.run();
    for (variant, least) in [("slow", 20.0), ("fast", 0.0)] {
        let round = report.rounds.iter().find(|round| round.variant == variant).unwrap();
        let load = &measured(round).load;
        assert!(
            load.requests.good > 0 && load.http_req_duration().unwrap().min >= least,
            "{load:?}"
        );
    }
    // Resuming with another generator would mix two loads.
    assert!(fs::read_to_string(lab.out().join("run.json")).unwrap().contains("generator.py"));
}

#[test]
fn a_generator_that_cannot_run_the_script_says_so_before_the_run() {
    use madang_lab::{Cancel, Options, Plan};
    let refused = |script: &str, generator: &str| {
        let lab = lab(script, generator);
        let experiment = lab.read().unwrap();
        let plan = Plan::new(&experiment, &Options::default()).unwrap();
        let host = crate::host::TestHost::new(std::path::Path::new(crate::help::FIXTURE));
        madang_lab::check_script(&experiment, &plan, &host, &Cancel::default()).wrong.join("; ")
    };
    assert_eq!(refused("anything", r#"["python3", "generator.py"]"#), "");
    let said = refused("refused", r#"["python3", "generator.py"]"#);
    assert!(said.contains("the load generator refuses it (exit code 104)"), "{said}");
    let said = refused("anything", r#"["no-such-generator"]"#);
    assert!(said.contains("cannot start `no-such-generator`"), "{said}");
}
