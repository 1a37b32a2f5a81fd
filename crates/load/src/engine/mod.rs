//! Runs a plan: one thread with an event loop per core, virtual users spread over them.
//!
//! The order of a run: all virtual users run their init code; then the clock starts; while
//! warming up nothing is recorded; at the end the loops hand over what they measured.

mod watcher;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;

use crate::event_loop::EventLoop;
use crate::executor::runner::Worker;
use crate::executor::{self, Budget, Span};
use crate::generator::{self, LoopHealth};
use crate::http::ClientConfig;
use crate::metrics::{Histogram, Measured, Recorder};
use crate::options::{Options, Scenario};
use crate::run::Run;
use crate::script::ScriptError;
use crate::script::coroutine::Coroutine;
use crate::script::life::{Exports, Mailbox, live};
use crate::script::user::{Assignment, User};
use watcher::Watcher;

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
    let config = ClientConfig::default();
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
        tls: post.options.http.tls,
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
    if clock.record_from == clock.start {
        // Without a warm-up nothing may come before the recording, not even an iteration that
        // wakes up in the same moment.
        event_loop.recorder.borrow_mut().start(clock.record_from);
    }
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
