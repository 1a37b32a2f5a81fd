//! Mistakes in an experiment file are reported with line, key and what is accepted.

use madang_lab::experiment::{Bound, FileError, Mistake, Served, Target};

use crate::help::{Lab, two};

fn good() -> String {
    two("serve = { delay_ms = 5 }", "serve = {}", 3, "")
}

/// The mistakes of a text that differs from a good one in one line.
fn mistakes(find: &str, replace: &str) -> Vec<Mistake> {
    let text = good();
    assert!(text.contains(find), "the example has no {find:?}");
    wrong(&text.replacen(find, replace, 1))
}

fn wrong(text: &str) -> Vec<Mistake> {
    match Lab::new("get", text).read() {
        Err(FileError::Wrong { mistakes, .. }) => mistakes,
        other => panic!("accepted: {other:?}"),
    }
}

#[track_caller]
fn only(mistakes: &[Mistake], line: usize, parts: &[&str]) {
    let [mistake] = mistakes else { panic!("not one mistake: {mistakes:#?}") };
    assert_eq!(mistake.line, line, "{mistake:?}");
    for part in parts {
        assert!(mistake.message.contains(part), "no {part:?} in: {}", mistake.message);
    }
}

#[test]
fn a_good_file_is_read_as_it_is_written() {
    let text =
        good() + "[data]\na = 1\n[load.env]\nB = \"2\"\nA = \"1\"\n[rounds.quick]\nblocks = 1\n";
    let experiment = Lab::new("get __ENV.A __ENV.B", &text).read().unwrap();
    assert_eq!(experiment.variants[0].name, "slow");
    assert_eq!(experiment.variants[1].target, Target::Serve(Served::default()));
    assert_eq!(experiment.predictions[0].bound, Bound::RatioAtMost(0.5));
    assert_eq!(experiment.load.env[0].0, "B", "the order of the file");
    assert_eq!(experiment.rounds.quick.unwrap().blocks, Some(1));
    assert_eq!(experiment.data["a"].as_integer(), Some(1));
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_accepted_ones() {
    only(
        &mistakes("blocks = 3", "blokcs = 3\nblocks = 3"),
        11,
        &["unknown key `blokcs` in [rounds]", "did you mean `blocks`", "`warm_up`", "`quick`"],
    );
    only(&mistakes("[load]", "[lab]\n[load]"), 6, &["unknown key `lab`", "`question`", "`rounds`"]);
    only(
        &mistakes("serve = {}", "serve = {}\ncolour = 1"),
        18,
        &["`colour` in [variants.fast]", "`url`"],
    );
}

#[test]
fn what_is_not_supported_yet_is_refused_by_name() {
    only(
        &mistakes("serve = {}", "serve = {}\nmemory = 0.5"),
        18,
        &["`memory` is not supported yet in [variants.fast]"],
    );
    only(&wrong(&(good() + "[budgets]\n")), 19, &["`budgets` is not supported yet"]);
}

#[test]
fn a_wrong_type_says_what_is_wanted_and_what_was_found() {
    only(
        &mistakes("blocks = 3", "blocks = \"3\""),
        11,
        &["`blocks` in [rounds]", "whole number from 1 to 1000", "\"3\""],
    );
    only(&mistakes("blocks = 3", "blocks = 0"), 11, &["from 1 to 1000", "not 0"]);
    only(&mistakes("\"50ms\"", "50"), 12, &["`warm_up`", "time with its unit", "not 50"]);
    only(&mistakes("\"50ms\"", "\"50 parsecs\""), 12, &["`warm_up`", "\"1m30s\""]);
    only(&mistakes("ratio_at_most = 0.5", "ratio_at_most = -1"), 5, &["positive number"]);
    only(
        &mistakes("question = \"Which is faster?\"", "question = 7"),
        3,
        &["`question`", "a string"],
    );
}

#[test]
fn times_are_neither_endless_nor_nothing_where_something_is_needed() {
    only(&mistakes("\"50ms\"", "\"169h\""), 12, &["`warm_up`", "7 days", "169h"]);
    only(&mistakes("\"300ms\"", "\"0s\""), 9, &["`duration`", "from 1ms to 7 days"]);
    for key in ["start_limit", "time_limit"] {
        only(&mistakes("blocks = 3", &format!("{key} = \"0s\"\nblocks = 3")), 11, &[key, "1ms"]);
    }
    let good = good().replace("\"50ms\"", "\"0s\"");
    Lab::new("get", &good).read().unwrap();
}

#[test]
fn a_load_that_cannot_end_within_its_limit_is_a_mistake() {
    let limit = |limit| mistakes("blocks = 3", &format!("time_limit = \"{limit}\"\nblocks = 3"));
    only(&limit("350ms"), 10, &["`time_limit`", "`warm_up` and `duration`"]);
    let limited = good().replace("blocks = 3", "time_limit = \"351ms\"\nblocks = 3");
    Lab::new("get", &limited).read().unwrap();
    let quick = limited + "[rounds.quick]\nwarm_up = \"60ms\"\n";
    only(&wrong(&quick), 10, &["`time_limit`", "--quick"]);
}

#[test]
fn a_missing_key_is_named() {
    only(&mistakes("script = \"script.js\"\n", ""), 6, &["`script` is missing in [load]"]);
}

#[test]
fn a_name_that_refers_to_nothing_is_named_with_what_there_is() {
    only(&mistakes("reference = \"slow\"", "reference = \"old\""), 4, &["`slow`, `fast`", "`old`"]);
    only(
        &mistakes("variant = \"fast\"", "variant = \"slow\""),
        5,
        &["other than the reference", "`fast`"],
    );
    only(
        &mistakes("p50\"", "p51\""),
        5,
        &["unknown metric", "`http_req_duration.p95`", "`goodput`"],
    );
    only(&mistakes("\"script.js\"", "\"other.js\""), 7, &["`script`", "other.js", "no file"]);
}

#[test]
fn a_variant_is_started_in_exactly_one_way() {
    let exactly = "exactly one of `serve`, `command`, `image`, `build`, `compose` and `url`";
    only(&mistakes("serve = {}", ""), 16, &["[variants.fast]", exactly]);
    only(&mistakes("serve = {}", "serve = {}\nurl = \"http://a\""), 16, &[exactly]);
    only(&mistakes("serve = {}", "command = [\"x\"]"), 16, &["needs `{port}` in its `command`"]);
    only(
        &mistakes("serve = {}", "serve = {}\nready = \"http://a\""),
        16,
        &["belongs to a `command`"],
    );
    only(
        &mistakes("serve = {}", "url = \"ftp://a\""),
        17,
        &["`url` in [variants.fast]", "http://127.0.0.1"],
    );
    only(
        &mistakes("serve = {}", "command = [\"x\"]\nready = \"{port}\""),
        18,
        &["`ready` in [variants.fast]"],
    );
}

#[test]
fn one_bound_is_needed_and_only_one() {
    let parts = ["exactly one of `ratio_at_most`, `ratio_at_least`, `difference_below`"];
    only(&mistakes(", ratio_at_most = 0.5", ""), 5, &parts);
    only(&mistakes("ratio_at_most = 0.5", "ratio_at_most = 1, ratio_at_least = 2"), 5, &parts);
}

#[test]
fn several_predictions_are_a_list() {
    let one = "prediction = { metric = \"http_req_duration.p50\", variant = \"fast\", ratio_at_most = 0.5 }";
    let list = good().replace(
        one,
        "[[prediction]]\nmetric = \"goodput\"\nvariant = \"fast\"\nratio_at_least = 2\n\
         [[prediction]]\nmetric = \"http_req_duration{scenario:main}.p99\"\nvariant = \"slow\"\nat_most = 20\n",
    );
    let script = "get http_req_duration{scenario:main}";
    let predictions = Lab::new(script, &list).read().unwrap().predictions;
    assert_eq!(predictions.len(), 2);
    assert_eq!(predictions[1].bound, Bound::AtMost(20.0));
    assert_eq!(predictions[1].metric.id(), "http_req_duration{scenario:main}.p99");
    let list = list.replace("{scenario:main}", "");
    only(&wrong(&list.replace("variant = \"fast\"", "variant = \"slow\"")), 5, &["other than"]);
}

#[test]
fn figures_of_the_load_and_of_the_server_are_named_or_refused() {
    let metric = |metric: &str| mistakes("http_req_duration.p50", metric);
    only(&metric("http_reqs.p99"), 5, &["is a counter", "`.count`"]);
    only(&metric("http_reqs"), 5, &["unknown metric `http_reqs`", "`my_counter.count`"]);
    only(&metric("requests_total"), 5, &["unknown metric `requests_total`", "[observe]"]);
    let observed = good().replace("http_req_duration.p50", "requests_total")
        + "[observe]\nmetrics = [\"requests_total\"]\nload = [\"http_reqs.rate\"]\n";
    Lab::new("get", &observed).read().unwrap();
    only(
        &wrong(&(good() + "[observe]\nmetrics = [\"a b\"]\n")),
        20,
        &["`metrics` in [observe]", "no series"],
    );
}

/// Metrics in a file are compared with the outline of the script.
#[test]
fn metrics_that_the_script_does_not_make_are_refused() {
    let outline = serde_json::json!({
        "seconds": 1.0,
        "metrics": {"http_reqs": "counter", "made": "counter", "http_reqs{scenario:b}": "counter"},
    });
    let outline = serde_json::from_value(outline).unwrap();
    let asked = |metric: &str| {
        let file = good().replace("http_req_duration.p50", metric);
        Lab::new("get", &file).read().unwrap().apply_outline(&outline)
    };
    let refused = |metric: &str| match asked(metric) {
        Err(FileError::Wrong { mistakes, .. }) => mistakes,
        other => panic!("accepted: {other:?}"),
    };
    asked("made.count").unwrap();
    asked("http_reqs{scenario:b}.count").unwrap();
    only(
        &refused("created.count"),
        5,
        &["no metric `created`", "the script makes `made`;", "every run has `http_reqs`"],
    );
    only(
        &refused("http_reqs{scenario:a}.count"),
        5,
        &["nothing makes `http_reqs{scenario:a}`", "a threshold in the script"],
    );
}

/// With a misspelt name, a load would be compared with itself.
#[test]
fn variables_that_the_script_does_not_read_are_refused() {
    let file = good().replace("[load]\n", "[load]\nenv = { SIZE = \"2\" }\n");
    let apply = |variables: serde_json::Value| {
        let outline = serde_json::json!({"seconds": 1.0, "metrics": {}, "variables": variables});
        let outline = serde_json::from_value(outline).unwrap();
        Lab::new("get", &file).read().unwrap().apply_outline(&outline)
    };
    apply(serde_json::json!(["SIZE", "BASE_URL"])).unwrap_or_else(|error| panic!("{error}"));
    match apply(serde_json::json!(["SIZES"])) {
        Err(FileError::Wrong { mistakes, .. }) => {
            only(&mistakes, 7, &["the script reads no `__ENV.SIZE`"]);
        }
        other => panic!("accepted: {other:?}"),
    }
}

/// Only the script gets an address.
#[test]
fn a_place_for_the_port_in_the_environment_of_the_load_is_refused() {
    let file = good() + "load_env = { BASE = \"http://127.0.0.1:{port}\" }\n";
    let expected = ["`load_env` in [variants.fast] has `{port}`", "`__ENV.BASE_URL`"];
    let mistakes = wrong(&file);
    assert!(expected.iter().all(|part| mistakes[0].to_string().contains(part)), "{mistakes:?}");
}

/// Mistakes of a file with an additional invariant.
fn invariant(lines: &str) -> Vec<Mistake> {
    wrong(&(good() + "[[invariants]]\nname = \"none is lost\"\n" + lines))
}

#[test]
fn an_invariant_has_one_source_and_a_limit() {
    only(&invariant("equals = 0"), 19, &["[invariants] needs exactly one of `sql`, `http`"]);
    only(&invariant("sql = \"a\"\nvalue = 1\nequals = 0"), 19, &["exactly one of"]);
    only(&invariant("sql = \"a\""), 19, &["needs one of `equals`, `at_most`, `at_least`"]);
    only(&invariant("http = \"/x\"\nequals = 1"), 19, &["`http` and `json` belong together"]);
    only(&invariant("http = \"x\"\njson = \"a\"\nequals = 1"), 21, &["a path such as"]);
    only(&invariant("metrics = \"a b\"\nequals = 1"), 21, &["no series"]);
    only(&invariant("sql = 3\nequals = 1"), 21, &["`sql` in [invariants] must be a string"]);
    only(&invariant("value = 1\nchange = true\nequals = 1"), 19, &["`change`"]);
    only(
        &invariant("sql = \"a\"\nequals = 1\nvariants = [\"slwo\"]"),
        23,
        &["no variant `slwo`", "`slow`, `fast`"],
    );
}

#[test]
fn a_formula_is_checked_before_the_first_round() {
    let limit = |formula: &str| invariant(&format!("sql = \"a\"\nat_most = \"{formula}\""));
    only(&limit("max(0, 30 -"), 22, &["`at_most` in [invariants]", "expected at character 12"]);
    only(&limit("befor"), 22, &["unknown name `befor`", "`before`, and `load.METRIC`"]);
    only(&limit("load.http_reqs.p9"), 22, &["unknown statistic `.p9`"]);
    only(&invariant("value = \"before\"\nequals = 1"), 21, &["unknown name `before`"]);
    let named = "[values.rows]\nsql = \"select 1\"\n[[invariants]]\nname = \"x\"\n";
    let with = |lines: &str| good() + named + lines;
    Lab::new("get", &with("value = \"after.rows\"\nat_least = \"before.rows\"")).read().unwrap();
    only(&wrong(&with("value = \"after.row\"\nequals = 1")), 23, &["`after.rows`"]);
}

#[test]
fn what_is_asked_of_a_variant_must_be_known_of_it() {
    let text = good().replace("serve = {}", "url = \"http://127.0.0.1:1\"");
    let ask = |lines: &str| text.clone() + "[[invariants]]\nname = \"x\"\nequals = 0\n" + lines;
    only(&wrong(&ask("sql = \"a\"")), 22, &["`database` or `mysql` in [variants.fast]"]);
    only(&wrong(&ask("metrics = \"a\"")), 22, &["needs `metrics` in [variants.fast]"]);
    Lab::new("get", &ask("sql = \"a\"\nvariants = [\"slow\"]")).read().unwrap();
    let given = ask("sql = \"a\"").replace(":1\"", ":1\"\ndatabase = \"sqlite:x.db\"");
    Lab::new("get", &given).read().unwrap();
    only(&wrong(&given.replace("sqlite:", "mysql:")), 18, &["`database`", "sqlite:PATH"]);
}

#[test]
fn databases_are_checked() {
    let observe = |lines: &str| wrong(&(good() + "[observe]\n" + lines));
    let mysql = "mysql://USER:PASSWORD@HOST:PORT/DATABASE";
    only(&observe("mysql = \"postgres://h\""), 20, &["`mysql` in [observe]", mysql]);
    only(&observe("redis = \"redis://h:x\""), 20, &["`redis` in [observe]", "redis://HOST:PORT"]);
    only(&observe("redis = \"rediss://h\""), 20, &["TLS is not supported"]);
    only(&observe("nginx = \"127.0.0.1:80\""), 20, &["`nginx` in [observe]", "http://"]);
    only(&observe("mysql = 3306"), 20, &["`mysql` in [observe] must be a string, not 3306"]);
    let own = good().replacen("serve = {}", "serve = {}\nredis = \"h:1\"", 1);
    only(&wrong(&own), 18, &["`redis` in [variants.fast]"]);

    let ask = |lines: &str| wrong(&(good() + "[[invariants]]\nname = \"x\"\nequals = 0\n" + lines));
    only(
        &ask("command = [\"DBSIZE\"]"),
        22,
        &["`redis` beside it, in [observe] or in [variants.slow]"],
    );
    only(&ask("redis = \"redis://h\""), 19, &["`redis` in [invariants] needs `command`"]);
    only(&ask("mysql = \"mysql://h\""), 19, &["`mysql` in [invariants] needs `sql`"]);
    only(&ask("redis = \"redis://h:{port}\"\ncommand = [\"DBSIZE\"]"), 22, &["`redis://h:{port}`"]);
    only(&ask("redis = \"redis://h\"\ncommand = \"DBSIZE\""), 23, &["a list of strings"]);

    let about = |metric: &str| good().replacen("http_req_duration.p50", metric, 1);
    let wants = "`mysql.Questions` needs `mysql` in [observe] or in [variants.";
    only(&wrong(&about("mysql.Questions")), 5, &[wants]);
    only(&wrong(&about("mysql.Question")), 5, &["unknown metric", "`mysql.Questions`"]);
    let observed = "[observe]\nmysql = \"mysql://root@h:{port}\"\nredis = \"redis://h\"\n";
    let read = |text: String| Lab::new("get", &text).read().unwrap();
    read(about("mysql.Questions") + observed);
    read(about("redis.used_memory.max") + observed);
    read(about("nginx.dropped") + "[observe]\nnginx = \"http://h:{port}/\"\n");
    only(&wrong(&about("nginx.dropped")), 5, &["`nginx.dropped` needs `nginx` in [observe]"]);
    for (process, wrong_one) in [
        ("peak_memory.node-2", "peak_memory.node"),
        ("cpu_per_good_request.primary", "goodput.primary"),
    ] {
        read(about(process));
        only(&wrong(&about(wrong_one)), 5, &["unknown metric"]);
    }
}

#[test]
fn hooks_are_checked() {
    let hooks = |lines: &str| wrong(&(good() + "[hooks]\n" + lines));
    only(&hooks("reset = \"x\""), 20, &["`reset` in [hooks]", "a list of strings"]);
    only(&hooks("during = { at = \"1s\" }"), 20, &["exactly one of `command` and `signal`"]);
    only(&hooks("during = { signal = \"KILL\" }"), 20, &["`at` is missing"]);
    only(
        &hooks("during = [{ at = \"1s\", signal = \"KLL\" }]"),
        20,
        &["unknown `signal` `KLL`", "`KILL`"],
    );
    only(
        &hooks("during = [{ at = \"1s\", command = [\"x\"], restart = true }]"),
        20,
        &["`restart`", "belongs to a `signal`"],
    );
    let text = good() + "[hooks]\nduring = { at = \"1s\", signal = \"SIGKILL\", restart = true }\n";
    Lab::new("get", &text).read().unwrap();
    let url = text.replace("serve = {}", "url = \"http://127.0.0.1:1\"");
    only(&wrong(&url), 20, &["`fast` is a `url`"]);
}

#[test]
fn what_may_be_accepted_is_listed() {
    only(
        &mistakes("\"steal\"", "\"stale\""),
        13,
        &["`accept` in [rounds] has `stale`", "`steal`, `foreign_cpu`, `no_budget`"],
    );
}

#[test]
fn a_directory_without_an_experiment_toml_is_all_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let files = |path: &std::path::Path| {
        let files = madang_lab::Experiment::files(path).unwrap().into_iter();
        files.map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(files(dir.path()), ["experiment.toml"], "so that it is missed by its name");
    for name in ["b.toml", "a.toml", "script.js"] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    assert_eq!(files(dir.path()), ["a.toml", "b.toml"]);
    assert_eq!(files(&dir.path().join("b.toml")), ["b.toml"]);
    std::fs::write(dir.path().join("experiment.toml"), "").unwrap();
    assert_eq!(files(dir.path()), ["experiment.toml"]);
}

#[test]
fn names_that_would_leave_the_results_directory_are_refused() {
    only(&mistakes("name = \"test\"", "name = \"../x\""), 2, &["`name` must be"]);
    let text =
        good().replace("[variants.fast]", "[variants.\"a/b\"]").replace("= \"fast\"", "= \"a/b\"");
    only(&wrong(&text), 16, &["a variant's name must be"]);
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_lines() {
    let text =
        good().replace("blocks = 3", "blocks = 0").replace("\"test\"", "1").replace("vus", "vsu");
    let lines: Vec<usize> = wrong(&text).iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, [2, 8, 11]);
}

#[test]
fn what_is_no_toml_is_reported_with_its_line() {
    only(&mistakes("blocks = 3", "blocks = = 3"), 11, &[]);
    only(&mistakes("blocks = 3", "blocks = 3\nblocks = 4"), 12, &["duplicate"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = madang_lab::Experiment::read(dir.path()).unwrap_err();
    assert!(matches!(error, FileError::Read { .. }), "{error:?}");
    assert!(error.to_string().contains("experiment.toml"), "{error}");
}

#[test]
fn a_message_begins_with_file_and_line() {
    let lab = Lab::new("get", &good().replace("blocks = 3", "blocks = 0"));
    let text = lab.read().unwrap_err().to_string();
    let file = lab.path().join("experiment.toml");
    assert!(text.starts_with(&format!("{}:11: `blocks`", file.display())), "{text}");
}

mod hostile {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

        /// A file that is cut or has a character inserted anywhere is read or rejected.
        #[test]
        fn a_damaged_file_never_panics(at in 0usize..600, cut: bool, put in "\\PC{0,3}") {
            let mut text = good();
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            if cut { text.truncate(at) } else { text.insert_str(at, &put) }
            let _ = Lab::new("get", &text).read();
        }
    }
}

#[test]
fn a_placeholder_that_is_misspelt_is_told_from_words_of_the_program() {
    let file = |argument: &str, value: &str| {
        let command = format!(
            "command = [\"./server\", {argument:?}]\nenv = {{ A = {value:?} }}\n\
             ready = \"http://127.0.0.1:{{port}}/\""
        );
        two("serve = {}", &command, 3, "")
    };
    for (argument, value, word, meant) in [
        ("--port={prot}", "", "`command` in [variants.fast] has `{prot}`", "`{port}`"),
        ("--data={dri}/x", "", "`{dri}`", "`{dir}`"),
        ("{PORT}", "", "`{PORT}`", "`{port}`"),
        ("", "{port}:{ports}", "`env` in [variants.fast] has `{ports}`", "`{port}`"),
    ] {
        only(&wrong(&file(argument, value)), 17 + usize::from(argument.is_empty()), &[word, meant]);
    }
    for fine in
        ["{port}{dir}", "{\"prot\": 1}", "${prot}", "{ print }", "{host}", "{prot", "prot}", "{}"]
    {
        Lab::new("get", &file(fine, fine)).read().unwrap();
    }
}

#[test]
fn a_key_that_is_there_twice_is_named_and_so_is_the_line_that_is_no_text() {
    let twice = good() + "[variants.fast]\nserve = {}\n";
    only(&wrong(&twice), good().lines().count() + 1, &["duplicate key `fast`"]);
    only(&mistakes("blocks = 3", "blocks = 3\nblocks = 3"), 12, &["`blocks`"]);
    let lab = Lab::new("get", &good());
    let text = good().replace("reference", "# Caf\u{e9}\nreference");
    let latin: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    std::fs::write(lab.path().join("experiment.toml"), latin).unwrap();
    let error = lab.read().unwrap_err().to_string();
    assert!(error.contains("experiment.toml:4: this is no UTF-8"), "{error}");
}
