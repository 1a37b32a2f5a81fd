//! The published schema of `report.json`: real reports satisfy it, and together have all its keys. It allows no others.

use std::collections::BTreeSet;
use std::fs;

use boon::{Compiler, Schemas};
use madang_lab::{Options, Stored};
use serde_json::{Value, json};

use crate::help::{Lab, two};
use crate::rich::{self, large};

const SCHEMA: &str = include_str!("../../../experiments/report.schema.json");

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// Errors of a report.
fn wrong(report: &Value) -> Option<String> {
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.add_resource("report.schema.json", schema()).unwrap();
    let index = compiler.compile("report.schema.json", &mut schemas).unwrap();
    schemas.validate(report, index).err().map(|error| format!("{error:#}"))
}

#[track_caller]
pub fn assert_right(report: &Value) {
    if let Some(wrong) = wrong(report) {
        panic!("{wrong}");
    }
}

/// Keys of all tables in a schema.
fn described(schema: &Value, keys: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                keys.extend(properties.keys().cloned());
            }
            fields.values().for_each(|value| described(value, keys));
        }
        Value::Array(items) => items.iter().for_each(|value| described(value, keys)),
        _ => {}
    }
}

/// Keys of all tables in a report.
fn used(report: &Value, keys: &mut BTreeSet<String>) {
    match report {
        Value::Object(fields) => {
            keys.extend(fields.keys().cloned());
            fields.values().for_each(|value| used(value, keys));
        }
        Value::Array(items) => items.iter().for_each(|value| used(value, keys)),
        _ => {}
    }
}

/// Reports of real runs that together have every key.
fn reports() -> Vec<Value> {
    let json = |report: madang_lab::Report| serde_json::from_str(&report.to_json()).unwrap();
    let plain = Lab::new("get", &two("serve = {}", "serve = {}", 1, ""));
    let dir = large(&plain);
    let whole = Stored::read(&dir).unwrap();
    let compared: Value = json(whole.report());
    rich::doubtful(&dir, 9);
    let doubtful = json(Stored::read(&dir).unwrap().report());
    let calibration = Options { calibration: true, ..Options::default() };
    let broken = two("serve = { die_after = 1 }", "serve = {}", 1, "")
        .replace("[rounds]", "[rounds]\nretries = 0");
    let sources = "[values.a]\nscript = [\"echo\", \"1\"]\n\
        [values.b]\nhttp = \"/state\"\njson = \"requests\"\n\
        [hooks]\nprepare = [\"true\"]\n\
        [[hooks.during]]\nat = \"50ms\"\nsignal = \"CONT\"\n\
        [[prediction]]\nmetric = \"goodput\"\nvariant = \"fast\"\nratio_at_least = 0.1\n";
    let sources =
        two("serve = {}", "command = [\"true\"]\nready = \"http://{address}/\"", 1, sources);
    let (head, tail) = sources.split_once("prediction = {").unwrap();
    let (_, tail) = tail.split_once('\n').unwrap();
    let sources = format!("{head}{tail}").replace("[rounds]", "[rounds]\nretries = 0");
    let pairs = two("serve = {}", "serve = {}", 2, "").replace("\"rounds\"", "\"both\"");
    vec![
        json(Lab::new("get", &pairs).run()),
        json(rich::run(&Options::default()).1),
        json(rich::run(&calibration).1),
        json(Lab::new("get", &broken).run()),
        json(Lab::new("get", &sources).run()),
        compared,
        doubtful,
    ]
}

#[test]
fn real_reports_satisfy_the_schema_and_use_all_of_it() {
    let mut seen = BTreeSet::new();
    for report in reports() {
        assert_right(&report);
        used(&report, &mut seen);
    }
    let mut known = BTreeSet::new();
    described(&schema(), &mut known);
    // These need a running server, containers, databases or stacks; their own tests check the schema.
    let elsewhere = |key: &&String| {
        let keys = ["url", "image", "build", "compose", "mysql", "redis", "databases", "stack"];
        keys.contains(&key.as_str())
    };
    let unseen: Vec<&String> = known.difference(&seen).filter(|key| !elsewhere(key)).collect();
    assert!(unseen.is_empty(), "in the schema and in no report: {unseen:?}");
}

#[test]
fn a_report_with_anything_else_is_refused() {
    let lab = Lab::new("get", &two("serve = {}", "serve = {}", 1, ""));
    lab.run();
    let right = lab.json();
    assert_right(&right);
    for (place, value) in [
        ("", json!({"zzzzzz": 1})),
        ("/experiment", json!({"zzzzzz": 1})),
        ("/variants/0", json!({"zzzzzz": 1})),
        ("/variants/0/metrics/0", json!({"zzzzzz": 1})),
        ("/variants/1/metrics/0", json!({"no_ratio": "both"})),
        ("/predictions/0", json!({"at_most": 1})),
        ("/rounds/0", json!({"variant": 1})),
        ("/rounds/0/measured", json!({"zzzzzz": null})),
        ("/rounds/0/measured/load", json!({"requests": null})),
        ("/rounds/0/measured/server", json!({"threads": "many"})),
    ] {
        let mut report = right.clone();
        let table = report.pointer_mut(place).unwrap().as_object_mut().unwrap();
        table.extend(value.as_object().unwrap().clone());
        assert!(wrong(&report).is_some(), "{place} {value}");
    }
}

#[test]
fn what_is_written_is_what_is_described() {
    let lab = Lab::new("get", &two("serve = {}", "serve = {}", 1, ""));
    lab.run();
    let html = fs::read_to_string(lab.out().join("report.html")).unwrap();
    let (_, raw) = html.split_once("id=\"report\">").unwrap();
    let (raw, _) = raw.split_once("</script>").unwrap();
    assert_right(&serde_json::from_str(raw).unwrap());
    assert_right(&lab.json());
}
