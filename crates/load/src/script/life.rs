//! The life of a virtual user: what runs on its stack from start to end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::Instant;

use rquickjs::promise::PromiseState;
use rquickjs::{
    CatchResultExt as _, CaughtError, Context, Ctx, Exception, Function, Module, Object, Promise,
    Runtime, Value,
};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::error::describe;
use super::loader::ModuleLoader;
use super::user::{Assignment, Outcome, User};
use super::{MEMORY_LIMIT_BYTES, ScriptError, console, coroutine, modules, source, tasks};
use crate::log::Level;

/// What a script exports, as far as the engine needs to know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exports {
    /// `options`, as JSON.
    pub(crate) options: Option<serde_json::Value>,
    /// Names of exported functions.
    pub(crate) functions: Vec<String>,
}

/// Work for a virtual user: iterations of one scenario.
pub(crate) struct Activation {
    pub(crate) assignment: Rc<Assignment>,
    /// The exported function.
    pub(crate) exec: String,
    /// Added to `__ENV`.
    pub(crate) environment: Vec<(String, String)>,
    /// Asked before every iteration, with the time it would start at.
    pub(crate) goes_on: Box<dyn Fn(Instant) -> bool>,
    /// Told when the last iteration is over.
    pub(crate) done: oneshot::Sender<()>,
    /// Held while there is work, also when it ends in a panic.
    pub(crate) busy: Option<OwnedMutexGuard<()>>,
}

/// Where an executor leaves work for a virtual user.
#[derive(Default)]
pub(crate) struct Mailbox {
    state: RefCell<MailboxState>,
}

#[derive(Default)]
struct MailboxState {
    work: Option<Activation>,
    closed: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    /// Gives work to an idle virtual user.
    pub(crate) fn send(&self, work: Activation) {
        self.update(|state| state.work = Some(work));
    }

    /// Ends the virtual user once it is idle.
    pub(crate) fn close(&self) {
        self.update(|state| state.closed = true);
    }

    fn update(&self, change: impl FnOnce(&mut MailboxState)) {
        let mut state = self.state.borrow_mut();
        change(&mut state);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn receive(&self) -> Option<Activation> {
        coroutine::block_on(std::future::poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if let Some(work) = state.work.take() {
                return Poll::Ready(Some(work));
            }
            if state.closed {
                return Poll::Ready(None);
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        }))
    }
}

/// Runs a virtual user: init code, then iterations as they come, until the mailbox is closed.
/// Must be called on a coroutine's stack.
pub(crate) fn live(
    user: &Rc<User>,
    mailbox: &Mailbox,
    ready: oneshot::Sender<Result<Exports, ScriptError>>,
) {
    let engine = match start_engine(user) {
        Ok(engine) => engine,
        Err(error) => {
            let _ = ready.send(Err(ScriptError::Start(error.to_string())));
            return;
        }
    };
    engine.with(|ctx| match initialise(&ctx, user) {
        Err(error) => {
            let _ = ready.send(Err(error));
        }
        Ok((namespace, exports)) => {
            user.end_initialising();
            // Nobody waits when the run has been given up meanwhile.
            if ready.send(Ok(exports)).is_ok() {
                Iterations::new(&ctx, user, &namespace).serve(mailbox);
            }
        }
    });
}

fn start_engine(user: &Rc<User>) -> rquickjs::Result<Context> {
    let runtime = Runtime::new()?;
    runtime.set_max_stack_size(coroutine::SCRIPT_STACK_BYTES);
    runtime.set_memory_limit(MEMORY_LIMIT_BYTES);
    runtime.set_loader(ModuleLoader(user.clone()), ModuleLoader(user.clone()));
    let control = user.clone();
    let rejected = user.clone();
    runtime.set_host_promise_rejection_tracker(Some(Box::new(
        move |ctx, _promise, reason, is_handled| {
            rejected.rejections.track(&ctx, reason, is_handled);
        },
    )));
    runtime.set_interrupt_handler(Some(Box::new(move || control.control.poll_interrupt())));
    Context::full(&runtime)
}

/// Runs the init code.
fn initialise<'js>(ctx: &Ctx<'js>, user: &Rc<User>) -> Result<(Object<'js>, Exports), ScriptError> {
    user.attach(ctx);
    let evaluated = (|| {
        install_globals(ctx, user)?;
        let text = match user.run.sources.read(&user.run.script) {
            Ok(text) => text,
            Err(error) => return Err(user.refuse(ctx, error)),
        };
        // Once is enough: virtual users have the same text.
        if user.id == 0
            && let Err(error) = modules::refuse_missing_members(&text)
        {
            return Err(user.refuse(ctx, error));
        }
        let name = source::module_name(&user.run.script);
        let (module, promise) = Module::declare(ctx.clone(), name, text.as_bytes())?.eval()?;
        settle(ctx, user, &promise)?;
        drain(ctx, user)?;
        module.namespace()
    })();
    let namespace = evaluated.catch(ctx).map_err(|caught| {
        if user.control.is_interrupted() {
            return user.run.failure().unwrap_or(ScriptError::Interrupted);
        }
        user.take_refusal().unwrap_or_else(|| ScriptError::Exception(describe(&caught)))
    })?;
    // A script must not hide a refusal by catching it.
    if let Some(error) = user.take_refusal() {
        return Err(error);
    }
    // Once is enough here, too.
    for text in user.rejections.take().into_iter().filter(|_| user.id == 0) {
        user.run.log.write_limited(Level::Error, &uncaught(&text), &[]);
    }
    let exports = read_exports(ctx, &namespace)
        .catch(ctx)
        .map_err(|caught| ScriptError::Exception(describe(&caught)))?;
    Ok((namespace, exports))
}

fn install_globals(ctx: &Ctx<'_>, user: &Rc<User>) -> rquickjs::Result<()> {
    let globals = ctx.globals();
    let environment = Object::new(ctx.clone())?;
    for (key, value) in &user.run.environment {
        environment.set(key.as_str(), value.as_str())?;
    }
    globals.set("__ENV", environment)?;
    globals.set("__VU", user.id)?;
    globals.set("__ITER", 0)?;
    globals.set("global", globals.clone())?;
    console::install(ctx)?;
    tasks::install(ctx)?;
    modules::install_globals(ctx)
}

fn read_exports<'js>(ctx: &Ctx<'js>, namespace: &Object<'js>) -> rquickjs::Result<Exports> {
    let mut exports = Exports::default();
    for entry in namespace.props::<String, Value<'js>>() {
        let (name, value) = entry?;
        if name == "options" {
            let json = ctx.json_stringify(value)?;
            let json = json.map(|text| text.to_string()).transpose()?;
            exports.options = json.and_then(|text| serde_json::from_str(&text).ok());
        } else if value.is_function() {
            exports.functions.push(name);
        }
    }
    Ok(exports)
}

/// Runs pending jobs until a promise is settled, and says how. A promise that
/// is still pending when there is no timer and no request left to wait for never will be: it counts as fulfilled, as
/// in k6, where the event loop ends when it has nothing left to wait for.
fn settle<'js>(ctx: &Ctx<'js>, user: &User, promise: &Promise<'js>) -> rquickjs::Result<()> {
    while promise.state() == PromiseState::Pending {
        // Short jobs that start each other never reach QuickJS's own interrupt poll.
        if user.control.poll_interrupt() {
            return Err(Exception::throw_message(ctx, "the iteration was interrupted"));
        }
        if !ctx.execute_pending_job() && !tasks::turn(ctx, user)? {
            break;
        }
    }
    match promise.result::<Value<'js>>() {
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Runs what asynchronous functions that nobody awaited have left to do.
fn drain(ctx: &Ctx<'_>, user: &User) -> rquickjs::Result<()> {
    loop {
        if user.control.poll_interrupt() {
            return Err(Exception::throw_message(ctx, "the iteration was interrupted"));
        }
        if !ctx.execute_pending_job() && !tasks::turn(ctx, user)? {
            return Ok(());
        }
    }
}

/// A rejection without a handler, in k6's words.
fn uncaught(text: &str) -> String {
    format!("Uncaught (in promise) {text}")
}

/// The part of a life after the init code.
struct Iterations<'a, 'js> {
    ctx: &'a Ctx<'js>,
    user: &'a Rc<User>,
    functions: HashMap<String, Function<'js>>,
    count: u32,
}

impl<'a, 'js> Iterations<'a, 'js> {
    fn new(ctx: &'a Ctx<'js>, user: &'a Rc<User>, namespace: &Object<'js>) -> Self {
        let functions = namespace
            .props::<String, Value<'js>>()
            .filter_map(Result::ok)
            .filter_map(|(name, value)| Some((name, value.into_function()?)))
            .collect();
        Self { ctx, user, functions, count: 0 }
    }

    fn serve(&mut self, mailbox: &Mailbox) {
        while let Some(work) = mailbox.receive() {
            self.user.run.live.active.fetch_add(1, Ordering::Relaxed);
            self.work(&work);
            self.user.run.live.active.fetch_sub(1, Ordering::Relaxed);
            drop(work.busy);
            let _ = work.done.send(());
        }
    }

    fn work(&mut self, work: &Activation) {
        self.user.assignment.replace(work.assignment.clone());
        if let Err(error) = self.set_environment(&work.environment) {
            self.user.run.fail(ScriptError::Exception(error.to_string()));
        }
        let Some(function) = self.functions.get(&work.exec).cloned() else {
            let missing = format!("the script exports no function `{}`", work.exec);
            self.user.run.fail(ScriptError::Options(missing));
            return;
        };
        let mut start = Instant::now();
        while (work.goes_on)(start) {
            let outcome = self.iterate(&function);
            let end = Instant::now();
            self.account(&outcome, start, end);
            self.count += 1;
            if outcome == Outcome::Interrupted {
                return;
            }
            self.user.control.share(end);
            start = Instant::now();
        }
    }

    fn set_environment(&self, environment: &[(String, String)]) -> rquickjs::Result<()> {
        if environment.is_empty() {
            return Ok(());
        }
        let object: Object<'js> = self.ctx.globals().get("__ENV")?;
        environment.iter().try_for_each(|(key, value)| object.set(key.as_str(), value.as_str()))
    }

    fn iterate(&self, function: &Function<'js>) -> Outcome {
        let result = (|| {
            self.ctx.globals().set("__ITER", self.count)?;
            self.user.reset_cookies();
            let value: Value<'js> = function.call(())?;
            match value.as_promise() {
                Some(promise) => settle(self.ctx, self.user, promise),
                None => Ok(()),
            }
        })();
        let result = CaughtError::catch(self.ctx, result);
        // After an exception nobody waits for timers and requests any more.
        if result.is_err() {
            self.user.tasks.clear(self.ctx);
        }
        // An interruption shows in `take_cut`.
        let _ = CaughtError::catch(self.ctx, drain(self.ctx, self.user));
        self.user.tasks.clear(self.ctx);
        if self.user.run.settings().no_vu_connection_reuse {
            self.user.client.close_connections();
        }
        let outcome = match result {
            Ok(()) => Outcome::Complete,
            Err(caught) => Outcome::Threw(describe(&caught)),
        };
        let rejections = &self.user.rejections;
        if let Outcome::Threw(text) = &outcome {
            // The promise of an asynchronous default function.
            rejections.forget(text);
        }
        let unhandled = rejections.take();
        if self.user.control.take_cut() {
            return Outcome::Interrupted;
        }
        for text in unhandled {
            self.log_exception(&uncaught(&text));
        }
        outcome
    }

    fn account(&self, outcome: &Outcome, start: Instant, end: Instant) {
        let live = &self.user.run.live;
        // Iterations of the warm-up count nowhere.
        let counted = u64::from(self.user.event_loop.recorder.borrow().is_recording());
        match outcome {
            Outcome::Interrupted => {
                live.interrupted.fetch_add(counted, Ordering::Relaxed);
            }
            Outcome::Complete | Outcome::Threw(_) => {
                self.user.group.set(crate::metrics::GroupId::ROOT);
                self.user.add_iteration(end - start);
                live.complete.fetch_add(counted, Ordering::Relaxed);
            }
        }
        if let Outcome::Threw(exception) = outcome {
            self.log_exception(exception);
        }
        self.user.settle_iteration();
    }

    fn log_exception(&self, exception: &str) {
        // What ended the run is told once, at its end.
        if self.user.run.failure().is_some() {
            return;
        }
        let assignment = self.user.assignment.borrow().clone();
        let fields = [
            ("executor", assignment.executor),
            ("scenario", assignment.scenario.as_str()),
            ("source", "stacktrace"),
        ];
        self.user.run.log.write_limited(Level::Error, exception, &fields);
    }
}
