//! One event loop's part of an open model: starts its iterations when they are due, on its own
//! virtual users or on those of other loops ([`ArrivalPool`]).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
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
use crate::event_loop::EventLoop;
use crate::log::Level;
use crate::panics::within;
use crate::script::mailbox::{Activation, Mailbox, Turn, Turns};
use crate::script::user::{Assignment, User};
use crate::script::{ScriptError, coroutine};

/// How late after the end of the schedule an iteration may still start; what is later still is
/// dropped. Only an overloaded generator gets there.
const LATEST_START: Duration = Duration::from_millis(100);

/// Makes a virtual user on this event loop.
pub(crate) type SpawnUser =
    Rc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<UserHandle, ScriptError>>>>>;

/// A virtual user and where its work is left.
pub(crate) struct UserHandle {
    pub(crate) user: Rc<User>,
    pub(crate) mailbox: Rc<Mailbox>,
}

/// When a scenario's iterations may start and run, from the start of the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
    /// An iteration still running now is interrupted.
    pub(crate) limit: Duration,
    /// The scenario is not over sooner, even when all its iterations are.
    pub(crate) earliest_end: Duration,
}

/// The virtual users of one scenario on one event loop.
pub(crate) struct LocalPool {
    pub(crate) shared: Arc<ArrivalPool>,
    /// This event loop's place in the pool.
    pub(crate) part: usize,
    pub(crate) event_loop: Rc<EventLoop>,
    pub(crate) assignment: Rc<Assignment>,
    pub(crate) exec: String,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) max_vus: u32,
    pub(crate) spawn_user: SpawnUser,
    pub(crate) free: RefCell<VecDeque<Rc<Slot>>>,
    pub(crate) closed: Cell<bool>,
    pub(crate) members: RefCell<Vec<Member>>,
}

pub(crate) struct Member {
    handle: UserHandle,
    done: Option<oneshot::Receiver<()>>,
}

/// Where a free virtual user waits for its next iteration.
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

/// The turns of one virtual user of a pool.
struct ArrivalTurns {
    pool: Rc<LocalPool>,
    user: Rc<User>,
    slot: Rc<Slot>,
}

impl Turns for ArrivalTurns {
    /// Waits, on the virtual user's own stack, for an iteration to run. Those that have waited
    /// longest come first, as in k6.
    fn next(&self) -> Option<Turn> {
        let (pool, slot) = (&self.pool, &self.slot);
        if pool.closed.get() || self.user.control.is_stopping() {
            return None;
        }
        pool.free.borrow_mut().push_back(slot.clone());
        pool.shared.release(pool.part);
        // A virtual user that waits is not active.
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
    /// Runs this part of the scenario. `orders` is what other event loops want to be run here.
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

    /// Adds a virtual user, which waits for its first iteration.
    pub(crate) fn join(self: &Rc<Self>, handle: UserHandle) -> usize {
        let mut members = self.members.borrow_mut();
        members.push(Member { handle, done: None });
        members.len() - 1
    }

    pub(crate) fn mailboxes(&self) -> Vec<Rc<Mailbox>> {
        self.members.borrow().iter().map(|member| member.handle.mailbox.clone()).collect()
    }

    fn activate(self: &Rc<Self>, index: usize) {
        let (sender, done) = oneshot::channel();
        let member = &mut self.members.borrow_mut()[index];
        member.done = Some(done);
        let turns = ArrivalTurns {
            pool: self.clone(),
            user: member.handle.user.clone(),
            slot: Rc::default(),
        };
        member.handle.mailbox.send(Activation {
            assignment: self.assignment.clone(),
            exec: self.exec.clone(),
            environment: self.environment.clone(),
            turns: Box::new(turns),
            done: sender,
            busy: None,
        });
    }

    /// Starts the iterations of this event loop's part.
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
            // A virtual user that is about to become free on this event loop gets the chance to.
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

    /// Starts what other event loops could not, until nothing will be started any more.
    async fn receive(&self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(Order::Start(intended)) = orders.recv().await {
            self.assign(intended);
        }
        self.close();
    }

    /// Gives an iteration to the free virtual user that was claimed for it.
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

    /// Has a further virtual user made in the background, if there may be one.
    fn spawn_another(self: &Rc<Self>) {
        if self.shared.begin_spawn() {
            let pool = self.clone();
            let task = async move {
                let made = (pool.spawn_user)().await;
                match made {
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
                self.max_vus
            );
            let fields =
                [("executor", self.assignment.executor), ("scenario", &*self.assignment.scenario)];
            self.event_loop.run.log.write(Level::Warning, &message, &fields);
        }
    }

    /// Waits for the last iteration of every member. May be given up and begun again.
    async fn all_done(&self) {
        let mut at = 0;
        std::future::poll_fn(|cx| {
            // Not borrowed between polls: another one may join meanwhile.
            let mut members = self.members.borrow_mut();
            while let Some(member) = members.get_mut(at) {
                if let Some(done) = &mut member.done {
                    // An error means that its life ended in a panic.
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
