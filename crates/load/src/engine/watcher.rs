//! The thread that started a run: calls `setup()`, starts the clock, watches, stops on a signal,
//! a threshold or a call of the script, calls `teardown()`.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::lifecycle::{self, Function};
use super::thresholds::LiveFigures;
use super::{Clock, Finished, Lifecycle, Observer, Phase, Plan};
use crate::generator::{self, LoopHealth};
use crate::log::Level;
use crate::metrics::{Builtin, Measured, MetricKind, SampleTags, Sink};
use crate::run::{Run, RunClock, Stop};
use crate::script::ScriptError;
use crate::stop_signals::{Signals, end_at_once};

/// How often the watching thread looks: for the progress line and a script that gave up.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// How often thresholds that may end the run are judged; k6's.
const THRESHOLD_INTERVAL: Duration = Duration::from_secs(2);

/// Between the last virtual user's readiness and the start, so that all loops see the start before it comes.
const START_DELAY: Duration = Duration::from_millis(5);

/// The thread that called [`execute`](super::execute).
pub(super) struct Watcher<'a> {
    pub(super) run: &'a Arc<Run>,
    pub(super) plan: &'a Plan,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) signals: Signals,
    pub(super) ready: mpsc::UnboundedReceiver<Result<(), ScriptError>>,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) done: mpsc::UnboundedReceiver<()>,
    pub(super) loops: usize,
    pub(super) figures: Option<Arc<LiveFigures>>,
}

pub(super) struct Watched {
    /// Without what the loops measured.
    pub(super) finished: Finished,
    pub(super) vus: Sink,
    pub(super) vus_max: Sink,
}

impl Watcher<'_> {
    pub(super) async fn watch(mut self) -> Result<Watched, ScriptError> {
        let lifecycle = match self.before().await {
            Ok(lifecycle) if lifecycle.setup_error.is_none() => lifecycle,
            Ok(lifecycle) => {
                self.give_up();
                return Ok(Watched::new(SystemTime::now(), lifecycle));
            }
            Err(error) => {
                self.give_up();
                return Err(error);
            }
        };
        let mut watched = self.scenarios(lifecycle).await;
        if self.run.failure().is_none() {
            self.teardown(&mut watched).await;
        }
        Ok(watched)
    }

    /// Everything before the scenarios: init code, `setup()`, its data to all virtual users.
    async fn before(&mut self) -> Result<Lifecycle, ScriptError> {
        self.all_ready().await?;
        let mut lifecycle = Lifecycle::default();
        let begin = Instant::now();
        let _ = self.run.began.set(begin);
        if self.plan.has("setup") && !self.plan.options.no_setup {
            let function = Function {
                name: "setup",
                argument: None,
                group: Some("setup"),
                timeout: self.plan.options.setup_timeout,
                option: "setupTimeout",
            };
            let (result, measured) = self.call(function).await;
            // `exec.test.abort()` in a function that ended all the same.
            if let Some(error) = self.run.stopped_early() {
                return Err(error);
            }
            let is_of_script = |error: &ScriptError| {
                matches!(error, ScriptError::Exception(_) | ScriptError::Timeout { .. })
            };
            match result {
                Ok(returned) => {
                    if let Some(json) = returned.json {
                        let _ = self.run.setup_data.set(json.into());
                    }
                }
                Err(error) if is_of_script(&error) => lifecycle.setup_error = Some(error),
                Err(error) => return Err(error),
            }
            if let Some(figures) = &self.figures {
                figures.share_setup(&measured);
            }
            lifecycle.setup = measured;
            lifecycle.setup_took = begin.elapsed();
            if lifecycle.setup_error.is_some() {
                return Ok(lifecycle);
            }
        }
        let _ = self.phase.send(Phase::Preparing);
        self.all_ready().await?;
        Ok(lifecycle)
    }

    /// Writes when the recording begins, for programs that act at a moment of it. The run goes on without.
    fn write_start(&self, moment: SystemTime) {
        let Some(path) = &self.plan.started else { return };
        let seconds = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if let Err(error) = std::fs::write(path, format!("{}\n", seconds.as_secs_f64())) {
            let message = format!("cannot write `{}`: {error}", path.display());
            self.run.log.write(Level::Warning, &message, &[]);
        }
    }

    async fn scenarios(&mut self, lifecycle: Lifecycle) -> Watched {
        let start = Instant::now() + START_DELAY;
        let start_time = SystemTime::now() + START_DELAY;
        let record_from = start + self.plan.warm_up;
        let warm_up = self.plan.warm_up;
        let _ = self.run.clock.set(RunClock { start, start_time, warm_up });
        let _ = self.phase.send(Phase::Running(Clock { start, record_from }));
        self.write_start(start_time + warm_up);
        let mut watched = Watched::new(start_time + warm_up, lifecycle);
        let mut cpu_before = generator::process_cpu();
        let mut recording = false;
        let mut next_sample = record_from;
        let mut next_judgement = record_from + THRESHOLD_INTERVAL;
        let mut left = self.loops;
        let mut tick = tokio::time::interval(WATCH_INTERVAL);
        while left > 0 {
            tokio::select! {
                _ = self.done.recv() => left -= 1,
                () = self.signals.next() => {
                    if watched.finished.aborted {
                        end_at_once(self.plan.on_second_signal);
                    }
                    watched.finished.aborted = true;
                    let _ = self.stop.send(true);
                }
                () = tokio::time::sleep_until(record_from), if !recording => {
                    recording = true;
                    cpu_before = generator::process_cpu();
                }
                _ = tick.tick() => {
                    let now = Instant::now();
                    if now >= next_judgement {
                        next_judgement = now + THRESHOLD_INTERVAL;
                        self.judge(watched.finished.lifecycle.setup_took + (now - record_from));
                    }
                    if self.run.abort.load(Ordering::Relaxed) || self.run.stop_requested().is_some() {
                        let _ = self.stop.send(true);
                    }
                    self.observer.running(now.saturating_duration_since(start));
                    // k6 samples the number of virtual users once per second.
                    if recording && now >= next_sample {
                        next_sample += Duration::from_secs(1);
                        let live = &self.run.live;
                        let active = live.active.load(Ordering::Relaxed) as f64;
                        let made = live.initialised.load(Ordering::Relaxed) as f64;
                        watched.vus.add(active);
                        watched.vus_max.add(made);
                        // As in k6 not at the very beginning.
                        if now >= record_from + Duration::from_secs(1) {
                            self.emit_users(now, active, made);
                        }
                    }
                }
            }
        }
        watched.finished.duration = record_from.elapsed();
        watched.finished.ended_at = SystemTime::now();
        watched.finished.cpu = generator::process_cpu().saturating_sub(cpu_before);
        watched
    }

    /// Gives the numbers of virtual users to outputs.
    fn emit_users(&self, now: Instant, active: f64, made: f64) {
        let Some(samples) = self.run.samples.get() else { return };
        let values = [(Builtin::Vus.id(), active), (Builtin::VusMax.id(), made)];
        let custom = &self.plan.options.tags;
        // Outside of all groups: there is no such tag on them.
        let enabled = self.plan.options.system_tags.without("group");
        samples.send(
            now.into_std(),
            &values,
            &SampleTags { custom, enabled, ..SampleTags::default() },
        );
    }

    /// Stops the run when a threshold fails that is to end it.
    fn judge(&self, elapsed: Duration) {
        if let Some(metrics) = self.figures.as_ref().and_then(|figures| figures.breached(elapsed)) {
            self.run.request_stop(Stop::Thresholds(metrics));
        }
    }

    /// Also after a signal or `exec.test.abort()`, as in k6.
    async fn teardown(&mut self, watched: &mut Watched) {
        if !self.plan.has("teardown") || self.plan.options.no_teardown {
            return;
        }
        let begin = Instant::now();
        let function = Function {
            name: "teardown",
            argument: self.run.setup_data.get().cloned(),
            group: Some("teardown"),
            timeout: self.plan.options.teardown_timeout,
            option: "teardownTimeout",
        };
        // What stopped the scenarios does not stop this.
        self.stop.send_replace(false);
        let (result, measured) = self.call(function).await;
        watched.finished.lifecycle.teardown = measured;
        watched.finished.lifecycle.teardown_error = result.err();
        watched.finished.lifecycle.teardown_took = begin.elapsed();
    }

    /// Calls a function of the life-cycle; a signal ends it.
    async fn call(
        &mut self,
        function: Function,
    ) -> (Result<crate::script::mailbox::Returned, ScriptError>, Measured) {
        let call = lifecycle::call(self.run, &self.plan.options, function, self.stop.subscribe());
        let mut call = pin!(call);
        let mut signalled = false;
        loop {
            tokio::select! {
                result = &mut call => return result,
                () = self.signals.next() => {
                    if signalled {
                        end_at_once(self.plan.on_second_signal);
                    }
                    signalled = true;
                    let _ = self.stop.send(true);
                }
            }
        }
    }

    async fn all_ready(&mut self) -> Result<(), ScriptError> {
        let mut left = self.loops;
        let mut tick = tokio::time::interval(WATCH_INTERVAL);
        while left > 0 {
            tokio::select! {
                ready = self.ready.recv() => {
                    ready.unwrap_or(Err(ScriptError::Interrupted))?;
                    left -= 1;
                }
                () = self.signals.next() => return Err(ScriptError::Interrupted),
                _ = tick.tick() => {
                    // A loop that has panicked does not get ready.
                    self.run.panicked().map_or(Ok(()), Err)?;
                    let ready = self.run.live.initialised.load(Ordering::Relaxed);
                    self.observer.initialising(ready, self.plan.options.planned_vus());
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
    /// Before anything is seen.
    fn new(started_at: SystemTime, lifecycle: Lifecycle) -> Self {
        let finished = Finished {
            measured: Measured::default(),
            health: LoopHealth::default(),
            started_at,
            ended_at: started_at,
            duration: Duration::ZERO,
            cpu: Duration::ZERO,
            aborted: false,
            stopped: None,
            lifecycle,
            max_vus: 0,
        };
        Self { finished, vus: Sink::new(MetricKind::Gauge), vus_max: Sink::new(MetricKind::Gauge) }
    }
}
