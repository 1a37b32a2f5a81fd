//! Two stored runs of one experiment: has the service become worse?
//!
//! Rounds of two runs were not run side by side, so whatever the machine did in between is in the
//! difference. That is why only runs of one machine are judged, and why both builds as variants of
//! one run tell more. What this is for: a run kept from the last release, and one of today.

use std::fmt::Write;

use serde::Serialize;

use crate::{
    metric::{Metric, Statistic},
    record::{GOOD_LIMIT, Measured, Warning},
    report::counted,
    stats::{self, Change},
    stored::Stored,
    verdict::Undecided,
};

/// What is judged: larger is worse of all but the first two. Maxima are left out, which one hiccup
/// makes, and figures of a script's own, whose direction only the script knows.
const JUDGED: [Metric; 7] = [
    Metric::GoodShare,
    Metric::Goodput,
    Metric::Latency(Statistic::P50),
    Metric::Latency(Statistic::P95),
    Metric::Latency(Statistic::P99),
    Metric::CpuPerGoodRequest,
    Metric::PeakRss,
];
/// One-sided: half of what a 95 % interval leaves out.
const LEVEL: f64 = 0.025;
/// Something is worse by more than is allowed.
const EXIT_WORSE: u8 = 4;
/// Nothing can be said.
const EXIT_UNKNOWN: u8 = 3;

/// Why two runs cannot be compared.
#[derive(Debug, thiserror::Error)]
#[error("not the same experiment as the baseline: {} differ", .0.join(", "))]
pub struct NotTheSame(Vec<&'static str>);

/// The word for a value, and for the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// By more than is allowed, beyond chance.
    Worse,
    /// The whole interval lies within what is allowed.
    NotWorse,
    /// Neither can be said.
    Undecided,
}

/// One value of one variant.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The variant.
    pub variant: String,
    /// The metric.
    pub metric: Metric,
    /// Its change; `None` when `missing` says why there is none.
    pub change: Option<Change>,
    /// Which of the two cannot be judged by it.
    pub missing: Option<Missing>,
    /// The p-value of "it is not worse by more than is allowed", adjusted by Holm over all rows.
    pub adjusted_p_value: Option<f64>,
    /// The word.
    pub word: Word,
}

/// A run cannot be judged by a value when it has fewer than two rounds, or not the value in all of
/// them, or, of a response time, when fewer than 99 % of the requests were good in any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The earlier run.
    InBaseline,
    /// The later one.
    InRun,
    /// Both, as the CPU time of a server that the lab did not start.
    InBoth,
}

/// A run against an earlier one.
#[derive(Debug, Clone, Serialize)]
pub struct Regression {
    /// Worse if any value is, not worse only if all are not.
    pub word: Word,
    /// How much worse is allowed, as a share.
    pub allowed: f64,
    /// When the earlier run began.
    pub baseline: String,
    /// When the later one did.
    pub run: String,
    /// Why it cannot be said whether the run is worse, if it cannot.
    pub undecided_because: Option<String>,
    /// Every value judged.
    pub rows: Vec<Row>,
}

impl Regression {
    /// Compares a run with an earlier one. A value that is worse by a share of up to `allowed`
    /// is not worse.
    ///
    /// # Errors
    /// When they are not of the same experiment.
    pub fn new(baseline: &Stored, run: &Stored, allowed: f64) -> Result<Self, NotTheSame> {
        check_same(baseline, run)?;
        let not_judged = why_not(baseline, run);
        let mut rows = rows(baseline, run);
        judge(&mut rows, allowed, not_judged.is_some());
        if not_judged.is_none() {
            judge_crossing(&mut rows, baseline, run);
        }
        let is = |word: Word| move |row: &Row| row.word == word;
        let word = if rows.iter().any(is(Word::Worse)) {
            Word::Worse
        } else if !rows.is_empty() && rows.iter().all(is(Word::NotWorse)) {
            Word::NotWorse
        } else {
            Word::Undecided
        };
        Ok(Self {
            word,
            allowed,
            baseline: baseline.description.origin().started,
            run: run.description.origin().started,
            undecided_because: match word {
                Word::Undecided => not_judged.or_else(|| too_little(&rows)),
                Word::Worse | Word::NotWorse => None,
            },
            rows,
        })
    }

    /// 0 unless something is worse (4) or it cannot be said (3): nothing is judged or decided, or
    /// one of the two cannot be judged by a value that the other can. Values that are merely spread
    /// too widely are no reason, as long as any is decided.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.word {
            Word::Worse => EXIT_WORSE,
            _ if self.undecided_because.is_some() => EXIT_UNKNOWN,
            _ => 0,
        }
    }

    /// For a machine.
    #[must_use]
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("every key is a string") + "\n"
    }

    /// For a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "Against the run of {}; up to {} % worse is allowed\n\n",
            self.baseline,
            crate::metric::digits(self.allowed * 100.0)
        );
        for row in &self.rows {
            let change = row.change.map_or_else(
                || match row.word {
                    // The only one that is judged without an interval.
                    Word::Worse => format!("worse: below {} %", GOOD_LIMIT * 100.0),
                    _ => row.missing.map_or("", Missing::text).to_owned(),
                },
                |Change { ratio, interval: (low, high), .. }| {
                    let [ratio, low, high] = [ratio, low, high].map(crate::report::ratio);
                    format!("×{ratio} [{low} – {high}] {}", row.word.text())
                },
            );
            let label = format!("{}, {}", row.variant, row.metric.label());
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{label:<50} {change}");
        }
        let sum = match (&self.undecided_because, self.word) {
            (Some(why), _) => format!("Undecided: {why}."),
            (None, Word::Worse) => "Worse than the baseline.".to_owned(),
            (None, Word::NotWorse) => "Not worse than the baseline.".to_owned(),
            (None, Word::Undecided) => {
                "Nothing is worse for certain; of some values it cannot be said.".to_owned()
            }
        };
        let _ = writeln!(text, "\n{sum}");
        text
    }
}

impl Missing {
    fn text(self) -> &'static str {
        match self {
            Self::InBaseline => "not judged: the baseline has it not in every round, or refusals",
            Self::InRun => "not judged: the run has it not in every round, or refusals",
            Self::InBoth => "not judged: neither has it in every round without refusals",
        }
    }
}

impl Word {
    fn text(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::NotWorse => "not worse",
            Self::Undecided => "undecided",
        }
    }
}

fn check_same(baseline: &Stored, run: &Stored) -> Result<(), NotTheSame> {
    let (old, new) = (&baseline.plan, &run.plan);
    let load = |stored: &Stored| {
        let settings = &stored.plan.settings;
        (settings.warm_up, settings.vus, settings.duration, settings.env.clone())
    };
    let differences = [
        (baseline.experiment.name != run.experiment.name, "the names"),
        (old.variants != new.variants, "the variants"),
        (old.reference != new.reference, "the references"),
        (old.calibration != new.calibration, "the kinds (one is a calibration)"),
        (load(baseline) != load(run), "the loads"),
        (baseline.experiment.data != run.experiment.data, "the data"),
        (baseline.experiment.sources.scripts != run.experiment.sources.scripts, "the scripts"),
    ];
    let found = differences.into_iter().filter_map(|(differs, what)| differs.then_some(what));
    let found: Vec<&str> = found.collect();
    if found.is_empty() { Ok(()) } else { Err(NotTheSame(found)) }
}

/// Why nothing may be judged.
fn why_not(baseline: &Stored, run: &Stored) -> Option<String> {
    if baseline.description.origin().machine != run.description.origin().machine {
        let why = "the two ran on different machines; make both builds variants of one run";
        return Some(why.to_owned());
    }
    for (which, stored) in [("the baseline", baseline), ("the run", run)] {
        let report = stored.report();
        let why = report.predictions.first().and_then(|answer| match answer.verdict {
            crate::Verdict::Undecided(
                why @ (Undecided::MachineTooNoisy
                | Undecided::GeneratorLimited
                | Undecided::Unfinished),
            ) => crate::Verdict::Undecided(why).reason(),
            _ => None,
        });
        if let Some(why) = why {
            return Some(format!("{which}: {why}"));
        }
    }
    let budgets = run.plan.variants.iter().find(|variant| {
        let rounds = [baseline, run].map(|stored| measured(stored, &variant.name));
        let mut without =
            rounds.iter().flatten().map(|round| round.warnings.contains(&Warning::NoBudget));
        without.next().is_some_and(|first| without.any(|other| other != first))
    });
    budgets.map(|variant| {
        format!("the budget of `{}` was applied in some rounds and not in others", variant.name)
    })
}

/// Why nothing can be said although it was judged.
fn too_little(rows: &[Row]) -> Option<String> {
    let one_sided = |missing: Missing, which: &str| {
        let rows = rows.iter().filter(|row| row.missing == Some(missing));
        let names: Vec<String> =
            rows.map(|row| format!("{} of `{}`", row.metric.label(), row.variant)).collect();
        (!names.is_empty()).then(|| format!("{which} cannot be judged by {}", names.join(", ")))
    };
    if rows.iter().all(|row| row.word == Word::Undecided) {
        return Some("no value could be decided; more blocks may help, and two are needed".into());
    }
    one_sided(Missing::InRun, "the run").or_else(|| one_sided(Missing::InBaseline, "the baseline"))
}

fn measured<'s>(stored: &'s Stored, variant: &'s str) -> Vec<&'s Measured> {
    counted(&stored.rounds, variant).map(|(_, round)| round).collect()
}

fn rows(baseline: &Stored, run: &Stored) -> Vec<Row> {
    let of = |metric: Metric, variant: &str| {
        let values = |stored: &Stored| values(&metric, &measured(stored, variant));
        let (change, missing) = match (values(baseline), values(run)) {
            (Some(old), Some(new)) => (stats::between_runs(&old, &new), None),
            (Some(_), None) => (None, Some(Missing::InRun)),
            (None, Some(_)) => (None, Some(Missing::InBaseline)),
            (None, None) => (None, Some(Missing::InBoth)),
        };
        let variant = variant.to_owned();
        Row { variant, metric, change, missing, adjusted_p_value: None, word: Word::Undecided }
    };
    let variants = run.plan.variants.iter();
    variants.flat_map(|variant| JUDGED.map(|metric| of(metric, &variant.name))).collect()
}

/// What a run is judged by: `None` when it cannot be, see [`Missing`].
fn values(metric: &Metric, rounds: &[&Measured]) -> Option<Vec<f64>> {
    let refused =
        metric.is_response_time() && rounds.iter().any(|round| metric.has_bad_requests(round));
    if rounds.len() < 2 || refused {
        return None;
    }
    let value = |round: &&Measured| match metric {
        // Half a request where none was good, so that there is a logarithm.
        Metric::GoodShare => {
            let share = round.load.good_share()?;
            Some(share.max(0.5 / round.load.requests.total as f64))
        }
        metric => metric.of(round).ok(),
    };
    // Absent in one round, it is absent: the others would be the good ones.
    rounds.iter().map(value).collect()
}

/// Whether less of it is worse.
fn is_inverse(metric: &Metric) -> bool {
    matches!(metric, Metric::Goodput | Metric::GoodShare)
}

fn judge(rows: &mut [Row], allowed: f64, is_open: bool) {
    let limit = 1.0 + allowed;
    let p_value = |row: &Row| {
        let change = row.change?;
        let is_inverse = is_inverse(&row.metric);
        Some(if is_inverse { change.p_below(1.0 / limit) } else { change.p_above(limit) })
    };
    let p_values: Vec<f64> = rows.iter().filter_map(p_value).collect();
    let adjusted = stats::holm(&p_values);
    let judged = rows.iter_mut().filter(|row| row.change.is_some());
    for (row, adjusted) in judged.zip(adjusted) {
        row.adjusted_p_value = Some(adjusted);
        let within = row.change.is_some_and(|Change { interval: (low, high), .. }| {
            if is_inverse(&row.metric) { low >= 1.0 / limit } else { high <= limit }
        });
        row.word = match (is_open, adjusted <= LEVEL, within) {
            (true, ..) | (false, false, false) => Word::Undecided,
            (false, true, _) => Word::Worse,
            (false, false, true) => Word::NotWorse,
        };
    }
}

/// Good requests that were at least 99 % of all and are fewer now are worse whatever is allowed:
/// it is where response times stop telling about service. Over all rounds together, so that one
/// unlucky round does not do it.
fn judge_crossing(rows: &mut [Row], baseline: &Stored, run: &Stored) {
    let share = |stored: &Stored, variant: &str| {
        let rounds = measured(stored, variant);
        let requests = rounds.iter().map(|round| &round.load.requests);
        let (good, total) = requests.fold((0.0, 0.0), |(good, total), one| {
            (good + one.good as f64, total + one.total as f64)
        });
        (total > 0.0).then_some(good / total)
    };
    for row in rows.iter_mut().filter(|row| row.metric == Metric::GoodShare) {
        let shares = share(baseline, &row.variant).zip(share(run, &row.variant));
        if shares.is_some_and(|(old, new)| old >= GOOD_LIMIT && new < GOOD_LIMIT) {
            row.word = Word::Worse;
        }
    }
}
