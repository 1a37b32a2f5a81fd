//! Outline of a run, known before it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use crate::options::{ExecutorConfig, Scenario};
use crate::run::Run;

/// Outline of a checked script.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outline {
    /// Longest time after the warm-up in which iterations start, in seconds; `maxDuration` for a number of iterations.
    /// Without `gracefulStop`.
    pub seconds: f64,
    /// Iterations per second of all scenarios; `None` unless all have a constant arrival rate.
    pub rate: Option<f64>,
    /// Shape of the planned load.
    pub shape: Shape,
    /// Kind of all metrics and the sub-metrics of thresholds, by name: `counter`, `gauge`, `rate` or `trend`.
    pub metrics: BTreeMap<String, &'static str>,
    /// Variables of `__ENV` read by the script and its imports; `None` if a name is computed.
    pub variables: Option<BTreeSet<String>>,
    /// Absolute paths of imported files.
    pub imports: BTreeSet<PathBuf>,
    /// Imported built-in modules and libraries, by name or URL.
    pub modules: BTreeSet<String>,
    /// Absolute paths of files opened by the init code.
    pub opened: BTreeSet<PathBuf>,
}

/// Shape of the load over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Constant virtual users or arrival rate.
    Steady,
    /// Changed by stages, or by scenarios that begin or end at different times.
    Shaped,
}

impl Shape {
    fn from_scenarios(scenarios: &[Scenario]) -> Self {
        let changes = |one: &Scenario| match &one.executor {
            ExecutorConfig::RampingVus { start_vus: start, stages, .. }
            | ExecutorConfig::RampingArrivalRate { start_rate: start, stages, .. } => {
                stages.iter().any(|stage| stage.target != *start)
            }
            _ => false,
        };
        let span = |one: &Scenario| (one.start_time, one.executor.duration());
        let is_one_span = scenarios.windows(2).all(|pair| span(&pair[0]) == span(&pair[1]));
        let is_steady = is_one_span && !scenarios.iter().any(changes);
        if is_steady { Self::Steady } else { Self::Shaped }
    }
}

impl Outline {
    pub(crate) fn from_run(run: &Run) -> Self {
        let scenarios = &run.settings().scenarios;
        let ends = scenarios.iter().map(|one| one.start_time + one.executor.duration());
        let rate = scenarios.iter().map(|one| match one.executor {
            ExecutorConfig::ConstantArrivalRate { rate, time_unit, .. } => {
                Some(f64::from(rate) / time_unit.as_secs_f64())
            }
            _ => None,
        });
        let rate = rate.sum();
        let registry = run.registry();
        let metrics = registry.iter().map(|(_, metric)| (metric.name.clone(), metric.kind.name()));
        let seconds = ends.max().unwrap_or_default().as_secs_f64();
        let mut imports = run.sources.paths();
        imports.remove(&run.script);
        Self {
            seconds,
            rate,
            shape: Shape::from_scenarios(scenarios),
            metrics: metrics.collect(),
            variables: run.sources.variables(),
            imports,
            modules: run.sources.built_in(),
            opened: run.files.paths(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::options::{Layer, Options};

    fn shape(options: impl std::borrow::Borrow<Value>) -> Shape {
        let layer = Layer::from_script(options.borrow()).unwrap();
        Shape::from_scenarios(&Options::resolve(layer).unwrap().scenarios)
    }

    #[test]
    fn a_load_is_steady_or_shaped() {
        let constant = |start: &str, duration: &str| json!({"executor": "constant-vus", "startTime": start, "duration": duration});
        let rate = |target: u32| {
            json!({"scenarios": {"r": {
                "executor": "ramping-arrival-rate", "startRate": 5, "preAllocatedVUs": 1,
                "stages": [{"duration": "1s", "target": 5}, {"duration": "1s", "target": target}],
            }}})
        };
        for (options, expected) in [
            (json!({"vus": 5, "duration": "1s"}), Shape::Steady),
            (json!({"iterations": 5}), Shape::Steady),
            (json!({"stages": [{"duration": "1s", "target": 5}]}), Shape::Shaped),
            (json!({"vus": 5, "stages": [{"duration": "1s", "target": 5}]}), Shape::Steady),
            (rate(5), Shape::Steady),
            (rate(6), Shape::Shaped),
            (
                json!({"scenarios": {"a": constant("0s", "2s"), "b": constant("0s", "2s")}}),
                Shape::Steady,
            ),
            (
                json!({"scenarios": {"a": constant("0s", "2s"), "b": constant("1s", "2s")}}),
                Shape::Shaped,
            ),
            (
                json!({"scenarios": {"a": constant("0s", "2s"), "b": constant("0s", "1s")}}),
                Shape::Shaped,
            ),
        ] {
            assert_eq!(shape(&options), expected, "{options}");
        }
        assert_eq!(serde_json::to_value(Shape::Steady).unwrap(), "steady");
    }
}
