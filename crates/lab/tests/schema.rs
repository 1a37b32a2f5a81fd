//! The JSON Schema for editors accepts the same keys as the reader.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::help::{Lab, two};

const SCHEMA: &str = include_str!("../../../experiments/experiment.schema.json");

/// Accepted keys in the message about a wrong key, `zzzzzz`.
fn accepted(text: &str) -> BTreeSet<String> {
    let error = Lab::new("get", text).read().unwrap_err().to_string();
    let message = error.lines().find(|line| line.contains("unknown key `zzzzzz`")).unwrap();
    let (_, list) = message.split_once("accepted are ").unwrap();
    list.split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_schema_has_the_keys_of_every_table() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let good = two("serve = {}", "serve = {}", 1, "");
    let in_place = |find: &str| good.replacen(find, &format!("{find}\nzzzzzz = 1"), 1);
    let at_end = |table: &str| format!("{good}{table}\nzzzzzz = 1\n");
    for (place, text) in [
        ("", in_place("name = \"test\"")),
        ("/properties/observe", at_end("[observe]")),
        ("/$defs/load", in_place("[load]")),
        ("/$defs/load/properties/quick", at_end("[load.quick]")),
        ("/$defs/rounds", in_place("[rounds]")),
        ("/$defs/rounds/properties/quick", at_end("[rounds.quick]")),
        ("/$defs/variant", in_place("[variants.fast]")),
        ("/$defs/hooks", at_end("[hooks]")),
        ("/$defs/during", at_end("[[hooks.during]]")),
        ("/$defs/value", at_end("[values.x]")),
        ("/$defs/invariant", at_end("[[invariants]]")),
        ("/$defs/prediction", good.replacen("{ metric", "{ zzzzzz = 1, metric", 1)),
    ] {
        let table = schema.pointer(place).unwrap();
        assert_eq!(table["additionalProperties"], false, "{place}");
        let keys = table["properties"].as_object().unwrap().keys().cloned();
        assert_eq!(keys.collect::<BTreeSet<_>>(), accepted(&text), "{place}");
    }
}
