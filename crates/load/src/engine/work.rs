//! Work of one event loop.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{LoopContext, LoopResult, Phase, init};
use crate::event_loop::EventLoop;
use crate::executor;
use crate::executor::local_pool::{LocalPool, Times, UserHandle};
use crate::executor::runner::{Worker, wait_for_stop};
use crate::generator::{self, LoopHealth, Spent};
use crate::metrics::Histogram;
use crate::options::{ExecutorConfig, Scenario};
use crate::panics::within;
use crate::run::{Run, RunClock};
use crate::script::ScriptError;
use crate::script::mailbox::{Mailbox, Task};
use crate::script::user::{Assignment, User};

const FIGURES_INTERVAL: Duration = Duration::from_millis(500);

struct LoopUsers {
    workers: Vec<Worker>,
    /// In the order of the plan's pools.
    pools: Vec<Rc<LocalPool>>,
}

/// Runs an event loop from the init code of its virtual users to its measurements.
pub(super) async fn work(mut context: LoopContext, event_loop: Rc<EventLoop>) -> LoopResult {
    let users = match initialise(&mut context, &event_loop).await {
        Ok(users) => users,
        Err(error) => {
            let _ = context.ready.send(Err(error.clone()));
            return Err(error);
        }
    };
    let _ = context.ready.send(Ok(()));
    let clock = await_start(&mut context, &users).await?;
    // Now the metrics of all virtual users are defined.
    let mut recorder = context.run.recorder();
    recorder.emit_to(context.run.samples.get());
    event_loop.recorder.replace(recorder);
    if clock.warm_up.is_zero() {
        // The recording must begin before an iteration that starts at the same moment.
        event_loop.recorder.borrow_mut().start(clock.start.into_std());
    }
    let watch = Rc::new(RefCell::new(LoopWatch::default()));
    let watching = tokio::task::spawn_local(record(clock, event_loop.clone(), watch.clone()));
    let showing = [share_figures(&context, &event_loop), show_recent(&context, &event_loop)];
    run_all(&mut context, users, clock).await;
    watching.abort();
    showing.into_iter().flatten().for_each(|task| task.abort());
    let mut health = watch.borrow().health();
    let fresh = context.run.recorder();
    let measured = event_loop.recorder.replace(fresh).finish();
    for scenario in &measured.scenarios {
        health.start_lag.merge(&scenario.start_lag);
    }
    Ok((measured, health))
}

/// Waits for the end of `setup()`, passes its data to all virtual users, and waits for the start.
async fn await_start(
    context: &mut LoopContext,
    users: &LoopUsers,
) -> Result<RunClock, ScriptError> {
    // An error means that the run ended before it started.
    let prepared = context.phase.wait_for(|phase| !matches!(phase, Phase::Initialising)).await;
    prepared.map_err(|_| ScriptError::Interrupted)?;
    if context.run.setup_data.get().is_some() {
        let workers = users.workers.iter().map(|worker| worker.mailbox.clone());
        let pooled = users.pools.iter().flat_map(|pool| pool.mailboxes());
        for mailbox in workers.chain(pooled) {
            prepare(&mailbox).await;
        }
    }
    let _ = context.ready.send(Ok(()));
    let phase = context.phase.wait_for(|phase| matches!(phase, Phase::Running(_))).await;
    match phase.as_deref() {
        Ok(Phase::Running(clock)) => Ok(*clock),
        _ => Err(ScriptError::Interrupted),
    }
}

async fn prepare(mailbox: &Mailbox) {
    let (sender, ready) = oneshot::channel();
    mailbox.put(Task::Prepare(sender));
    let _ = ready.await;
}

async fn run_all(context: &mut LoopContext, users: LoopUsers, clock: RunClock) {
    let mut tasks = Vec::with_capacity(users.workers.len() + users.pools.len());
    for worker in users.workers {
        let assignment = worker.assignment.clone();
        tasks.push(spawn(assignment, worker.run(clock.start, context.stop.clone())));
    }
    let parts = std::mem::take(&mut context.plan.pools);
    for (pool, part) in users.pools.into_iter().zip(parts) {
        let scenario = &context.run.settings().scenarios[part.scenario];
        let parts = part.shared.parts() as u64;
        let arrivals = executor::arrivals(scenario, context.warm_up, part.part as u64, parts);
        let times = (clock.start, times(scenario, context.warm_up), (context.timer)());
        let assignment = pool.assignment.clone();
        let run = pool.run(times, arrivals, part.orders, context.stop.clone());
        tasks.push(spawn(assignment, run));
    }
    for task in tasks {
        // A task that has panicked has stopped the run.
        let _ = task.await;
    }
}

fn spawn(assignment: Rc<Assignment>, task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    tokio::task::spawn_local(within(assignment, task))
}

fn times(scenario: &Scenario, warm_up: Duration) -> Times {
    let offset = scenario.start_time + warm_up;
    let begin = if scenario.start_time.is_zero() { Duration::ZERO } else { offset };
    let end = offset + scenario.executor.duration();
    // As in k6, so that rates of a scenario with few iterations cover its whole duration.
    let earliest_end = match scenario.executor {
        ExecutorConfig::ConstantArrivalRate { .. } => end,
        _ => begin,
    };
    Times { begin, end, limit: end + scenario.graceful_stop, earliest_end }
}

async fn initialise(
    context: &mut LoopContext,
    event_loop: &Rc<EventLoop>,
) -> Result<LoopUsers, ScriptError> {
    let options = context.run.settings();
    let assignment = |(index, scenario): (usize, &Scenario)| {
        Rc::new(Assignment {
            index,
            scenario: scenario.name.clone(),
            executor: scenario.executor.name(),
            tags: [options.tags.as_slice(), scenario.tags.as_slice()].concat(),
            metadata: Vec::new(),
            iterations: context.run.iterations_of(index),
        })
    };
    let assignments: Vec<_> = options.scenarios.iter().enumerate().map(assignment).collect();
    let mut users =
        LoopUsers { workers: Vec::with_capacity(context.plan.users.len()), pools: Vec::new() };
    for part in &context.plan.pools {
        users.pools.push(Rc::new(LocalPool {
            shared: part.shared.clone(),
            part: part.part,
            event_loop: event_loop.clone(),
            assignment: assignments[part.scenario].clone(),
            free: RefCell::default(),
            closed: false.into(),
            members: RefCell::default(),
        }));
    }
    for planned in std::mem::take(&mut context.plan.users) {
        let UserHandle { user, mailbox } = tokio::select! {
            created = create_user(event_loop, planned.id) => created?,
            () = wait_for_stop(context.stop.clone()) => return Err(ScriptError::Interrupted),
        };
        let pool = context.plan.pools.iter().position(|part| part.scenario == planned.scenario);
        if let Some(pool) = pool {
            users.pools[pool].join(UserHandle { user, mailbox });
            continue;
        }
        users.workers.push(Worker {
            user,
            mailbox,
            assignment: assignments[planned.scenario].clone(),
            spans: planned.spans,
            budget: planned.budget,
            busy: Arc::default(),
        });
    }
    Ok(users)
}

async fn create_user(event_loop: &Rc<EventLoop>, id: u32) -> Result<UserHandle, ScriptError> {
    let user = Rc::new(User::new(id, event_loop.clone()));
    let mailbox = Rc::new(Mailbox::default());
    init(&user, &mailbox).await?;
    event_loop.run.live.initialised.fetch_add(1, Ordering::Relaxed);
    Ok(UserHandle { user, mailbox })
}

pub(crate) async fn spawn_user(event_loop: &Rc<EventLoop>) -> Result<UserHandle, ScriptError> {
    let run: &Run = &event_loop.run;
    let handle = create_user(event_loop, run.next_vu_id()).await?;
    event_loop.recorder.borrow_mut().learn(&run.registry());
    if run.setup_data.get().is_some() {
        prepare(&handle.mailbox).await;
    }
    Ok(handle)
}

/// A loop's measurements of itself while recording.
#[derive(Default)]
struct LoopWatch {
    /// Start of recording, and the thread's counters then.
    started: Option<(Instant, Spent)>,
    lag: Histogram,
}

impl LoopWatch {
    fn health(&self) -> LoopHealth {
        let (lag, start_lag) = (self.lag.clone(), Histogram::default());
        let Some((start, then)) = &self.started else { return LoopHealth::default() };
        let watched = start.elapsed();
        let (busiest, wanting) = Spent::now().shares(then, watched);
        LoopHealth { lag, start_lag, busiest, wanting, watched }
    }
}

/// Starts the recording at its time, and watches the loop from then on.
async fn record(clock: RunClock, event_loop: Rc<EventLoop>, watch: Rc<RefCell<LoopWatch>>) {
    tokio::time::sleep_until(clock.record_from()).await;
    event_loop.recorder.borrow_mut().start(clock.record_from().into_std());
    watch.borrow_mut().started = Some((Instant::now(), Spent::now()));
    generator::watch_lag(|late| watch.borrow_mut().lag.record(late)).await;
}

fn share_figures(context: &LoopContext, event_loop: &Rc<EventLoop>) -> Option<JoinHandle<()>> {
    let (figures, event_loop, index) =
        (context.figures.clone()?, event_loop.clone(), context.index);
    Some(every_interval(move || {
        let sinks = event_loop.recorder.borrow().snapshot(&figures.metrics);
        figures.share(index, sinks);
    }))
}

fn show_recent(context: &LoopContext, event_loop: &Rc<EventLoop>) -> Option<JoinHandle<()>> {
    let (run, event_loop) = (context.run.clone(), event_loop.clone());
    run.live.is_watched.load(Ordering::Relaxed).then(|| {
        every_interval(move || {
            if let Some(recent) = event_loop.recorder.borrow_mut().recent.as_deref_mut() {
                run.live.recent.lock().merge(&std::mem::take(recent));
            }
        })
    })
}

fn every_interval(show: impl Fn() + 'static) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        let mut tick = tokio::time::interval(FIGURES_INTERVAL);
        loop {
            tick.tick().await;
            show();
        }
    })
}
