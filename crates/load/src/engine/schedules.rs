//! Tests of every executor with real scripts on a controlled clock: exact start times by virtual user.

use std::sync::Mutex;

use tokio::time::Instant;

use super::*;
use crate::log::{Log, LogFormat, Messages};
use crate::metrics::{Builtin, Sink};
use crate::options::{Layer, Options};

/// Starts as (milliseconds since the start of the run, virtual user).
type Starts = Vec<(u64, u64)>;

#[derive(Debug, PartialEq)]
struct Ran {
    starts: Starts,
    complete: u64,
    interrupted: u64,
    dropped: u64,
}

/// Runs `body` in all `scenarios`, after logging the start.
fn run(scenarios: &str, body: &str, warm_up: Duration) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script.js");
    let text = format!(
        "import exec from 'k6/execution'; import {{ sleep }} from 'k6';
         export const options = {{ scenarios: {{ {scenarios} }} }};
         export default function () {{
            console.log('start', exec.instance.currentTestRunDuration, __VU, 'end'); {body}
         }}"
    );
    std::fs::write(&path, text).unwrap();
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Log::new(Messages::Keep(lines.clone()), LogFormat::Text);
    let run = Arc::new(Run::new(path, log));
    let exports = inspect(&run).unwrap();
    let layer = Layer::from_script(&exports.options.unwrap()).unwrap();
    run.options.set(Options::resolve(layer).unwrap()).unwrap();
    let measured = on_controlled_clock(&run, warm_up);
    let dropped = match &measured.sinks[Builtin::DroppedIterations as usize] {
        Sink::Counter { sum, .. } => *sum as u64,
        _ => 0,
    };
    let lines = lines.lock().unwrap();
    let start = |line: &String| {
        let mut words = line.split("start ").nth(1)?.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    let mut starts: Starts = lines.iter().filter_map(start).collect();
    // Starts of one moment have no order.
    starts.sort_unstable();
    let complete = run.live.complete.load(Ordering::Relaxed);
    let interrupted = run.live.interrupted.load(Ordering::Relaxed);
    Ran { starts, complete, interrupted, dropped }
}

fn all_of(scenario: &str, body: &str) -> Ran {
    run(&format!("s: {scenario}"), body, Duration::ZERO)
}

/// Runs one event loop whose clock jumps to the next timer whenever the loop is idle.
fn on_controlled_clock(run: &Arc<Run>, warm_up: Duration) -> Measured {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(LocalSet::new().run_until(async {
        let start = Instant::now() + Duration::from_millis(5);
        let _ = run.began.set(start);
        let clock = RunClock { start, start_time: SystemTime::now(), warm_up };
        let (_phase, phase) = watch::channel(Phase::Running(clock));
        let (_stop, stop) = watch::channel(false);
        let (ready, _ready) = mpsc::unbounded_channel();
        let context = LoopContext {
            run: run.clone(),
            warm_up,
            index: 0,
            plan: spread(run, warm_up, 1).remove(0),
            ready,
            phase,
            stop,
            figures: None,
            timer: || Timer::Coarse,
        };
        let event_loop = Rc::new(EventLoop::new(run.clone(), run.settings().client.clone()));
        work::work(context, event_loop).await.unwrap().0
    }))
}

fn exact(scenario: &str, body: &str) -> (Starts, u64) {
    let ran = all_of(scenario, body);
    (ran.starts, ran.dropped)
}

/// Runs a scenario with each grace period and compares the complete and interrupted iterations.
fn assert_grace_decides(
    scenario: &str,
    body: &str,
    (starts, dropped): (&[(u64, u64)], u64),
    cases: &[(&str, u64, u64)],
) {
    for (grace, complete, interrupted) in cases {
        let ran = all_of(&scenario.replace("GRACE", grace), body);
        let (complete, interrupted) = (*complete, *interrupted);
        assert_eq!(ran, Ran { starts: starts.to_vec(), complete, interrupted, dropped }, "{grace}");
    }
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
    // The second comes after half of the first stage, the third at its end; they leave after half and at the end of the
    // second stage, the last one first.
    let first = [0, 400, 800, 1200, 1600].map(|at| (at, 1));
    let second = [500, 900, 1300, 1700].map(|at| (at, 2));
    let mut expected = [&first[..], &second, &[(1000, 3), (1400, 3)]].concat();
    expected.sort_unstable();
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
    // Each is busy for 600 ms: at 500 ms none is free.
    let expected = vec![(0, 1), (250, 2), (750, 1), (1000, 2)];
    assert_eq!(exact(&rate(2), "sleep(0.6)"), (expected, 2));
    // The virtual user created for the dropped start serves the next: it has waited longest.
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
    let ran = run(&format!("s: {scenario}"), "sleep(0.7)", Duration::from_secs(1));
    assert_eq!((ran.starts, ran.dropped), (vec![(0, 1), (1000, 1)], 1));
}

#[test]
fn what_a_graceful_stop_does_not_wait_for_is_interrupted() {
    let scenario = "{ executor: 'constant-vus', vus: 1, duration: '1s', startTime: '2s', gracefulStop: 'GRACE' }";
    // The second begins at 2.7 s and would end at 3.4 s.
    let starts = [(2000, 1), (2700, 1)];
    let cases = [("0s", 1, 1), ("399ms", 1, 1), ("401ms", 2, 0)];
    assert_grace_decides(scenario, "sleep(0.7)", (&starts, 0), &cases);
}

#[test]
fn a_stage_without_length_is_a_jump_and_a_ramp_down_has_a_grace_of_its_own() {
    let scenario =
        "{ executor: 'ramping-vus', startVUs: 0, gracefulRampDown: 'GRACE', gracefulStop: '0s',
           stages: [{ duration: 0, target: 2 }, { duration: '1s', target: 2 },
                    { duration: 0, target: 1 }, { duration: '1s', target: 1 }] }";
    // The one that leaves at one second is in an iteration up to 1.05 s; the last one of the other is interrupted at
    // the end.
    let stays = (0..6).map(|turn| (turn * 350, 1));
    let mut starts: Starts = stays.chain([(0, 2), (350, 2), (700, 2)]).collect();
    starts.sort_unstable();
    let cases = [("60ms", 8, 1), ("40ms", 7, 2)];
    assert_grace_decides(scenario, "sleep(0.35)", (&starts, 0), &cases);
}

#[test]
fn a_virtual_user_that_left_comes_back_under_its_number() {
    let scenario = "{ executor: 'ramping-vus', startVUs: 1, gracefulRampDown: '0s', stages: [
        { duration: 0, target: 2 }, { duration: '500ms', target: 2 }, { duration: 0, target: 1 },
        { duration: '500ms', target: 1 }, { duration: 0, target: 2 }, { duration: '500ms', target: 2 }] }";
    let ran = all_of(scenario, "sleep(0.2)");
    let stays = (0..8).map(|turn| (turn * 200, 1));
    let mut starts: Starts =
        stays.chain([0, 200, 400, 1000, 1200, 1400].map(|at| (at, 2))).collect();
    starts.sort_unstable();
    // The one that begins at 400 ms is interrupted at half a second.
    assert_eq!(ran, Ran { starts, complete: 13, interrupted: 1, dropped: 0 });
}

#[test]
fn own_iterations_end_with_max_duration_and_its_grace() {
    let scenario = "{ executor: 'per-vu-iterations', vus: 1, iterations: 3, maxDuration: '500ms',
        gracefulStop: 'GRACE' }";
    let cases = [("200ms", 1, 1), ("400ms", 2, 0)];
    assert_grace_decides(scenario, "sleep(0.4)", (&[(0, 1), (400, 1)], 1), &cases);
}

#[test]
fn shared_iterations_end_when_the_last_one_is_over_not_when_everybody_had_as_many() {
    let scenario = "{ executor: 'shared-iterations', vus: 3, iterations: 4 }";
    let ran = all_of(scenario, "sleep(__VU === 2 ? 0.1 : 1)");
    let starts = vec![(0, 1), (0, 2), (0, 3), (100, 2)];
    assert_eq!(ran, Ran { starts, complete: 4, interrupted: 0, dropped: 0 });
}

#[test]
fn a_constant_arrival_rate_of_a_minute_starts_on_the_second() {
    let scenario = "{ executor: 'constant-arrival-rate', rate: 150, timeUnit: '1m', duration: '2s',
        startTime: '250ms', preAllocatedVUs: 5 }";
    let (starts, dropped) = exact(scenario, "sleep(1)");
    let times: Vec<u64> = starts.iter().map(|(at, _)| *at).collect();
    assert_eq!((times, dropped), (vec![250, 650, 1050, 1450, 1850], 0));
}

#[test]
fn an_arrival_after_the_schedule_is_none_and_the_last_one_has_its_grace() {
    let scenario =
        "{ executor: 'constant-arrival-rate', rate: 2, duration: '1s', preAllocatedVUs: 2,
        gracefulStop: 'GRACE' }";
    let cases = [("99ms", 1, 1), ("101ms", 2, 0)];
    assert_grace_decides(scenario, "sleep(0.6)", (&[(0, 1), (500, 2)], 0), &cases);
}

#[test]
fn a_ramping_arrival_rate_drops_what_nobody_is_free_for() {
    let scenario = |most: u32| {
        format!(
            "{{ executor: 'ramping-arrival-rate', startRate: 4, preAllocatedVUs: 1, maxVUs: {most},
                stages: [{{ duration: '1s', target: 4 }}] }}"
        )
    };
    // At 250, 500, 750 and 1000 ms; each takes 300 ms.
    assert_eq!(exact(&scenario(1), "sleep(0.3)"), (vec![(250, 1), (750, 1)], 2));
    // The second is created for the dropped start and serves from then on.
    let expected = vec![(250, 1), (750, 2), (1000, 1)];
    assert_eq!(exact(&scenario(2), "sleep(0.3)"), (expected, 1));
}

#[test]
fn scenarios_keep_their_own_time_and_their_own_virtual_users() {
    let scenarios = "
        base: { executor: 'constant-vus', vus: 1, duration: '2s', gracefulStop: '100ms' },
        spike: { executor: 'per-vu-iterations', vus: 2, iterations: 1, startTime: '700ms' },
        flow: { executor: 'constant-arrival-rate', rate: 1, duration: '1s', startTime: '1500ms', preAllocatedVUs: 1 }";
    let ran = run(scenarios, "sleep(0.5)", Duration::ZERO);
    let starts = vec![(0, 1), (500, 1), (700, 2), (700, 3), (1000, 1), (1500, 1), (1500, 4)];
    assert_eq!(ran, Ran { starts, complete: 7, interrupted: 0, dropped: 0 });
}
