//! What happens on the thread of one event loop.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{Clock, LoopContext, Phase, assignment, init};
use crate::event_loop::EventLoop;
use crate::executor;
use crate::executor::local_pool::{LocalPool, SpawnUser, Times, UserHandle};
use crate::executor::runner::{Worker, wait_for_stop};
use crate::generator::{self, LoopHealth, Spent};
use crate::metrics::{Histogram, Measured};
use crate::options::{ExecutorConfig, Scenario};
use crate::panics::within;
use crate::run::Run;
use crate::script::ScriptError;
use crate::script::mailbox::{Mailbox, Task};
use crate::script::user::{Assignment, User};

/// How often a loop shares its figures with thresholds that may end the run.
const FIGURES_INTERVAL: Duration = Duration::from_millis(500);

/// The virtual users of this loop.
struct LoopUsers {
    workers: Vec<Worker>,
    /// In the order of the plan's pools.
    pools: Vec<Rc<LocalPool>>,
}

/// The work of one event loop, from the init code of its virtual users to its figures.
pub(super) async fn work(
    mut context: LoopContext,
    event_loop: Rc<EventLoop>,
) -> Result<(Measured, LoopHealth), ScriptError> {
    let users = match initialise(&mut context, &event_loop).await {
        Ok(users) => users,
        Err(error) => {
            let _ = context.ready.send(Err(error.clone()));
            return Err(error);
        }
    };
    let _ = context.ready.send(Ok(()));
    let clock = await_start(&mut context, &users).await?;
    // Only now are all metrics of all virtual users defined.
    let mut recorder = context.run.recorder();
    recorder.emit_to(context.run.samples.get());
    event_loop.recorder.replace(recorder);
    if clock.record_from == clock.start {
        // Without a warm-up nothing may come before the recording, not even an iteration that
        // wakes up in the same moment.
        event_loop.recorder.borrow_mut().start(clock.record_from.into_std());
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

/// Waits for the end of `setup()`, has all virtual users take its data, and waits for the start.
async fn await_start(context: &mut LoopContext, users: &LoopUsers) -> Result<Clock, ScriptError> {
    // An error means that the run was given up before it started.
    let given_up = |_| ScriptError::Interrupted;
    context
        .phase
        .wait_for(|phase| !matches!(phase, Phase::Initialising))
        .await
        .map_err(given_up)?;
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

/// Runs all scenarios of this loop to their ends.
async fn run_all(context: &mut LoopContext, users: LoopUsers, clock: Clock) {
    let mut tasks = Vec::with_capacity(users.workers.len() + users.pools.len());
    for worker in users.workers {
        let assignment = worker.assignment.clone();
        tasks.push(spawn(assignment, worker.run(clock.start, context.stop.clone())));
    }
    let parts = std::mem::take(&mut context.plan.pools);
    for (pool, part) in users.pools.into_iter().zip(parts) {
        let scenario = &context.options.scenarios[part.scenario];
        let parts = part.shared.parts() as u64;
        let arrivals = executor::arrivals(scenario, context.warm_up, part.part as u64, parts);
        let times = (clock.start, times(scenario, context.warm_up), (context.timer)());
        let assignment = pool.assignment.clone();
        let run = pool.run(times, arrivals, part.orders, context.stop.clone());
        tasks.push(spawn(assignment, run));
    }
    for task in tasks {
        // One that has panicked has stopped the run.
        let _ = task.await;
    }
}

fn spawn(assignment: Rc<Assignment>, task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    tokio::task::spawn_local(within(assignment, task))
}

fn times(scenario: &Scenario, warm_up: Duration) -> Times {
    let begin = match scenario.start_time.is_zero() {
        true => Duration::ZERO,
        false => scenario.start_time + warm_up,
    };
    let end = scenario.start_time + warm_up + scenario.executor.duration();
    // As in k6: otherwise the rates of one with few iterations would be over less than its duration.
    let earliest_end = match scenario.executor {
        ExecutorConfig::ConstantArrivalRate { .. } => end,
        _ => begin,
    };
    Times { begin, end, limit: end + scenario.graceful_stop, earliest_end }
}

/// Runs the init code of every virtual user of this loop.
async fn initialise(
    context: &mut LoopContext,
    event_loop: &Rc<EventLoop>,
) -> Result<LoopUsers, ScriptError> {
    let count = context.options.scenarios.len();
    let assignments: Vec<_> = (0..count)
        .map(|at| assignment(&context.options, at, context.run.iterations_of(at)))
        .collect();
    let mut users =
        LoopUsers { workers: Vec::with_capacity(context.plan.users.len()), pools: Vec::new() };
    for part in &context.plan.pools {
        let scenario = &context.options.scenarios[part.scenario];
        users.pools.push(Rc::new(LocalPool {
            shared: part.shared.clone(),
            part: part.part,
            event_loop: event_loop.clone(),
            assignment: assignments[part.scenario].clone(),
            exec: scenario.exec.clone(),
            environment: scenario.env.clone(),
            max_vus: scenario.executor.max_vus(),
            spawn_user: spawn_user(event_loop),
            free: RefCell::default(),
            closed: false.into(),
            members: RefCell::default(),
        }));
    }
    for planned in std::mem::take(&mut context.plan.users) {
        let scenario = &context.options.scenarios[planned.scenario];
        let UserHandle { user, mailbox } = tokio::select! {
            made = make(event_loop, planned.id) => made?,
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
            exec: scenario.exec.clone(),
            environment: scenario.env.clone(),
            spans: planned.spans,
            budget: planned.budget,
            busy: Arc::default(),
        });
    }
    Ok(users)
}

/// Makes a virtual user and runs its init code.
async fn make(event_loop: &Rc<EventLoop>, id: u32) -> Result<UserHandle, ScriptError> {
    let user = Rc::new(User::new(id, event_loop.clone()));
    let mailbox = Rc::new(Mailbox::default());
    init(&user, &mailbox).await?;
    event_loop.run.live.initialised.fetch_add(1, Ordering::Relaxed);
    Ok(UserHandle { user, mailbox })
}

/// How a pool gets another virtual user while its scenario runs.
fn spawn_user(event_loop: &Rc<EventLoop>) -> SpawnUser {
    let event_loop = event_loop.clone();
    Rc::new(move || -> Pin<Box<dyn Future<Output = _>>> {
        let event_loop = event_loop.clone();
        Box::pin(async move {
            let run: &Run = &event_loop.run;
            let id = run.vu_ids.fetch_add(1, Ordering::Relaxed) + 1;
            let handle = make(&event_loop, id).await?;
            event_loop.recorder.borrow_mut().learn(&run.registry());
            if run.setup_data.get().is_some() {
                prepare(&handle.mailbox).await;
            }
            Ok(handle)
        })
    })
}

/// What a loop notes about itself from the start of recording on.
#[derive(Default)]
struct LoopWatch {
    /// When, and what the thread had done until then.
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

/// Starts recording when its time has come, and watches the loop from then on.
async fn record(clock: Clock, event_loop: Rc<EventLoop>, watch: Rc<RefCell<LoopWatch>>) {
    tokio::time::sleep_until(clock.record_from).await;
    event_loop.recorder.borrow_mut().start(clock.record_from.into_std());
    watch.borrow_mut().started = Some((Instant::now(), Spent::now()));
    generator::watch_lag(|late| watch.borrow_mut().lag.record(late)).await;
}

/// Shares the loop's figures with the thresholds that may end the run.
fn share_figures(context: &LoopContext, event_loop: &Rc<EventLoop>) -> Option<JoinHandle<()>> {
    let (figures, event_loop, index) =
        (context.figures.clone()?, event_loop.clone(), context.index);
    Some(every_interval(move || {
        let sinks = event_loop.recorder.borrow().snapshot(figures.metrics());
        figures.share(index, sinks);
    }))
}

/// Passes on what a terminal shows, if there is one.
fn show_recent(context: &LoopContext, event_loop: &Rc<EventLoop>) -> Option<JoinHandle<()>> {
    let (run, event_loop) = (context.run.clone(), event_loop.clone());
    run.live.is_watched.load(Ordering::Relaxed).then(|| {
        every_interval(move || {
            let recent = event_loop.recorder.borrow_mut().take_recent();
            run.live.add_recent(&recent);
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
