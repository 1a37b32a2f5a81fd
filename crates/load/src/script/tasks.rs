//! Timers and asynchronous requests: what a script waits for without blocking.
//!
//! A script's functions run one at a time, on its virtual user's stack. When it has nothing left to run, [`turn`]
//! blocks the virtual user until the next timer is due or the next request is answered, and calls the function that
//! waited for it; an iteration ends when nothing is left to wait for. A source of events, such as a socket, calls its
//! function any number of times. Requests are tasks of the event loop and go on while the script sleeps or computes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::iter;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::function::Args;
use rquickjs::{Array, Ctx, Exception, Function, Object, Result, Value};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::user::User;

/// Timers and requests of one virtual user at a time.
const MAX_TASKS: usize = 10_000;

const MAX_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// Makes the value that a promise is settled with, once the script's engine is at hand.
pub(super) type Settle = Box<dyn for<'js> FnOnce(&Ctx<'js>) -> Result<Value<'js>>>;

/// Makes the arguments of an event's function; none when there is nothing to report any more.
pub(super) type EventArguments = Box<dyn for<'js> FnOnce(&Ctx<'js>) -> Result<Vec<Value<'js>>>>;

/// Result of a task of the event loop.
enum Done {
    Settled(Settle),
    Event(EventArguments),
    /// The last event of a source.
    Ended,
}

/// Channel for the events of a source, which limits their number itself.
pub(super) struct Feed {
    pub(super) user: Rc<User>,
    number: u32,
}

impl Feed {
    pub(super) fn push(&self, event: EventArguments) {
        self.user.tasks.finish(self.number, Done::Event(event));
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.user.tasks.finish(self.number, Done::Ended);
    }
}

/// The tasks of one virtual user. Their functions belong to the script's engine and are kept in [`Callbacks`], under
/// the same numbers.
#[derive(Default)]
pub(crate) struct Tasks {
    next: Cell<u32>,
    /// By due time; with the period of those that repeat.
    timers: RefCell<BTreeMap<(Instant, u32), Option<Duration>>>,
    running: RefCell<HashMap<u32, AbortHandle>>,
    finished: RefCell<VecDeque<(u32, Done)>>,
    /// The last turn was an event: a due timer goes first, because events may come faster than they are used.
    was_event: Cell<bool>,
    wake: Notify,
}

mod callbacks {
    #![expect(elided_lifetimes_in_paths, reason = "the code the derive writes")]
    use rquickjs::{JsLifetime, Object};

    /// `{number: [function, …]}` in the script's engine.
    #[derive(JsLifetime)]
    pub(super) struct Callbacks<'js>(pub(super) Object<'js>);
}
use callbacks::Callbacks;

/// Adds the table of callbacks to a new engine.
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
    /// Keeps the values under the number of a new task.
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

    /// Calls `function` with `arguments` after `delay`, and with `repeat` after each further `delay`.
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

    /// A promise of the result of `work`.
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

    /// Calls `function` with every event that `source` pushes. The iteration goes on until `source` is ready.
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
        // Tasks that were cleared have no receiver.
        if self.running.borrow().contains_key(&number) {
            self.finished.borrow_mut().push_back((number, done));
            self.wake.notify_one();
        }
    }

    /// Ends everything still in progress.
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

    fn first(&self) -> Option<(Instant, u32)> {
        self.timers.borrow().first_key_value().map(|(key, _)| *key)
    }
}

/// Waits for the next task and calls its function; false when there is none.
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
        Done::Event(event) => {
            tasks.was_event.set(true);
            let arguments = event(ctx)?;
            if arguments.is_empty() {
                return Ok(());
            }
            let list: Array<'_> = callbacks(ctx).get(number)?;
            call(&list.get(0)?, arguments)
        }
        Done::Ended => {
            tasks.running.borrow_mut().remove(&number);
            callbacks(ctx).remove(number)
        }
    }
}

fn call<'js>(function: &Function<'js>, values: Vec<Value<'js>>) -> Result<()> {
    let mut arguments = Args::new(function.ctx().clone(), values.len());
    arguments.push_args(values)?;
    function.call_arg::<Value<'js>>(arguments).map(drop)
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

fn fire(ctx: &Ctx<'_>, tasks: &Tasks) -> Result<()> {
    let Some(((due, number), period)) = tasks.timers.borrow_mut().pop_first() else {
        return Ok(());
    };
    let table = callbacks(ctx);
    let list: Array<'_> = table.get(number)?;
    match period {
        // From the planned time on, so that the period does not drift; a late timer does not catch up.
        Some(period) => {
            let next = (due + period).max(Instant::now());
            tasks.timers.borrow_mut().insert((next, number), Some(period));
        }
        None => table.remove(number)?,
    }
    let arguments = list.iter::<Value<'_>>().skip(1).collect::<Result<_>>()?;
    call(&list.get(0)?, arguments)
}
