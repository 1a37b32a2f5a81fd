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

use super::{Clock, Phase, Post, assignment, settle_in};
use crate::event_loop::EventLoop;
use crate::executor;
use crate::executor::crew::{Crew, Hand, Hire, Times};
use crate::executor::runner::{Worker, wait_for_stop};
use crate::generator::{self, LoopHealth, Spent};
use crate::metrics::{Histogram, Measured};
use crate::options::{ExecutorConfig, Scenario};
use crate::run::Run;
use crate::script::ScriptError;
use crate::script::mailbox::{Mailbox, Task};
use crate::script::user::User;

/// How often a loop shows its figures to thresholds that may end the run.
const BOARD_INTERVAL: Duration = Duration::from_millis(500);

/// Everybody who works on this loop.
struct Staff {
    workers: Vec<Worker>,
    /// With the places of their seats in the roster.
    crews: Vec<Rc<Crew>>,
}

/// The work of one event loop, from the init code of its virtual users to its figures.
pub(super) async fn work(
    mut post: Post,
    event_loop: Rc<EventLoop>,
) -> Result<(Measured, LoopHealth), ScriptError> {
    let staff = match initialise(&mut post, &event_loop).await {
        Ok(staff) => staff,
        Err(error) => {
            let _ = post.ready.send(Err(error.clone()));
            return Err(error);
        }
    };
    let _ = post.ready.send(Ok(()));
    let clock = await_start(&mut post, &staff).await?;
    // Only now are all metrics of all virtual users defined.
    let mut recorder = post.run.recorder();
    recorder.emit_to(post.run.samples.get());
    event_loop.recorder.replace(recorder);
    if clock.record_from == clock.start {
        // Without a warm-up nothing may come before the recording, not even an iteration that
        // wakes up in the same moment.
        event_loop.recorder.borrow_mut().start(clock.record_from.into_std());
    }
    let watch = Rc::new(RefCell::new(LoopWatch::default()));
    let watching = tokio::task::spawn_local(record(clock, event_loop.clone(), watch.clone()));
    let showing = [show_on_board(&post, &event_loop), show_recent(&post, &event_loop)];
    run_all(&mut post, staff, clock).await;
    watching.abort();
    showing.into_iter().flatten().for_each(|task| task.abort());
    let mut health = watch.borrow().health();
    let fresh = post.run.recorder();
    let measured = event_loop.recorder.replace(fresh).finish();
    for scenario in &measured.scenarios {
        health.start_lag.merge(&scenario.start_lag);
    }
    Ok((measured, health))
}

/// Waits for the end of `setup()`, lets everybody take its data, and waits for the start.
async fn await_start(post: &mut Post, staff: &Staff) -> Result<Clock, ScriptError> {
    // An error means that the run was given up before it started.
    let gone = |_| ScriptError::Interrupted;
    post.phase.wait_for(|phase| !matches!(phase, Phase::Initialising)).await.map_err(gone)?;
    if post.run.setup_data.get().is_some() {
        let workers = staff.workers.iter().map(|worker| worker.mailbox.clone());
        let hands = staff.crews.iter().flat_map(|crew| crew.mailboxes());
        for mailbox in workers.chain(hands) {
            prepare(&mailbox).await;
        }
    }
    let _ = post.ready.send(Ok(()));
    let phase = post.phase.wait_for(|phase| matches!(phase, Phase::Running(_))).await;
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
async fn run_all(post: &mut Post, staff: Staff, clock: Clock) {
    let mut tasks = Vec::with_capacity(staff.workers.len() + staff.crews.len());
    let spawn = |scenario: &str, task: Pin<Box<dyn Future<Output = ()>>>| {
        let (run, place) = (post.run.clone(), format!("the scenario `{scenario}`"));
        tokio::task::spawn_local(async move { run.stop_on_panic(|| place, task).await })
    };
    for worker in staff.workers {
        let scenario = worker.assignment.clone();
        let run = worker.run(clock.start, post.stop.clone());
        tasks.push(spawn(&scenario.scenario, Box::pin(run)));
    }
    let seats = std::mem::take(&mut post.roster.crews);
    for (crew, seat) in staff.crews.into_iter().zip(seats) {
        let scenario = &post.options.scenarios[seat.scenario];
        let parts = seat.pool.parts() as u64;
        let arrivals = executor::arrivals(scenario, post.warm_up, seat.part as u64, parts);
        let times = (clock.start, times(scenario, post.warm_up), (post.timer)());
        let run = crew.run(times, arrivals, seat.orders, post.stop.clone());
        tasks.push(spawn(&scenario.name, Box::pin(run)));
    }
    for task in tasks {
        // It does not panic.
        let _ = task.await;
    }
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
async fn initialise(post: &mut Post, event_loop: &Rc<EventLoop>) -> Result<Staff, ScriptError> {
    let count = post.options.scenarios.len();
    let assignments: Vec<_> =
        (0..count).map(|at| assignment(&post.options, at, post.run.iterations_of(at))).collect();
    let mut staff =
        Staff { workers: Vec::with_capacity(post.roster.seats.len()), crews: Vec::new() };
    for seat in &post.roster.crews {
        let scenario = &post.options.scenarios[seat.scenario];
        staff.crews.push(Rc::new(Crew {
            pool: seat.pool.clone(),
            part: seat.part,
            event_loop: event_loop.clone(),
            assignment: assignments[seat.scenario].clone(),
            exec: scenario.exec.clone(),
            environment: scenario.env.clone(),
            max_vus: scenario.executor.max_vus(),
            hire: hire(event_loop),
            free: RefCell::default(),
            closed: false.into(),
            members: RefCell::default(),
        }));
    }
    for seat in std::mem::take(&mut post.roster.seats) {
        let scenario = &post.options.scenarios[seat.scenario];
        let Hand { user, mailbox } = tokio::select! {
            made = make(event_loop, seat.id) => made?,
            () = wait_for_stop(post.stop.clone()) => return Err(ScriptError::Interrupted),
        };
        let crew = post.roster.crews.iter().position(|crew| crew.scenario == seat.scenario);
        if let Some(crew) = crew {
            staff.crews[crew].join(Hand { user, mailbox });
            continue;
        }
        staff.workers.push(Worker {
            user,
            mailbox,
            assignment: assignments[seat.scenario].clone(),
            exec: scenario.exec.clone(),
            environment: scenario.env.clone(),
            spans: seat.spans,
            budget: seat.budget,
            busy: Arc::default(),
        });
    }
    Ok(staff)
}

/// Makes a virtual user and runs its init code.
async fn make(event_loop: &Rc<EventLoop>, id: u32) -> Result<Hand, ScriptError> {
    let user = Rc::new(User::new(id, event_loop.clone()));
    let mailbox = Rc::new(Mailbox::default());
    settle_in(&user, &mailbox).await?;
    event_loop.run.live.initialised.fetch_add(1, Ordering::Relaxed);
    Ok(Hand { user, mailbox })
}

/// How a crew gets a virtual user more while its scenario runs.
fn hire(event_loop: &Rc<EventLoop>) -> Hire {
    let event_loop = event_loop.clone();
    Rc::new(move || -> Pin<Box<dyn Future<Output = _>>> {
        let event_loop = event_loop.clone();
        Box::pin(async move {
            let run: &Run = &event_loop.run;
            let id = run.vu_ids.fetch_add(1, Ordering::Relaxed) + 1;
            let hand = make(&event_loop, id).await?;
            event_loop.recorder.borrow_mut().learn(&run.registry());
            if run.setup_data.get().is_some() {
                prepare(&hand.mailbox).await;
            }
            Ok(hand)
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

/// Shows the loop's figures to the thresholds that may end the run, now and then.
fn show_on_board(post: &Post, event_loop: &Rc<EventLoop>) -> Option<JoinHandle<()>> {
    let (board, event_loop, index) = (post.board.clone()?, event_loop.clone(), post.index);
    Some(now_and_then(move || {
        let shown = event_loop.recorder.borrow().snapshot(board.metrics());
        board.show(index, shown);
    }))
}

/// Hands on what a terminal shows, if there is one.
fn show_recent(post: &Post, event_loop: &Rc<EventLoop>) -> Option<JoinHandle<()>> {
    let (run, event_loop) = (post.run.clone(), event_loop.clone());
    run.live.is_watched.load(Ordering::Relaxed).then(|| {
        now_and_then(move || {
            let recent = event_loop.recorder.borrow_mut().take_recent();
            run.live.add_recent(&recent);
        })
    })
}

fn now_and_then(show: impl Fn() + 'static) -> JoinHandle<()> {
    tokio::task::spawn_local(async move {
        let mut tick = tokio::time::interval(BOARD_INTERVAL);
        loop {
            tick.tick().await;
            show();
        }
    })
}
