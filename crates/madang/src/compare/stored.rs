//! The end of a run: report, hints, exit code.

use crate::exit::ExitReason;
use crate::terminal;
use anyhow::anyhow;
use madang_lab::report::{Language, RunEnd};
use madang_lab::{Conclusion, FailureKind, Finished, Report, Stored, Verdict};
use std::path::Path;

/// Hint after an interruption.
pub(crate) const GO_ON: &str = "go on with";

/// Hint after a broken round, if the run can probably be resumed. That requires the same file, script
/// and program, which seldom suffices after failures of load, time limits, values or amount of output.
pub(crate) fn go_on_after(failed: Option<FailureKind>) -> Option<&'static str> {
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

/// Condition of exit code 7.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FailOn {
    /// The figure in question, or another listed as worse, is worse by more than this share.
    Worse(f64),
    Refuted,
    /// A prediction is undecided, or whether a variant is worse.
    Undecided,
    Never,
}

impl FailOn {
    /// Parses `worse`, `worse:2%`, `undecided`, `refuted` or `never`.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let accepted = || {
            anyhow!(
                "accepted are `worse`, `worse:PERCENT%` such as `worse:2%`, `undecided`, `refuted` and `never`"
            )
        };
        match text {
            "worse" => Ok(Self::Worse(0.0)),
            "undecided" => Ok(Self::Undecided),
            "refuted" => Ok(Self::Refuted),
            "never" => Ok(Self::Never),
            _ => {
                let percent = text.strip_prefix("worse:").ok_or_else(accepted)?;
                let percent = percent.strip_suffix('%').unwrap_or(percent).trim();
                let percent: f64 = percent.parse().map_err(|_| accepted())?;
                let is_valid = percent.is_finite() && percent >= 0.0;
                if is_valid { Ok(Self::Worse(percent / 100.0)) } else { Err(accepted()) }
            }
        }
    }
}

/// Options for output and exit code.
pub(crate) struct Show<'a> {
    /// `report.json` instead of the table.
    pub json: bool,
    /// All figures below the table.
    pub full: bool,
    pub fail_on: &'a [FailOn],
}

impl Show<'_> {
    pub(crate) fn finished(&self, finished: Finished, out: &Path) -> anyhow::Result<ExitReason> {
        let Finished { report, written } = finished;
        self.show(&report)?;
        // Shown above in any case: it may be hours of work.
        written?;
        let (complete, all) = (report.complete_blocks, report.settings.blocks);
        let place = out.display();
        terminal::message(format_args!("{complete} of {all} blocks complete; results in {place}"));
        let hint = match report.ended {
            RunEnd::Complete => None,
            RunEnd::Interrupted => Some(GO_ON),
            RunEnd::Broken { .. } => go_on_after(report.last_failure()),
        };
        if let Some(hint) = hint {
            terminal::message(format_args!("{hint}: madang compare --resume {place}"));
        }
        Ok(self.ended(&report))
    }

    /// An early or broken end has precedence over `--fail-on`, which has precedence over an undecided answer.
    fn ended(&self, report: &Report) -> ExitReason {
        let on = |what: FailOn| self.fail_on.contains(&what);
        let conclusion = report.conclusion();
        if !matches!(conclusion, Conclusion::Done | Conclusion::CannotTell) {
            return conclusion.into();
        }
        let limit = self.fail_on.iter().find_map(|what| match what {
            FailOn::Worse(share) => Some(*share),
            _ => None,
        });
        let worse = report.is_worse_by(limit.unwrap_or(0.0));
        let undecided = match report.verdict {
            Some(Verdict::Undecided(_)) => true,
            Some(_) if limit.is_none() => false,
            _ => worse.is_none(),
        };
        let refuted = report.predictions.iter().any(|one| one.verdict == Verdict::Refuted);
        let matched = (on(FailOn::Refuted) && refuted)
            || (on(FailOn::Undecided) && undecided)
            || (limit.is_some() && worse == Some(true));
        if matched { ExitReason::FailOn } else { conclusion.into() }
    }

    fn show(&self, report: &Report) -> anyhow::Result<()> {
        terminal::print(&match (self.json, self.full) {
            (true, _) => report.to_json(),
            (false, true) => report.to_full_text(),
            (false, false) => report.to_text(),
        })
    }
}

pub(crate) fn report_again(
    dir: &Path,
    language: Option<Language>,
    show: &Show<'_>,
) -> anyhow::Result<ExitReason> {
    let stored = Stored::read(dir)?;
    let report = madang_lab::report_again(&stored, language)?;
    show.show(&report)?;
    Ok(show.ended(&report))
}
