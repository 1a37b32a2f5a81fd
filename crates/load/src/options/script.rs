//! Reading of `export const options`, key by key. Nothing is ignored: keys that only k6 has and unknown keys are
//! refused by name.

use std::time::Duration;

use serde_json::{Map, Value};

use super::duration::parse_duration;
use super::layer::OPTIONS;
use super::{Layer, OptionsError, Stage, all};
use crate::metrics::SystemTags;

pub(super) type Result<T> = std::result::Result<T, OptionsError>;

/// Options of k6 that are missing here, and the alternative.
const MISSING: &[(&str, &str)] = &[
    ("executionSegment", "one process runs the whole test"),
    ("executionSegmentSequence", "one process runs the whole test"),
    ("features", ""),
    ("linger", "there is no server that could stay"),
    ("localIPs", "requests come from the address that the system chooses"),
    ("paused", "there is no server through which it could go on"),
];

/// Options of k6 without effect in a local run.
const WITHOUT_EFFECT: &[&str] = &["cloud", "ext", "metricSamplesBufferSize", "noUsageReport"];

impl Layer {
    pub(crate) fn from_script(options: &Value) -> Result<Self> {
        let mut layer = Self::default();
        // As in k6, `null` is none.
        if options.is_null() {
            return Ok(layer);
        }
        let given = object("options", options)?.iter().filter(|(_, value)| !value.is_null());
        all(given.map(|(key, value)| read_option(&mut layer, key, value)))?;
        Ok(layer)
    }
}

/// Reads one option into `layer`. As in k6, case does not matter.
pub(super) fn read_option(layer: &mut Layer, key: &str, value: &Value) -> Result<()> {
    let key = known().find(|known| known.eq_ignore_ascii_case(key)).unwrap_or(key);
    if layer.read(key, value)? || WITHOUT_EFFECT.contains(&key) || changes_nothing(key, value) {
        return Ok(());
    }
    if let Some((_, instead)) = MISSING.iter().find(|(name, _)| *name == key) {
        return Err(OptionsError::unsupported(format!("option `{key}`"), instead));
    }
    match key {
        "tags" => layer.tags = texts(key, value)?,
        unknown if is_misspelt(unknown) => return Err(OptionsError::Unknown(unknown.to_owned())),
        unknown => layer.unknown.push(unknown.to_owned()),
    }
    Ok(())
}

/// True for values of missing options that ask for the default.
fn changes_nothing(option: &str, value: &Value) -> bool {
    match option {
        "executionSegment" => value == "0:1",
        "executionSegmentSequence" => value == "0,1",
        "linger" | "paused" => value == false,
        _ => false,
    }
}

fn options() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|(name, _)| *name)
}

/// Names of all options, also of missing ones.
fn known() -> impl Iterator<Item = &'static str> {
    let missing = MISSING.iter().map(|(name, _)| *name);
    options().chain(missing).chain(WITHOUT_EFFECT.iter().copied())
}

/// True for names close to that of an option: that a misspelt one has no effect would be noticed too late.
fn is_misspelt(name: &str) -> bool {
    let name = name.to_lowercase();
    options().any(|known| strsim::osa_distance(&known.to_lowercase(), &name) <= 2)
}

/// As in k6, negative numbers count as 0.
pub(super) fn redirects(key: &str, value: &Value) -> Result<u32> {
    let is_negative = value.as_i64().is_some_and(|number| number < 0);
    if is_negative { Ok(0) } else { count(key, value) }
}

pub(super) fn object<'v>(key: &str, value: &'v Value) -> Result<&'v Map<String, Value>> {
    value.as_object().ok_or_else(|| OptionsError::invalid(key, "an object is expected"))
}

pub(super) fn text<'v>(key: &str, value: &'v Value) -> Result<&'v str> {
    value.as_str().ok_or_else(|| OptionsError::invalid(key, "a text is expected"))
}

pub(super) fn owned_text(key: &str, value: &Value) -> Result<String> {
    text(key, value).map(str::to_owned)
}

pub(super) fn boolean(key: &str, value: &Value) -> Result<bool> {
    value.as_bool().ok_or_else(|| OptionsError::invalid(key, "true or false is expected"))
}

/// Reads a whole number, or one as a string: values of `__ENV` are strings.
pub(super) fn count(key: &str, value: &Value) -> Result<u32> {
    let number = match value.as_str() {
        Some(text) => text.parse::<u64>().ok(),
        None => value.as_u64().or_else(|| {
            let number = value.as_f64()?;
            (number.fract() == 0.0 && number >= 0.0).then_some(number as u64)
        }),
    };
    number
        .and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| OptionsError::invalid(key, "a whole number is expected"))
}

pub(super) fn positive(key: &str, value: &Value) -> Result<u32> {
    match count(key, value)? {
        0 => Err(OptionsError::invalid(key, "it must be at least 1")),
        number => Ok(number),
    }
}

pub(super) fn duration(key: &str, value: &Value) -> Result<Duration> {
    let parsed = match value {
        Value::String(text) => parse_duration(text),
        Value::Number(number) => parse_duration(&number.to_string()),
        _ => return Err(OptionsError::invalid(key, "a duration such as \"30s\" is expected")),
    };
    parsed.map_err(|error| OptionsError::invalid(key, error.to_string()))
}

pub(super) fn positive_duration(key: &str, value: &Value) -> Result<Duration> {
    let duration = duration(key, value)?;
    if duration.is_zero() {
        return Err(OptionsError::invalid(key, "it must be longer than zero"));
    }
    Ok(duration)
}

pub(super) fn texts(key: &str, value: &Value) -> Result<Vec<(String, String)>> {
    object(key, value)?
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => Ok((name.clone(), text.clone())),
            Value::Number(_) | Value::Bool(_) => Ok((name.clone(), value.to_string())),
            _ => Err(OptionsError::invalid(format!("{key}.{name}"), "a text is expected")),
        })
        .collect()
}

/// Parses `name=value,name=value` with any separator; `None` if a part has none.
pub(super) fn pairs(text: &str, separator: char) -> Option<Vec<(String, String)>> {
    let pair = |part: &str| {
        part.split_once(separator).map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    text.split(',').map(pair).collect()
}
/// Reads `[{duration, target}]`, or `"10s:5,20s:0"` as on the command line.
pub(super) fn stages(key: &str, value: &Value) -> Result<Vec<Stage>> {
    if let Some(list) = value.as_str() {
        return list.split(',').map(|stage| parse_stage(key, stage)).collect();
    }
    let list = value
        .as_array()
        .ok_or_else(|| OptionsError::invalid(key, "a list of {duration, target} is expected"))?;
    let stage = |(index, value): (usize, &Value)| {
        let key = format!("{key}[{index}]");
        let fields = only(&key, value, &["duration", "target"])?;
        let field = |name: &str| {
            let missing = || OptionsError::invalid(format!("{key}.{name}"), "it is required");
            fields.get(name).ok_or_else(missing)
        };
        Ok(Stage {
            duration: duration(&format!("{key}.duration"), field("duration")?)?,
            target: count(&format!("{key}.target"), field("target")?)?,
        })
    };
    list.iter().enumerate().map(stage).collect()
}

/// The fields of an object, with `names` in this spelling: as in k6, case does not matter.
pub(super) fn fields(key: &str, value: &Value, names: &[&str]) -> Result<Map<String, Value>> {
    let renamed = object(key, value)?.iter().map(|(name, value)| {
        let known = names.iter().find(|known| known.eq_ignore_ascii_case(name));
        (known.map_or_else(|| name.clone(), |known| (*known).to_owned()), value.clone())
    });
    Ok(renamed.collect())
}

/// As [`fields`]; refuses other names.
pub(super) fn only(key: &str, value: &Value, names: &[&str]) -> Result<Map<String, Value>> {
    let fields = fields(key, value, names)?;
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(fields),
        Some(unknown) => Err(OptionsError::Unknown(format!("{key}.{unknown}"))),
    }
}

/// Parses one `duration:target`.
///
/// # Errors
/// If the text has another form; `key` is the option named in the error.
pub fn parse_stage(key: &str, stage: &str) -> Result<Stage> {
    let problem =
        || OptionsError::invalid(key, format!("`{stage}` is not DURATION:TARGET, such as 30s:10"));
    let (duration, target) = stage.trim().split_once(':').ok_or_else(problem)?;
    Ok(Stage {
        duration: parse_duration(duration).map_err(|_| problem())?,
        target: target.parse().map_err(|_| problem())?,
    })
}

/// Reads a list of names, or one string with commas.
pub(super) fn system_tags(key: &str, value: &Value) -> Result<SystemTags> {
    list(key, value)?.into_iter().map(str::trim).try_fold(SystemTags::NONE, |tags, name| {
        let problem = || OptionsError::invalid(key, format!("`{name}` is no tag of k6's"));
        tags.with(name).ok_or_else(problem)
    })
}

/// Reads a list of strings, or one with commas as in variables and flags.
pub(super) fn list<'v>(key: &str, value: &'v Value) -> Result<Vec<&'v str>> {
    if let Some(text) = value.as_str() {
        return Ok(text.split(',').filter(|part| !part.is_empty()).collect());
    }
    array(key, value)?.iter().map(|one| text(key, one)).collect()
}

fn array<'v>(key: &str, value: &'v Value) -> Result<&'v Vec<Value>> {
    value.as_array().ok_or_else(|| OptionsError::invalid(key, "a list of texts is expected"))
}

pub(super) fn trend_stats(key: &str, value: &Value) -> Result<Vec<String>> {
    let checked = |stat| {
        let stat = text(key, stat)?;
        check_trend_stat(key, stat).map(|()| stat.to_owned())
    };
    array(key, value)?.iter().map(checked).collect()
}

pub(super) fn check_trend_stat(key: &str, stat: &str) -> Result<()> {
    let problem = || format!("`{stat}` is not one of avg, min, med, max, count, p(N)");
    crate::summary::TrendStat::parse(stat)
        .map(|_| ())
        .ok_or_else(|| OptionsError::invalid(key, problem()))
}

pub(super) fn time_unit(key: &str, value: &Value) -> Result<String> {
    match text(key, value)? {
        unit @ ("s" | "ms" | "us") => Ok(unit.to_owned()),
        _ => Err(OptionsError::invalid(key, "`s`, `ms` or `us` is expected")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(options: impl std::borrow::Borrow<Value>) -> String {
        Layer::from_script(options.borrow()).unwrap_err().to_string()
    }

    #[test]
    fn every_missing_option_is_refused_by_its_name() {
        for (name, instead) in MISSING {
            let error = error(json!({ *name: 1 }));
            assert!(error.starts_with(&format!("option `{name}` is not supported yet")), "{error}");
            assert!(error.ends_with(instead), "{error}");
        }
        for (name, value) in [("paused", json!(true)), ("executionSegment", json!("0:1/2"))] {
            assert!(error(json!({ name: value })).contains("is not supported yet"));
        }
    }

    #[test]
    fn every_problem_is_reported() {
        let error = error(json!({
            "vuss": 1, "localIPs": "10.0.0.1", "batch": 0,
            "scenarios": {"a": {"executor": "constant-vus"}, "b": {}},
            "thresholds": {"m": ["avg"], "n": ["max<5", "med"]},
        }));
        let starts = [
            "unknown option `vuss`",
            "option `localIPs` is not supported yet; requests come",
            "option `batch`: it must be at least 1",
            "option `scenarios.a.duration`: it is required",
            "option `scenarios.b.executor`: it is required",
            "option `thresholds.m`: `avg` is no threshold",
            "option `thresholds.n`: `med` is no threshold",
        ];
        for start in starts {
            assert!(error.lines().any(|line| line.starts_with(start)), "{start}: {error}");
        }
        assert_eq!(error.lines().count(), starts.len(), "{error}");
    }

    #[test]
    fn options_that_k6_accepts_are_accepted() {
        let read = |options: Value| Layer::from_script(&options).unwrap();
        let whole = json!({"executionSegment": "0:1", "executionSegmentSequence": "0,1"});
        for options in [
            Value::Null,
            json!({"paused": false, "linger": false}),
            json!({"metricSamplesBufferSize": 10}),
            whole,
        ] {
            assert_eq!(read(options), Layer::default());
        }
        assert_eq!(read(json!({"maxRedirects": -1})).max_redirects, Some(0));
        let layer = read(json!({"Vus": 2, "BATCH": 3, "scenarios": {"s": {
            "Executor": "ramping-vus", "StartVus": 4, "Stages": [{"Duration": "1s", "Target": 5}],
        }}, "Thresholds": {"m": [{"Threshold": "avg<1", "AbortOnFail": true}]},
            "DNS": {"TTL": "0"}, "tlsVersion": {"Min": "tls1.3"}}));
        assert_eq!((layer.vus, layer.batch), (Some(2), Some(3)));
        assert_eq!(layer.scenarios.unwrap()[0].executor.max_vus(), 5);
        assert!(layer.thresholds.unwrap()[0].thresholds[0].abort_on_fail);
        assert!(layer.dns.unwrap().ttl.is_some_and(|ttl| ttl.is_zero()));
        assert!(layer.tls_version.is_some() && layer.unknown.is_empty());
    }

    #[test]
    fn unknown_keys_are_refused() {
        let scenario = json!({"executor": "constant-vus", "duration": "1s", "rate": 5});
        for (options, unknown) in [
            (json!({"vuss": 1}), "vuss"),
            (json!({"scenarios": {"s": scenario}}), "scenarios.s.rate"),
            (json!({"stages": [{"duration": "1s", "target": 1, "x": 1}]}), "stages[0].x"),
        ] {
            assert_eq!(error(options), format!("unknown option `{unknown}`"));
        }
    }

    #[test]
    fn wrong_values_say_what_is_expected() {
        for (options, expected) in [
            (json!({"vus": "five"}), "option `vus`: a whole number is expected"),
            (json!({"vus": 1.5}), "option `vus`: a whole number is expected"),
            (json!({"duration": "5x"}), "option `duration`: invalid duration `5x`"),
            (json!({"duration": "0s"}), "option `duration`: it must be longer than zero"),
            (json!({"setupTimeout": 0}), "option `setupTimeout`: it must be longer than zero"),
            (json!({"stages": [{"duration": "1s"}]}), "option `stages[0].target`: it is required"),
            (json!({"summaryTrendStats": ["p(x)"]}), "option `summaryTrendStats`: `p(x)` is not"),
            (json!({"scenarios": {"s": {}}}), "option `scenarios.s.executor`: it is required"),
            (json!({"scenarios": {"a b": {}}}), "option `scenarios.a b`: a scenario's name"),
        ] {
            let text = error(options);
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
