//! Runs a plan: one thread with an event loop per core, with the virtual users spread over them.
//!
//! All virtual users run their init code, then the clock starts. Nothing is recorded during the warm-up. At the end the
//! measurements of the loops are merged.

mod lifecycle;
#[cfg(test)]
mod schedules;
mod thresholds;
mod watcher;
mod work;

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

use crate::command::Config;
use crate::event_loop::EventLoop;
use crate::executor::{self, ArrivalPool, Budget, Order, Span, Timer};
use crate::generator::{self, LoopHealth};
use crate::http::ClientConfig;
use crate::metrics::{Builtin, Measured, Sink};
use crate::options::ExecutorConfig;
use crate::panics::Watch;
use crate::progress::Progress;
use crate::run::{Run, RunClock, Stop};
use crate::script::ScriptError;
use crate::script::coroutine::Coroutine;
use crate::script::life::{Exports, live};
use crate::script::mailbox::{Mailbox, Returned, Served};
use crate::script::user::User;
use lifecycle::Function;
use thresholds::LiveFigures;
pub(crate) use thresholds::{Guarded, judge};
use watcher::Watcher;
pub(crate) use work::spawn_user;

/// Wake-ups between two polls of sockets and timers. With Tokio's 61 a busy loop would be half a millisecond late.
const EVENT_INTERVAL: u32 = 16;

/// Place of a panic outside of the tasks of virtual users and scenarios.
const AN_EVENT_LOOP: &str = "an event loop";

/// A checked script with its options.
pub(crate) struct Plan<'c> {
    pub(crate) config: &'c Config,
    pub(crate) event_loops: usize,
    pub(crate) functions: Vec<String>,
    pub(crate) guarded: Vec<Guarded>,
}

impl Plan<'_> {
    pub(crate) fn has(&self, function: &str) -> bool {
        self.functions.iter().any(|name| name == function)
    }
}

pub(crate) struct Finished {
    pub(crate) measured: Measured,
    pub(crate) health: LoopHealth,
    pub(crate) started_at: SystemTime,
    pub(crate) ended_at: SystemTime,
    /// From the start of recording to the end of the last iteration.
    pub(crate) duration: Duration,
    /// CPU time of this process in that window.
    pub(crate) cpu: Duration,
    pub(crate) aborted: bool,
    /// Stopped by the script or a threshold.
    pub(crate) stopped: Option<Stop>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) max_vus: u32,
    /// Samples of `vus` and `vus_max`, once per second.
    vus: [Sink; 2],
}

#[derive(Default)]
pub(crate) struct Lifecycle {
    pub(crate) setup: Measured,
    pub(crate) setup_took: Duration,
    pub(crate) teardown: Measured,
    pub(crate) teardown_took: Duration,
    /// Error of `setup()`, after which nothing else runs.
    pub(crate) setup_error: Option<ScriptError>,
    pub(crate) teardown_error: Option<ScriptError>,
}

impl Finished {
    /// Measurements of life-cycle and scenarios, as k6 counts.
    pub(crate) fn everything(&self) -> Measured {
        let mut all = self.lifecycle.setup.clone();
        all.merge(self.measured.clone());
        all.merge(self.lifecycle.teardown.clone());
        all
    }

    pub(crate) fn total_duration(&self) -> Duration {
        self.lifecycle.setup_took + self.duration + self.lifecycle.teardown_took
    }
}

/// Phase of a run, for its event loops.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Virtual users run their init code.
    Initialising,
    /// `setup()` has returned; virtual users parse its data.
    Preparing,
    Running(RunClock),
}

struct PlannedUser {
    id: u32,
    scenario: usize,
    spans: Vec<Span>,
    budget: Budget,
}

/// An event loop's part of a scenario with an open model.
struct PoolPart {
    scenario: usize,
    shared: Arc<ArrivalPool>,
    part: usize,
    orders: mpsc::UnboundedReceiver<Order>,
}

#[derive(Default)]
struct LoopPlan {
    users: Vec<PlannedUser>,
    pools: Vec<PoolPart>,
}

struct LoopContext {
    run: Arc<Run>,
    warm_up: Duration,
    index: usize,
    plan: LoopPlan,
    ready: mpsc::UnboundedSender<Result<(), ScriptError>>,
    phase: watch::Receiver<Phase>,
    stop: watch::Receiver<bool>,
    /// `None` without thresholds that may end the run.
    figures: Option<Arc<LiveFigures>>,
    timer: fn() -> Timer,
}

type LoopResult = Result<(Measured, LoopHealth), ScriptError>;

/// Runs the init code once, without a virtual user, and returns the script's exports.
pub(crate) fn inspect(run: &Arc<Run>) -> Result<Exports, ScriptError> {
    let config = ClientConfig::default();
    let _watch = Watch::new(run, "the init code");
    let runtime = event_loop_runtime(run)?;
    let event_loop = Rc::new(EventLoop::new(run.clone(), config));
    runtime.block_on(LocalSet::new().run_until(async {
        let user = Rc::new(User::new(0, event_loop));
        let mailbox = Rc::new(Mailbox::default());
        mailbox.close();
        let mut signals = run.signals.clone();
        interrupt_on(signals.next(), &user, init(&user, &mailbox)).await
    }))
}

pub(crate) fn execute(
    run: &Arc<Run>,
    plan: &Plan<'_>,
    progress: &mut Progress,
) -> Result<Finished, ScriptError> {
    let _watch = Watch::new(run, "the thread that watches the run");
    let loops = plan.event_loops.max(1);
    let (ready_sender, ready) = mpsc::unbounded_channel();
    let (phase, phase_receiver) = watch::channel(Phase::Initialising);
    let (stop, stop_receiver) = watch::channel(false);
    let (done_sender, done) = mpsc::unbounded_channel();
    let figures = LiveFigures::new(&plan.guarded, loops);
    let mut threads = Vec::new();
    let plans = spread(run, plan.config.warm_up, loops);
    for (index, loop_plan) in plans.into_iter().enumerate() {
        let context = LoopContext {
            run: run.clone(),
            warm_up: plan.config.warm_up,
            index,
            plan: loop_plan,
            ready: ready_sender.clone(),
            phase: phase_receiver.clone(),
            stop: stop_receiver.clone(),
            figures: figures.clone(),
            timer: Timer::precise,
        };
        let done = done_sender.clone();
        let thread = thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
            let result = serve(context);
            let _ = done.send(());
            result
        });
        threads.push(thread.map_err(|error| ScriptError::Start(error.to_string()))?);
    }
    drop((ready_sender, done_sender));
    let signals = run.signals.clone();
    let watcher =
        Watcher { run, plan, progress, signals, ready, phase, stop, done, loops, figures };
    let runtime = event_loop_runtime(run)?;
    let finished = runtime.block_on(LocalSet::new().run_until(watcher.watch()));
    let results = threads.into_iter().map(thread::JoinHandle::join).collect();
    // An error of the watcher takes precedence over those of the loops.
    finish(run, finished?, results)
}

/// Adds the measurements of the event loops to the results of the watcher.
fn finish(
    run: &Run,
    finished: Finished,
    loops: Vec<thread::Result<LoopResult>>,
) -> Result<Finished, ScriptError> {
    let mut measured = Measured::default();
    let mut health = LoopHealth::default();
    let began = finished.lifecycle.setup_error.is_none();
    if !began {
        // The loops have ended; `handleSummary()` must still run.
        run.abort.store(false, Ordering::Relaxed);
    }
    for result in loops.into_iter().filter(|_| began) {
        let (one, its_health) =
            result.map_err(|_| ScriptError::Panic(AN_EVENT_LOOP.to_owned()))??;
        measured.merge(one);
        health.merge(&its_health.over(finished.duration));
    }
    if let Some(failure) = run.failure() {
        return Err(failure);
    }
    let max_vus = u32::try_from(run.live.initialised.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
    if began {
        let [vus, vus_max] = &finished.vus;
        measured.sinks[Builtin::Vus as usize].merge(vus);
        let all = &mut measured.sinks[Builtin::VusMax as usize];
        all.merge(vus_max);
        all.add(f64::from(max_vus));
    }
    Ok(Finished { measured, health, stopped: run.stop_requested(), max_vus, ..finished })
}

pub(crate) fn handle_summary(run: &Arc<Run>, data: Arc<str>) -> Result<Returned, ScriptError> {
    let timeout = run.settings().handle_summary_timeout;
    let function = Function { name: "handleSummary", argument: Some(data), timeout };
    let _watch = Watch::new(run, "handleSummary()");
    let (stopping, stop) = watch::channel(false);
    let mut signals = run.signals.later();
    let call = async {
        let mut call = pin!(lifecycle::call(run, function, stop));
        tokio::select! {
            result = &mut call => return result,
            () = signals.next() => {}
        }
        let _ = stopping.send(true);
        call.await
    };
    let (returned, _) = event_loop_runtime(run)?.block_on(LocalSet::new().run_until(call));
    returned
}

fn event_loop_runtime(run: &Arc<Run>) -> Result<tokio::runtime::Runtime, ScriptError> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let run = run.clone();
    // Threads of look-ups and encryption.
    runtime.on_thread_start(move || std::mem::forget(Watch::new(&run, "a helper thread")));
    generator::watch_rest(runtime.enable_all().event_interval(EVENT_INTERVAL))
        .build()
        .map_err(|error| ScriptError::Start(error.to_string()))
}

/// Distributes the virtual users of all scenarios over the loops in turn.
fn spread(run: &Run, warm_up: Duration, loops: usize) -> Vec<LoopPlan> {
    let mut plans: Vec<LoopPlan> = (0..loops).map(|_| LoopPlan::default()).collect();
    let mut dealt = 0;
    for (scenario, config) in run.settings().scenarios.iter().enumerate() {
        let shared = Budget::new(&config.executor);
        let mut parts = loops;
        if let Some(open) = config.executor.open() {
            let (pool, receivers) = ArrivalPool::new(open, loops);
            parts = pool.parts();
            for (part, orders) in receivers.into_iter().enumerate() {
                let shared = pool.clone();
                plans[part].pools.push(PoolPart { scenario, shared, part, orders });
            }
            dealt = 0;
        }
        for spans in executor::plan(config, warm_up) {
            let id = run.next_vu_id();
            let budget = match config.executor {
                ExecutorConfig::PerVuIterations { .. } => Budget::new(&config.executor),
                _ => shared.clone(),
            };
            plans[dealt % parts].users.push(PlannedUser { id, scenario, spans, budget });
            dealt += 1;
        }
    }
    plans
}

/// Starts a virtual user's script on its own stack and waits for its init code.
async fn init(user: &Rc<User>, mailbox: &Rc<Mailbox>) -> Result<Exports, ScriptError> {
    let requests = user.run.stop_requests();
    let (sender, receiver) = oneshot::channel();
    let (living, served) = (user.clone(), Served(mailbox.clone()));
    let coroutine = Coroutine::new(move || live(&living, &served.0, sender))
        .map_err(|error| ScriptError::Start(error.to_string()))?;
    user.spawn(coroutine);
    let mut settled = pin!(async {
        // Without a reply it has panicked.
        let stopped = |_| Err(user.run.stopped_early().unwrap_or(ScriptError::Interrupted));
        let settled = receiver.await.unwrap_or_else(stopped);
        // The script may have caught a panic. An earlier one, as in a scenario, does not prevent `teardown()`.
        let panicked = requests.has_changed().unwrap_or(false).then(|| user.run.panicked());
        panicked.flatten().map_or(settled, Err)
    });
    tokio::select! {
        settled = &mut settled => return settled,
        () = tokio::time::sleep(user.run.init_timeout) => user.control.interrupt_overdue(),
    }
    settled.await
}

/// Waits for a virtual user's init code and interrupts it when `stop` is ready.
async fn interrupt_on(
    stop: impl Future<Output = ()>,
    user: &User,
    initialising: impl Future<Output = Result<Exports, ScriptError>>,
) -> Result<Exports, ScriptError> {
    let mut initialising = pin!(initialising);
    tokio::select! {
        settled = &mut initialising => return settled,
        () = stop => user.control.interrupt(),
    }
    initialising.await
}

fn serve(context: LoopContext) -> LoopResult {
    let _watch = Watch::new(&context.run, AN_EVENT_LOOP);
    let runtime = event_loop_runtime(&context.run)?;
    let event_loop =
        Rc::new(EventLoop::new(context.run.clone(), context.run.settings().client.clone()));
    let local = LocalSet::new();
    let result = runtime.block_on(local.run_until(work::work(context, event_loop)));
    // Remaining tasks belong to scripts that could not be interrupted; see `Coroutine`.
    drop(local);
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;
    use crate::options::{Layer, Options};

    #[test]
    fn virtual_users_are_dealt_evenly_with_ids_from_one() {
        let layer =
            Layer { vus: Some(5), duration: Some(Duration::from_secs(1)), ..Layer::default() };
        let run = Run::new("s.js".into(), Log::default());
        run.options.set(Options::resolve(layer).unwrap()).unwrap();
        let plans = spread(&run, Duration::ZERO, 2);
        let ids: Vec<Vec<u32>> =
            plans.iter().map(|plan| plan.users.iter().map(|user| user.id).collect()).collect();
        assert_eq!(ids, [vec![1, 3, 5], vec![2, 4]]);
    }

    #[test]
    fn a_panic_in_a_task_of_a_function_of_the_life_cycle_ends_that_function() {
        let script = tempfile::NamedTempFile::with_suffix(".js").unwrap();
        let text = "import { sleep } from 'k6'; export function setup() { sleep(600); }";
        std::fs::write(script.path(), text).unwrap();
        let run = Run::new(script.path().to_owned(), Log::default());
        let run = Arc::new(run);
        let _watch = Watch::new(&run, "a test");
        let timeout = Duration::from_secs(600);
        let function = Function { name: "setup", argument: None, timeout };
        let (_stopping, stop) = watch::channel(false);
        let call = async {
            tokio::task::spawn_local(async { panic!("a bug") });
            lifecycle::call(&run, function, stop).await.0
        };
        let runtime = event_loop_runtime(&run).unwrap();
        let result = runtime.block_on(LocalSet::new().run_until(call));
        assert_eq!(result, Err(ScriptError::Panic("a test".to_owned())));
    }

    #[test]
    fn the_error_of_endless_init_code_names_the_place() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script.js");
        for (endless, place) in [
            ("const spin = () => { while (true) {} }; spin();", "at spin (file://"),
            ("await new Promise((done) => setTimeout(done, 1e9));", ""),
        ] {
            std::fs::write(&script, endless).unwrap();
            let mut run = Run::new(script.clone(), Log::default());
            run.init_timeout = Duration::from_millis(100);
            let error = inspect(&Arc::new(run)).unwrap_err().to_string();
            assert!(error.contains("the init code did not end in time"), "{error}");
            assert!(error.contains(place), "{error}");
        }
    }
}
