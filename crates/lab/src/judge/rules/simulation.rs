//! Simulated experiments with and without each rule. `experiments/REFERENCE.md` documents the results.

use fastrand::Rng;

use super::{Effect, Figures, RULES, Restrictions, Seen, interferes};
use crate::file::experiment::Bound;
use crate::journal::record::Warning;
use crate::judge::stats::{estimate, interference, normal};
use crate::judge::verdict::{Undecided, Verdict};

const EXPERIMENTS: u32 = 2000;
const BLOCKS: u32 = 10;
/// Spread of rounds alone, and of pairs without their shared noise.
const ROUNDS: f64 = 0.05;
const PAIRS: f64 = 0.005;
/// Requests per round.
const REQUESTS: usize = 200;

const REFERENCE: &str = include_str!("../../../../../experiments/REFERENCE.md");

/// `(reference, variant)` of a block.
type Block = (f64, f64);

fn noisy(value: f64, spread: f64, rng: &mut Rng) -> f64 {
    value * (spread * normal(rng)).exp()
}

fn blocks(rng: &mut Rng, mut block: impl FnMut(&mut Rng) -> Block) -> Vec<Block> {
    (0..BLOCKS).map(|_| block(rng)).collect()
}

/// Response times of a round, spread log-normally, shortest first.
fn times(requests: usize, rng: &mut Rng) -> Vec<f64> {
    let mut times: Vec<f64> = (0..requests).map(|_| normal(rng).exp()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Nearest rank.
fn percentile(times: &[f64], share: f64) -> f64 {
    times[(times.len() as f64 * share).ceil() as usize - 1]
}

/// Shares in which a false claim is supported, in per cent, without and with the restrictions.
fn false_verdicts(
    restrictions: Restrictions,
    claim: Bound,
    block: impl Fn(&mut Rng) -> Block,
) -> (u32, u32) {
    let mut rng = Rng::with_seed(2011);
    let (mut without, mut with) = (0, 0);
    for _ in 0..EXPERIMENTS {
        let interval = estimate(&blocks(&mut rng, &block)).unwrap().interval;
        let verdict = Verdict::judge(claim, interval);
        without += u32::from(verdict == Verdict::Supported);
        with += u32::from(restrictions.apply(verdict, claim, interval) == Verdict::Supported);
    }
    (percent(without), percent(with))
}

fn percent(count: u32) -> u32 {
    (f64::from(count) * 100.0 / f64::from(EXPERIMENTS)).round() as u32
}

/// Mean half-width of the interval of equal things, in per cent.
fn width(block: impl Fn(&mut Rng) -> Block) -> f64 {
    let mut rng = Rng::with_seed(2011);
    let half = |_| {
        let (low, high) = estimate(&blocks(&mut rng, &block)).unwrap().interval.unwrap();
        (high / low).sqrt() - 1.0
    };
    (0..EXPERIMENTS).map(half).sum::<f64>() * 100.0 / f64::from(EXPERIMENTS)
}

/// Restrictions by the rules about some figures, with their condition in rounds of the variant.
fn of_variant(is_seen: impl Fn(&Seen) -> bool, figures: Figures) -> Restrictions {
    let rules = RULES.iter().filter(|rule| rule.figures == figures || rule.figures == Figures::All);
    let restrictions =
        Restrictions::from_rules(rules.map(|rule| (rule, is_seen(&rule.seen), false)));
    assert_ne!(restrictions, Restrictions::default(), "the table has such a rule");
    restrictions
}

fn warned(warning: Warning, figures: Figures) -> Restrictions {
    of_variant(|seen| matches!(seen, Seen::Warning(own) if *own == warning), figures)
}

fn withheld(why: Undecided) -> Restrictions {
    let rules = RULES.iter().filter(|rule| rule.effect == Effect::NoVerdict(why));
    Restrictions::from_rules(rules.map(|rule| (rule, true, false)))
}

/// Checks the documented share of false verdicts of a rule.
fn prevents(
    row: &str,
    restrictions: Restrictions,
    claim: Bound,
    block: impl Fn(&mut Rng) -> Block,
) {
    let (without, with) = false_verdicts(restrictions, claim, block);
    is_documented(row, &format!("false {without} % → {with} %"));
}

fn is_documented(row: &str, figures: &str) {
    let line = REFERENCE.lines().find(|line| line.starts_with(&format!("| {row}")));
    let line = line.unwrap_or_else(|| panic!("no row {row:?}"));
    assert!(line.ends_with(&format!("| {figures} |")), "{figures}: {line}");
}

/// Three rounds in ten are up to twice as slow.
#[test]
fn disturbed_rounds_widen_intervals() {
    let round = |rng: &mut Rng, is_disturbed: bool| {
        let slower = if is_disturbed { 1.0 + rng.f64() } else { 1.0 };
        noisy(slower, ROUNDS, rng)
    };
    let chance = |rng: &mut Rng| rng.u8(..10) < 3;
    let kept = width(|rng| {
        let disturbed = (chance(rng), chance(rng));
        (round(rng, disturbed.0), round(rng, disturbed.1))
    });
    let repeated = width(|rng| (round(rng, false), round(rng, false)));
    is_documented("steal above", &format!("interval ± {kept:.0} % → ± {repeated:.1} %"));
}

/// Both sides of a pair share a disturbance with a spread of 10 %; two pairs in ten share nothing.
#[test]
fn pairs_apart_widen_intervals() {
    let pair = |rng: &mut Rng, is_apart: bool| {
        let shared = noisy(1.0, 0.1, rng);
        let other = if is_apart { noisy(1.0, 0.1, rng) } else { shared };
        (noisy(shared, PAIRS, rng), noisy(other, PAIRS, rng))
    };
    let kept = width(|rng| {
        let is_apart = rng.u8(..10) < 2;
        pair(rng, is_apart)
    });
    let repeated = width(|rng| pair(rng, false));
    is_documented(
        "the loads of a pair overlap",
        &format!("interval ± {kept:.1} % → ± {repeated:.2} %"),
    );
    // A load that is longer than the other's has the machine for itself at the end, here at 5 % less CPU per request.
    let restrictions = withheld(Undecided::Apart);
    prevents("they overlap by less", restrictions, Bound::RatioAtMost(0.99), |rng| {
        (noisy(1.0, PAIRS, rng), noisy(0.95, PAIRS, rng))
    });
}

/// Every second iteration throws before its second request, which costs as much as the first.
#[test]
fn exceptions_make_a_variant_cheaper() {
    let restrictions = warned(Warning::Exceptions, Figures::All);
    prevents("the script throws", restrictions, Bound::RatioAtMost(0.9), |rng| {
        (noisy(1.0, ROUNDS, rng), noisy(0.75, ROUNDS, rng))
    });
}

/// The variant refuses at once the 5 % that would have waited longest.
#[test]
fn refusals_shorten_response_times() {
    let restrictions = withheld(Undecided::BadRequests);
    prevents("fewer than 99 %", restrictions, Bound::RatioAtMost(0.9), |rng| {
        let mut refusing = times(REQUESTS, rng);
        refusing.truncate(REQUESTS * 19 / 20);
        refusing.splice(0..0, [0.01; REQUESTS / 20]);
        (percentile(&times(REQUESTS, rng), 0.95), percentile(&refusing, 0.95))
    });
}

/// The 99th percentile of 20 requests, that is, their maximum, beside that of 200: as between a variant that answered
/// less often and one that answered more often.
#[test]
fn percentiles_of_few_requests_are_others() {
    let restrictions = withheld(Undecided::TooFewRequests);
    prevents("fewer than ten values", restrictions, Bound::RatioAtMost(0.9), |rng| {
        (percentile(&times(REQUESTS, rng), 0.99), percentile(&times(REQUESTS / 10, rng), 0.99))
    });
}

/// The variant could answer twice as often; the generator asks only 1.2 times as often. Or it is as fast, and the
/// generator adds 30 % to its times.
#[test]
fn a_generator_at_its_limit_hides_the_server() {
    let block = |rng: &mut Rng, ratio| (noisy(1.0, ROUNDS, rng), noisy(ratio, ROUNDS, rng));
    let rates = warned(Warning::GeneratorLimited, Figures::Rates);
    let few = false_verdicts(rates, Bound::RatioAtMost(1.5), |rng| block(rng, 1.2));
    let times = warned(Warning::GeneratorLimited, Figures::Times);
    let late = false_verdicts(times, Bound::RatioAtLeast(1.1), |rng| block(rng, 1.3));
    is_documented(
        "the load generator was",
        &format!(
            "goodput: false {} % → {} %; times: false {} % → {} %",
            few.0, few.1, late.0, late.1
        ),
    );
    // The limit cannot fake more responses of the variant.
    let interval = Some((1.15, 1.25));
    let claim = Bound::RatioAtLeast(1.1);
    assert_eq!(rates.apply(Verdict::Supported, claim, interval), Verdict::Supported);
}

/// The variant would take twice as long; the three iterations in ten that would have waited are dropped.
#[test]
fn dropped_iterations_shorten_response_times() {
    let restrictions = warned(Warning::Dropped, Figures::Times);
    prevents("more than 1 % of the iterations", restrictions, Bound::RatioAtMost(1.5), |rng| {
        let slow: Vec<f64> = times(REQUESTS, rng).into_iter().map(|time| 2.0 * time).collect();
        let kept = &slow[..REQUESTS * 7 / 10];
        (percentile(&times(REQUESTS, rng), 0.95), percentile(kept, 0.95))
    });
}

/// Equal things, of which pairs make one 5 % dearer; three rounds alone vary by 2 %.
#[test]
fn interference_within_pairs_is_noticed() {
    let mut rng = Rng::with_seed(2011);
    let (mut without, mut with) = (0, 0);
    for _ in 0..EXPERIMENTS {
        let pairs = blocks(&mut rng, |rng| (noisy(1.0, PAIRS, rng), noisy(1.05, PAIRS, rng)));
        let alone: Vec<Block> =
            (0..3).map(|_| (noisy(1.0, 0.02, &mut rng), noisy(1.0, 0.02, &mut rng))).collect();
        let (paired, alone) = (estimate(&pairs).unwrap(), estimate(&alone).unwrap());
        if Verdict::judge(Bound::RatioAtLeast(1.01), paired.interval) == Verdict::Supported {
            without += 1;
            let distance = (paired.ratio / 1.01).ln();
            with += u32::from(!interferes(interference(&paired, &alone), distance));
        }
    }
    let (without, with) = (percent(without), percent(with));
    is_documented("pairs and rounds alone", &format!("false {without} % → {with} %"));
}
