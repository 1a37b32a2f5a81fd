//! Broken systems. Reported first: they make all figures worthless.

use std::collections::BTreeMap;

use super::{InvariantSummary, Language, RunEnd, columns, invariants};
use crate::journal::record::{Failure, FailureKind, GOOD_LIMIT, Measured, RoundRecord, Warning};
use crate::load::report::Check;
use crate::plan::Plan;

/// Lines about broken things in the order of the variants, with invariants last. From all rounds, also those that do not
/// count: a crash on a busy machine is a crash. Without crashes before the run was `resumed`: their cause may be fixed.
pub(crate) fn lines(
    plan: &Plan,
    rounds: &[RoundRecord],
    ended: RunEnd,
    resumed: Option<&str>,
    invariants: &[InvariantSummary],
) -> Vec<String> {
    let lang = plan.language;
    let mut lines = Vec::new();
    for variant in &plan.variants {
        let name = &variant.name;
        let own: Vec<&RoundRecord> = rounds.iter().filter(|round| round.variant == *name).collect();
        // A single failed start may be due to a busy machine, but not one that ended the run.
        let is_given_up = matches!(ended, RunEnd::Broken { .. });
        let is_crash = |kind: FailureKind| {
            kind == FailureKind::ServerDied || is_given_up && kind.is_of_the_system()
        };
        // Timestamps in UTC sort as text. They are whole seconds: a round of the same second counts as earlier.
        let recent =
            own.iter().filter(|round| resumed.is_none_or(|moment| *round.started > *moment));
        let recent: Vec<&&RoundRecord> = recent.collect();
        let failures = recent.iter().filter_map(|round| round.failure());
        let crashes: Vec<&Failure> = failures.filter(|failure| is_crash(failure.kind)).collect();
        if let Some(last) = crashes.last() {
            lines.push(lang.crashed(name, crashes.len(), recent.len(), last));
        }
        let measured: Vec<&Measured> = own.iter().filter_map(|round| round.measured()).collect();
        lines.extend(exceptions(lang, name, &measured));
        if !plan.settings.accept.contains(&Warning::FailedChecks) {
            lines.extend(failed_checks(lang, name, &measured));
        }
    }
    lines.extend(invariants::lines(invariants, lang).0);
    lines
}

/// Exceptions although all requests of the iteration were good: after a bad one, a script may throw.
fn exceptions(lang: Language, variant: &str, rounds: &[&Measured]) -> Option<String> {
    let threw: u64 = rounds.iter().map(|round| round.load.iterations.threw).sum();
    let all: u64 = rounds.iter().map(|round| round.load.iterations.complete).sum();
    let share = share(threw, all).filter(|share| *share > 1.0 - GOOD_LIMIT)?;
    let mut messages: BTreeMap<&str, u64> = BTreeMap::new();
    for trouble in rounds.iter().flat_map(|round| &round.load.exceptions) {
        *messages.entry(&trouble.message).or_default() += trouble.count;
    }
    let most = messages.into_iter().max_by_key(|(_, count)| *count);
    Some(lang.threw(variant, share, most.map_or("?", |(message, _)| message)))
}

/// Checks of which more than 1 % failed.
fn failed_checks(lang: Language, variant: &str, rounds: &[&Measured]) -> Vec<String> {
    let mut checks: BTreeMap<&str, Check> = BTreeMap::new();
    for check in rounds.iter().flat_map(|round| &round.load.checks) {
        let none = || Check { passes: 0, fails: 0, ..check.clone() };
        let sum = checks.entry(&check.name).or_insert_with(none);
        sum.passes += check.passes;
        sum.fails += check.fails;
    }
    let failed = checks.into_values().filter(Check::has_failed);
    let line = |check: Check| {
        let share = share(check.fails, check.fails + check.passes)?;
        Some(lang.check_failed(variant, &check.name, share))
    };
    failed.filter_map(line).collect()
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

/// Adds the label to each line that begins a thing.
pub(crate) fn headed(lines: &[String], lang: Language) -> Vec<String> {
    let head = lang.pick("BROKEN", "고장");
    let headed = |line: &String| match line.starts_with(' ') {
        true => line.clone(),
        false => format!("{head}: {line}"),
    };
    lines.iter().map(headed).collect()
}

impl Language {
    fn crashed(self, variant: &str, count: usize, all: usize, last: &Failure) -> String {
        let said = self.failure(last);
        let said = said.lines().next().unwrap_or_default();
        self.pick(
            format!("`{variant}` in {count} of {all} rounds: {said}"),
            format!("`{variant}`, {all}라운드 중 {count}라운드: {said}"),
        )
    }

    fn threw(self, variant: &str, share: f64, message: &str) -> String {
        let share = columns::percent(share);
        self.pick(
            format!(
                "the script threw in {share} of its iterations with `{variant}`, though all requests were good: {message}"
            ),
            format!(
                "`{variant}`: 요청은 모두 정상인데 스크립트가 반복의 {share}에서 예외를 던졌습니다: «{message}»"
            ),
        )
    }

    fn check_failed(self, variant: &str, name: &str, share: f64) -> String {
        let share = columns::percent(share);
        self.pick(
            format!(
                "check `{name}` failed {share} of the time with `{variant}` (if that is expected: \
                 accept = [\"failed_checks\"] in [rounds])"
            ),
            format!(
                "`{variant}`: «check `{name}`» 실패율 {share} (예상한 결과라면 accept에 failed_checks를 적으세요)"
            ),
        )
    }
}
