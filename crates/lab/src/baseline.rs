//! Two stored runs of one experiment: has the service become worse?
//!
//! Rounds of two runs were not run side by side, so whatever the machine did in between is in the
//! difference. That is why only runs of one machine are judged, and why both builds as variants of
//! one run tell more. What this is for: a run kept from the last release, and one of today.

use std::fmt::Write;

use serde::Serialize;

use crate::{
    metric::{Metric, Statistic},
    record::Measured,
    report::counted,
    stats::{self, Change},
    stored::Stored,
    verdict::Undecided,
};

/// What is judged: larger is worse of all but the first. Maxima are left out, which one hiccup
/// makes, and figures of a script's own, whose direction only the script knows.
const JUDGED: [Metric; 6] = [
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
    /// Its change; `None` when a run has too few rounds with it.
    pub change: Option<Change>,
    /// The p-value of "it is not worse by more than is allowed", adjusted by Holm over all rows.
    pub adjusted_p_value: Option<f64>,
    /// The word.
    pub word: Word,
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
    /// Why nothing is judged, if nothing is.
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
        let because = why_not(baseline, run);
        let mut rows = rows(baseline, run);
        judge(&mut rows, allowed, because.is_some());
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
            undecided_because: because,
            rows,
        })
    }

    /// 0 unless something is worse (4) or nothing can be said at all (3).
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
                || "not measured in both".to_owned(),
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
    None
}

fn rows(baseline: &Stored, run: &Stored) -> Vec<Row> {
    let of = |metric: Metric, variant: &str| {
        let values = |stored: &Stored| -> Option<Vec<f64>> {
            let rounds: Vec<&Measured> =
                counted(&stored.rounds, variant).map(|(_, round)| round).collect();
            let refused = metric.is_response_time()
                && rounds.iter().any(|round| metric.has_bad_requests(round));
            // Absent in one round, it is absent: the others would be the good ones.
            let values = rounds.iter().map(|round| metric.of(round).ok()).collect();
            if refused { None } else { values }
        };
        let change = values(baseline).zip(values(run));
        let change = change.and_then(|(old, new)| stats::between_runs(&old, &new));
        let variant = variant.to_owned();
        Row { variant, metric, change, adjusted_p_value: None, word: Word::Undecided }
    };
    let variants = run.plan.variants.iter();
    variants.flat_map(|variant| JUDGED.map(|metric| of(metric, &variant.name))).collect()
}

fn judge(rows: &mut [Row], allowed: f64, is_open: bool) {
    let limit = 1.0 + allowed;
    let p_value = |row: &Row| {
        let change = row.change?;
        let is_inverse = row.metric == Metric::Goodput;
        Some(if is_inverse { change.p_below(1.0 / limit) } else { change.p_above(limit) })
    };
    let p_values: Vec<f64> = rows.iter().filter_map(p_value).collect();
    let adjusted = stats::holm(&p_values);
    let judged = rows.iter_mut().filter(|row| row.change.is_some());
    for (row, adjusted) in judged.zip(adjusted) {
        row.adjusted_p_value = Some(adjusted);
        let within = row.change.is_some_and(|Change { interval: (low, high), .. }| {
            if row.metric == Metric::Goodput { low >= 1.0 / limit } else { high <= limit }
        });
        row.word = match (is_open, adjusted <= LEVEL, within) {
            (true, ..) | (false, false, false) => Word::Undecided,
            (false, true, _) => Word::Worse,
            (false, false, true) => Word::NotWorse,
        };
    }
}
