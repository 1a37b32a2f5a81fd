//! False positive rate of this machine: draws synthetic experiments from the rounds of a stored run's reference (with
//! `--a-a`, of both), and judges each like a report. A run with pairs is judged by its pairs, and by CPU and memory
//! only.
//!
//! `cargo run -p madang-lab --example resample -- RUN_DIR [--csv]`
//!
//! `--csv` prints the rounds instead, in the format of `tests/recorded/`.

#[path = "../tests/resample.rs"]
mod recorded;

use std::path::Path;
use std::process::ExitCode;

use madang_lab::metric::Metric;
use madang_lab::{Measured, RoundRecord, Stored};
use recorded::Recorded;

const EXPERIMENTS: u32 = 2000;
const SEED: u64 = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [dir] => read(dir).and_then(|rounds| resample(&rounds)),
        [dir, "--csv"] => read(dir).map(|rounds| print_rounds(&rounds)),
        _ => Err("usage: resample RUN_DIR [--csv]".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("resample: {why}");
            ExitCode::FAILURE
        }
    }
}

/// A counted round and its measurement.
type Round = (RoundRecord, Measured);

/// Counted rounds of the reference and its copy, in order of time.
fn read(dir: &str) -> Result<Vec<Round>, String> {
    let stored = Stored::read(Path::new(dir)).map_err(|error| error.to_string())?;
    let reference = &stored.plan.reference;
    let is_same = |name: &str| name == reference || stored.plan.calibration;
    let rounds = stored.report().rounds.into_iter();
    let has_pairs = stored.plan.settings.design.has_pairs();
    let is_used = |round: &RoundRecord| round.counted && round.beside.is_some() == has_pairs;
    let rounds = rounds.filter(|round| is_used(round) && is_same(&round.variant));
    let measured = rounds.filter_map(|round| Some((round.clone(), round.measured()?.clone())));
    Ok(measured.collect())
}

/// Every metric that all rounds have.
fn metrics(rounds: &[Round]) -> Vec<(Metric, Vec<f64>)> {
    let values = |metric: Metric| {
        let values: Result<Vec<f64>, _> =
            rounds.iter().map(|(_, measured)| metric.value_for_ratio(measured)).collect();
        Some((metric, values.ok()?))
    };
    let is_paired = rounds.iter().any(|(round, _)| round.beside.is_some());
    Metric::ALL
        .into_iter()
        .filter(|metric| !is_paired || metric.is_cost())
        .filter_map(values)
        .collect()
}

/// Judges each metric in turn as the predicted one.
fn resample(rounds: &[Round]) -> Result<(), String> {
    let metrics = metrics(rounds);
    let most = rounds.len() / 2;
    let sizes: Vec<usize> = [6, 10, 20].into_iter().filter(|size| *size <= most).collect();
    if sizes.is_empty() {
        return Err(format!("{} rounds that count are too few: 12 are needed", rounds.len()));
    }
    println!("{EXPERIMENTS} experiments from {} rounds that count", rounds.len());
    println!("| predicted | blocks | told apart by it | by any other |\n|---|---|---|---|");
    for (place, (metric, _)) in metrics.iter().enumerate() {
        let mut values: Vec<Vec<f64>> = metrics.iter().map(|(_, values)| values.clone()).collect();
        values.swap(0, place);
        let recorded = Recorded::new(&values).ok_or("a value is not positive")?;
        for blocks in &sizes {
            let found = recorded.false_verdicts(*blocks, EXPERIMENTS, SEED);
            let found = found.ok_or("too few blocks")?;
            let (id, told, others) = (metric.id(), found.predicted, found.others);
            println!("| {id} | {blocks} | {told} | {others} |");
        }
    }
    Ok(())
}

fn print_rounds(rounds: &[Round]) {
    let metrics = metrics(rounds);
    let names: Vec<_> = metrics.iter().map(|(metric, _)| metric.id()).collect();
    println!("block,position,variant,started,steal_share,foreign_cores,pace,{}", names.join(","));
    for (place, (record, measured)) in rounds.iter().enumerate() {
        let RoundRecord { block, position, variant, started, .. } = record;
        let machine = measured.machine.as_ref();
        let steal = machine.map(|machine| machine.steal_share);
        let foreign = machine.and_then(|machine| machine.foreign_cores);
        let known = [steal, foreign, measured.pace()];
        let [steal, foreign, pace] = known.map(|value| value.map_or(String::new(), digits));
        let values: Vec<String> = metrics.iter().map(|(_, values)| digits(values[place])).collect();
        let values = values.join(",");
        println!("{block},{position},{variant},{started},{steal},{foreign},{pace},{values}");
    }
}

/// Six significant digits, beyond the precision of the values.
fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let places = (5.0 - value.abs().log10().floor()).max(0.0);
    format!("{value:.*}", places as usize)
}
