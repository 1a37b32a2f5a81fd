//! Runs the spans of a virtual user.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot, watch};
use tokio::time::Instant;

use super::{Budget, Span};
use crate::script::mailbox::{Activation, Mailbox, Turn, Turns};
use crate::script::user::{Assignment, User};

pub(crate) struct Worker {
    pub(crate) user: Rc<User>,
    pub(crate) mailbox: Rc<Mailbox>,
    pub(crate) assignment: Rc<Assignment>,
    pub(crate) spans: Vec<Span>,
    pub(crate) budget: Budget,
    /// Locked while the virtual user has work.
    pub(crate) busy: Arc<Mutex<()>>,
}

struct Active {
    /// From then on no iteration starts; moved when the next span begins during the last iteration of this one.
    end: Rc<Cell<Instant>>,
    limit: Instant,
    done: oneshot::Receiver<()>,
}

impl Worker {
    /// Runs all spans. When `stop` becomes true, iterations are interrupted and no more start.
    pub(crate) async fn run(self, start: Instant, stop: watch::Receiver<bool>) {
        let spans = async {
            let mut active: Option<Active> = None;
            for span in &self.spans {
                active = self.idle_until(start + span.start, active).await;
                let mut current = self.activate(start, *span, active);
                tokio::select! {
                    _ = &mut current.done => {
                        active = None;
                        if self.budget.is_limited() {
                            break;
                        }
                        continue;
                    }
                    () = wait_until(start + span.end) => self.user.control.stop(),
                }
                active = Some(current);
            }
            if let Some(active) = &mut active {
                self.is_over(active, None).await;
            }
        };
        tokio::select! {
            () = spans => {}
            () = wait_for_stop(stop) => {
                self.user.control.interrupt();
                drop(self.busy.lock().await);
                // Iterations that the end of the run prevents are not dropped.
                self.budget.drain();
            }
        }
        let dropped = self.budget.drain();
        // Nor when the script has ended the run.
        if dropped > 0 && self.user.run.stop_requested().is_none() {
            self.user.event_loop.dropped(&self.assignment, dropped);
        }
        self.mailbox.close();
    }

    /// Waits for the next span; an iteration of the last one is interrupted at its limit.
    async fn idle_until(&self, next: Instant, active: Option<Active>) -> Option<Active> {
        if let Some(mut active) = active
            && !self.is_over(&mut active, Some(next)).await
        {
            return Some(active);
        }
        wait_until(next).await;
        None
    }

    /// Waits for the last iteration up to its limit; false when it may continue and the `next` span begins.
    async fn is_over(&self, active: &mut Active, next: Option<Instant>) -> bool {
        tokio::select! {
            _ = &mut active.done => {}
            () = wait_until(next.map_or(active.limit, |next| next.min(active.limit))) => {
                if next.is_some_and(|next| next <= active.limit) {
                    return false;
                }
                self.user.control.interrupt();
                let _ = (&mut active.done).await;
            }
        }
        true
    }

    fn activate(&self, start: Instant, span: Span, active: Option<Active>) -> Active {
        let (span_end, limit) = (start + span.end, start + span.limit);
        self.user.control.resume();
        if let Some(active) = active
            && active.done.is_empty()
            && !active.done.is_terminated()
        {
            active.end.set(span_end);
            return Active { limit, ..active };
        }
        let end = Rc::new(Cell::new(span_end));
        let (sender, done) = oneshot::channel();
        let (user, budget) = (self.user.clone(), self.budget.clone());
        let scenario = &self.user.run.settings().scenarios[self.assignment.index];
        self.mailbox.send(Activation {
            assignment: self.assignment.clone(),
            exec: scenario.exec.clone(),
            environment: scenario.env.clone(),
            turns: Box::new(SpanTurns { end: end.clone(), user, budget }),
            done: sender,
            // Unlocked: the last activation is over.
            busy: self.busy.clone().try_lock_owned().ok(),
        });
        Active { end, limit, done }
    }
}

struct SpanTurns {
    end: Rc<Cell<Instant>>,
    user: Rc<User>,
    budget: Budget,
}

impl Turns for SpanTurns {
    fn next(&self) -> Option<Turn> {
        let start = Instant::now();
        let goes_on =
            start < self.end.get() && !self.user.control.is_stopping() && self.budget.take();
        goes_on.then_some(Turn { start, intended: None })
    }
}

pub(super) async fn wait_until(instant: Instant) {
    if instant > Instant::now() + Duration::from_micros(1) {
        tokio::time::sleep_until(instant).await;
    }
}

pub(crate) async fn wait_for_stop(mut stop: watch::Receiver<bool>) {
    // Without a sender the run cannot be stopped any more.
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
