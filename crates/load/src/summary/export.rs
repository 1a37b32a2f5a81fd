//! `--summary-export`: the argument of `handleSummary()`, with the changes made to it, in k6's older shape.
//!
//! Many parsers read this file, so its oddities are kept: the values of a metric lie directly in its object, the
//! value of a rate is called `value`, groups and checks are objects by name, and in `thresholds` **`true` means that
//! the threshold failed**.

use serde_json::{Map, Value, json};

pub(crate) fn export(mut data: Value) -> Value {
    if let Some(members) = data.as_object_mut() {
        members.retain(|name, _| !matches!(name.as_str(), "options" | "state"));
    }
    if let Some(metrics) = data.get_mut("metrics").and_then(Value::as_object_mut) {
        metrics.values_mut().for_each(|found| *found = metric(found.take()));
    }
    if let Some(root) = data.get_mut("root_group") {
        by_name(root);
    }
    data
}

fn metric(mut metric: Value) -> Value {
    let mut document = metric["values"].take();
    let Some(values) = document.as_object_mut() else { return document };
    if metric["type"] == "rate"
        && let Some(rate) = values.remove("rate")
    {
        values.insert("value".to_owned(), rate);
    }
    if let Some(thresholds) = metric["thresholds"].as_object().filter(|found| !found.is_empty()) {
        let failed =
            |(source, result): (&String, &Value)| (source.clone(), json!(result["ok"] != true));
        document["thresholds"] = thresholds.iter().map(failed).collect();
    }
    document
}

/// Makes the lists of a group, and of all groups within it, objects by name.
fn by_name(group: &mut Value) {
    for list in ["groups", "checks"] {
        let Some(Value::Array(members)) = group.get_mut(list).map(Value::take) else { continue };
        let named = members.into_iter().map(|mut member| {
            by_name(&mut member);
            (member["name"].as_str().unwrap_or_default().to_owned(), member)
        });
        group[list] = Value::Object(named.collect::<Map<_, _>>());
    }
}
