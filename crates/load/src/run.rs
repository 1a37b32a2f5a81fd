//! What all threads of a run share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::limiter::Limiter;
use crate::log::Log;
use crate::metrics::{Recent, Recorder, Registry};
use crate::options::{Options, Scenario};
use crate::samples::Samples;
use crate::script::{Files, ScriptError, SharedArrays, Sources};
use crate::secrets::Secrets;
use crate::stop_signals::Signals;

/// Counts for the progress line.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) complete: AtomicU64,
    pub(crate) interrupted: AtomicU64,
    pub(crate) active: AtomicU64,
    pub(crate) initialised: AtomicU64,
    /// `recent` is read, by a terminal.
    pub(crate) is_watched: AtomicBool,
    /// Requests of all event loops since it was last read.
    recent: Mutex<Recent>,
}

impl Live {
    pub(crate) fn add_recent(&self, recent: &Recent) {
        self.recent.lock().merge(recent);
    }

    pub(crate) fn take_recent(&self) -> Recent {
        std::mem::take(&mut self.recent.lock())
    }
}

/// Why a run ends before its time, with what it has measured so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The script called `exec.test.abort()`.
    Script(Option<String>),
    /// Thresholds on these metrics failed, one of them with `abortOnFail`.
    Thresholds(Vec<String>),
    /// The engine itself panicked, and where: what has been measured since is incomplete.
    Panic(String),
}

/// When the scenarios begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunClock {
    pub(crate) start: Instant,
    pub(crate) start_time: SystemTime,
    pub(crate) warm_up: Duration,
}

impl RunClock {
    /// When a scenario's schedule begins, from the start.
    pub(crate) fn offset(&self, scenario: &Scenario) -> Duration {
        self.warm_up + scenario.start_time
    }
}

/// A run, as every thread sees it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) script: PathBuf,
    pub(crate) sources: Sources,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) log: Log,
    pub(crate) secrets: Secrets,
    /// What each scenario and group measures is kept apart, for the summary.
    pub(crate) has_breakdown: bool,
    /// Signals that ask for an end.
    pub(crate) signals: Signals,
    /// Ends every script at once.
    pub(crate) abort: Arc<AtomicBool>,
    pub(crate) live: Live,
    pub(crate) shared: SharedArrays,
    pub(crate) files: Files,
    registry: Mutex<Registry>,
    failure: Mutex<Option<ScriptError>>,
    stop: watch::Sender<Option<Stop>>,
    /// The script called `exec.test.fail()`.
    pub(crate) marked_failed: AtomicBool,
    /// When `setup()`, or without one the first scenario, began.
    pub(crate) began: OnceLock<Instant>,
    pub(crate) clock: OnceLock<RunClock>,
    /// What `setup()` returned, as JSON.
    pub(crate) setup_data: OnceLock<Arc<str>>,
    /// Ids of virtual users given away so far.
    pub(crate) vu_ids: AtomicU32,
    pub(crate) options: OnceLock<Arc<Options>>,
    /// Where single values go; not set without an output.
    pub(crate) samples: OnceLock<Arc<Samples>>,
    /// Spaces the requests of all virtual users (`rps`).
    pub(crate) limiter: OnceLock<Limiter>,
    /// Iterations of each scenario so far, over all event loops.
    pub(crate) scenario_iterations: OnceLock<Vec<Arc<AtomicU64>>>,
}

impl Run {
    pub(crate) fn new(script: PathBuf, environment: BTreeMap<String, String>, log: Log) -> Self {
        Self {
            secrets: Secrets::default(),
            has_breakdown: false,
            script,
            sources: Sources::default(),
            environment,
            log,
            signals: Signals::default(),
            abort: Arc::default(),
            live: Live::default(),
            shared: SharedArrays::default(),
            files: Files::default(),
            registry: Mutex::new(Registry::new()),
            failure: Mutex::default(),
            stop: watch::Sender::default(),
            marked_failed: AtomicBool::new(false),
            began: OnceLock::new(),
            clock: OnceLock::new(),
            setup_data: OnceLock::new(),
            vu_ids: AtomicU32::new(0),
            options: OnceLock::new(),
            samples: OnceLock::new(),
            limiter: OnceLock::new(),
            scenario_iterations: OnceLock::new(),
        }
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }

    /// A recorder for the metrics that exist now.
    pub(crate) fn recorder(&self) -> Recorder {
        let mut recorder = Recorder::new(&self.registry());
        if self.has_breakdown {
            recorder.enable_breakdown();
        }
        if self.live.is_watched.load(Ordering::Relaxed) {
            recorder.show_recent();
        }
        recorder
    }

    /// The options; all off until they are known.
    pub(crate) fn settings(&self) -> &Options {
        static UNKNOWN: LazyLock<Options> = LazyLock::new(Options::default);
        match self.options.get() {
            Some(options) => options,
            None => &UNKNOWN,
        }
    }

    /// Ends the run because of `error`; the first one is kept.
    pub(crate) fn fail(&self, error: ScriptError) {
        self.failure.lock().get_or_insert(error);
        self.abort.store(true, Ordering::Relaxed);
    }

    /// Why the run was ended, if it was.
    pub(crate) fn failure(&self) -> Option<ScriptError> {
        self.failure.lock().clone()
    }

    pub(crate) fn iterations_of(&self, scenario: usize) -> Arc<AtomicU64> {
        let count = self.options.get().map_or(0, |options| options.scenarios.len());
        let all =
            self.scenario_iterations.get_or_init(|| (0..count).map(|_| Arc::default()).collect());
        all.get(scenario).cloned().unwrap_or_default()
    }

    /// Requests the end of the run. The first reason is kept, but for a panic: what comes after it cannot be trusted.
    pub(crate) fn request_stop(&self, reason: Stop) {
        self.stop.send_modify(|stop| {
            let is_panic = |stop: &Stop| matches!(stop, Stop::Panic(_));
            if stop.as_ref().is_none_or(|known| is_panic(&reason) && !is_panic(known)) {
                *stop = Some(reason);
            }
        });
    }

    /// The requests from now on.
    pub(crate) fn stop_requests(&self) -> watch::Receiver<Option<Stop>> {
        self.stop.subscribe()
    }

    /// Why the run is to end, if that was requested.
    pub(crate) fn stop_requested(&self) -> Option<Stop> {
        self.stop.borrow().clone()
    }

    /// The error for a run in which the engine panicked, which comes before all others.
    pub(crate) fn panicked(&self) -> Option<ScriptError> {
        match &*self.stop.borrow() {
            Some(Stop::Panic(place)) => Some(ScriptError::Panic(place.clone())),
            _ => None,
        }
    }

    /// The error for a run that the script or a panic ended before the scenarios began.
    pub(crate) fn stopped_early(&self) -> Option<ScriptError> {
        match self.stop_requested()? {
            Stop::Script(message) => {
                let message = message.map(|message| format!(": {message}")).unwrap_or_default();
                Some(ScriptError::Aborted(message))
            }
            Stop::Panic(place) => Some(ScriptError::Panic(place)),
            Stop::Thresholds(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{LogFormat, Messages};
    use crate::panics::Watch;

    fn run() -> Arc<Run> {
        let log = Log::new(Messages::default(), LogFormat::Text);
        Arc::new(Run::new("s.js".into(), BTreeMap::new(), log))
    }

    #[test]
    fn the_first_reason_to_stop_is_kept_but_for_a_panic_of_a_watched_thread() {
        let (run, other) = (run(), run());
        run.request_stop(Stop::Script(None));
        run.request_stop(Stop::Thresholds(Vec::new()));
        assert_eq!(run.stop_requested(), Some(Stop::Script(None)));
        let panics = |place: Option<&'static str>| {
            let watched = run.clone();
            let thread = std::thread::spawn(move || {
                let _watch = place.map(|place| Watch::new(&watched, place));
                panic!("a bug")
            });
            assert!(thread.join().is_err());
        };
        panics(None);
        assert_eq!(run.panicked(), None);
        panics(Some("a loop"));
        panics(Some("a later one"));
        run.request_stop(Stop::Script(None));
        assert_eq!(run.stop_requested(), Some(Stop::Panic("a loop".to_owned())));
        assert_eq!(other.stop_requested(), None);
    }
}
