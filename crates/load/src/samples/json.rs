//! k6's JSON lines (its `internal/output/json`): a line for each metric at its first value, and one for each value.

use std::io::{self, Write};

use super::Batch;
use super::number::shortest;
use crate::log::rfc_3339_nano;
use crate::metrics::{Metric, MetricId, Registry};
use crate::options::duration::format_duration;
use crate::options::{MetricThresholds, Threshold};

/// What writes the lines.
#[derive(Debug, Default)]
pub(super) struct Json {
    /// Names of metrics by their ids, of those that have been described.
    described: Vec<Option<Box<str>>>,
    line: String,
}

impl Json {
    /// Writes the values of a batch.
    pub(super) fn write(
        &mut self,
        to: &mut impl Write,
        batch: &Batch,
        registry: &Registry,
        thresholds: &[MetricThresholds],
    ) -> io::Result<()> {
        let time = rfc_3339_nano(batch.time);
        let mut rest = String::from("\"tags\":");
        object(&mut rest, &batch.tags);
        if !batch.metadata.is_empty() {
            rest.push_str(",\"metadata\":");
            object(&mut rest, &batch.metadata);
        }
        for (metric, value) in &batch.values {
            self.line.clear();
            let name = self.describe(*metric, registry, thresholds);
            let value = shortest(*value);
            self.line.push_str(&format!(
                "{{\"metric\":\"{name}\",\"type\":\"Point\",\"data\":{{\"time\":\"{time}\",\"value\":{value},{rest}}}}}\n"
            ));
            to.write_all(self.line.as_bytes())?;
        }
        Ok(())
    }

    /// The name of a metric, which is of letters, digits and `_`; the first time a line about it goes ahead.
    fn describe(
        &mut self,
        id: MetricId,
        registry: &Registry,
        thresholds: &[MetricThresholds],
    ) -> Box<str> {
        let index = id.0 as usize;
        if let Some(Some(name)) = self.described.get(index) {
            return name.clone();
        }
        let metric = registry.get(id);
        let name: Box<str> = metric.name.as_str().into();
        self.line.push_str(&definition(id, metric, registry, thresholds));
        self.described.resize_with(self.described.len().max(index + 1), || None);
        self.described[index] = Some(name.clone());
        name
    }
}

fn definition(
    id: MetricId,
    metric: &Metric,
    registry: &Registry,
    thresholds: &[MetricThresholds],
) -> String {
    let name = &metric.name;
    let rules = thresholds.iter().filter(|one| one.metric == *name);
    let rules: Vec<String> = rules.flat_map(|one| &one.thresholds).map(threshold).collect();
    let subs = registry.iter().filter_map(|(_, sub)| {
        let filter = sub.sub.as_ref().filter(|own| own.parent == id)?.filter.pairs();
        Some(sub_metric(&sub.name, filter))
    });
    let subs: Vec<String> = subs.collect();
    let subs = match subs.is_empty() {
        true => "null".to_owned(),
        false => format!("[{}]", subs.join(",")),
    };
    format!(
        "{{\"type\":\"Metric\",\"data\":{{\"name\":\"{name}\",\"type\":\"{}\",\"contains\":\"{}\",\"thresholds\":[{}],\
         \"submetrics\":{subs}}},\"metric\":\"{name}\"}}\n",
        metric.kind.name(),
        metric.contains.name(),
        rules.join(","),
    )
}

/// The condition alone where there is nothing else to say.
fn threshold(rule: &Threshold) -> String {
    // k6 writes these with another encoder, which leaves `<` as it is.
    let source = serde_json::Value::from(rule.source.as_str()).to_string();
    if !rule.abort_on_fail {
        return source;
    }
    let delay = match rule.delay_abort_eval {
        delay if delay.is_zero() => "null".to_owned(),
        delay => format!("\"{}\"", format_duration(delay)),
    };
    format!("{{\"threshold\":{source},\"abortOnFail\":true,\"delayAbortEval\":{delay}}}")
}

fn sub_metric(name: &str, tags: &[(String, String)]) -> String {
    let suffix = name.split_once('{').map_or("", |(_, tags)| tags.trim_end_matches('}'));
    let mut line = String::from("{\"name\":");
    text(&mut line, name);
    line.push_str(",\"suffix\":");
    text(&mut line, suffix);
    line.push_str(",\"tags\":");
    object(&mut line, tags);
    line.push('}');
    line
}

fn object(line: &mut String, pairs: &[(String, String)]) {
    line.push('{');
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        text(line, key);
        line.push(':');
        text(line, value);
    }
    line.push('}');
}

/// A text with the escapes of Go, which keep `<`, `>` and `&` out of pages.
fn text(line: &mut String, text: &str) {
    line.push('"');
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                line.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::metrics::Builtin;

    #[test]
    fn a_metric_is_described_before_its_first_value_alone() {
        let mut registry = Registry::new();
        registry.resolve("http_reqs{status:200}").unwrap();
        let mut abort = Threshold::parse("rate>1").unwrap();
        abort.abort_on_fail = true;
        let rules = vec![Threshold::parse("count<5").unwrap(), abort];
        let thresholds = [MetricThresholds { metric: "http_reqs".into(), thresholds: rules }];
        let batch = Batch {
            time: UNIX_EPOCH + Duration::from_millis(1500),
            tags: vec![("a".into(), "<\"\u{2028}".into())],
            metadata: Vec::new(),
            values: vec![(Builtin::HttpReqs.id(), 1.0), (Builtin::HttpReqs.id(), 1e6)],
        };
        let mut bytes = Vec::new();
        Json::default().write(&mut bytes, &batch, &registry, &thresholds).unwrap();
        let point = |value: &str| {
            format!(
                "{{\"metric\":\"http_reqs\",\"type\":\"Point\",\"data\":{{\"time\":\"1970-01-01T00:00:01.5Z\",\
                 \"value\":{value},\"tags\":{{\"a\":\"\\u003c\\\"\\u2028\"}}}}}}\n"
            )
        };
        let metric = "{\"type\":\"Metric\",\"data\":{\"name\":\"http_reqs\",\"type\":\"counter\",\
            \"contains\":\"default\",\"thresholds\":[\"count<5\",{\"threshold\":\"rate>1\",\
            \"abortOnFail\":true,\"delayAbortEval\":null}],\"submetrics\":[{\"name\":\"http_reqs{status:200}\",\
            \"suffix\":\"status:200\",\"tags\":{\"status\":\"200\"}}]},\"metric\":\"http_reqs\"}\n";
        let expected = format!("{metric}{}{}", point("1"), point("1e+06"));
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
