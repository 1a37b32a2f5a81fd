//! Calls of `setup()`, `teardown()` and `handleSummary()`, each on a new virtual user, on the thread of the watcher.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::{init, interrupt_on};
use crate::event_loop::EventLoop;
use crate::executor::runner::wait_for_stop;
use crate::metrics::Measured;
use crate::run::{Run, Stop};
use crate::script::ScriptError;
use crate::script::mailbox::{Call, CallError, Mailbox, Returned, Task};
use crate::script::user::{Assignment, User};

pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Argument as JSON.
    pub(crate) argument: Option<Arc<str>>,
    pub(crate) timeout: Duration,
}

/// Calls a function of the script and returns its result and measurements. Must be polled inside of a `LocalSet`.
pub(crate) async fn call(
    run: &Arc<Run>,
    function: Function,
    stop: watch::Receiver<bool>,
) -> (Result<Returned, ScriptError>, Measured) {
    let event_loop = Rc::new(EventLoop::new(run.clone(), run.settings().client.clone()));
    let result = call_on(&event_loop, function, stop).await;
    let measured = event_loop.recorder.replace(run.recorder()).finish();
    (result, measured)
}

/// Waits until the function must end: by `stop`, or by a stop request such as a panic in its tasks.
async fn is_to_end(stop: watch::Receiver<bool>, mut requests: watch::Receiver<Option<Stop>>) {
    tokio::select! {
        () = wait_for_stop(stop) => {}
        _ = requests.changed() => {}
    }
}

async fn call_on(
    event_loop: &Rc<EventLoop>,
    function: Function,
    stop: watch::Receiver<bool>,
) -> Result<Returned, ScriptError> {
    let run = &event_loop.run;
    let options = run.settings();
    let requests = run.stop_requests();
    let user = Rc::new(User::new(0, event_loop.clone()));
    let mailbox = Rc::new(Mailbox::default());
    interrupt_on(is_to_end(stop.clone(), requests.clone()), &user, init(&user, &mailbox)).await?;
    let is_measured = function.name != "handleSummary";
    let mut recorder = run.recorder();
    recorder.emit_to(run.samples.get().filter(|_| is_measured));
    recorder.start(Instant::now().into_std());
    event_loop.recorder.replace(recorder);
    let (sender, mut reply) = oneshot::channel();
    mailbox.put(Task::Call(Call {
        function: function.name,
        argument: function.argument,
        group: is_measured.then_some(function.name),
        assignment: Rc::new(Assignment {
            index: options.scenarios.len(),
            tags: options.tags.clone(),
            ..Assignment::default()
        }),
        reply: sender,
    }));
    mailbox.close();
    let timeout = tokio::time::sleep(function.timeout);
    let mut timed_out = false;
    let result = tokio::select! {
        result = &mut reply => result,
        () = timeout => {
            timed_out = true;
            user.control.interrupt();
            reply.await
        }
        () = is_to_end(stop, requests) => {
            user.control.interrupt();
            reply.await
        }
    };
    if let Some(failure) = run.failure() {
        return Err(failure);
    }
    match result {
        Ok(Ok(returned)) => Ok(returned),
        Ok(Err(CallError::Threw(text))) => Err(ScriptError::Exception(text)),
        Ok(Err(CallError::Interrupted)) | Err(_) if timed_out => Err(ScriptError::Timeout {
            function: function.name,
            option: match function.name {
                "setup" => "setupTimeout",
                "teardown" => "teardownTimeout",
                _ => "handleSummaryTimeout",
            },
            seconds: function.timeout.as_secs_f64(),
        }),
        Ok(Err(CallError::Interrupted)) | Err(_) => {
            Err(run.stopped_early().unwrap_or(ScriptError::Interrupted))
        }
    }
}
