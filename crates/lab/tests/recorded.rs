//! Recorded rounds of equal things, resampled: the chance of a false verdict on a real machine.

use std::collections::BTreeMap;

use madang_lab::{
    metric::Metric,
    resample::{FalseVerdicts, Recorded},
    stats::{self, Estimate},
};

/// Provenance and columns are in its first lines.
const NGINX: &str = include_str!("recorded/nginx-a-a.csv");
const PYTHON: &str = include_str!("recorded/python-a-a.csv");
const FIVE_PERCENT: &str = include_str!("recorded/five-percent.csv");
const EXPERIMENTS: u32 = 1000;
/// At a true 5 %, 1,000 experiments have 50 false verdicts, with a standard deviation of 6.9.
const MOST: u32 = 65;

/// Columns that say which round it was and what disturbed it.
const CIRCUMSTANCES: usize = 6;

/// The columns of figures, by name.
fn columns(text: &'static str) -> BTreeMap<&'static str, Vec<f64>> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.next().unwrap().split(',').skip(CIRCUMSTANCES);
    let mut columns: BTreeMap<&str, Vec<f64>> = names.clone().map(|name| (name, vec![])).collect();
    for line in lines {
        for (name, value) in names.clone().zip(line.split(',').skip(CIRCUMSTANCES)) {
            columns.get_mut(name).unwrap().push(value.parse().unwrap());
        }
    }
    columns
}

/// With one metric predicted, which comes first, and all others beside it.
fn recorded(predicted: &str) -> Recorded {
    let mut columns = columns(NGINX);
    let first = columns.remove(predicted).unwrap();
    let values: Vec<Vec<f64>> = [first].into_iter().chain(columns.into_values()).collect();
    Recorded::new(&values).unwrap()
}

#[test]
fn real_rounds_of_one_thing_are_rarely_told_apart() {
    let recorded = recorded("cpu_per_good_request");
    assert_eq!(recorded.blocks(), 40);
    for blocks in [6, 10, 20] {
        let found = recorded.false_verdicts(blocks, 0.05, EXPERIMENTS, 5).unwrap();
        let FalseVerdicts { predicted, others } = found;
        assert!(predicted <= MOST && others <= MOST, "{blocks} blocks: {found:?}");
        // Chance has its share: a test that never named a difference would pass, too.
        assert!(predicted >= 20, "{blocks} blocks: {found:?}");
    }
}

#[test]
fn whatever_is_predicted_of_them() {
    if !madang_testing::drill!() {
        return;
    }
    for predicted in columns(NGINX).into_keys() {
        let found = recorded(predicted).false_verdicts(10, 0.05, EXPERIMENTS, 5).unwrap();
        assert!(found.predicted <= MOST && found.others <= MOST, "{predicted}: {found:?}");
    }
}

/// The pace of a core is measured, too, and correcting for it must not make verdicts of chance.
#[test]
fn nor_are_they_at_equal_pace() {
    if !madang_testing::drill!() {
        return;
    }
    let mut columns = columns(PYTHON);
    let paces = columns.remove("pace").unwrap();
    for predicted in columns.keys().copied() {
        let others = columns.keys().copied().filter(|name| *name != predicted);
        let names: Vec<&str> = [predicted].into_iter().chain(others).collect();
        let values: Vec<Vec<f64>> = names.iter().map(|name| columns[name].clone()).collect();
        let goes: Vec<bool> =
            names.iter().map(|name| Metric::from_id(name).unwrap().goes_with_pace()).collect();
        assert!(goes.contains(&true) && goes.contains(&false), "{goes:?}");
        let recorded = Recorded::new(&values).unwrap().with_pace(&paces, &goes).unwrap();
        for blocks in [6, 10, 20] {
            let found = recorded.false_verdicts(blocks, 0.05, EXPERIMENTS, 5).unwrap();
            let is_rare = found.predicted <= MOST && found.others <= MOST;
            assert!(is_rare, "{predicted}, {blocks} blocks: {found:?}");
        }
    }
}

/// Of a variant in the blocks up to that one: its ratio as it came, and at equal pace.
fn five_percent(variant: &str, last: u32) -> (Estimate, Option<Estimate>) {
    let mut rounds: BTreeMap<(u32, &str), (f64, f64)> = BTreeMap::new();
    for line in FIVE_PERCENT.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let [block, name, _, pace, cpu] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let values = (cpu.parse().unwrap(), pace.parse().unwrap());
        rounds.insert((block.parse().unwrap(), name), values);
    }
    let pairs = |get: fn(&(f64, f64)) -> f64| {
        let of = |block, name| get(&rounds[&(block, name)]);
        (1..=last).map(|block| (of(block, "plain"), of(block, variant))).collect::<Vec<_>>()
    };
    let (cpu, paces) = (pairs(|round| round.0), pairs(|round| round.1));
    let plain = stats::estimate(&cpu).unwrap();
    let adjusted = stats::adjusted(&plain, &stats::log_ratios(&cpu), &stats::log_ratios(&paces));
    (plain, adjusted)
}

/// Neighbours on the host made the same work cost up to 1.8 times the CPU time, now in one round and now in
/// the other: as the rounds came, they say nothing. At equal pace eight blocks do.
#[test]
fn five_percent_are_seen_in_real_rounds_at_equal_pace() {
    let (plain, adjusted) = five_percent("slower", 8);
    let adjusted = adjusted.unwrap();
    assert!(plain.includes_no_difference() && plain.spread.unwrap() > 0.2, "{plain:?}");
    assert!(!adjusted.includes_no_difference(), "{adjusted:?}");
    let (low, high) = adjusted.interval.unwrap();
    // What its author measured by other means, 1.054, is inside.
    assert!((1.0..=1.055).contains(&low) && (1.054..1.15).contains(&high), "{adjusted:?}");
    assert!(adjusted.spread.unwrap() < 0.05, "{adjusted:?}");
    let (_, same) = five_percent("same", 8);
    assert!(same.unwrap().includes_no_difference(), "{same:?}");
}

/// When the hypervisor takes half of the machine, nothing helps, and nothing is claimed.
#[test]
fn nothing_is_seen_where_half_of_the_machine_was_taken() {
    for variant in ["slower", "same"] {
        let (plain, adjusted) = five_percent(variant, 20);
        for found in [Some(plain), adjusted].into_iter().flatten() {
            assert!(found.includes_no_difference(), "{variant}: {found:?}");
        }
    }
}
