//! Reading `scenarios`: the fields all executors share, and those of each.

use std::time::Duration;

use serde_json::{Map, Value};

use super::scenario::{DEFAULT_GRACE, DEFAULT_MAX_DURATION};
use super::script::{
    Result, count, duration, object, positive, positive_duration, stages, text, texts,
};
use super::{ExecutorConfig, OptionsError, Scenario, Stage, VuPool};

/// Executors k6 has and this engine does not.
const MISSING_EXECUTORS: &[&str] = &["externally-controlled"];

/// k6's default of `timeUnit`.
const DEFAULT_TIME_UNIT: Duration = Duration::from_secs(1);

/// The scenarios by name, in the order given.
pub(super) fn scenarios(value: &Value) -> Result<Vec<Scenario>> {
    object("scenarios", value)?.iter().map(|(name, value)| scenario(name, value)).collect()
}

fn scenario(name: &str, value: &Value) -> Result<Scenario> {
    let prefix = format!("scenarios.{name}");
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(valid) {
        let problem = "a scenario's name consists of letters, digits, `-` and `_`";
        return Err(OptionsError::invalid(prefix, problem));
    }
    let fields = object(&prefix, value)?;
    let key = |field: &str| format!("{prefix}.{field}");
    let Some(executor) = fields.get("executor").and_then(Value::as_str) else {
        return Err(OptionsError::invalid(key("executor"), "it is required"));
    };
    let config = match executor {
        "constant-vus" => constant_vus(&key, fields)?,
        "ramping-vus" => ramping_vus(&key, fields)?,
        "per-vu-iterations" | "shared-iterations" => iterations(&key, fields, executor)?,
        "constant-arrival-rate" => constant_arrival_rate(&key, fields)?,
        "ramping-arrival-rate" => ramping_arrival_rate(&key, fields)?,
        missing if MISSING_EXECUTORS.contains(&missing) => {
            return Err(OptionsError::Unsupported(format!(
                "executor `{missing}` (scenario `{name}`)"
            )));
        }
        unknown => {
            let problem = format!(
                "unknown executor `{unknown}`: constant-vus, ramping-vus, per-vu-iterations, \
                 shared-iterations, constant-arrival-rate or ramping-arrival-rate"
            );
            return Err(OptionsError::invalid(key("executor"), problem));
        }
    };
    let own: &[&str] = match config {
        ExecutorConfig::ConstantVus { .. } => &["vus", "duration"],
        ExecutorConfig::RampingVus { .. } => &["startVUs", "stages", "gracefulRampDown"],
        ExecutorConfig::PerVuIterations { .. } | ExecutorConfig::SharedIterations { .. } => {
            &["vus", "iterations", "maxDuration"]
        }
        ExecutorConfig::ConstantArrivalRate { .. } => {
            &["rate", "timeUnit", "duration", "preAllocatedVUs", "maxVUs"]
        }
        ExecutorConfig::RampingArrivalRate { .. } => {
            &["startRate", "timeUnit", "stages", "preAllocatedVUs", "maxVUs"]
        }
    };
    let mut scenario = Scenario::new(name, config);
    for (field, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match field.as_str() {
            "executor" => {}
            "startTime" => scenario.start_time = duration(&key(field), value)?,
            "gracefulStop" => scenario.graceful_stop = duration(&key(field), value)?,
            "exec" => scenario.exec = text(&key(field), value)?.to_owned(),
            "env" => scenario.env = texts(&key(field), value)?,
            "tags" => scenario.tags = texts(&key(field), value)?,
            "options" => {
                return Err(OptionsError::Unsupported(format!("option `{}`", key(field))));
            }
            field if own.contains(&field) => {}
            field => return Err(OptionsError::Unknown(key(field))),
        }
    }
    Ok(scenario)
}

fn constant_vus(
    key: &dyn Fn(&str) -> String,
    fields: &Map<String, Value>,
) -> Result<ExecutorConfig> {
    let required = || OptionsError::invalid(key("duration"), "it is required");
    let vus = fields.get("vus").map_or(Ok(1), |value| positive(&key("vus"), value))?;
    let length = fields.get("duration").ok_or_else(required)?;
    Ok(ExecutorConfig::ConstantVus { vus, duration: positive_duration(&key("duration"), length)? })
}

fn iterations(
    key: &dyn Fn(&str) -> String,
    fields: &Map<String, Value>,
    executor: &str,
) -> Result<ExecutorConfig> {
    let number = |name: &str| fields.get(name).map_or(Ok(1), |value| positive(&key(name), value));
    let (vus, iterations) = (number("vus")?, u64::from(number("iterations")?));
    let max_duration = fields
        .get("maxDuration")
        .map_or(Ok(DEFAULT_MAX_DURATION), |value| positive_duration(&key("maxDuration"), value))?;
    if executor == "per-vu-iterations" {
        return Ok(ExecutorConfig::PerVuIterations { vus, iterations, max_duration });
    }
    if iterations < u64::from(vus) {
        return Err(OptionsError::invalid(key("iterations"), "it must not be less than vus"));
    }
    Ok(ExecutorConfig::SharedIterations { vus, iterations, max_duration })
}

fn ramping_vus(
    key: &dyn Fn(&str) -> String,
    fields: &Map<String, Value>,
) -> Result<ExecutorConfig> {
    let required = || OptionsError::invalid(key("stages"), "it is required");
    let stages = stages(&key("stages"), fields.get("stages").ok_or_else(required)?)?;
    let start_vus = fields.get("startVUs").map_or(Ok(1), |value| count(&key("startVUs"), value))?;
    let graceful_ramp_down = fields
        .get("gracefulRampDown")
        .map_or(Ok(DEFAULT_GRACE), |value| duration(&key("gracefulRampDown"), value))?;
    checked_ramp(&key("stages"), start_vus, stages, graceful_ramp_down)
}

/// A ramp in which somebody runs for some time; `key` is that of its stages.
pub(super) fn checked_ramp(
    key: &str,
    start_vus: u32,
    stages: Vec<Stage>,
    graceful_ramp_down: Duration,
) -> Result<ExecutorConfig> {
    let config = ExecutorConfig::RampingVus { start_vus, stages, graceful_ramp_down };
    if config.max_vus() == 0 {
        let problem =
            "either the virtual users at the start or the target of one stage must be above zero";
        return Err(OptionsError::invalid(key, problem));
    }
    if config.duration().is_zero() {
        return Err(OptionsError::invalid(key, "together they must be longer than zero"));
    }
    Ok(config)
}

fn constant_arrival_rate(
    key: &dyn Fn(&str) -> String,
    fields: &Map<String, Value>,
) -> Result<ExecutorConfig> {
    let required = |name: &str| {
        fields.get(name).ok_or_else(|| OptionsError::invalid(key(name), "it is required"))
    };
    Ok(ExecutorConfig::ConstantArrivalRate {
        rate: positive(&key("rate"), required("rate")?)?,
        time_unit: time_unit(key, fields)?,
        duration: positive_duration(&key("duration"), required("duration")?)?,
        pool: pool(key, fields)?,
    })
}

fn ramping_arrival_rate(
    key: &dyn Fn(&str) -> String,
    fields: &Map<String, Value>,
) -> Result<ExecutorConfig> {
    let required = || OptionsError::invalid(key("stages"), "it is required");
    let stages = stages(&key("stages"), fields.get("stages").ok_or_else(required)?)?;
    let start_rate =
        fields.get("startRate").map_or(Ok(0), |value| count(&key("startRate"), value))?;
    let config = ExecutorConfig::RampingArrivalRate {
        start_rate,
        time_unit: time_unit(key, fields)?,
        stages,
        pool: pool(key, fields)?,
    };
    if config.duration().is_zero() {
        return Err(OptionsError::invalid(key("stages"), "together they must be longer than zero"));
    }
    Ok(config)
}

fn time_unit(key: &dyn Fn(&str) -> String, fields: &Map<String, Value>) -> Result<Duration> {
    let given = fields.get("timeUnit");
    given.map_or(Ok(DEFAULT_TIME_UNIT), |value| positive_duration(&key("timeUnit"), value))
}

fn pool(key: &dyn Fn(&str) -> String, fields: &Map<String, Value>) -> Result<VuPool> {
    let Some(planned) = fields.get("preAllocatedVUs") else {
        return Err(OptionsError::invalid(key("preAllocatedVUs"), "it is required"));
    };
    let pre_allocated_vus = count(&key("preAllocatedVUs"), planned)?;
    let max_vus =
        fields.get("maxVUs").map_or(Ok(pre_allocated_vus), |value| count(&key("maxVUs"), value))?;
    if max_vus < pre_allocated_vus {
        let problem = "it must not be less than preAllocatedVUs";
        return Err(OptionsError::invalid(key("maxVUs"), problem));
    }
    if max_vus == 0 {
        return Err(OptionsError::invalid(key("maxVUs"), "it must be at least 1"));
    }
    Ok(VuPool { pre_allocated_vus, max_vus })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::options::Layer;

    fn error(options: impl std::borrow::Borrow<Value>) -> String {
        Layer::from_script(options.borrow()).unwrap_err().to_string()
    }

    #[test]
    fn every_missing_executor_is_refused_by_its_name() {
        for name in MISSING_EXECUTORS {
            let text = error(json!({"scenarios": {"s": {"executor": name}}}));
            assert_eq!(text, format!("executor `{name}` (scenario `s`) is not supported yet"));
        }
    }

    #[test]
    fn a_full_scenario_is_read() {
        let layer = Layer::from_script(&json!({"scenarios": {"ramp": {
            "executor": "ramping-vus", "startVUs": 2, "gracefulRampDown": "5s", "gracefulStop": "1s",
            "stages": [{"duration": "10s", "target": 8}, {"duration": 500, "target": 0}],
            "exec": "buy", "startTime": "3s", "env": {"A": "b"}, "tags": {"t": 1},
        }}}))
        .unwrap();
        let scenario = &layer.scenarios.unwrap()[0];
        assert_eq!(scenario.executor.max_vus(), 8);
        assert_eq!(scenario.executor.duration(), Duration::from_millis(10_500));
        assert_eq!(scenario.tags, [("t".to_owned(), "1".to_owned())]);
        assert_eq!(
            scenario.describe(),
            "ramp: Up to 8 looping VUs for 10.5s over 2 stages (gracefulRampDown: 5s, exec: buy, startTime: 3s, gracefulStop: 1s)"
        );
    }

    #[test]
    fn arrival_rates_are_read_with_k6_defaults() {
        let layer = Layer::from_script(&json!({"scenarios": {
            "flat": { "executor": "constant-arrival-rate", "rate": 90, "timeUnit": "1m",
                      "duration": "30s", "preAllocatedVUs": 2, "maxVUs": 50 },
            "ramp": { "executor": "ramping-arrival-rate", "preAllocatedVUs": 3,
                      "stages": [{"duration": "10s", "target": 8}] },
        }}))
        .unwrap();
        let scenarios = layer.scenarios.unwrap();
        assert_eq!(
            scenarios[0].describe(),
            "flat: 1.50 iterations/s for 30s (maxVUs: 2-50, gracefulStop: 30s)"
        );
        let stage = Stage { duration: Duration::from_secs(10), target: 8 };
        let ramp = ExecutorConfig::RampingArrivalRate {
            start_rate: 0,
            time_unit: Duration::from_secs(1),
            stages: vec![stage],
            pool: VuPool { pre_allocated_vus: 3, max_vus: 3 },
        };
        assert_eq!(scenarios[1].executor, ramp);
        assert_eq!(
            scenarios[1].describe(),
            "ramp: Up to 8.00 iterations/s for 10s over 1 stages (maxVUs: 3, gracefulStop: 30s)"
        );
    }

    #[test]
    fn arrival_rates_that_make_no_sense_are_refused() {
        let flat = |extra: Value| {
            let mut scenario = json!({"executor": "constant-arrival-rate", "rate": 1,
                                      "duration": "1s", "preAllocatedVUs": 5});
            for (name, value) in extra.as_object().unwrap() {
                scenario[name] = value.clone();
            }
            error(json!({"scenarios": {"s": scenario}}))
        };
        for (extra, expected) in [
            (json!({"rate": 0}), "option `scenarios.s.rate`: it must be at least 1"),
            (json!({"rate": 1.5}), "option `scenarios.s.rate`: a whole number is expected"),
            (
                json!({"timeUnit": "0s"}),
                "option `scenarios.s.timeUnit`: it must be longer than zero",
            ),
            (json!({"maxVUs": 4}), "option `scenarios.s.maxVUs`: it must not be less than"),
            (json!({"preAllocatedVUs": 0}), "option `scenarios.s.maxVUs`: it must be at least 1"),
            (json!({"vus": 1}), "unknown option `scenarios.s.vus`"),
        ] {
            assert!(flat(extra).starts_with(expected), "{expected}");
        }
        let missing = json!({"scenarios": {"s": {"executor": "constant-arrival-rate", "rate": 1,
                                                 "duration": "1s"}}});
        assert_eq!(error(missing), "option `scenarios.s.preAllocatedVUs`: it is required");
        let still = json!({"scenarios": {"s": {"executor": "ramping-arrival-rate", "preAllocatedVUs": 1,
                                               "stages": []}}});
        assert!(error(still).contains("together they must be longer than zero"));
    }
}
