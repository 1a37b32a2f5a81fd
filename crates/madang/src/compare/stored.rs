//! What becomes of a run that is over: shown, and compared with an earlier one.

use super::{say, tell};
use madang_lab::report::{Ended, Language};
use madang_lab::{FailureKind, Finished, Outcome, Regression, Report, Stored};
use std::path::Path;

/// Nothing has to be put right.
pub const GO_ON: &str = "go on with";

/// How to go on after a round that broke so, if that is possible: with another file, script or
/// program a run cannot be resumed, and what the load, a time limit, a value of an invariant or the
/// amount of output broke is seldom put right without.
pub fn go_on_after(failed: Option<FailureKind>) -> Option<&'static str> {
    match failed {
        Some(
            FailureKind::Load
            | FailureKind::TimeLimit
            | FailureKind::StartLimit
            | FailureKind::Value
            | FailureKind::Output,
        ) => None,
        _ => Some(
            "if it can be put right without another experiment file, script or program, go on with",
        ),
    }
}

/// How runs are shown.
pub struct Show {
    /// `report.json` instead of the table.
    pub json: bool,
    /// All figures below the table.
    pub full: bool,
    /// The run to compare with.
    pub baseline: Option<Stored>,
    /// How much worse is allowed, as a share.
    pub allowed: f64,
}

impl Show {
    /// Shows a run that has just ended and gives the exit code.
    pub fn finished(&self, finished: Finished, out: &Path) -> anyhow::Result<u8> {
        let Finished { report, written } = finished;
        if written.is_err() {
            // Shown all the same: it may be hours of work.
            self.show(&report, None)?;
            written?;
        }
        let code = self.compared(&report, out)?;
        let (complete, all) = (report.complete_blocks, report.settings.blocks);
        let place = out.display();
        tell(&format!("{complete} of {all} blocks complete; results in {place}"));
        let failed = report.rounds.iter().rev().find_map(|round| match &round.outcome {
            Outcome::Failed(failure) => Some(failure.kind),
            Outcome::Measured(_) => None,
        });
        let hint = match report.ended {
            Ended::Complete => None,
            Ended::Interrupted => Some(GO_ON),
            Ended::Broken { .. } => go_on_after(failed),
        };
        if let Some(hint) = hint {
            tell(&format!("{hint}: madang compare --resume {place}"));
        }
        Ok(code)
    }

    /// Shows a stored run and, if there is one, its comparison with the baseline. What is wrong with
    /// the run itself tells more than that it is slower.
    fn compared(&self, report: &Report, dir: &Path) -> anyhow::Result<u8> {
        let Some(baseline) = &self.baseline else {
            self.show(report, None)?;
            return Ok(report.exit_code());
        };
        let mut run = Stored::read(dir)?;
        run.plan.language = report.language;
        let regression = Regression::new(baseline, &run, self.allowed);
        // Shown all the same, see above.
        self.show(report, regression.as_ref().ok())?;
        let regression = regression?;
        Ok(match report.exit_code() {
            0 => regression.exit_code(),
            code => code,
        })
    }

    fn show(&self, report: &Report, regression: Option<&Regression>) -> anyhow::Result<()> {
        if !self.json {
            say(&if self.full { report.to_full_text() } else { report.to_text() })?;
            return regression.map_or(Ok(()), |one| say(&format!("\n{}", one.to_text())));
        }
        let Some(regression) = regression else { return say(&report.to_json()) };
        let mut json: serde_json::Value = serde_json::from_str(&report.to_json())?;
        json["regression"] = serde_json::to_value(regression)?;
        say(&format!("{}\n", serde_json::to_string_pretty(&json)?))
    }
}

/// Writes and shows the report of a stored run.
pub fn report_again(dir: &Path, language: Option<Language>, show: &Show) -> anyhow::Result<u8> {
    let stored = Stored::read(dir)?;
    let report = madang_lab::report_again(&stored, language)?;
    show.compared(&report, dir)
}
