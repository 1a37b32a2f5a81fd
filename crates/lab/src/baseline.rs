//! Two stored runs of one experiment: has the service become worse?
//!
//! Rounds of two runs were not run side by side, so whatever the machine did in between is in the
//! difference. That is why only runs of one machine are judged, and why both builds as variants of
//! one run tell more. What this is for: a run kept from the last release, and one of today.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    experiment::{Experiment, Variant},
    metric::{Metric, Statistic},
    plan::Plan,
    record::{GOOD_LIMIT, Measured, Pinned, Warning},
    report::{Language, align, counted},
    stats::{self, Change},
    stored::Stored,
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
    Metric::PeakMemory,
];
/// One-sided: half of what a 95 % interval leaves out.
const LEVEL: f64 = 0.025;

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
    /// Of its words.
    #[serde(skip)]
    language: Language,
}

impl Regression {
    /// Compares a run with an earlier one. A value that is worse by a share of up to `allowed`
    /// is not worse. Its words are in the language of the later run.
    ///
    /// # Errors
    /// When they are not of the same experiment.
    pub fn new(baseline: &Stored, run: &Stored, allowed: f64) -> Result<Self, NotTheSame> {
        check_same(baseline, &run.experiment, &run.plan)?;
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
                Word::Undecided => not_judged.or_else(|| too_little(&rows, run.plan.language)),
                Word::Worse | Word::NotWorse => None,
            },
            rows,
            language: run.plan.language,
        })
    }

    /// Whether nothing can be said although nothing is worse: nothing is judged or decided, or
    /// one of the two cannot be judged by a value that the other can. Values that are merely spread
    /// too widely are no reason, as long as any is decided.
    #[must_use]
    pub fn cannot_tell(&self) -> bool {
        self.word != Word::Worse && self.undecided_because.is_some()
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
        let lang = self.language;
        let (baseline, allowed) = (&self.baseline, crate::metric::digits(self.allowed * 100.0));
        let head = match lang {
            Language::En => {
                format!("Against the run of {baseline}; up to {allowed} % worse is allowed")
            }
            Language::Ko => format!("{baseline} 실행과 비교; {allowed} %까지 나빠져도 허용합니다"),
        };
        let table: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                let label = format!("{}, {}", row.variant, lang.metric(&row.metric));
                vec![label, row.in_words(lang)]
            })
            .collect();
        let sum = match (&self.undecided_because, self.word) {
            (Some(why), _) => format!("{}: {why}.", lang.pick("Undecided", "판정 불가")),
            (None, Word::Worse) => {
                lang.pick("Worse than the baseline.", "기준 실행보다 나쁩니다.").to_owned()
            }
            (None, Word::NotWorse) => lang
                .pick("Not worse than the baseline.", "기준 실행보다 나쁘지 않습니다.")
                .to_owned(),
            (None, Word::Undecided) => lang
                .pick(
                    "Nothing is worse for certain; of some values it cannot be said.",
                    "확실히 나빠진 값은 없습니다. 일부 값은 판정할 수 없습니다.",
                )
                .to_owned(),
        };
        let pace = self.rows.iter().find_map(|row| row.change?.pace);
        let pace = pace.map_or_else(String::new, |pace| lang.pace_between_runs(pace) + "\n");
        format!("{head}\n\n{}\n\n{pace}{sum}\n", align(&table).join("\n"))
    }
}

impl Row {
    /// Its change and the word for it.
    fn in_words(&self, lang: Language) -> String {
        if let Some(Change { ratio, interval: (low, high), .. }) = self.change {
            let [ratio, low, high] = [ratio, low, high].map(crate::report::ratio);
            return format!("×{ratio} [{low} – {high}] {}", self.word.text(lang));
        }
        let good = GOOD_LIMIT * 100.0;
        match (lang, self.word) {
            // The only one that is judged without an interval.
            (Language::En, Word::Worse) => format!("worse: below {good} %"),
            (Language::Ko, Word::Worse) => format!("나쁨: {good} % 미만"),
            _ => self.missing.map_or("", |missing| missing.text(lang)).to_owned(),
        }
    }
}

impl Missing {
    fn text(self, lang: Language) -> &'static str {
        match self {
            Self::InBaseline => lang.pick(
                "not judged: the baseline has it not in every round, or refusals",
                "판정 안 함: 기준 실행에 값이 없거나 거절이 있는 라운드가 있습니다",
            ),
            Self::InRun => lang.pick(
                "not judged: the run has it not in every round, or refusals",
                "판정 안 함: 이번 실행에 값이 없거나 거절이 있는 라운드가 있습니다",
            ),
            Self::InBoth => lang.pick(
                "not judged: neither has it in every round without refusals",
                "판정 안 함: 두 실행 모두 값이 없거나 거절이 있는 라운드가 있습니다",
            ),
        }
    }
}

impl Word {
    fn text(self, lang: Language) -> &'static str {
        match self {
            Self::Worse => lang.pick("worse", "나쁨"),
            Self::NotWorse => lang.pick("not worse", "나쁘지 않음"),
            Self::Undecided => lang.pick("undecided", "판정 불가"),
        }
    }
}

/// Whether runs of a plan can be compared with a stored one, as far as that can be known beforehand.
///
/// # Errors
/// When they would not be of the same experiment.
pub fn check_same(
    baseline: &Stored,
    experiment: &Experiment,
    new: &Plan,
) -> Result<(), NotTheSame> {
    let old = &baseline.plan;
    let load = |plan: &Plan| {
        let settings = &plan.settings;
        (settings.warm_up, settings.vus, settings.duration, settings.env.clone())
    };
    let differences = [
        (baseline.experiment.name != experiment.name, "the names"),
        (old.variants != new.variants, "the variants"),
        (old.reference != new.reference, "the references"),
        (old.calibration != new.calibration, "the kinds (one is a calibration)"),
        (load(old) != load(new), "the loads"),
        (baseline.experiment.data != experiment.data, "the data"),
        (baseline.experiment.hooks != experiment.hooks, "the hooks"),
        (old.settings.pin_cpus != new.settings.pin_cpus, "`pin_cpus`"),
        (baseline.experiment.sources.scripts != experiment.sources.scripts, "the scripts"),
    ];
    let found = differences.into_iter().filter_map(|(differs, what)| differs.then_some(what));
    let found: Vec<&str> = found.collect();
    if found.is_empty() { Ok(()) } else { Err(NotTheSame(found)) }
}

/// Why nothing may be judged.
fn why_not(baseline: &Stored, run: &Stored) -> Option<String> {
    let lang = run.plan.language;
    if baseline.description.origin().machine != run.description.origin().machine {
        let why = lang.pick(
            "the two ran on different machines; make both builds variants of one run",
            "두 실행의 장비가 다릅니다. 두 빌드를 한 실행의 변형으로 비교하세요",
        );
        return Some(why.to_owned());
    }
    let cpus = |stored: &Stored| {
        let variants = stored.plan.variants.iter();
        let rounds = variants.flat_map(|variant| measured(stored, &variant.name));
        rounds.map(|round| round.cpus.clone()).collect::<BTreeSet<Option<Pinned>>>()
    };
    if cpus(baseline) != cpus(run) {
        let why = lang.pick(
            "server and generator had other CPUs than in the baseline",
            "서버와 부하 생성기의 CPU가 기준 실행과 다릅니다",
        );
        return Some(why.to_owned());
    }
    let names = [lang.pick("the baseline", "기준 실행"), lang.pick("the run", "이번 실행")];
    for (which, stored) in names.into_iter().zip([baseline, run]) {
        let why = stored.undecided().map(crate::Verdict::Undecided);
        if let Some(why) = why.and_then(|verdict| lang.reason(verdict)) {
            return Some(format!("{which}: {why}"));
        }
    }
    let budgets = run.plan.variants.iter().find(|variant| {
        let rounds = [baseline, run].map(|stored| measured(stored, &variant.name));
        let mut without =
            rounds.iter().flatten().map(|round| round.warnings.contains(&Warning::NoBudget));
        without.next().is_some_and(|first| without.any(|other| other != first))
    });
    budgets.map(|Variant { name, .. }| match lang {
        Language::En => {
            format!("the budget of `{name}` was applied in some rounds and not in others")
        }
        Language::Ko => format!("`{name}`의 예산이 일부 라운드에만 적용되었습니다"),
    })
}

/// Why nothing can be said although it was judged.
fn too_little(rows: &[Row], lang: Language) -> Option<String> {
    let one_sided = |missing: Missing, which: &str| {
        let rows = rows.iter().filter(|row| row.missing == Some(missing));
        let name = |Row { metric, variant, .. }: &Row| match lang {
            Language::En => format!("{} of `{variant}`", lang.metric(metric)),
            Language::Ko => format!("`{variant}`의 {}", lang.metric(metric)),
        };
        let names: Vec<String> = rows.map(name).collect();
        let all = names.join(", ");
        (!names.is_empty()).then(|| match lang {
            Language::En => format!("{which} cannot be judged by {all}"),
            Language::Ko => format!("{which}: 판정할 수 없는 값이 있습니다 ({all})"),
        })
    };
    if rows.iter().all(|row| row.word == Word::Undecided) {
        let why = lang.pick(
            "no value could be decided; more blocks may help, and two are needed",
            "판정할 수 있는 값이 없습니다. 블록이 더 있으면 나아질 수 있고, 두 개는 있어야 합니다",
        );
        return Some(why.to_owned());
    }
    let (run, baseline) =
        (lang.pick("the run", "이번 실행"), lang.pick("the baseline", "기준 실행"));
    one_sided(Missing::InRun, run).or_else(|| one_sided(Missing::InBaseline, baseline))
}

fn measured<'s>(stored: &'s Stored, variant: &'s str) -> Vec<&'s Measured> {
    counted(&stored.rounds, variant).map(|(_, round)| round).collect()
}

fn rows(baseline: &Stored, run: &Stored) -> Vec<Row> {
    let of = |metric: Metric, variant: &str| {
        let values = |stored: &Stored| values(&metric, &measured(stored, variant));
        let (change, missing) = match (values(baseline), values(run)) {
            (Some(old), Some(new)) => {
                let at_equal_pace = || {
                    let paced = |stored: &Stored, values: &[f64]| {
                        let rounds = measured(stored, variant);
                        let paces = values.iter().zip(rounds);
                        paces.map(|(value, round)| Some((*value, round.pace()?))).collect()
                    };
                    let (old, new): (Option<Vec<_>>, Option<Vec<_>>) =
                        (paced(baseline, &old), paced(run, &new));
                    stats::between_runs_at_equal_pace(&old?, &new?)
                };
                let adjusted = metric.goes_with_pace().then(at_equal_pace).flatten();
                (adjusted.or_else(|| stats::between_runs(&old, &new)), None)
            }
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
