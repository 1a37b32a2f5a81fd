//! An experiment that is nothing but a script and a server that runs already.

use std::{fs, io, path::Path, path::PathBuf, time::Duration};

use crate::experiment::{Experiment, Hooks, Load, Observe, Rounds, Sources, Target, Variant};

/// The name of its only variant.
const NAME: &str = "server";
/// Longer than any step of a search.
const TIME_LIMIT: Duration = Duration::from_secs(3600);
/// A server that runs already is not waited for; hooks there are none.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A try that breaks is as likely bad luck as a broken round of a comparison.
const RETRIES: u32 = 2;
/// As in experiments that say nothing else.
const BAND: f64 = 0.05;

/// Why there is no such experiment.
#[derive(Debug, thiserror::Error)]
pub enum BareError {
    /// The script cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Script {
        /// The script.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The address is none.
    #[error("--url: {0}")]
    Url(String),
}

/// An experiment with one variant, `server`, at `url`, and no prediction: for [`LimitPlan`] alone.
///
/// [`LimitPlan`]: super::LimitPlan
///
/// # Errors
/// See [`BareError`].
pub fn bare(script: &Path, url: &str, env: &[(String, String)]) -> Result<Experiment, BareError> {
    let unreadable = |source| BareError::Script { path: script.to_owned(), source };
    let text = fs::read_to_string(script).map_err(unreadable)?;
    let script = script.canonicalize().map_err(unreadable)?;
    madang_stack::http::Url::parse(url).map_err(BareError::Url)?;
    Ok(stored(&script, &text, url, env))
}

/// The same of a script that was read earlier.
pub(super) fn stored(script: &Path, text: &str, url: &str, env: &[(String, String)]) -> Experiment {
    let stem = script.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let url = url.trim_end_matches('/').to_owned();
    Experiment {
        file: script.to_owned(),
        sources: Sources { file: String::new(), scripts: text.to_owned() },
        dir: script.parent().unwrap_or(Path::new("/")).to_owned(),
        name: stem.chars().map(plain).collect(),
        question: format!("How much can {url} take?"),
        reference: NAME.to_owned(),
        predictions: Vec::new(),
        band: BAND,
        design: None,
        data: toml::Table::new(),
        load: Load {
            script: script.to_owned(),
            env: env.to_vec(),
            vus: None,
            duration: None,
            quick: None,
        },
        rounds: Rounds {
            blocks: 1,
            warm_up: Some(Duration::ZERO),
            retries: RETRIES,
            pin_cpus: true,
            accept: Vec::new(),
            start_limit: START_LIMIT,
            time_limit: TIME_LIMIT,
            quick: None,
        },
        variants: vec![Variant::new(NAME, Target::Url(url))],
        observe: Observe::default(),
        hooks: Hooks::default(),
        values: Vec::new(),
        invariants: Vec::new(),
    }
}
