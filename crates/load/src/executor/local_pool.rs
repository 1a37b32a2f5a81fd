//! One event loop's part of an open model: starts iterations when they are due, on its own virtual users or on those of
//! other loops ([`ArrivalPool`]).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::arrival_pool::{ArrivalPool, Claim, Order};
use super::runner::{wait_for_stop, wait_until};
use super::timer::Timer;
use crate::engine::spawn_user;
use crate::event_loop::EventLoop;
use crate::log::Level;
use crate::options::Scenario;
use crate::panics::within;
use crate::script::mailbox::{Activation, Mailbox, Turn, Turns};
use crate::script::user::{Assignment, User};
use crate::script::{ScriptError, coroutine};

/// Latest start of an iteration after the end of the schedule; only an overloaded generator reaches it.
const LATEST_START: Duration = Duration::from_millis(100);

pub(crate) struct UserHandle {
    pub(crate) user: Rc<User>,
    pub(crate) mailbox: Rc<Mailbox>,
}

/// Times of a scenario, from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// From then on iterations start.
    pub(crate) begin: Duration,
    /// From then on no iteration starts.
    pub(crate) end: Duration,
    /// An iteration that still runs then is interrupted.
    pub(crate) limit: Duration,
    /// The scenario lasts at least until then, even when all its iterations are over.
    pub(crate) earliest_end: Duration,
}

pub(crate) struct LocalPool {
    pub(crate) shared: Arc<ArrivalPool>,
    /// Index of this event loop in the pool.
    pub(crate) part: usize,
    pub(crate) event_loop: Rc<EventLoop>,
    pub(crate) assignment: Rc<Assignment>,
    pub(crate) free: RefCell<VecDeque<Rc<Slot>>>,
    pub(crate) closed: Cell<bool>,
    pub(crate) members: RefCell<Vec<Member>>,
}

pub(crate) struct Member {
    handle: UserHandle,
    /// `None` before the first iteration and after the last.
    done: Option<oneshot::Receiver<()>>,
}

/// The next iteration of a waiting virtual user.
#[derive(Default)]
pub(crate) struct Slot {
    intended: Cell<Option<Instant>>,
    waker: RefCell<Option<Waker>>,
}

impl Slot {
    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

struct ArrivalTurns {
    pool: Rc<LocalPool>,
    user: Rc<User>,
    slot: Rc<Slot>,
}

impl Turns for ArrivalTurns {
    /// Waits for an iteration on the virtual user's own stack. As in k6 the longest waiting is first.
    fn next(&self) -> Option<Turn> {
        let (pool, slot) = (&self.pool, &self.slot);
        if pool.closed.get() || self.user.control.is_stopping() {
            return None;
        }
        pool.free.borrow_mut().push_back(slot.clone());
        pool.shared.release(pool.part);
        // A waiting virtual user is not active.
        let active = &self.user.run.live.active;
        active.fetch_sub(1, Ordering::Relaxed);
        let intended = coroutine::block_on(std::future::poll_fn(|cx| {
            if let Some(intended) = slot.intended.take() {
                return Poll::Ready(Some(intended));
            }
            if pool.closed.get() {
                return Poll::Ready(None);
            }
            slot.waker.replace(Some(cx.waker().clone()));
            Poll::Pending
        }));
        active.fetch_add(1, Ordering::Relaxed);
        let intended = intended.filter(|_| !self.user.control.is_stopping())?;
        Some(Turn { start: Instant::now(), intended: Some(intended) })
    }
}

impl LocalPool {
    /// Runs this part of the scenario, and the `orders` of other event loops.
    pub(crate) async fn run(
        self: Rc<Self>,
        (start, times, timer): (Instant, Times, Timer),
        arrivals: Box<dyn Iterator<Item = Duration>>,
        orders: mpsc::UnboundedReceiver<Order>,
        stop: watch::Receiver<bool>,
    ) {
        let schedule = async {
            wait_until(start + times.begin).await;
            let planned = self.members.borrow().len();
            (0..planned).for_each(|index| self.activate(index));
            tokio::join!(self.dispatch(start, times.end, arrivals, &timer), self.receive(orders));
            tokio::select! {
                () = self.all_done() => {}
                () = wait_until(start + times.limit) => self.interrupt().await,
            }
            wait_until(start + times.earliest_end).await;
        };
        tokio::select! {
            () = schedule => {}
            () = wait_for_stop(stop) => {
                self.close();
                self.interrupt().await;
            }
        }
        self.members.borrow().iter().for_each(|member| member.handle.mailbox.close());
    }

    /// Adds a virtual user and returns its index.
    pub(crate) fn join(self: &Rc<Self>, handle: UserHandle) -> usize {
        let mut members = self.members.borrow_mut();
        members.push(Member { handle, done: None });
        members.len() - 1
    }

    pub(crate) fn mailboxes(&self) -> Vec<Rc<Mailbox>> {
        self.members.borrow().iter().map(|member| member.handle.mailbox.clone()).collect()
    }

    fn scenario(&self) -> &Scenario {
        &self.event_loop.run.settings().scenarios[self.assignment.index]
    }

    fn activate(self: &Rc<Self>, index: usize) {
        let (sender, done) = oneshot::channel();
        let scenario = self.scenario();
        let member = &mut self.members.borrow_mut()[index];
        member.done = Some(done);
        let turns = ArrivalTurns {
            pool: self.clone(),
            user: member.handle.user.clone(),
            slot: Rc::default(),
        };
        member.handle.mailbox.send(Activation {
            assignment: self.assignment.clone(),
            exec: scenario.exec.clone(),
            environment: scenario.env.clone(),
            turns: Box::new(turns),
            done: sender,
            busy: None,
        });
    }

    async fn dispatch(
        self: &Rc<Self>,
        start: Instant,
        end: Duration,
        mut arrivals: Box<dyn Iterator<Item = Duration>>,
        timer: &Timer,
    ) {
        let latest = start + end + LATEST_START;
        for offset in arrivals.by_ref() {
            let intended = start + offset;
            timer.until(intended).await;
            if Instant::now() > latest {
                self.drop_iterations(1);
                break;
            }
            if self.start(intended) {
                continue;
            }
            // Lets a virtual user of this event loop become free.
            tokio::task::yield_now().await;
            if !self.start(intended) {
                self.drop_iterations(1);
                self.spawn_another();
            }
        }
        self.drop_iterations(arrivals.count() as u64);
        self.shared.all_started();
    }

    /// Starts an iteration on a free virtual user; false when none is free.
    fn start(&self, intended: Instant) -> bool {
        match self.shared.claim(self.part, intended) {
            Claim::Own => self.assign(intended),
            Claim::HandedOver => {}
            Claim::NoneFree => return false,
        }
        true
    }

    /// Starts iterations of other event loops until the pool is closed.
    async fn receive(&self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(Order::Start(intended)) = orders.recv().await {
            self.assign(intended);
        }
        self.close();
    }

    /// Assigns an iteration to the virtual user claimed for it.
    fn assign(&self, intended: Instant) {
        if let Some(slot) = self.free.borrow_mut().pop_front() {
            slot.intended.set(Some(intended));
            slot.wake();
        }
    }

    fn close(&self) {
        self.closed.set(true);
        self.free.borrow_mut().drain(..).for_each(|slot| slot.wake());
    }

    fn drop_iterations(&self, count: u64) {
        if count > 0 {
            self.event_loop.dropped(&self.assignment, count);
        }
    }

    fn spawn_another(self: &Rc<Self>) {
        if self.shared.begin_spawn() {
            let pool = self.clone();
            let task = async move {
                match spawn_user(&pool.event_loop).await {
                    Ok(handle) if pool.closed.get() => handle.mailbox.close(),
                    Ok(handle) => {
                        let index = pool.join(handle);
                        pool.activate(index);
                    }
                    // A panic is reported at the end of the run.
                    Err(ScriptError::Panic(_)) => {}
                    Err(error) => {
                        let message = format!("a further virtual user could not be made: {error}");
                        pool.event_loop.run.log.write(Level::Error, &message, &[]);
                    }
                }
                pool.shared.end_spawn();
            };
            tokio::task::spawn_local(within(self.assignment.clone(), task));
        } else if self.shared.is_exhausted_now() {
            let message = format!(
                "Insufficient VUs, reached {} active VUs and cannot initialize more",
                self.scenario().executor.max_vus()
            );
            let fields =
                [("executor", self.assignment.executor), ("scenario", &*self.assignment.scenario)];
            self.event_loop.run.log.write(Level::Warning, &message, &fields);
        }
    }

    /// Waits for the last iteration of every member. Can be cancelled and called again.
    async fn all_done(&self) {
        let mut at = 0;
        std::future::poll_fn(|cx| {
            // Not borrowed between polls: a member may join meanwhile.
            let mut members = self.members.borrow_mut();
            while let Some(member) = members.get_mut(at) {
                if let Some(done) = &mut member.done {
                    // An error means that the virtual user has panicked.
                    let _ = std::task::ready!(Pin::new(done).poll(cx));
                    member.done = None;
                }
                at += 1;
            }
            Poll::Ready(())
        })
        .await;
    }

    async fn interrupt(&self) {
        self.members.borrow().iter().for_each(|member| member.handle.user.control.interrupt());
        self.all_done().await;
    }
}
