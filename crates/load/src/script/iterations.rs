//! The life of a virtual user after its init code: iterations, and calls of life-cycle functions.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rquickjs::{CaughtError, Coerced, Ctx, Exception, Function, Object, Value};
use tokio::time::Instant;

use super::error::describe;
use super::life::{drain, settle, uncaught};
use super::mailbox::{Activation, Call, CallError, Mailbox, Outputs, Returned, Task, Turn};
use super::user::{IterationOutcome, User};
use super::{ScriptError, modules};
use crate::log::Level;
use crate::metrics::GroupId;

pub(super) struct Iterations<'a, 'js> {
    ctx: &'a Ctx<'js>,
    user: &'a Rc<User>,
    functions: HashMap<String, Function<'js>>,
    /// This virtual user's own copy of the result of `setup()`, once needed. As in k6, changes by an iteration are
    /// visible to the next one.
    data: Option<Value<'js>>,
    count: u64,
}

impl<'a, 'js> Iterations<'a, 'js> {
    pub(super) fn new(ctx: &'a Ctx<'js>, user: &'a Rc<User>, namespace: &Object<'js>) -> Self {
        let functions = namespace
            .props::<String, Value<'js>>()
            .filter_map(Result::ok)
            .filter_map(|(name, value)| Some((name, value.into_function()?)))
            .collect();
        Self { ctx, user, functions, data: None, count: 0 }
    }

    pub(super) fn serve(&mut self, mailbox: &Mailbox) {
        while let Some(task) = mailbox.receive() {
            match task {
                Task::Prepare(ready) => {
                    // An error is reported by the first iteration.
                    let _ = CaughtError::catch(self.ctx, self.setup_data());
                    let _ = ready.send(());
                }
                Task::Iterate(work) => {
                    self.user.run.live.active.fetch_add(1, Ordering::Relaxed);
                    self.work(&work);
                    self.user.run.live.active.fetch_sub(1, Ordering::Relaxed);
                    drop(work.busy);
                    let _ = work.done.send(());
                }
                Task::Call(call) => {
                    let result = self.call(&call);
                    let _ = call.reply.send(result);
                }
            }
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
        while let Some(Turn { start, intended }) = work.turns.next() {
            let lag = intended.map(|intended| start.saturating_duration_since(intended));
            self.user.begin_iteration(self.count, lag);
            let outcome = self.iterate(&function);
            let end = Instant::now();
            self.account(&outcome, end - start);
            self.count += 1;
            if outcome == IterationOutcome::Interrupted {
                return;
            }
            self.fill_up(end - start);
            self.user.control.share(end.into_std());
        }
    }

    fn set_environment(&self, environment: &[(String, String)]) -> rquickjs::Result<()> {
        if environment.is_empty() {
            return Ok(());
        }
        let object: Object<'js> = self.ctx.globals().get("__ENV")?;
        environment.iter().try_for_each(|(key, value)| object.set(key.as_str(), value.as_str()))
    }

    fn setup_data(&mut self) -> rquickjs::Result<Value<'js>> {
        if let Some(data) = &self.data {
            return Ok(data.clone());
        }
        let data = self.parse(self.user.run.setup_data.get())?;
        self.data = Some(data.clone());
        Ok(data)
    }

    fn parse(&self, json: Option<&Arc<str>>) -> rquickjs::Result<Value<'js>> {
        match json {
            Some(json) => self.ctx.json_parse(json.as_bytes()),
            None => Ok(Value::new_undefined(self.ctx.clone())),
        }
    }

    fn iterate(&mut self, function: &Function<'js>) -> IterationOutcome {
        let result = self.setup_data().and_then(|data| {
            self.user.reset_cookies();
            self.ctx.globals().set("__ITER", self.count)?;
            self.run(function, data).map(|_| ())
        });
        let result = CaughtError::catch(self.ctx, result);
        match self.conclude(result.err()) {
            // In k6's metrics the iteration that aborts the test is complete.
            IterationOutcome::Interrupted if self.user.has_aborted.get() => {
                IterationOutcome::Complete
            }
            outcome => outcome,
        }
    }

    /// Calls a function, and waits for its promise if it is asynchronous.
    fn run(&self, function: &Function<'js>, argument: Value<'js>) -> rquickjs::Result<Value<'js>> {
        let value: Value<'js> = function.call((argument,))?;
        let Some(promise) = value.as_promise() else { return Ok(value) };
        settle(self.ctx, self.user, promise)?;
        let settled = promise.result::<Value<'js>>().transpose()?;
        Ok(settled.unwrap_or_else(|| Value::new_undefined(self.ctx.clone())))
    }

    /// Completes an iteration, with the exception it threw if any. An interruption shows in `take_cut`.
    fn conclude(&self, thrown: Option<CaughtError<'_>>) -> IterationOutcome {
        // After an exception, timers and requests are not waited for.
        let thrown = thrown.map(|caught| describe(&caught));
        if thrown.is_some() {
            self.user.tasks.clear(self.ctx);
        }
        let drained = CaughtError::catch(self.ctx, drain(self.ctx, self.user));
        // An exception of a timer counts as one of the function, as in k6.
        let thrown = thrown.or(drained.err().map(|caught| describe(&caught)));
        self.user.tasks.clear(self.ctx);
        self.user.sockets.close(self.user);
        if self.user.run.settings().no_vu_connection_reuse {
            self.user.client.close_connections();
        }
        let outcome = thrown.map_or(IterationOutcome::Complete, IterationOutcome::Threw);
        let rejections = &self.user.rejections;
        if let IterationOutcome::Threw(text) = &outcome {
            // The promise of an asynchronous default function.
            rejections.forget(text);
        }
        let unhandled = rejections.take();
        if self.user.control.take_cut() {
            return IterationOutcome::Interrupted;
        }
        for text in unhandled {
            self.log_exception(&uncaught(&text));
        }
        outcome
    }

    fn account(&self, outcome: &IterationOutcome, duration: Duration) {
        let live = &self.user.run.live;
        // Iterations of the warm-up count only in the sums over the whole run.
        let counted = u64::from(self.user.event_loop.recorder.borrow().is_recording());
        // After an exception, requests may be left that are not waited for.
        let waiting = self.user.pending.give_up();
        if *outcome == IterationOutcome::Interrupted {
            self.user.end_iteration();
            live.interrupted.fetch_add(counted, Ordering::Relaxed);
            self.user.add_interrupted(waiting);
        } else {
            self.user.group.set(GroupId::ROOT);
            self.user.end_iteration();
            self.user.add_iteration(duration);
            live.complete.fetch_add(counted, Ordering::Relaxed);
        }
        if let IterationOutcome::Threw(exception) = outcome {
            let had_bad_request = self.user.had_bad_request();
            let mut recorder = self.user.event_loop.recorder.borrow_mut();
            recorder.add_exception(exception, had_bad_request);
            drop(recorder);
            self.log_exception(exception);
        }
        self.user.settle_iteration();
    }

    /// Waits until the iteration has taken `minIterationDuration`.
    fn fill_up(&self, took: Duration) {
        let left = self.user.run.settings().min_iteration_duration.saturating_sub(took);
        if !left.is_zero() {
            // Nothing is lost when the wait is cut short.
            let _ = self.user.control.wait(tokio::time::sleep(left));
            self.user.control.take_cut();
        }
    }

    fn log_exception(&self, exception: &str) {
        // The failure of a run is reported once, at its end.
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

    fn call(&self, call: &Call) -> Result<Returned, CallError> {
        let user = self.user;
        user.assignment.replace(call.assignment.clone());
        let group =
            call.group.map(|name| user.event_loop.recorder.borrow_mut().group(GroupId::ROOT, name));
        user.group.set(group.unwrap_or(GroupId::ROOT));
        let is_summary = call.function == "handleSummary";
        let mut argument = None;
        let result = (|| {
            let Some(function) = self.functions.get(call.function) else {
                return Ok(Returned::default());
            };
            let given = self.parse(call.argument.as_ref())?;
            argument = is_summary.then(|| given.clone());
            let value = self.run(function, given)?;
            Ok(match is_summary {
                true => Returned { json: None, outputs: read_outputs(self.ctx, &value)? },
                false => Returned { json: self.to_json(value)?, outputs: None },
            })
        })();
        let (mut returned, thrown) = match CaughtError::catch(self.ctx, result) {
            Ok(returned) => (returned, None),
            Err(caught) => (Returned::default(), Some(caught)),
        };
        let outcome = self.conclude(thrown);
        if let Some(argument) = argument {
            returned.json = CaughtError::catch(self.ctx, self.to_json(argument)).ok().flatten();
        }
        user.end_iteration();
        user.pending.give_up();
        user.settle_iteration();
        match outcome {
            IterationOutcome::Complete => Ok(returned),
            IterationOutcome::Interrupted => Err(CallError::Interrupted),
            // The changes made to the argument count nevertheless. The failure of a run is reported once.
            IterationOutcome::Threw(text)
                if returned.json.is_some() && user.run.failure().is_none() =>
            {
                user.run.log.write(Level::Error, &text, &[]);
                Ok(returned)
            }
            IterationOutcome::Threw(text) => Err(CallError::Threw(text)),
        }
    }

    fn to_json(&self, value: Value<'js>) -> rquickjs::Result<Option<String>> {
        if value.is_undefined() {
            return Ok(None);
        }
        // As in k6, undefined members become null instead of being left out.
        let fill: Function<'js> =
            self.ctx.eval("(_, value) => (value === undefined ? null : value)")?;
        let json = self.ctx.json_stringify_replacer(value, fill)?;
        let json = json.map(|text| text.to_string()).transpose()?;
        if json.as_ref().is_some_and(|json| json.len() > MAX_DATA_BYTES) {
            let message = format!("the returned data is larger than {} MiB", MAX_DATA_BYTES >> 20);
            return Err(Exception::throw_message(self.ctx, &message));
        }
        Ok(json)
    }
}

fn read_outputs(ctx: &Ctx<'_>, value: &Value<'_>) -> rquickjs::Result<Option<Outputs>> {
    if !value.get::<Coerced<bool>>()?.0 {
        return Ok(None);
    }
    let object = value.as_object().filter(|object| !object.is_array() && !object.is_function());
    let Some(object) = object else {
        return Err(Exception::throw_type(ctx, "handleSummary() must return an object"));
    };
    let mut outputs = Vec::new();
    for entry in object.props::<String, Value<'_>>() {
        let (name, member) = entry?;
        let Some(bytes) = modules::text_or_bytes(&member)? else {
            let message = format!("handleSummary(): `{name}` is neither a text nor a buffer");
            return Err(Exception::throw_type(ctx, &message));
        };
        outputs.push((name, bytes));
    }
    Ok(Some(outputs))
}

/// Limit of the result of `setup()`, of which every virtual user has a copy.
const MAX_DATA_BYTES: usize = 64 << 20;
