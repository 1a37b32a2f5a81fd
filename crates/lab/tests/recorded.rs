//! Recorded rounds of equal things, resampled: the chance of a false verdict on a real machine.

use std::collections::BTreeMap;

use crate::resample::{FalseVerdicts, Recorded};

/// Provenance and columns are in its first lines.
const NGINX: &str = include_str!("recorded/nginx-a-a.csv");
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
    for blocks in [6, 10, 20] {
        let found = recorded.false_verdicts(blocks, EXPERIMENTS, 5).unwrap();
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
        let found = recorded(predicted).false_verdicts(10, EXPERIMENTS, 5).unwrap();
        assert!(found.predicted <= MOST && found.others <= MOST, "{predicted}: {found:?}");
    }
}
