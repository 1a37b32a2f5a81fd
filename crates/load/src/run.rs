//! State shared by all threads of a run.

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
use crate::metrics::{Recorder, Registry, RequestStats};
use crate::options::{Options, Scenario};
use crate::samples::Samples;
use crate::script::{Files, ScriptError, SharedArrays, Sources};
use crate::secrets::Secrets;
use crate::stop_signals::Signals;

#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) complete: AtomicU64,
    pub(crate) interrupted: AtomicU64,
    pub(crate) active: AtomicU64,
    pub(crate) initialised: AtomicU64,
    /// A terminal reads `recent`.
    pub(crate) is_watched: AtomicBool,
    /// Requests of all event loops since the last read.
    pub(crate) recent: Mutex<RequestStats>,
}

/// Reason for the early end of a run, which reports what it has measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The script called `exec.test.abort()`.
    Script(Option<String>),
    /// Thresholds on these metrics failed, one of them with `abortOnFail`.
    Thresholds(Vec<String>),
    /// The engine panicked at this place; later measurements are incomplete.
    Panic(String),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RunClock {
    pub(crate) start: Instant,
    pub(crate) start_time: SystemTime,
    pub(crate) warm_up: Duration,
}

impl RunClock {
    /// Time from the start to the beginning of a scenario's schedule.
    pub(crate) fn offset(&self, scenario: &Scenario) -> Duration {
        self.warm_up + scenario.start_time
    }

    pub(crate) fn record_from(&self) -> Instant {
        self.start + self.warm_up
    }
}

/// Time limit of a virtual user's init code. k6 has none; this one ends code that never returns, and is far beyond the
/// time to read and parse large files.
const INIT_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) script: PathBuf,
    pub(crate) sources: Sources,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) log: Log,
    pub(crate) secrets: Secrets,
    /// Keep values by scenario and group, for the summary.
    pub(crate) has_breakdown: bool,
    pub(crate) signals: Signals,
    pub(crate) init_timeout: Duration,
    pub(crate) abort: Arc<AtomicBool>,
    pub(crate) live: Live,
    pub(crate) shared: SharedArrays,
    pub(crate) files: Files,
    registry: Mutex<Registry>,
    failure: Mutex<Option<ScriptError>>,
    stop: watch::Sender<Option<Stop>>,
    /// The script called `exec.test.fail()`.
    pub(crate) marked_failed: AtomicBool,
    /// Begin of `setup()`, or of the scenarios without one.
    pub(crate) began: OnceLock<Instant>,
    pub(crate) clock: OnceLock<RunClock>,
    /// Result of `setup()` as JSON.
    pub(crate) setup_data: OnceLock<Arc<str>>,
    /// The last assigned id of a virtual user.
    vu_ids: AtomicU32,
    pub(crate) options: OnceLock<Options>,
    /// Queue of the outputs; unset without an output.
    pub(crate) samples: OnceLock<Arc<Samples>>,
    pub(crate) limiter: OnceLock<Limiter>,
    /// Iterations of each scenario so far, over all event loops.
    pub(crate) scenario_iterations: OnceLock<Vec<Arc<AtomicU64>>>,
}

impl Run {
    pub(crate) fn new(script: PathBuf, log: Log) -> Self {
        Self { script, log, init_timeout: INIT_TIMEOUT, ..Self::default() }
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }

    /// A recorder for the metrics defined so far.
    pub(crate) fn recorder(&self) -> Recorder {
        let mut recorder = Recorder::new(&self.registry());
        recorder.breakdown = self.has_breakdown.then(Box::default);
        recorder.recent = self.live.is_watched.load(Ordering::Relaxed).then(Box::default);
        recorder
    }

    /// A new id of a virtual user, from 1.
    pub(crate) fn next_vu_id(&self) -> u32 {
        self.vu_ids.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The options; all off until they are resolved.
    pub(crate) fn settings(&self) -> &Options {
        static UNKNOWN: LazyLock<Options> = LazyLock::new(Options::default);
        self.options.get().unwrap_or(&UNKNOWN)
    }

    /// Ends the run with an error; the first one is kept.
    pub(crate) fn fail(&self, error: ScriptError) {
        self.failure.lock().get_or_insert(error);
        self.abort.store(true, Ordering::Relaxed);
    }

    pub(crate) fn failure(&self) -> Option<ScriptError> {
        self.failure.lock().clone()
    }

    pub(crate) fn iterations_of(&self, scenario: usize) -> Arc<AtomicU64> {
        let count = self.settings().scenarios.len();
        let all =
            self.scenario_iterations.get_or_init(|| (0..count).map(|_| Arc::default()).collect());
        all.get(scenario).cloned().unwrap_or_default()
    }

    /// Requests the end of the run. The first reason is kept, except that a panic replaces it: later measurements are
    /// unreliable.
    pub(crate) fn request_stop(&self, reason: Stop) {
        self.stop.send_modify(|stop| {
            let is_panic = |stop: &Stop| matches!(stop, Stop::Panic(_));
            if stop.as_ref().is_none_or(|known| is_panic(&reason) && !is_panic(known)) {
                *stop = Some(reason);
            }
        });
    }

    pub(crate) fn stop_requests(&self) -> watch::Receiver<Option<Stop>> {
        self.stop.subscribe()
    }

    pub(crate) fn stop_requested(&self) -> Option<Stop> {
        self.stop.borrow().clone()
    }

    /// The error of a panic, which takes precedence over all others.
    pub(crate) fn panicked(&self) -> Option<ScriptError> {
        match &*self.stop.borrow() {
            Some(Stop::Panic(place)) => Some(ScriptError::Panic(place.clone())),
            _ => None,
        }
    }

    /// The error of a run that the script or a panic ended before the scenarios.
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
    use crate::panics::Watch;

    fn run() -> Arc<Run> {
        Arc::new(Run::new("s.js".into(), Log::default()))
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
