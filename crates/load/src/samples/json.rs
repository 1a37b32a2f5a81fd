//! k6's JSON lines (`internal/output/json`): one for each metric before its first value, and one for each value.

use std::collections::HashSet;
use std::io::{self, Write};

use super::Batch;
use crate::log::rfc_3339_nano;
use crate::metrics::{Metric, MetricId, Registry};
use crate::options::duration::format_duration;
use crate::options::{MetricThresholds, Threshold};

#[derive(Debug, Default)]
pub(super) struct Json {
    described: HashSet<MetricId>,
}

impl Json {
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
        for (id, value) in &batch.values {
            let metric = registry.get(*id);
            if self.described.insert(*id) {
                to.write_all(definition(*id, metric, registry, thresholds).as_bytes())?;
            }
            // A name consists of letters, digits and `_`.
            let (name, value) = (&metric.name, shortest(*value));
            writeln!(
                to,
                "{{\"metric\":\"{name}\",\"type\":\"Point\",\"data\":{{\"time\":\"{time}\",\"value\":{value},{rest}}}}}"
            )?;
        }
        Ok(())
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
    let subs = if subs.is_empty() { "null".into() } else { format!("[{}]", subs.join(",")) };
    format!(
        "{{\"type\":\"Metric\",\"data\":{{\"name\":\"{name}\",\"type\":\"{}\",\"contains\":\"{}\",\"thresholds\":[{}],\
         \"submetrics\":{subs}}},\"metric\":\"{name}\"}}\n",
        metric.kind.name(),
        metric.contains.name(),
        rules.join(","),
    )
}

/// The condition alone, unless it has `abortOnFail`.
fn threshold(rule: &Threshold) -> String {
    // k6 uses another encoder here, which does not escape `<`.
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

/// Appends a string with the escapes of k6's encoder, which include HTML characters.
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

/// `strconv.FormatFloat(value, 'g', -1, 64)`: the shortest form that parses to the same number, with an exponent below
/// 1e-4 and from 1e6 on.
fn shortest(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let values = [(Builtin::HttpReqs, 1.0), (Builtin::HttpReqs, 1e6)];
        let batch = Batch::new(Duration::from_millis(1500), &[("a", "<\"\u{2028}")], &[], &values);
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

    #[test]
    fn numbers_are_those_of_go() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (2.5, "2.5"),
            (1_234_567.0, "1.234567e+06"),
            (123_456.789, "123456.789"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (-3.25, "-3.25"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(shortest(value), text);
        }
    }
}
