//! What a run would measure, known before it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use crate::engine::Plan;
use crate::options::{ExecutorConfig, Scenario};
use crate::run::Run;

/// What a script that was only checked would measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outline {
    /// How long iterations are started after the warm-up, in seconds, at most: of a number of iterations
    /// only `maxDuration` is known. Without `gracefulStop`.
    pub seconds: f64,
    /// Iterations that all scenarios together start in a second; `None` where a scenario starts none by the clock, or at
    /// a rate that changes.
    pub rate: Option<f64>,
    /// Whether the load is meant to be the same from start to end.
    pub shape: Shape,
    /// All metrics, those of every run among them, and the sub-metrics of thresholds, by name; of each its
    /// kind: `counter`, `gauge`, `rate` or `trend`.
    pub metrics: BTreeMap<String, &'static str>,
    /// Variables of `__ENV` that the script and its imports read; `None` if one of them computes a name.
    pub variables: Option<BTreeSet<String>>,
    /// Absolute paths of the files that the init code imports, without the script.
    pub imports: BTreeSet<PathBuf>,
    /// Built-in modules and libraries that the script and its imports import, by name or address.
    pub modules: BTreeSet<String>,
    /// Absolute paths of the files that the init code opens.
    pub opened: BTreeSet<PathBuf>,
}

/// What the load is like over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// As many virtual users, or starts in a second, from start to end.
    Steady,
    /// Stages change it, or scenarios begin or end at different times.
    Shaped,
}

impl Shape {
    fn of(scenarios: &[Scenario]) -> Self {
        let changes = |one: &Scenario| match &one.executor {
            ExecutorConfig::RampingVus { start_vus: start, stages, .. }
            | ExecutorConfig::RampingArrivalRate { start_rate: start, stages, .. } => {
                stages.iter().any(|stage| stage.target != *start)
            }
            _ => false,
        };
        let span = |one: &Scenario| (one.start_time, one.executor.duration());
        let is_one_span = scenarios.windows(2).all(|pair| span(&pair[0]) == span(&pair[1]));
        match is_one_span && !scenarios.iter().any(changes) {
            true => Self::Steady,
            false => Self::Shaped,
        }
    }
}

impl Outline {
    pub(crate) fn from_plan(run: &Run, plan: &Plan) -> Self {
        let ends =
            plan.options.scenarios.iter().map(|one| one.start_time + one.executor.duration());
        let rate = plan.options.scenarios.iter().map(|one| match one.executor {
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
            shape: Shape::of(&plan.options.scenarios),
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
        Shape::of(&Options::resolve(layer).unwrap().scenarios)
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
