//! Runs a plan: one thread with an event loop per core, virtual users spread over them.
//!
//! The order of a run: all virtual users run their init code; then the clock starts; while
//! warming up nothing is recorded; at the end the loops hand over what they measured.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

use crate::event_loop::EventLoop;
use crate::executor::runner::Worker;
use crate::executor::{self, Budget, Span};
use crate::generator::{self, LoopHealth};
use crate::http::ClientConfig;
use crate::metrics::{Builtin, Histogram, Measured, MetricKind, Recorder, Sink};
use crate::options::{Options, Scenario};
use crate::run::Run;
use crate::script::ScriptError;
use crate::script::coroutine::Coroutine;
use crate::script::life::{Exports, Mailbox, live};
use crate::script::user::{Assignment, User};

/// How often the watching thread looks: for the progress line and a script that gave up.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Between "everybody is ready" and the start, so that all loops see the start before it comes.
const START_DELAY: Duration = Duration::from_millis(5);

/// Exit code after a signal; k6's.
const EXIT_EXTERNAL_ABORT: i32 = 105;

/// What to run.
pub(crate) struct Plan {
    pub(crate) options: Options,
    pub(crate) warm_up: Duration,
    pub(crate) event_loops: usize,
}

/// What came of it.
pub(crate) struct Finished {
    pub(crate) measured: Measured,
    pub(crate) health: LoopHealth,
    /// When recording began.
    pub(crate) started_at: SystemTime,
    pub(crate) ended_at: SystemTime,
    /// From the start of recording to the end of the last iteration.
    pub(crate) duration: Duration,
    /// Processor time of this process in that window.
    pub(crate) cpu: Duration,
    /// Stopped by a signal.
    pub(crate) aborted: bool,
    pub(crate) max_vus: u32,
}

/// Told what happens while it happens.
pub(crate) trait Observer {
    /// A virtual user more is ready.
    fn initialising(&mut self, ready: u64, of: u32);
    /// Some time has passed since the start (warm-up included).
    fn running(&mut self, elapsed: Duration);
}

/// When a run starts, and from when on it counts.
#[derive(Debug, Clone, Copy)]
struct Clock {
    start: Instant,
    record_from: Instant,
}

/// One virtual user before it exists.
struct Seat {
    id: u32,
    scenario: usize,
    spans: Vec<Span>,
    /// Iterations shared with the other virtual users of the scenario.
    pool: Option<Arc<AtomicU64>>,
}

/// What an event loop's thread needs.
struct Post {
    run: Arc<Run>,
    options: Arc<Options>,
    seats: Vec<Seat>,
    ready: mpsc::UnboundedSender<Result<(), ScriptError>>,
    clock: watch::Receiver<Option<Clock>>,
    stop: watch::Receiver<bool>,
}

/// Runs the init code once, without a virtual user, to learn what the script exports.
///
/// # Errors
/// When the init code fails.
pub(crate) fn inspect(run: &Arc<Run>) -> Result<Exports, ScriptError> {
    let config = ClientConfig { user_agent: String::new(), no_connection_reuse: false };
    let runtime = event_loop_runtime()?;
    let event_loop = Rc::new(EventLoop::new(run.clone(), config));
    runtime.block_on(LocalSet::new().run_until(async {
        let user = Rc::new(User::new(0, event_loop));
        let mailbox = Rc::new(Mailbox::default());
        mailbox.close();
        let ready = settle_in(&user, &mailbox)?;
        ready.await.unwrap_or(Err(ScriptError::Interrupted))
    }))
}

/// Runs a plan to its end.
///
/// # Errors
/// When a virtual user cannot be initialised or the script ends the run.
pub(crate) fn execute(
    run: &Arc<Run>,
    plan: &Plan,
    observer: &mut dyn Observer,
) -> Result<Finished, ScriptError> {
    let options = Arc::new(plan.options.clone());
    let loops = plan.event_loops.max(1);
    let (ready_sender, ready) = mpsc::unbounded_channel();
    let (clock, clock_receiver) = watch::channel(None);
    let (stop, stop_receiver) = watch::channel(false);
    let (done_sender, done) = mpsc::unbounded_channel();
    let mut threads = Vec::new();
    for (index, seats) in spread(&options, plan.warm_up, loops).into_iter().enumerate() {
        let post = Post {
            run: run.clone(),
            options: options.clone(),
            seats,
            ready: ready_sender.clone(),
            clock: clock_receiver.clone(),
            stop: stop_receiver.clone(),
        };
        let done = done_sender.clone();
        let thread = thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
            let result = serve(post);
            let _ = done.send(());
            result
        });
        threads.push(thread.map_err(|error| ScriptError::Start(error.to_string()))?);
    }
    drop((ready_sender, done_sender));
    let watcher = Watcher { run, plan, observer, ready, clock, stop, done, loops };
    let runtime = event_loop_runtime()?;
    let watched = runtime.block_on(watcher.watch());
    let mut measured = Measured::default();
    let mut health = LoopHealth::default();
    for thread in threads {
        let (one, its_health) = thread
            .join()
            .map_err(|_| ScriptError::Start("an event loop panicked".to_owned()))??;
        measured.merge(one);
        health.merge(&its_health);
    }
    let watched = watched?;
    if let Some(failure) = run.failure() {
        return Err(failure);
    }
    watched.add_gauges(&mut measured, options.max_vus());
    Ok(Finished {
        measured,
        health,
        started_at: watched.started_at,
        ended_at: SystemTime::now(),
        duration: watched.duration,
        cpu: watched.cpu,
        aborted: watched.aborted,
        max_vus: options.max_vus(),
    })
}

fn event_loop_runtime() -> Result<tokio::runtime::Runtime, ScriptError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ScriptError::Start(error.to_string()))
}

/// Deals the virtual users of all scenarios to the loops, one after the other.
fn spread(options: &Options, warm_up: Duration, loops: usize) -> Vec<Vec<Seat>> {
    let mut seats: Vec<Vec<Seat>> = (0..loops).map(|_| Vec::new()).collect();
    let mut id = 0;
    for (scenario, config) in options.scenarios.iter().enumerate() {
        let pool = Budget::pool(&config.executor);
        for spans in executor::plan(config, warm_up) {
            let pool = pool.clone();
            seats[id as usize % loops].push(Seat { id: id + 1, scenario, spans, pool });
            id += 1;
        }
    }
    seats
}

/// Puts a virtual user's script on its stack and starts its init code.
fn settle_in(
    user: &Rc<User>,
    mailbox: &Rc<Mailbox>,
) -> Result<oneshot::Receiver<Result<Exports, ScriptError>>, ScriptError> {
    let (sender, receiver) = oneshot::channel();
    let (user, mailbox) = (user.clone(), mailbox.clone());
    let coroutine = Coroutine::new(move || live(&user, &mailbox, sender))
        .map_err(|error| ScriptError::Start(error.to_string()))?;
    tokio::task::spawn_local(coroutine);
    Ok(receiver)
}

/// The life of an event loop's thread.
fn serve(post: Post) -> Result<(Measured, LoopHealth), ScriptError> {
    let runtime = event_loop_runtime()?;
    let config = ClientConfig {
        user_agent: post.options.user_agent.clone(),
        no_connection_reuse: post.options.no_connection_reuse,
    };
    let event_loop = Rc::new(EventLoop::new(post.run.clone(), config));
    let local = LocalSet::new();
    let result = runtime.block_on(local.run_until(work(post, event_loop)));
    // Tasks that are left belong to scripts that could not be interrupted; see `Coroutine`.
    drop(local);
    runtime.shutdown_background();
    result
}

async fn work(
    mut post: Post,
    event_loop: Rc<EventLoop>,
) -> Result<(Measured, LoopHealth), ScriptError> {
    let workers = match initialise(&mut post, &event_loop).await {
        Ok(workers) => workers,
        Err(error) => {
            let _ = post.ready.send(Err(error.clone()));
            return Err(error);
        }
    };
    let clock = match post.clock.wait_for(Option::is_some).await.as_deref() {
        Ok(Some(clock)) => *clock,
        // The run was given up before it started.
        _ => return Err(ScriptError::Interrupted),
    };
    // Only now are all metrics of all virtual users defined.
    event_loop.recorder.replace(Recorder::new(&post.run.registry()));
    let mut tasks = Vec::with_capacity(workers.len());
    for worker in workers {
        tasks.push(tokio::task::spawn_local(worker.run(clock.start, post.stop.clone())));
    }
    let watch = Rc::new(RefCell::new(LoopWatch::default()));
    let watching = tokio::task::spawn_local(record(clock, event_loop.clone(), watch.clone()));
    for task in tasks {
        // A panic has been reported by the panic hook; the others go on.
        let _ = task.await;
    }
    watching.abort();
    let health = watch.borrow().health();
    let fresh = Recorder::new(&post.run.registry());
    Ok((event_loop.recorder.replace(fresh).finish(), health))
}

/// Runs the init code of every virtual user of this loop.
async fn initialise(
    post: &mut Post,
    event_loop: &Rc<EventLoop>,
) -> Result<Vec<Worker>, ScriptError> {
    let assignments: Vec<Rc<Assignment>> =
        post.options.scenarios.iter().map(|scenario| assignment(&post.options, scenario)).collect();
    let mut workers = Vec::with_capacity(post.seats.len());
    for seat in std::mem::take(&mut post.seats) {
        let scenario = &post.options.scenarios[seat.scenario];
        let user = Rc::new(User::new(seat.id, event_loop.clone()));
        let mailbox = Rc::new(Mailbox::default());
        let ready = settle_in(&user, &mailbox)?;
        let stopped = async {
            if post.stop.wait_for(|stop| *stop).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            exports = ready => exports.unwrap_or(Err(ScriptError::Interrupted))?,
            () = stopped => return Err(ScriptError::Interrupted),
        };
        post.run.live.initialised.fetch_add(1, Ordering::Relaxed);
        workers.push(Worker {
            user,
            mailbox,
            assignment: assignments[seat.scenario].clone(),
            exec: scenario.exec.clone(),
            environment: scenario.env.clone(),
            spans: seat.spans,
            budget: Budget::new(&scenario.executor, seat.pool.as_ref()),
            busy: Arc::default(),
        });
    }
    let _ = post.ready.send(Ok(()));
    Ok(workers)
}

fn assignment(options: &Options, scenario: &Scenario) -> Rc<Assignment> {
    Rc::new(Assignment {
        scenario: scenario.name.clone(),
        executor: scenario.executor.name(),
        tags: [options.tags.as_slice(), scenario.tags.as_slice()].concat(),
    })
}

/// What a loop notes about itself from the start of recording on.
#[derive(Default)]
struct LoopWatch {
    started: Option<(Instant, Duration)>,
    lag: Histogram,
}

impl LoopWatch {
    fn health(&self) -> LoopHealth {
        let busiest = self.started.map_or(0.0, |(start, cpu)| {
            let used = generator::thread_cpu().saturating_sub(cpu);
            used.as_secs_f64() / start.elapsed().as_secs_f64().max(1e-9)
        });
        LoopHealth { lag: self.lag.clone(), busiest }
    }
}

/// Starts recording when its time has come, and watches the loop from then on.
async fn record(clock: Clock, event_loop: Rc<EventLoop>, watch: Rc<RefCell<LoopWatch>>) {
    tokio::time::sleep_until(clock.record_from.into()).await;
    event_loop.recorder.borrow_mut().start(clock.record_from);
    watch.borrow_mut().started = Some((Instant::now(), generator::thread_cpu()));
    generator::watch_lag(|late| watch.borrow_mut().lag.record(late)).await;
}

/// The thread that called [`execute`]: starts the clock, watches, stops.
struct Watcher<'a> {
    run: &'a Arc<Run>,
    plan: &'a Plan,
    observer: &'a mut dyn Observer,
    ready: mpsc::UnboundedReceiver<Result<(), ScriptError>>,
    clock: watch::Sender<Option<Clock>>,
    stop: watch::Sender<bool>,
    done: mpsc::UnboundedReceiver<()>,
    loops: usize,
}

/// What the watching thread saw.
struct Watched {
    started_at: SystemTime,
    duration: Duration,
    cpu: Duration,
    aborted: bool,
    vus: Sink,
}

impl Watcher<'_> {
    async fn watch(mut self) -> Result<Watched, ScriptError> {
        let mut signals = Signals::new()?;
        if let Err(error) = self.everybody_ready(&mut signals).await {
            self.give_up();
            return Err(error);
        }
        let start = Instant::now() + START_DELAY;
        let record_from = start + self.plan.warm_up;
        let started_at = SystemTime::now() + START_DELAY + self.plan.warm_up;
        let _ = self.clock.send(Some(Clock { start, record_from }));
        let mut watched = Watched {
            started_at,
            duration: Duration::ZERO,
            cpu: Duration::ZERO,
            aborted: false,
            vus: Sink::new(MetricKind::Gauge),
        };
        let mut cpu_before = generator::process_cpu();
        let mut recording = false;
        let mut next_sample = record_from;
        let mut left = self.loops;
        let mut tick = tokio::time::interval(WATCH_INTERVAL);
        while left > 0 {
            tokio::select! {
                _ = self.done.recv() => left -= 1,
                () = signals.received() => {
                    if watched.aborted {
                        std::process::exit(EXIT_EXTERNAL_ABORT);
                    }
                    watched.aborted = true;
                    let _ = self.stop.send(true);
                }
                () = tokio::time::sleep_until(record_from.into()), if !recording => {
                    recording = true;
                    cpu_before = generator::process_cpu();
                }
                _ = tick.tick() => {
                    if self.run.abort.load(Ordering::Relaxed) {
                        let _ = self.stop.send(true);
                    }
                    let now = Instant::now();
                    self.observer.running(now.saturating_duration_since(start));
                    // k6 samples the number of virtual users once per second.
                    if recording && now >= next_sample {
                        next_sample += Duration::from_secs(1);
                        watched.vus.add(self.run.live.active.load(Ordering::Relaxed) as f64);
                    }
                }
            }
        }
        watched.duration = record_from.elapsed();
        watched.cpu = generator::process_cpu().saturating_sub(cpu_before);
        Ok(watched)
    }

    async fn everybody_ready(&mut self, signals: &mut Signals) -> Result<(), ScriptError> {
        let mut left = self.loops;
        let mut tick = tokio::time::interval(WATCH_INTERVAL);
        while left > 0 {
            tokio::select! {
                ready = self.ready.recv() => {
                    ready.unwrap_or(Err(ScriptError::Interrupted))?;
                    left -= 1;
                }
                () = signals.received() => return Err(ScriptError::Interrupted),
                _ = tick.tick() => {
                    let ready = self.run.live.initialised.load(Ordering::Relaxed);
                    self.observer.initialising(ready, self.plan.options.max_vus());
                }
            }
        }
        Ok(())
    }

    /// Ends all loops before the clock was started.
    fn give_up(&self) {
        self.run.abort.store(true, Ordering::Relaxed);
        let _ = self.stop.send(true);
    }
}

impl Watched {
    fn add_gauges(&self, measured: &mut Measured, max_vus: u32) {
        measured.sinks[Builtin::Vus as usize].merge(&self.vus);
        measured.sinks[Builtin::VusMax as usize].add(f64::from(max_vus));
    }
}

/// SIGINT and SIGTERM.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, ScriptError> {
        let listen = |kind| signal(kind).map_err(|error| ScriptError::Start(error.to_string()));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Layer;

    #[test]
    fn virtual_users_are_dealt_evenly_with_ids_from_one() {
        let layer =
            Layer { vus: Some(5), duration: Some(Duration::from_secs(1)), ..Layer::default() };
        let options = Options::resolve(layer).unwrap();
        let seats = spread(&options, Duration::ZERO, 2);
        let ids: Vec<Vec<u32>> =
            seats.iter().map(|seats| seats.iter().map(|seat| seat.id).collect()).collect();
        assert_eq!(ids, [vec![1, 3, 5], vec![2, 4]]);
    }
}
