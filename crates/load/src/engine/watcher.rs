//! The thread that started a run: it starts the clock, watches, and stops on a signal.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::{Clock, Observer, Plan};
use crate::generator;
use crate::metrics::{Builtin, Measured, MetricKind, Sink};
use crate::run::Run;
use crate::script::ScriptError;

/// How often the watching thread looks: for the progress line and a script that gave up.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Between "everybody is ready" and the start, so that all loops see the start before it comes.
const START_DELAY: Duration = Duration::from_millis(5);

/// Exit code after a signal; k6's.
const EXIT_EXTERNAL_ABORT: i32 = 105;

/// The thread that called [`execute`]: starts the clock, watches, stops.
pub(super) struct Watcher<'a> {
    pub(super) run: &'a Arc<Run>,
    pub(super) plan: &'a Plan,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) ready: mpsc::UnboundedReceiver<Result<(), ScriptError>>,
    pub(super) clock: watch::Sender<Option<Clock>>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) done: mpsc::UnboundedReceiver<()>,
    pub(super) loops: usize,
}

/// What the watching thread saw.
pub(super) struct Watched {
    pub(super) started_at: SystemTime,
    pub(super) duration: Duration,
    pub(super) cpu: Duration,
    pub(super) aborted: bool,
    vus: Sink,
}

impl Watcher<'_> {
    pub(super) async fn watch(mut self) -> Result<Watched, ScriptError> {
        let mut signals = Signals::new()?;
        if let Err(error) = self.everybody_ready(&mut signals).await {
            self.give_up();
            return Err(error);
        }
        let start = Instant::now() + START_DELAY;
        let record_from = start + self.plan.warm_up;
        let started_at = SystemTime::now() + START_DELAY + self.plan.warm_up;
        let _ = self.clock.send(Some(Clock { start, record_from }));
        let mut watched = Watched {
            started_at,
            duration: Duration::ZERO,
            cpu: Duration::ZERO,
            aborted: false,
            vus: Sink::new(MetricKind::Gauge),
        };
        let mut cpu_before = generator::process_cpu();
        let mut recording = false;
        let mut next_sample = record_from;
        let mut left = self.loops;
        let mut tick = tokio::time::interval(WATCH_INTERVAL);
        while left > 0 {
            tokio::select! {
                _ = self.done.recv() => left -= 1,
                () = signals.received() => {
                    if watched.aborted {
                        std::process::exit(EXIT_EXTERNAL_ABORT);
                    }
                    watched.aborted = true;
                    let _ = self.stop.send(true);
                }
                () = tokio::time::sleep_until(record_from.into()), if !recording => {
                    recording = true;
                    cpu_before = generator::process_cpu();
                }
                _ = tick.tick() => {
                    if self.run.abort.load(Ordering::Relaxed) {
                        let _ = self.stop.send(true);
                    }
                    let now = Instant::now();
                    self.observer.running(now.saturating_duration_since(start));
                    // k6 samples the number of virtual users once per second.
                    if recording && now >= next_sample {
                        next_sample += Duration::from_secs(1);
                        watched.vus.add(self.run.live.active.load(Ordering::Relaxed) as f64);
                    }
                }
            }
        }
        watched.duration = record_from.elapsed();
        watched.cpu = generator::process_cpu().saturating_sub(cpu_before);
        Ok(watched)
    }

    async fn everybody_ready(&mut self, signals: &mut Signals) -> Result<(), ScriptError> {
        let mut left = self.loops;
        let mut tick = tokio::time::interval(WATCH_INTERVAL);
        while left > 0 {
            tokio::select! {
                ready = self.ready.recv() => {
                    ready.unwrap_or(Err(ScriptError::Interrupted))?;
                    left -= 1;
                }
                () = signals.received() => return Err(ScriptError::Interrupted),
                _ = tick.tick() => {
                    let ready = self.run.live.initialised.load(Ordering::Relaxed);
                    self.observer.initialising(ready, self.plan.options.max_vus());
                }
            }
        }
        Ok(())
    }

    /// Ends all loops before the clock was started.
    fn give_up(&self) {
        self.run.abort.store(true, Ordering::Relaxed);
        let _ = self.stop.send(true);
    }
}

impl Watched {
    pub(super) fn add_gauges(&self, measured: &mut Measured, max_vus: u32) {
        measured.sinks[Builtin::Vus as usize].merge(&self.vus);
        measured.sinks[Builtin::VusMax as usize].add(f64::from(max_vus));
    }
}

/// SIGINT and SIGTERM.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, ScriptError> {
        let listen = |kind| signal(kind).map_err(|error| ScriptError::Start(error.to_string()));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
