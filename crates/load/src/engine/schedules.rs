//! Every executor with real scripts on a controlled clock: when exactly which virtual user starts.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;
use crate::log::{Log, Messages};
use crate::metrics::{Builtin, Sink};
use crate::options::Layer;

/// Starts as (milliseconds since the start of the run, virtual user), in order; and how many
/// iterations were dropped. `body` is what an iteration does beside telling of its start.
fn starts(scenario: &str, body: &str, warm_up: Duration) -> (Vec<(u64, u64)>, u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script.js");
    let text = format!(
        "import exec from 'k6/execution'; import {{ sleep }} from 'k6';
         export const options = {{ scenarios: {{ s: {scenario} }} }};
         export default function () {{
            console.log('start', exec.instance.currentTestRunDuration, __VU, 'end'); {body}
         }}"
    );
    std::fs::write(&path, text).unwrap();
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Log::new(Messages::Keep(lines.clone()));
    let run = Arc::new(Run::new(path, BTreeMap::new(), log));
    let exports = inspect(&run).unwrap();
    let layer = Layer::from_script(&exports.options.unwrap()).unwrap();
    let options = Arc::new(Options::resolve(layer).unwrap());
    let _ = run.options.set(options.clone());
    let measured = on_controlled_clock(&run, &options, warm_up);
    let dropped = match &measured.sinks[Builtin::DroppedIterations as usize] {
        Sink::Counter { sum, .. } => *sum as u64,
        _ => 0,
    };
    let lines = lines.lock().unwrap();
    let start = |line: &String| {
        let mut words = line.split("start ").nth(1)?.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    let mut starts: Vec<(u64, u64)> = lines.iter().filter_map(start).collect();
    // Those of one moment may come in any order.
    starts.sort_unstable();
    (starts, dropped)
}

/// One event loop whose clock jumps to the next timer whenever nothing else is left to do.
fn on_controlled_clock(run: &Arc<Run>, options: &Arc<Options>, warm_up: Duration) -> Measured {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(LocalSet::new().run_until(async {
        let start = Instant::now() + Duration::from_millis(5);
        let _ = run.began.set(start);
        let clock = Clock { start, record_from: start + warm_up };
        let (_phase, phase) = watch::channel(Phase::Running(clock));
        let (_stop, stop) = watch::channel(false);
        let (ready, _ready) = mpsc::unbounded_channel();
        let post = Post {
            run: run.clone(),
            options: options.clone(),
            warm_up,
            index: 0,
            roster: spread(run, options, warm_up, 1).remove(0),
            ready,
            phase,
            stop,
            board: None,
            timer: || Timer::Coarse,
        };
        let event_loop = Rc::new(EventLoop::new(run.clone(), client_config(options)));
        work::work(post, event_loop).await.unwrap().0
    }))
}

fn exact(scenario: &str, body: &str) -> (Vec<(u64, u64)>, u64) {
    starts(scenario, body, Duration::ZERO)
}

#[test]
fn constant_vus_start_again_whenever_they_are_done() {
    let scenario = "{ executor: 'constant-vus', vus: 2, duration: '1s' }";
    let expected = [0, 250, 500, 750].map(|at| [(at, 1), (at, 2)]).concat();
    assert_eq!(exact(scenario, "sleep(0.25)"), (expected, 0));
}

#[test]
fn ramping_vus_come_and_go_one_after_the_other() {
    let scenario = "{ executor: 'ramping-vus', startVUs: 1, stages: [
        { duration: '1s', target: 3 }, { duration: '1s', target: 1 }] }";
    // The second comes after half of the first stage, the third at its end; they leave after half
    // and at the end of the second stage, the last one first.
    let expected = vec![
        (0, 1),
        (400, 1),
        (500, 2),
        (800, 1),
        (900, 2),
        (1000, 3),
        (1200, 1),
        (1300, 2),
        (1400, 3),
    ]
    .into_iter()
    .chain([(1600, 1), (1700, 2)])
    .collect();
    assert_eq!(exact(scenario, "sleep(0.4)"), (expected, 0));
}

#[test]
fn per_vu_iterations_are_the_same_number_for_everybody() {
    let scenario = "{ executor: 'per-vu-iterations', vus: 2, iterations: 3, startTime: '1s' }";
    let expected = vec![(1000, 1), (1000, 2), (1100, 1), (1200, 1), (1300, 2), (1600, 2)];
    assert_eq!(exact(scenario, "sleep(__VU === 1 ? 0.1 : 0.3)"), (expected, 0));
}

#[test]
fn shared_iterations_go_to_whoever_is_free_and_what_time_does_not_allow_is_dropped() {
    let shared = |limit: &str| {
        format!(
            "{{ executor: 'shared-iterations', vus: 2, iterations: 5, maxDuration: '{limit}' }}"
        )
    };
    let body = "sleep(__VU === 1 ? 0.1 : 0.3)";
    let expected = [(0, 1), (0, 2), (100, 1), (200, 1), (300, 2)];
    let (mut all, dropped) = exact(&shared("10s"), body);
    // At 300 ms both are free; one of them takes the last.
    assert_eq!((all.pop().unwrap().0, dropped), (300, 0));
    assert_eq!(all, expected[..4]);
    assert_eq!(exact(&shared("150ms"), body), (expected[..3].to_vec(), 2));
}

#[test]
fn a_constant_arrival_rate_starts_by_the_clock_and_drops_when_nobody_is_free() {
    let rate = |most: u32| {
        format!(
            "{{ executor: 'constant-arrival-rate', rate: 4, duration: '1500ms',
                preAllocatedVUs: 2, maxVUs: {most} }}"
        )
    };
    // Each is busy for 600 ms: at 500 ms nobody is free.
    let expected = vec![(0, 1), (250, 2), (750, 1), (1000, 2)];
    assert_eq!(exact(&rate(2), "sleep(0.6)"), (expected, 2));
    // The one made for the start that was dropped serves the next, having waited longest.
    let expected = vec![(0, 1), (250, 2), (750, 3), (1000, 1), (1250, 2)];
    assert_eq!(exact(&rate(3), "sleep(0.6)"), (expected, 1));
}

#[test]
fn a_ramping_arrival_rate_starts_where_the_area_under_it_is_a_whole_number() {
    let scenario = "{ executor: 'ramping-arrival-rate', startRate: 2, preAllocatedVUs: 1, stages: [
        { duration: '1s', target: 2 }, { duration: 0, target: 4 }, { duration: '1s', target: 4 },
        { duration: '1s', target: 0 }] }";
    // The last stage: 4t − 2t² is 1 and 2 at t = 1 − √½ (rounded up to milliseconds) and 1.
    let expected = [500, 1000, 1250, 1500, 1750, 2000, 2293, 3000].map(|at| (at, 1)).to_vec();
    assert_eq!(exact(scenario, ""), (expected, 0));
}

#[test]
fn a_warm_up_begins_with_the_first_rate_and_drops_count_after_it_only() {
    let scenario =
        "{ executor: 'constant-arrival-rate', rate: 2, duration: '1s', preAllocatedVUs: 1 }";
    let (all, dropped) = starts(scenario, "sleep(0.7)", Duration::from_secs(1));
    assert_eq!((all, dropped), (vec![(0, 1), (1000, 1)], 1));
}
