//! Reading of `scenarios`: the fields shared by all executors, and those of each.

use std::time::Duration;

use serde_json::{Map, Value};

use super::scenario::{DEFAULT_GRACE, DEFAULT_MAX_DURATION};
use super::script::{
    Result, count, duration, fields, object, positive, positive_duration, stages, text, texts,
};
use super::{ExecutorConfig, OptionsError, Scenario, Stage, VuPool, all};

/// Executors of k6 that are missing here, and the alternative.
const MISSING_EXECUTORS: &[(&str, &str)] =
    &[("externally-controlled", "the stages of `ramping-vus` change the load by the clock")];

/// k6's default of `timeUnit`.
const DEFAULT_TIME_UNIT: Duration = Duration::from_secs(1);

/// All fields of all executors.
const FIELDS: &[&str] = &[
    "duration", "env", "exec", "executor", "gracefulRampDown", "gracefulStop", "iterations",
    "maxDuration", "maxVUs", "options", "preAllocatedVUs", "rate", "stages", "startRate",
    "startTime", "startVUs", "tags", "timeUnit", "vus",
];

pub(super) fn scenarios(value: &Value) -> Result<Vec<Scenario>> {
    all(object("scenarios", value)?.iter().map(|(name, value)| scenario(name, value)))
}

struct Fields<'v> {
    prefix: String,
    map: &'v Map<String, Value>,
}

impl Fields<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn wrong(&self, name: &str, problem: impl Into<String>) -> OptionsError {
        OptionsError::invalid(self.key(name), problem)
    }

    fn required<T>(&self, name: &str, read: fn(&str, &Value) -> Result<T>) -> Result<T> {
        let value = self.map.get(name).ok_or_else(|| self.wrong(name, "it is required"))?;
        read(&self.key(name), value)
    }

    fn or<T>(&self, name: &str, read: fn(&str, &Value) -> Result<T>, default: T) -> Result<T> {
        self.map.get(name).map_or(Ok(default), |value| read(&self.key(name), value))
    }

    fn time_unit(&self) -> Result<Duration> {
        self.or("timeUnit", positive_duration, DEFAULT_TIME_UNIT)
    }

    fn pool(&self) -> Result<VuPool> {
        let pre_allocated_vus = self.required("preAllocatedVUs", count)?;
        let max_vus = self.or("maxVUs", count, pre_allocated_vus)?;
        if max_vus < pre_allocated_vus {
            return Err(self.wrong("maxVUs", "it must not be less than preAllocatedVUs"));
        }
        if max_vus == 0 {
            return Err(self.wrong("maxVUs", "it must be at least 1"));
        }
        Ok(VuPool { pre_allocated_vus, max_vus })
    }

    /// Reads the executor's own settings; also returns the names of their fields.
    fn executor(&self, executor: &str, scenario: &str) -> Result<(ExecutorConfig, &[&str])> {
        Ok(match executor {
            "constant-vus" => {
                let vus = self.or("vus", positive, 1)?;
                let duration = self.required("duration", positive_duration)?;
                (ExecutorConfig::ConstantVus { vus, duration }, &["vus", "duration"])
            }
            "ramping-vus" => {
                let stages = self.required("stages", stages)?;
                let start_vus = self.or("startVUs", count, 1)?;
                let grace = self.or("gracefulRampDown", duration, DEFAULT_GRACE)?;
                let config = checked_ramp(&self.key("stages"), start_vus, stages, grace)?;
                (config, &["startVUs", "stages", "gracefulRampDown"])
            }
            "per-vu-iterations" | "shared-iterations" => {
                (self.iterations(executor)?, &["vus", "iterations", "maxDuration"])
            }
            "constant-arrival-rate" => {
                let config = ExecutorConfig::ConstantArrivalRate {
                    rate: self.required("rate", positive)?,
                    time_unit: self.time_unit()?,
                    duration: self.required("duration", positive_duration)?,
                    pool: self.pool()?,
                };
                (config, &["rate", "timeUnit", "duration", "preAllocatedVUs", "maxVUs"])
            }
            "ramping-arrival-rate" => {
                let stages = self.required("stages", stages)?;
                let start_rate = self.or("startRate", count, 0)?;
                let (time_unit, pool) = (self.time_unit()?, self.pool()?);
                let config =
                    ExecutorConfig::RampingArrivalRate { start_rate, time_unit, stages, pool };
                if config.duration().is_zero() {
                    return Err(self.wrong("stages", "together they must be longer than zero"));
                }
                (config, &["startRate", "timeUnit", "stages", "preAllocatedVUs", "maxVUs"])
            }
            unknown => {
                let missing = MISSING_EXECUTORS.iter().find(|(name, _)| *name == unknown);
                if let Some((missing, instead)) = missing {
                    let what = format!("executor `{missing}` (scenario `{scenario}`)");
                    return Err(OptionsError::unsupported(what, instead));
                }
                let problem = format!(
                    "unknown executor `{unknown}`: constant-vus, ramping-vus, per-vu-iterations, \
                     shared-iterations, constant-arrival-rate or ramping-arrival-rate"
                );
                return Err(self.wrong("executor", problem));
            }
        })
    }

    fn iterations(&self, executor: &str) -> Result<ExecutorConfig> {
        let vus = self.or("vus", positive, 1)?;
        let iterations = u64::from(self.or("iterations", positive, 1)?);
        let max_duration = self.or("maxDuration", positive_duration, DEFAULT_MAX_DURATION)?;
        if executor == "per-vu-iterations" {
            return Ok(ExecutorConfig::PerVuIterations { vus, iterations, max_duration });
        }
        if iterations < u64::from(vus) {
            return Err(self.wrong("iterations", "it must not be less than vus"));
        }
        Ok(ExecutorConfig::SharedIterations { vus, iterations, max_duration })
    }
}

fn scenario(name: &str, value: &Value) -> Result<Scenario> {
    let prefix = format!("scenarios.{name}");
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(valid) {
        let problem = "a scenario's name consists of letters, digits, `-` and `_`";
        return Err(OptionsError::invalid(prefix, problem));
    }
    let map = &fields(&prefix, value, FIELDS)?;
    let fields = Fields { prefix, map };
    let Some(executor) = map.get("executor").and_then(Value::as_str) else {
        return Err(fields.wrong("executor", "it is required"));
    };
    let (config, own) = fields.executor(executor, name)?;
    let mut scenario = Scenario::new(name, config);
    for (field, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let key = fields.key(field);
        match field.as_str() {
            "executor" => {}
            "startTime" => scenario.start_time = duration(&key, value)?,
            "gracefulStop" => scenario.graceful_stop = duration(&key, value)?,
            "exec" => scenario.exec = text(&key, value)?.to_owned(),
            "env" => scenario.env = texts(&key, value)?,
            "tags" => scenario.tags = texts(&key, value)?,
            // Options of a browser: without one, none can be set.
            "options" if value.as_object().is_some_and(Map::is_empty) => {}
            "options" => return Err(OptionsError::Unsupported(format!("option `{key}`"))),
            field if own.contains(&field) => {}
            _ => return Err(OptionsError::Unknown(key)),
        }
    }
    Ok(scenario)
}

/// A ramp with at least one virtual user and a duration; `key` is that of its stages.
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
        for (name, instead) in MISSING_EXECUTORS {
            let text = error(json!({"scenarios": {"s": {"executor": name}}}));
            let expected =
                format!("executor `{name}` (scenario `s`) is not supported yet; {instead}");
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn options_of_a_scenario_may_be_empty() {
        let with = |options: Value| json!({"scenarios": {"s": {"executor": "shared-iterations", "options": options}}});
        assert!(Layer::from_script(&with(json!({}))).is_ok());
        let error = error(with(json!({"browser": {"type": "chromium"}})));
        assert!(error.starts_with("option `scenarios.s.options` is not supported yet"), "{error}");
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
        let stage = Stage { duration: Duration::from_secs(10), target: 8 };
        let ramp = ExecutorConfig::RampingArrivalRate {
            start_rate: 0,
            time_unit: Duration::from_secs(1),
            stages: vec![stage],
            pool: VuPool { pre_allocated_vus: 3, max_vus: 3 },
        };
        assert_eq!(scenarios[1].executor, ramp);
        let descriptions = [
            "flat: 1.50 iterations/s for 30s (maxVUs: 2-50, gracefulStop: 30s)",
            "ramp: Up to 8.00 iterations/s for 10s over 1 stages (maxVUs: 3, gracefulStop: 30s)",
        ];
        assert_eq!([0, 1].map(|at: usize| scenarios[at].describe()), descriptions);
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
