//! The life of a virtual user, from start to end of its stack.

use std::rc::Rc;

use rquickjs::promise::PromiseState;
use rquickjs::{
    CatchResultExt as _, Context, Ctx, Exception, Module, Object, Promise, Runtime, Value,
};
use tokio::sync::oneshot;

use super::error::describe;
use super::iterations::Iterations;
use super::loader::{self, ModuleLoader};
use super::mailbox::Mailbox;
use super::user::User;
use super::{
    MEMORY_LIMIT_BYTES, ScriptError, commonjs, console, coroutine, modules, source, tasks,
};
use crate::log::Level;
use crate::options::Layer;

#[derive(Debug, Clone, Default)]
pub(crate) struct Exports {
    /// `options`, as JSON.
    pub(crate) options: Option<serde_json::Value>,
    pub(crate) functions: Vec<String>,
}

/// Runs a virtual user: init code, then tasks until the mailbox is closed. Must be called on a coroutine's stack.
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
            // Without a receiver the run has been given up meanwhile.
            if ready.send(Ok(exports)).is_ok() {
                // Init code goes deeper than most iterations.
                coroutine::release_unused();
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

fn initialise<'js>(ctx: &Ctx<'js>, user: &Rc<User>) -> Result<(Object<'js>, Exports), ScriptError> {
    user.attach(ctx);
    let evaluated = (|| {
        install_globals(ctx, user)?;
        let name = source::module_name(&user.run.script);
        let source = loader::read(ctx, user, &name)?;
        // A compiled module has to be imported by its name: that is how its imports are found.
        if source.syntax.is_module && source.compiled.get().is_some() {
            let promise = Module::import(ctx, name.as_str())?;
            settle(ctx, user, &promise)?;
            drain(ctx, user)?;
            if let Some(namespace) = promise.result() {
                return namespace;
            }
        }
        let (module, promise) = loader::declare(ctx, &name, &source)?.eval()?;
        settle(ctx, user, &promise)?;
        drain(ctx, user)?;
        module.namespace()
    })();
    let namespace = evaluated.catch(ctx).map_err(|caught| {
        if user.control.is_interrupted() {
            if user.control.is_overdue() {
                return ScriptError::Overdue(describe(&caught));
            }
            let stopped = user.run.failure().or_else(|| user.run.stopped_early());
            return stopped.unwrap_or(ScriptError::Interrupted);
        }
        user.take_refusal().unwrap_or_else(|| ScriptError::Exception(describe(&caught)))
    })?;
    // A script must not hide a refusal by catching it. Errors in its options are reported as well.
    if let Some(error) = user.take_refusal() {
        let options =
            read_exports(ctx, &namespace).catch(ctx).ok().and_then(|(_, options)| options);
        let wrong = options.and_then(|(value, json)| {
            let options = read_options(&value, &json);
            options.and_then(|json| Ok(Layer::from_script(&json).map(drop)?)).err()
        });
        let all = ScriptError::of([error].into_iter().chain(wrong));
        return Err(all.unwrap_or(ScriptError::Interrupted));
    }
    // Once is enough: all virtual users run the same init code.
    for text in user.rejections.take().into_iter().filter(|_| user.id == 0) {
        user.run.log.write_limited(Level::Error, &uncaught(&text), &[]);
    }
    let (mut exports, options) = read_exports(ctx, &namespace)
        .catch(ctx)
        .map_err(|caught| ScriptError::Exception(describe(&caught)))?;
    if let Some((value, json)) = options {
        exports.options = Some(read_options(&value, &json)?);
    }
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
    commonjs::install(ctx)?;
    modules::install_globals(ctx)
}

/// Exports, with the options apart: as a value and as JSON.
type Exported<'js> = (Exports, Option<(Value<'js>, String)>);

fn read_exports<'js>(ctx: &Ctx<'js>, namespace: &Object<'js>) -> rquickjs::Result<Exported<'js>> {
    let mut exports = Exports::default();
    let mut options = None;
    for entry in namespace.props::<String, Value<'js>>() {
        let (name, value) = entry?;
        if name == "options" {
            let json = ctx.json_stringify(value.clone())?;
            let json = json.map(|text| text.to_string()).transpose()?;
            options = json.map(|json| (value, json));
        } else if value.is_function() {
            exports.functions.push(name);
        }
    }
    Ok((exports, options))
}

/// Parses the options' JSON. `JSON.stringify` writes `null` for `NaN` and `Infinity`, which would mean an unset
/// option: they are refused, as in k6.
fn read_options(value: &Value<'_>, json: &str) -> Result<serde_json::Value, ScriptError> {
    let json = serde_json::from_str(json)
        .map_err(|error| ScriptError::Options(format!("`options` cannot be read: {error}")))?;
    match no_number(value, &json) {
        None => Ok(json),
        Some((path, number)) => Err(ScriptError::Options(format!(
            "option `{}`: a number is expected, not {number}",
            path.trim_start_matches('.')
        ))),
    }
}

/// Path and name of the first number of `value` that JSON cannot hold. Goes as deep as `json`, which its parser limits.
fn no_number(value: &Value<'_>, json: &serde_json::Value) -> Option<(String, &'static str)> {
    use serde_json::Value as Json;
    let found = match json {
        Json::Null => {
            let name = match value.as_float()? {
                number if number.is_nan() => "NaN",
                number if number > 0.0 => "Infinity",
                _ => "-Infinity",
            };
            return Some((String::new(), name));
        }
        Json::Object(members) => members.iter().find_map(|(name, member)| {
            let value = value.as_object()?.get::<_, Value<'_>>(name).ok()?;
            Some((format!(".{name}"), no_number(&value, member)?))
        }),
        Json::Array(members) => members.iter().enumerate().find_map(|(at, member)| {
            let value = value.as_array()?.get::<Value<'_>>(at).ok()?;
            Some((format!("[{at}]"), no_number(&value, member)?))
        }),
        _ => None,
    };
    found.map(|(step, (path, number))| (step + &path, number))
}

/// Runs pending jobs until a promise is settled. A promise that is still pending when no timer and no request is left
/// counts as fulfilled, as in k6, whose event loop ends then.
pub(super) fn settle<'js>(
    ctx: &Ctx<'js>,
    user: &User,
    promise: &Promise<'js>,
) -> rquickjs::Result<()> {
    run_until(ctx, user, || promise.state() != PromiseState::Pending)?;
    match promise.result::<Value<'js>>() {
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Runs the remaining jobs of asynchronous functions that were not awaited.
pub(super) fn drain(ctx: &Ctx<'_>, user: &User) -> rquickjs::Result<()> {
    run_until(ctx, user, || false)
}

/// Runs jobs and tasks until `is_over`, or none is left.
fn run_until(ctx: &Ctx<'_>, user: &User, is_over: impl Fn() -> bool) -> rquickjs::Result<()> {
    while !is_over() {
        // Short jobs that start each other never reach QuickJS's own interrupt poll.
        if user.control.poll_interrupt() {
            return Err(Exception::throw_message(ctx, "the iteration was interrupted"));
        }
        if !ctx.execute_pending_job() && !tasks::turn(ctx, user)? {
            break;
        }
    }
    Ok(())
}

/// A rejection without a handler, in k6's words.
pub(super) fn uncaught(text: &str) -> String {
    format!("Uncaught (in promise) {text}")
}
