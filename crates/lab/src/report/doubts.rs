//! Warnings of a report.

use std::collections::{BTreeMap, BTreeSet};

use super::{RunEnd, all, counted, trends};
use crate::file::experiment::Target;
use crate::journal::record::{Measured, RoundRecord, Warning};
use crate::judge::metric::Metric;
use crate::judge::stats;
use crate::plan::Plan;

/// Most error messages of a variant.
const MOST_TROUBLES: usize = 3;
/// Factor of resident memory over needed memory beyond which it is misleading.
const SHARED_MEMORY: f64 = 1.25;
/// Standard deviation of logarithms of the time of fixed work on steady cores.
const STEADY: f64 = 0.05;

/// Variation of the speed of the server's cores, if it exceeds [`STEADY`].
pub(crate) fn pace(plan: &Plan, rounds: &[RoundRecord]) -> Option<String> {
    let all = plan.variants.iter().flat_map(|variant| counted(rounds, &variant.name));
    let logs: Vec<f64> = all.filter_map(|(_, measured)| Some(measured.pace()?.ln())).collect();
    let spread = stats::level(&logs)?.spread?;
    (spread > STEADY).then(|| plan.language.pace(spread))
}

/// Warnings, the most important first.
pub(crate) fn warnings(plan: &Plan, rounds: &[RoundRecord], ended: RunEnd) -> Vec<String> {
    let lang = plan.language;
    let refused = rounds.iter().filter(|round| !round.refused.is_empty());
    let mut repeated: Vec<(String, u32)> = Vec::new();
    for line in refused.map(|round| lang.refused(round)) {
        match repeated.iter_mut().find(|(known, _)| *known == line) {
            Some((_, count)) => *count += 1,
            None => repeated.push((line, 1)),
        }
    }
    let line = |(line, count): (String, u32)| match count {
        1 => line,
        count => format!("{line} ({count} ×)"),
    };
    let mut lines: Vec<String> = repeated.into_iter().map(line).collect();
    lines.extend(rounds.iter().filter_map(|round| Some(lang.broke(round, round.failure()?))));
    lines.extend(lang.ended(ended));
    lines.extend(shared_memory(plan, rounds));
    lines.extend(doubts(plan, rounds));
    lines.extend(trends::lines(plan, rounds));
    lines.extend(troubles(plan, rounds));
    lines
}

/// Variants with a misleading sum of resident memory in a prediction.
fn shared_memory(plan: &Plan, rounds: &[RoundRecord]) -> Vec<String> {
    let judged = plan.predictions.iter().filter(|prediction| prediction.metric == Metric::PeakRss);
    let judged = judged.flat_map(|prediction| [&plan.reference, &prediction.variant]);
    let mut lines = Vec::new();
    for name in judged.collect::<BTreeSet<&String>>() {
        let used = all(rounds, name).filter_map(|(_, measured)| measured.server.as_ref());
        let sums = used.map(|server| (server.peak_rss_bytes, server.memory()));
        let Some((rss, memory)) = sums.max() else { continue };
        if rss as f64 > SHARED_MEMORY * memory as f64 {
            lines.push(plan.language.shared_memory(name, rss as f64, memory as f64));
        }
    }
    lines
}

/// The most frequent errors and exceptions of each variant, from all measured rounds.
fn troubles(plan: &Plan, rounds: &[RoundRecord]) -> Vec<String> {
    let mut lines = Vec::new();
    for variant in &plan.variants {
        let (mut failures, mut exceptions) = (BTreeMap::new(), BTreeMap::new());
        let add = |into: &mut BTreeMap<String, u64>, message: String, count: u64| {
            *into.entry(message).or_default() += count;
        };
        let own = rounds.iter().filter(|round| round.variant == variant.name);
        for Measured { load, .. } in own.filter_map(RoundRecord::measured) {
            for trouble in &load.failures {
                add(&mut failures, trouble.message.clone(), trouble.count);
            }
            for check in load.checks.iter().filter(|check| check.fails > 0) {
                add(&mut failures, format!("check `{}`", check.name), check.fails);
            }
            if load.requests.unanswered > 0 {
                let words = plan.language.pick("no answer until the end", "끝날 때까지 응답 없음");
                add(&mut failures, words.to_owned(), load.requests.unanswered);
            }
            for trouble in &load.exceptions {
                add(&mut exceptions, trouble.message.clone(), trouble.count);
            }
        }
        for (found, threw) in [(failures, false), (exceptions, true)] {
            let mut found: Vec<(String, u64)> = found.into_iter().collect();
            found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            found.truncate(MOST_TROUBLES);
            if !found.is_empty() {
                lines.push(plan.language.troubles(&variant.name, threw, &found));
            }
        }
    }
    lines
}

/// Variants that may have changed before a run was resumed.
pub(crate) fn unknown_builds(plan: &Plan, resumed: &[String]) -> Option<String> {
    let urls = plan.variants.iter().filter(|variant| matches!(variant.target, Target::Url(_)));
    let names: Vec<String> = urls.map(|variant| format!("`{}`", variant.name)).collect();
    let is_unknown = !names.is_empty() && !resumed.is_empty();
    is_unknown.then(|| plan.language.unknown_builds(&names.join(", ")))
}

/// Number of disturbed rounds behind the verdict.
pub(crate) fn noise(plan: &Plan, rounds: &[RoundRecord]) -> Option<String> {
    // A disturbance affects both sides of a pair.
    let asked = plan.asked.iter().map(|(metric, name)| (metric, name));
    let predicted = plan.predictions.iter().map(|one| (&one.metric, &one.variant));
    let about = asked.chain(predicted).filter(|(metric, _)| !plan.is_paired(metric));
    let mut names: BTreeSet<&String> = about.map(|(_, name)| name).collect();
    if names.is_empty() {
        return None;
    }
    names.insert(&plan.reference);
    let about = names.iter().flat_map(|name| counted(rounds, name)).map(|(_, measured)| measured);
    let (disturbed, all) = about.fold((0, 0), |(disturbed, all), measured| {
        (disturbed + usize::from(measured.was_disturbed()), all + 1)
    });
    (disturbed > 0).then(|| plan.language.noise(disturbed, all))
}

/// A line per warning, with its variants.
fn doubts(plan: &Plan, rounds: &[RoundRecord]) -> Vec<String> {
    let mut seen: BTreeMap<Warning, Vec<String>> = BTreeMap::new();
    for variant in &plan.variants {
        let own: Vec<&Measured> =
            all(rounds, &variant.name).map(|(_, measured)| measured).collect();
        let mut counts: BTreeMap<Warning, usize> = BTreeMap::new();
        for warning in own.iter().flat_map(|measured| &measured.warnings) {
            *counts.entry(*warning).or_default() += 1;
        }
        for (warning, count) in counts {
            let share = plan.language.share_of_rounds(&variant.name, count, own.len());
            seen.entry(warning).or_default().push(share);
        }
    }
    let line = |(warning, shares): (Warning, Vec<String>)| {
        let doubt = plan.language.doubt(warning, &shares.join(", "));
        let who = if warning == Warning::ForeignCpu { others(rounds) } else { Vec::new() };
        if who.is_empty() { doubt } else { format!("{doubt}: {}", who.join(", ")) }
    };
    seen.into_iter().map(line).collect()
}

/// Other processes in disturbed rounds that count, ordered by their largest use.
fn others(rounds: &[RoundRecord]) -> Vec<String> {
    let mut most: BTreeMap<&str, f64> = BTreeMap::new();
    let counted = rounds.iter().filter(|round| round.counted);
    for measured in counted.filter_map(RoundRecord::measured) {
        if measured.warnings.contains(&Warning::ForeignCpu) {
            for other in measured.machine.iter().flat_map(|machine| &machine.others) {
                let cores = most.entry(&other.name).or_default();
                *cores = cores.max(other.cores);
            }
        }
    }
    let mut most: Vec<_> = most.into_iter().collect();
    most.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    let most = most.into_iter().take(MOST_TROUBLES);
    most.map(|(name, cores)| format!("`{name}` {cores:.2}")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::file::experiment::{Experiment, Sources};
    use crate::plan::Options;

    fn round(variant: &str, counted: bool, warnings: &[&str]) -> RoundRecord {
        let load = json!({
            "version": 1, "started_at_seconds": 0.0, "ended_at_seconds": 1.0, "duration_seconds": 1.0,
            "requests": {"total": 1, "good": 1},
        });
        let record = json!({
            "block": 1, "attempt": 1, "position": 1, "variant": variant, "started": "",
            "took_seconds": 1.0, "counted": counted,
            "measured": {"load": load, "server": null, "machine": null, "cpus": null,
                         "warnings": warnings},
        });
        serde_json::from_value(record).unwrap()
    }

    fn plan() -> Plan {
        let file = "load.script = 'x.js'\nprediction = { metric = 'goodput', variant = 'b', ratio_at_least = 1 }\n\
                    variants = { a = { url = 'http://a:1' }, b = { url = 'http://b:1' }, c = { url = 'http://c:1' } }";
        let sources = Sources { file: file.to_owned(), ..Sources::default() };
        let here = Path::new("/");
        let experiment = Experiment::stored(Path::new("x.toml"), here, &sources).unwrap();
        let plan = Plan::new(&experiment, &Options::default()).unwrap();
        Plan { asked: Vec::new(), ..plan }
    }

    #[test]
    fn noise_is_counted_over_the_rounds_the_verdict_rests_on() {
        let said = |rounds: &[RoundRecord]| noise(&plan(), rounds);
        let (quiet, loud) = (round("a", true, &["thresholds"]), round("b", true, &["steal"]));
        let half = said(&[quiet.clone(), loud.clone()]).unwrap();
        assert!(half.contains("1 of the 2 rounds") && !half.contains("more than half"), "{half}");
        let most = said(&[loud, round("a", true, &["foreign_cpu"]), quiet.clone()]).unwrap();
        assert!(most.contains("2 of the 3 rounds") && most.contains("more than half"), "{most}");
        let elsewhere = [round("c", true, &["steal"]), round("a", false, &["steal"]), quiet];
        assert_eq!(said(&elsewhere), None);
    }
}
