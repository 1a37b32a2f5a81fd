//! What was asked, as `report.json` says it.

use serde::Serialize;

use crate::file::experiment::{
    ContainerSource, Experiment, Hooks, Invariant, NamedValue, Prediction, Target,
};
use crate::plan::Plan;

/// The experiment as its file says.
#[derive(Debug, Clone, Serialize)]
pub struct ExperimentPart {
    /// Its name.
    pub name: String,
    /// Its question.
    pub question: String,
    /// The file.
    pub file: String,
    /// The script.
    pub script: String,
    /// The variant the others are compared with.
    pub reference: String,
    /// What was expected; empty in a calibration.
    pub predictions: Vec<Prediction>,
    /// A difference that does not matter.
    pub band: f64,
    /// The host's data.
    pub data: toml::Table,
    /// Each variant's name and how it is started.
    pub variants: Vec<VariantPart>,
    /// Commands and signals.
    pub hooks: Hooks,
    /// Values for formulas.
    pub values: Vec<NamedValue>,
    /// What must hold.
    pub invariants: Vec<Invariant>,
}

/// A variant as the file says.
#[derive(Debug, Clone, Serialize)]
pub struct VariantPart {
    /// Its name.
    pub name: String,
    /// How it is started.
    #[serde(flatten)]
    pub target: TargetPart,
    /// The servers that the host's own runs among.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<toml::Table>,
    /// How much CPU time it may use, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Its own environment of the script.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub load_env: Vec<(String, String)>,
    /// What an hour of its machine costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
}

/// How a variant is started.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetPart {
    /// With these settings of the host's own server.
    Serve(toml::Table),
    /// By this command.
    Command(Vec<String>),
    /// It runs already.
    Url(String),
    /// In containers.
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
