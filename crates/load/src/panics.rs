//! A panic of the engine ends its run, whatever becomes of it: QuickJS makes an exception of one, which a script can
//! catch, and the event loop drops a task that has panicked.

use std::cell::RefCell;
use std::panic;
use std::rc::Rc;
use std::sync::{Arc, Once};

use crate::run::{Run, Stop};

thread_local! {
    /// The run that this thread works for, and what it does, for messages.
    static WATCHED: RefCell<Option<(Arc<Run>, &'static str)>> = const { RefCell::new(None) };
}

tokio::task_local! {
    /// What the task that is being polled works for.
    static TASK: Rc<dyn Place>;
}

/// Names the place of a panic in messages. Must not panic itself.
pub(crate) trait Place {
    fn place(&self) -> String;
}

/// A task whose panics are reported with `place`.
pub(crate) fn within<F: Future>(place: Rc<dyn Place>, task: F) -> impl Future<Output = F::Output> {
    TASK.scope(place, task)
}

/// As long as it lives, a panic on this thread stops the run.
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

/// Stops the run of this thread, if it has one.
fn note() {
    // A panic in a hook would end the process: nothing is borrowed that may be gone or borrowed already.
    let _ = WATCHED.try_with(|watched| {
        let Ok(watched) = watched.try_borrow() else { return };
        let Some((run, place)) = &*watched else { return };
        let place = TASK.try_with(|task| task.place()).unwrap_or_else(|_| (*place).to_owned());
        run.request_stop(Stop::Panic(place));
    });
}
