//! A panic of the engine ends its run. Without this, QuickJS would turn it into an exception, which a script can catch,
//! and the event loop would drop the task silently.

use std::cell::RefCell;
use std::panic;
use std::rc::Rc;
use std::sync::{Arc, Once};

use crate::run::{Run, Stop};

thread_local! {
    /// The run of this thread, and the thread's place for messages.
    static WATCHED: RefCell<Option<(Arc<Run>, &'static str)>> = const { RefCell::new(None) };
}

tokio::task_local! {
    /// The place of the task being polled.
    static TASK: Rc<dyn Place>;
}

pub(crate) trait Place {
    /// The place of a panic, for messages. Must not panic.
    fn place(&self) -> String;
}

/// Runs a task whose panics are reported with `place`.
pub(crate) fn within<F: Future>(place: Rc<dyn Place>, task: F) -> impl Future<Output = F::Output> {
    TASK.scope(place, task)
}

/// Stops the run at a panic on this thread, until dropped.
pub(crate) struct Watch(Option<(Arc<Run>, &'static str)>);

impl Watch {
    pub(crate) fn new(run: &Arc<Run>, place: &'static str) -> Self {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            let previous = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                previous(info);
                note();
            }));
        });
        Self(WATCHED.replace(Some((run.clone(), place))))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = WATCHED.try_with(|watched| watched.replace(self.0.take()));
    }
}

/// Stops the run of this thread, if any.
fn note() {
    // A panic in a hook would end the process: borrows must not fail.
    let _ = WATCHED.try_with(|watched| {
        let Ok(watched) = watched.try_borrow() else { return };
        let Some((run, place)) = &*watched else { return };
        let place = TASK.try_with(|task| task.place()).unwrap_or_else(|_| (*place).to_owned());
        run.request_stop(Stop::Panic(place));
    });
}
