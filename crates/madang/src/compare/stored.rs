//! What becomes of a run that is over: shown, and compared with an earlier one.

use super::{say, tell};
use crate::exit;
use madang_lab::report::{Ended, Language};
use madang_lab::{
    Conclusion, FailureKind, Finished, Regression, Report, Stored, Verdict, baseline,
};
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

/// What may make the command fail although everything ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    /// A prediction is refuted
    Refuted,
    /// The verdict is undecided
    Undecided,
    /// The run is worse than its --baseline by more than --allow
    Worse,
}

/// How runs are shown, and what they make of the command.
pub struct Show<'a> {
    /// `report.json` instead of the table.
    pub json: bool,
    /// All figures below the table.
    pub full: bool,
    /// The run to compare with.
    pub baseline: Option<Stored>,
    /// How much worse is allowed, as a share.
    pub allowed: f64,
    /// What makes the command fail.
    pub fail_on: &'a [FailOn],
}

impl Show<'_> {
    /// Shows a run that has just ended.
    pub fn finished(&self, finished: Finished, out: &Path) -> anyhow::Result<exit::Ended> {
        let Finished { report, written } = finished;
        if written.is_err() {
            // Shown all the same: it may be hours of work.
            self.show(&report, None)?;
            written?;
        }
        let ended = self.compared(&report, out)?;
        let (complete, all) = (report.complete_blocks, report.settings.blocks);
        let place = out.display();
        tell(&format!("{complete} of {all} blocks complete; results in {place}"));
        let hint = match report.ended {
            Ended::Complete => None,
            Ended::Interrupted => Some(GO_ON),
            Ended::Broken { .. } => go_on_after(report.last_failure()),
        };
        if let Some(hint) = hint {
            tell(&format!("{hint}: madang compare --resume {place}"));
        }
        Ok(ended)
    }

    /// Shows a stored run and, if there is one, its comparison with the baseline. What is wrong with
    /// the run itself tells more than that it is slower.
    fn compared(&self, report: &Report, dir: &Path) -> anyhow::Result<exit::Ended> {
        let Some(baseline) = &self.baseline else {
            self.show(report, None)?;
            return Ok(self.ended(report, None));
        };
        let mut run = Stored::read(dir)?;
        run.plan.language = report.language;
        let regression = Regression::new(baseline, &run, self.allowed);
        // Shown all the same, see above.
        self.show(report, regression.as_ref().ok())?;
        Ok(self.ended(report, Some(&regression?)))
    }

    /// A run that ended early or broken is that first. What was asked for comes before what cannot
    /// be told; being worse, only where it can.
    fn ended(&self, report: &Report, regression: Option<&Regression>) -> exit::Ended {
        let on = |what: FailOn| self.fail_on.contains(&what);
        let conclusion = report.conclusion();
        let can_tell = conclusion == Conclusion::Done;
        if !can_tell && conclusion != Conclusion::CannotTell {
            return conclusion.into();
        }
        let undecided = matches!(report.verdict, Verdict::Undecided(_));
        let refuted = report.predictions.iter().any(|one| one.verdict == Verdict::Refuted);
        let worse = regression.is_some_and(|one| one.word == baseline::Word::Worse);
        let matched = (on(FailOn::Refuted) && refuted)
            || (on(FailOn::Undecided) && undecided)
            || (on(FailOn::Worse) && worse && can_tell);
        match conclusion {
            _ if matched => exit::Ended::FailOn,
            Conclusion::Done if regression.is_some_and(Regression::cannot_tell) => {
                exit::Ended::CannotTell
            }
            conclusion => conclusion.into(),
        }
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
pub fn report_again(
    dir: &Path,
    language: Option<Language>,
    show: &Show<'_>,
) -> anyhow::Result<exit::Ended> {
    let stored = Stored::read(dir)?;
    let report = madang_lab::report_again(&stored, language)?;
    show.compared(&report, dir)
}
