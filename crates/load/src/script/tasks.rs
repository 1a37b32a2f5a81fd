//! What a script waits for without blocking: timers and asynchronous requests.
//!
//! A script's functions run one at a time, on its virtual user's stack. When it has nothing left
//! to run, [`turn`] blocks the virtual user until the next timer is due or the next request is
//! answered, and calls what was waiting for that; an iteration is over when there is nothing to
//! wait for. A source of events, such as a socket, calls its function any number of times. Requests
//! are tasks of the event loop and go on while the script sleeps or computes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::iter;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::{Array, Ctx, Exception, Function, Object, Result, Value};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::user::User;

/// Timers and requests of one virtual user at a time.
const MAX_TASKS: usize = 10_000;

/// Longest delay of a timer; a year is as good as for ever.
const MAX_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// Makes what a promise is settled with, once the script's engine is at hand.
pub(super) type Settle = Box<dyn for<'js> FnOnce(&Ctx<'js>) -> Result<Value<'js>>>;

/// Makes the arguments of an event's function; none when there is nothing to report any more.
pub(super) type Happening = Box<dyn for<'js> FnOnce(&Ctx<'js>) -> Result<Vec<Value<'js>>>>;

/// What a task of the event loop has come to.
enum Done {
    Settled(Settle),
    Event(Happening),
    /// A source of events has no more.
    Ended,
}

/// Where a source leaves its events. The source sees to it that they are not too many.
pub(super) struct Feed {
    user: Rc<User>,
    number: u32,
}

impl Feed {
    /// Leaves an event to the script.
    pub(super) fn push(&self, happening: Happening) {
        self.user.tasks.finish(self.number, Done::Event(happening));
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.user.tasks.finish(self.number, Done::Ended);
    }
}

/// The tasks of one virtual user. What is to be called belongs to the script's engine and is kept
/// in [`Callbacks`], under the same number.
#[derive(Default)]
pub(crate) struct Tasks {
    next: Cell<u32>,
    /// By when they are due; with the period of those that repeat.
    timers: RefCell<BTreeMap<(Instant, u32), Option<Duration>>>,
    running: RefCell<HashMap<u32, AbortHandle>>,
    finished: RefCell<VecDeque<(u32, Done)>>,
    /// The last turn was an event: it is the turn of a timer that is due. Events may come faster than they are used.
    was_event: Cell<bool>,
    wake: Notify,
}

mod callbacks {
    #![expect(elided_lifetimes_in_paths, reason = "the code the derive writes")]
    use rquickjs::{JsLifetime, Object};

    /// `{number: [what to call, …]}` in the script's engine.
    #[derive(JsLifetime)]
    pub(super) struct Callbacks<'js>(pub(super) Object<'js>);
}
use callbacks::Callbacks;

/// Makes room for callbacks in a new engine.
pub(super) fn install(ctx: &Ctx<'_>) -> Result<()> {
    let callbacks = Callbacks(Object::new(ctx.clone())?);
    let stored = ctx.store_userdata(callbacks);
    assert!(stored.is_ok(), "nothing borrows the user data of a new context");
    Ok(())
}

fn callbacks<'js>(ctx: &Ctx<'js>) -> Object<'js> {
    ctx.userdata::<Callbacks<'js>>().expect("installed before any script code runs").0.clone()
}

impl Tasks {
    /// A number for a new task, under which the values are kept.
    fn keep<'js>(
        &self,
        ctx: &Ctx<'js>,
        values: impl IntoIterator<Item = Value<'js>>,
    ) -> Result<u32> {
        if self.timers.borrow().len() + self.running.borrow().len() >= MAX_TASKS {
            let message = format!("more than {MAX_TASKS} timers and asynchronous requests");
            return Err(Exception::throw_message(ctx, &message));
        }
        let number = self.next.get().wrapping_add(1);
        self.next.set(number);
        let list = Array::new(ctx.clone())?;
        for (index, value) in values.into_iter().enumerate() {
            list.set(index, value)?;
        }
        callbacks(ctx).set(number, list)?;
        Ok(number)
    }

    /// Calls `function` with `arguments` after `delay`; again and again with `repeat`.
    pub(super) fn start_timer<'js>(
        &self,
        ctx: &Ctx<'js>,
        function: Function<'js>,
        arguments: Vec<Value<'js>>,
        delay: Duration,
        repeat: bool,
    ) -> Result<u32> {
        let number = self.keep(ctx, iter::once(function.into_value()).chain(arguments))?;
        let delay = delay.min(MAX_DELAY);
        let due = Instant::now() + delay;
        self.timers.borrow_mut().insert((due, number), repeat.then_some(delay));
        Ok(number)
    }

    pub(super) fn stop_timer(&self, ctx: &Ctx<'_>, number: u32) -> Result<()> {
        self.timers.borrow_mut().retain(|(_, known), _| *known != number);
        callbacks(ctx).remove(number)
    }

    /// A promise for what `work` comes to.
    pub(super) fn start_work<'js>(
        user: &Rc<User>,
        ctx: &Ctx<'js>,
        work: impl Future<Output = Settle> + 'static,
    ) -> Result<Value<'js>> {
        let (promise, resolve, reject) = ctx.promise()?;
        let number = user.tasks.keep(ctx, [resolve.into_value(), reject.into_value()])?;
        let finishing = user.clone();
        let handle = user.spawn(async move {
            let settle = work.await;
            finishing.tasks.finish(number, Done::Settled(settle));
        });
        user.tasks.running.borrow_mut().insert(number, handle);
        Ok(promise.into_value())
    }

    /// Calls `function` with every event that `source` leaves in its feed. The iteration goes on until
    /// `source` is ready.
    pub(super) fn start_events<'js, F: Future<Output = ()> + 'static>(
        user: &Rc<User>,
        ctx: &Ctx<'js>,
        function: Function<'js>,
        source: impl FnOnce(Feed) -> F,
    ) -> Result<()> {
        let number = user.tasks.keep(ctx, [function.into_value()])?;
        let handle = user.spawn(source(Feed { user: user.clone(), number }));
        user.tasks.running.borrow_mut().insert(number, handle);
        Ok(())
    }

    fn finish(&self, number: u32, done: Done) {
        // What was cleared is not waited for any more.
        if self.running.borrow().contains_key(&number) {
            self.finished.borrow_mut().push_back((number, done));
            self.wake.notify_one();
        }
    }

    /// Ends everything that is still under way.
    pub(super) fn clear(&self, ctx: &Ctx<'_>) {
        let running = self.running.take();
        if running.is_empty() && self.timers.borrow().is_empty() {
            return;
        }
        running.into_values().for_each(|handle| handle.abort());
        self.timers.take();
        self.finished.take();
        let table = callbacks(ctx);
        for key in table.keys::<String>().filter_map(Result::ok).collect::<Vec<_>>() {
            // An own property of a plain object can always be removed.
            let _ = table.remove(key);
        }
    }

    /// The timer that is due first.
    fn first(&self) -> Option<(Instant, u32)> {
        self.timers.borrow().first_key_value().map(|(key, _)| *key)
    }
}

/// Waits for the next task and calls what waited for it; false when there is none.
pub(super) fn turn(ctx: &Ctx<'_>, user: &User) -> Result<bool> {
    let tasks = &user.tasks;
    loop {
        let first = tasks.first();
        let is_due = || first.is_some_and(|(due, _)| due <= Instant::now());
        if !(tasks.was_event.take() && is_due()) {
            let finished = tasks.finished.borrow_mut().pop_front();
            if let Some((number, done)) = finished {
                conclude(ctx, tasks, number, done)?;
                return Ok(true);
            }
        }
        if is_due() {
            fire(ctx, tasks)?;
            return Ok(true);
        }
        if first.is_none() && tasks.running.borrow().is_empty() {
            return Ok(false);
        }
        let due = async {
            match first {
                Some((due, _)) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        user.wait(ctx, async {
            tokio::select! {
                () = due => {}
                () = tasks.wake.notified() => {}
            }
        })?;
    }
}

fn conclude(ctx: &Ctx<'_>, tasks: &Tasks, number: u32, done: Done) -> Result<()> {
    match done {
        Done::Settled(settle) => {
            tasks.running.borrow_mut().remove(&number);
            settle_promise(ctx, number, settle)
        }
        Done::Event(happening) => {
            tasks.was_event.set(true);
            tell(ctx, number, happening)
        }
        Done::Ended => {
            tasks.running.borrow_mut().remove(&number);
            callbacks(ctx).remove(number)
        }
    }
}

/// Calls the function of a source of events.
fn tell(ctx: &Ctx<'_>, number: u32, happening: Happening) -> Result<()> {
    let values = happening(ctx)?;
    if values.is_empty() {
        return Ok(());
    }
    let list: Array<'_> = callbacks(ctx).get(number)?;
    let mut arguments = rquickjs::function::Args::new(ctx.clone(), values.len());
    arguments.push_args(values)?;
    list.get::<Function<'_>>(0)?.call_arg::<Value<'_>>(arguments).map(|_| ())
}

fn settle_promise(ctx: &Ctx<'_>, number: u32, settle: Settle) -> Result<()> {
    let table = callbacks(ctx);
    let list: Array<'_> = table.get(number)?;
    table.remove(number)?;
    match settle(ctx) {
        Ok(value) => list.get::<Function<'_>>(0)?.call((value,)),
        Err(rquickjs::Error::Exception) => {
            let reason = ctx.catch();
            list.get::<Function<'_>>(1)?.call((reason,))
        }
        Err(error) => Err(error),
    }
}

/// Calls the function of the timer that is due first.
fn fire(ctx: &Ctx<'_>, tasks: &Tasks) -> Result<()> {
    let Some(((due, number), period)) = tasks.timers.borrow_mut().pop_first() else {
        return Ok(());
    };
    let table = callbacks(ctx);
    let list: Array<'_> = table.get(number)?;
    match period {
        // From the planned time on, so that a period is one; a late timer does not catch up.
        Some(period) => {
            let next = (due + period).max(Instant::now());
            tasks.timers.borrow_mut().insert((next, number), Some(period));
        }
        None => table.remove(number)?,
    }
    let function: Function<'_> = list.get(0)?;
    let mut arguments = rquickjs::function::Args::new(ctx.clone(), list.len().saturating_sub(1));
    for value in list.iter::<Value<'_>>().skip(1) {
        arguments.push_arg(value?)?;
    }
    function.call_arg::<Value<'_>>(arguments).map(|_| ())
}
