//! What a run would measure, known before it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;

use crate::engine::Plan;
use crate::options::ExecutorConfig;
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
    /// All metrics, those of every run among them, and the sub-metrics of thresholds, by name; of each its
    /// kind: `counter`, `gauge`, `rate` or `trend`.
    pub metrics: BTreeMap<String, &'static str>,
    /// Variables of `__ENV` that the script and its imports read; `None` if one of them computes a name.
    pub variables: Option<BTreeSet<String>>,
    /// Absolute paths of the files that the init code imports, without the script.
    pub imports: BTreeSet<PathBuf>,
    /// Absolute paths of the files that the init code opens.
    pub opened: BTreeSet<PathBuf>,
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
            metrics: metrics.collect(),
            variables: run.sources.variables(),
            imports,
            opened: run.files.paths(),
        }
    }
}
