//! Watches a run on the thread that started it: calls `setup()`, starts the clock, stops the run on a signal, a
//! threshold or a call of the script, and calls `teardown()`.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::lifecycle::{self, Function};
use super::thresholds::LiveFigures;
use super::{Finished, Lifecycle, Phase, Plan};
use crate::generator::{self, LoopHealth};
use crate::log::Level;
use crate::metrics::{Builtin, Measured, MetricKind, SampleTags, Sink};
use crate::progress::Progress;
use crate::run::{Run, RunClock, Stop};
use crate::script::ScriptError;
use crate::script::mailbox::Returned;
use crate::stop_signals::{Signals, end_at_once};

/// Interval of the progress display and of checks for a stop request.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Interval of the evaluation of thresholds that may end the run; k6's.
const THRESHOLD_INTERVAL: Duration = Duration::from_secs(2);

/// Time from the last virtual user's readiness to the start, so that all loops know the start in advance.
const START_DELAY: Duration = Duration::from_millis(5);

pub(super) struct Watcher<'a> {
    pub(super) run: &'a Arc<Run>,
    pub(super) plan: &'a Plan<'a>,
    pub(super) progress: &'a mut Progress,
    pub(super) signals: Signals,
    pub(super) ready: mpsc::UnboundedReceiver<Result<(), ScriptError>>,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) done: mpsc::UnboundedReceiver<()>,
    pub(super) loops: usize,
    pub(super) figures: Option<Arc<LiveFigures>>,
}

impl Watcher<'_> {
    /// The results without the measurements of the event loops.
    pub(super) async fn watch(mut self) -> Result<Finished, ScriptError> {
        let lifecycle = match self.before().await {
            Ok(lifecycle) if lifecycle.setup_error.is_none() => lifecycle,
            Ok(lifecycle) => {
                self.give_up();
                return Ok(Finished::new(SystemTime::now(), lifecycle));
            }
            Err(error) => {
                self.give_up();
                return Err(error);
            }
        };
        let mut finished = self.scenarios(lifecycle).await;
        if self.run.failure().is_none() {
            self.teardown(&mut finished).await;
        }
        Ok(finished)
    }

    /// Waits for the init code, calls `setup()`, and waits until all virtual users have its data.
    async fn before(&mut self) -> Result<Lifecycle, ScriptError> {
        self.all_ready().await?;
        let mut lifecycle = Lifecycle::default();
        let begin = Instant::now();
        let _ = self.run.began.set(begin);
        if self.plan.has("setup") && !self.run.settings().no_setup {
            let timeout = self.run.settings().setup_timeout;
            let function = Function { name: "setup", argument: None, timeout };
            let (result, measured) = self.call(function).await;
            // `exec.test.abort()` in a function that returned nevertheless.
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

    /// Writes the start of recording, for programs that act at a moment of the run. A failure is only logged.
    fn write_start(&self, moment: SystemTime) {
        let Some(path) = &self.plan.config.started else { return };
        let seconds = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if let Err(error) = std::fs::write(path, format!("{}\n", seconds.as_secs_f64())) {
            let message = format!("cannot write `{}`: {error}", path.display());
            self.run.log.write(Level::Warning, &message, &[]);
        }
    }

    async fn scenarios(&mut self, lifecycle: Lifecycle) -> Finished {
        let start = Instant::now() + START_DELAY;
        let start_time = SystemTime::now() + START_DELAY;
        let warm_up = self.plan.config.warm_up;
        let clock = RunClock { start, start_time, warm_up };
        let record_from = clock.record_from();
        let _ = self.run.clock.set(clock);
        let _ = self.phase.send(Phase::Running(clock));
        self.write_start(start_time + warm_up);
        let mut finished = Finished::new(start_time + warm_up, lifecycle);
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
                    if finished.aborted {
                        end_at_once(self.plan.config.on_second_signal);
                    }
                    finished.aborted = true;
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
                        self.judge(finished.lifecycle.setup_took + (now - record_from));
                    }
                    if self.run.abort.load(Ordering::Relaxed) || self.run.stop_requested().is_some() {
                        let _ = self.stop.send(true);
                    }
                    self.progress.running(now.saturating_duration_since(start));
                    // k6 samples the number of virtual users once per second.
                    if recording && now >= next_sample {
                        next_sample += Duration::from_secs(1);
                        let live = &self.run.live;
                        let active = live.active.load(Ordering::Relaxed) as f64;
                        let made = live.initialised.load(Ordering::Relaxed) as f64;
                        finished.vus[0].add(active);
                        finished.vus[1].add(made);
                        // As in k6 not at the start of recording.
                        if now >= record_from + Duration::from_secs(1) {
                            self.emit_users(now, active, made);
                        }
                    }
                }
            }
        }
        finished.duration = record_from.elapsed();
        finished.ended_at = SystemTime::now();
        finished.cpu = generator::process_cpu().saturating_sub(cpu_before);
        finished
    }

    fn emit_users(&self, now: Instant, active: f64, made: f64) {
        let Some(samples) = self.run.samples.get() else { return };
        let values = [(Builtin::Vus.id(), active), (Builtin::VusMax.id(), made)];
        let custom = &self.run.settings().tags;
        // They belong to no group.
        let enabled = self.run.settings().system_tags.without("group");
        let tags = SampleTags { custom, enabled, ..SampleTags::default() };
        samples.send(now.into_std(), &values, &tags);
    }

    fn judge(&self, elapsed: Duration) {
        if let Some(metrics) = self.figures.as_ref().and_then(|figures| figures.breached(elapsed)) {
            self.run.request_stop(Stop::Thresholds(metrics));
        }
    }

    /// Calls `teardown()`, as in k6 also after a signal or `exec.test.abort()`.
    async fn teardown(&mut self, finished: &mut Finished) {
        if !self.plan.has("teardown") || self.run.settings().no_teardown {
            return;
        }
        let begin = Instant::now();
        let timeout = self.run.settings().teardown_timeout;
        let argument = self.run.setup_data.get().cloned();
        let function = Function { name: "teardown", argument, timeout };
        // A stop of the scenarios does not apply.
        self.stop.send_replace(false);
        let (result, measured) = self.call(function).await;
        finished.lifecycle.teardown = measured;
        finished.lifecycle.teardown_error = result.err();
        finished.lifecycle.teardown_took = begin.elapsed();
    }

    async fn call(&mut self, function: Function) -> (Result<Returned, ScriptError>, Measured) {
        let call = lifecycle::call(self.run, function, self.stop.subscribe());
        let mut call = pin!(call);
        let mut signalled = false;
        loop {
            tokio::select! {
                result = &mut call => return result,
                () = self.signals.next() => {
                    if signalled {
                        end_at_once(self.plan.config.on_second_signal);
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
                    // A loop that has panicked never becomes ready.
                    self.run.panicked().map_or(Ok(()), Err)?;
                    let ready = self.run.live.initialised.load(Ordering::Relaxed);
                    self.progress.initialising(ready, self.run.settings().planned_vus());
                }
            }
        }
        Ok(())
    }

    /// Ends all loops before the start of the clock.
    fn give_up(&self) {
        self.run.abort.store(true, Ordering::Relaxed);
        let _ = self.stop.send(true);
    }
}

impl Finished {
    fn new(started_at: SystemTime, lifecycle: Lifecycle) -> Self {
        Self {
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
            vus: [MetricKind::Gauge; 2].map(Sink::new),
        }
    }
}
