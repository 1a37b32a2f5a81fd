//! Command of the load generator, and its check of a script.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use madang_stack::{Exit, Output, Patience, Spec, Tail};

use crate::file::experiment::{Experiment, Variant};
use crate::file::outline::Outline;
use crate::plan::{Plan, Settings};
use crate::round::host::Host;
use crate::round::launch::without_shell;
use crate::run::cancel::Cancel;
use crate::time;

/// Exit code for unsupported options.
const INVALID_OPTIONS: i32 = 104;
/// Limit for the init code of a script.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// Base URL without a server. Init code makes no requests.
const NO_SERVER: &str = "http://127.0.0.1:9";

#[derive(Clone, Copy)]
pub(crate) struct Generator<'r> {
    pub experiment: &'r Experiment,
    pub settings: &'r Settings,
    pub host: &'r dyn Host,
    /// Replaces the options of the script.
    pub arrivals: Option<Arrivals>,
}

/// Constant arrival rate of the script's default function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrivals {
    /// Per second.
    pub rate: u32,
    /// Time for running iterations after the last start.
    pub graceful_stop: Duration,
}

#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("no file for what it would measure: {0}")]
    NoFile(io::Error),
    #[error("{0}")]
    Process(#[from] madang_stack::Error),
    #[error("{0}")]
    Unread(io::Error),
    #[error("what it would measure: {0}")]
    Shape(serde_json::Error),
    #[error("the load generator refuses it ({exit}){stderr}")]
    Refused { exit: Exit, stderr: Tail },
}

impl Generator<'_> {
    /// Command that loads a variant. It writes its report to one file, and the start of the measured window to another.
    pub(crate) fn load(
        &self,
        variant: &Variant,
        base_url: &str,
        report: &Path,
        started: &Path,
    ) -> Spec {
        let command = |spec: Spec| spec.arg("--report").arg(report).arg("--started").arg(started);
        self.spec(variant, base_url, command)
    }

    /// Program and first arguments: the host's generator, its adapter for k6, or the experiment's own.
    fn command(&self) -> Vec<OsString> {
        let own = &self.experiment.load.generator;
        let Some(program) = own.first() else { return self.host.generator() };
        let own = own.iter().map(OsString::from);
        if Path::new(program).file_name().is_some_and(|name| name == "k6") {
            return self.host.k6().into_iter().chain(["--program".into()]).chain(own).collect();
        }
        own.collect()
    }

    fn spec(&self, variant: &Variant, base_url: &str, command: impl FnOnce(Spec) -> Spec) -> Spec {
        let mut program = self.command().into_iter();
        let spec = Spec::new(program.next().unwrap_or_default())
            .args(program)
            .arg(&self.experiment.load.script);
        let mut spec = command(spec)
            .args(["--include-system-env-vars=false", "--quiet", "--warm-up"])
            .arg(time::milliseconds(self.settings.warm_up));
        let base_url = ("BASE_URL".to_owned(), base_url.to_owned());
        // The generator takes the last value of a name.
        for (name, value) in self.settings.env.iter().chain(&variant.load_env).chain([&base_url]) {
            spec = spec.args(["--env".to_owned(), format!("{name}={value}")]);
        }
        if let Some(vus) = self.settings.vus {
            spec = spec.args(["--vus".to_owned(), vus.to_string()]);
        }
        if let Some(duration) = self.settings.duration {
            spec = spec.args(["--duration".to_owned(), time::milliseconds(duration)]);
        }
        if let Some(Arrivals { rate, graceful_stop }) = self.arrivals {
            spec = spec.args(["--rate".to_owned(), rate.to_string()]);
            spec = spec.args(["--graceful-stop".to_owned(), time::milliseconds(graceful_stop)]);
        }
        without_shell(spec, self.host).dir(&self.experiment.dir)
    }

    /// Outline of the script; `None` if it is unknown before a hook has run.
    fn check(&self, variant: &Variant, cancel: &Cancel) -> Result<Option<Outline>, CheckError> {
        let outline = tempfile::NamedTempFile::new().map_err(CheckError::NoFile)?;
        let spec = self
            .spec(variant, NO_SERVER, |spec| {
                spec.args(["--check", "--outline"]).arg(outline.path())
            })
            .stdout(Output::Capture)
            .stderr(Output::Capture);
        let process = self.host.supervisor().spawn(&spec)?;
        let give_up = || cancel.is_cancelled();
        let exit = process.wait_patiently(Patience::new(CHECK_LIMIT, &give_up))?;
        // Init code may open files of a hook.
        let is_certain =
            exit == Exit::Code(INVALID_OPTIONS) || !self.experiment.hooks.come_before_the_load();
        if exit.is_success() {
            let text = fs::read_to_string(outline.path()).map_err(CheckError::Unread)?;
            // Other generators need not write an outline.
            if text.trim().is_empty() {
                return Ok(None);
            }
            return serde_json::from_str(&text).map(Some).map_err(CheckError::Shape);
        }
        if !is_certain {
            return Ok(None);
        }
        Err(CheckError::Refused { exit, stderr: process.stderr_tail() })
    }
}

/// The generator's check of a script.
#[derive(Debug, Default)]
pub struct ScriptCheck {
    /// Errors, each once.
    pub wrong: Vec<String>,
    /// `None` unless it is known for all variants.
    pub outline: Option<Outline>,
}

/// Lets the load generator check the script for each variant of a plan. Runs init code only.
pub fn check_script(
    experiment: &Experiment,
    plan: &Plan,
    host: &dyn Host,
    cancel: &Cancel,
) -> ScriptCheck {
    let settings = &plan.settings;
    check_variants(Generator { experiment, settings, host, arrivals: None }, &plan.variants, cancel)
}

/// Lets the load generator check the script for each variant.
pub(crate) fn check_variants(
    generator: Generator<'_>,
    variants: &[Variant],
    cancel: &Cancel,
) -> ScriptCheck {
    let mut seen = Vec::new();
    let mut outlines: Vec<Option<Outline>> = Vec::new();
    let mut wrong: Vec<String> = Vec::new();
    for variant in variants {
        if seen.contains(&&variant.load_env) {
            continue;
        }
        seen.push(&variant.load_env);
        match generator.check(variant, cancel) {
            Ok(outline) => outlines.push(outline),
            Err(_) if cancel.is_cancelled() => outlines.push(None),
            Err(error) => {
                wrong.push(format!("`script` of [load] for [variants.{}]: {error}", variant.name));
            }
        }
    }
    let outlines: Option<Vec<Outline>> = outlines.into_iter().collect();
    let outline = outlines.and_then(|all| all.into_iter().reduce(Outline::and));
    ScriptCheck { outline: outline.filter(|_| wrong.is_empty()), wrong }
}
