//! The experiment in `report.json`.

use serde::Serialize;

use crate::file::experiment::{
    ContainerSource, Experiment, Hooks, Invariant, NamedValue, Prediction, Target,
};
use crate::plan::Plan;

#[derive(Debug, Clone, Serialize)]
pub struct ExperimentPart {
    pub name: String,
    pub question: String,
    pub file: String,
    pub script: String,
    pub reference: String,
    /// Empty in a calibration.
    pub predictions: Vec<Prediction>,
    pub band: f64,
    pub data: toml::Table,
    pub variants: Vec<VariantPart>,
    pub hooks: Hooks,
    pub values: Vec<NamedValue>,
    pub invariants: Vec<Invariant>,
}

#[derive(Debug, Clone, Serialize)]
pub struct VariantPart {
    pub name: String,
    #[serde(flatten)]
    pub target: TargetPart,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<toml::Table>,
    /// CPU budget in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load_env: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetPart {
    Serve(toml::Table),
    Command(Vec<String>),
    Url(String),
    #[serde(untagged)]
    Container(ContainerSource),
}

impl ExperimentPart {
    pub(super) fn new(experiment: &Experiment, plan: &Plan) -> Self {
        let variants = plan.variants.iter().map(|variant| VariantPart {
            name: variant.name.clone(),
            target: match &variant.target {
                Target::Serve(served) => TargetPart::Serve(served.settings.clone()),
                Target::Command { argv, .. } => TargetPart::Command(argv.clone()),
                Target::Container(container) => TargetPart::Container(container.source.clone()),
                Target::Url(url) => TargetPart::Url(url.clone()),
            },
            stack: match &variant.target {
                Target::Serve(served) => served.stack.clone(),
                _ => None,
            },
            cpus: variant.cpus.map(|budget| plan.language.budget(&budget)),
            load_env: variant.load_env.clone(),
            price_per_hour: variant.price_per_hour,
        });
        Self {
            name: experiment.name.clone(),
            question: experiment.question.clone(),
            file: experiment.file.display().to_string(),
            script: experiment.load.script.display().to_string(),
            reference: plan.reference.clone(),
            predictions: plan.predictions.clone(),
            band: plan.band,
            data: experiment.data.clone(),
            variants: variants.collect(),
            hooks: experiment.hooks.clone(),
            values: experiment.values.clone(),
            invariants: experiment.invariants.clone(),
        }
    }
}
