//! What all threads of a run share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::log::Log;
use crate::metrics::Registry;
use crate::options::HttpOptions;
use crate::script::{Files, ScriptError, SharedArrays, Sources};

/// Settings every request and iteration needs at hand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    /// Failed requests throw unless a request says otherwise.
    pub(crate) throw: bool,
    pub(crate) discard_response_bodies: bool,
    pub(crate) max_redirects: u32,
    /// Close the connections at the end of every iteration.
    pub(crate) no_vu_connection_reuse: bool,
    pub(crate) http: HttpOptions,
}

/// Counts for the progress line.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) complete: AtomicU64,
    pub(crate) interrupted: AtomicU64,
    pub(crate) active: AtomicU64,
    pub(crate) initialised: AtomicU64,
}

/// A run, as every thread sees it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) script: PathBuf,
    pub(crate) sources: Sources,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) log: Log,
    /// Ends every script at once.
    pub(crate) abort: Arc<AtomicBool>,
    pub(crate) live: Live,
    pub(crate) shared: SharedArrays,
    pub(crate) files: Files,
    registry: Mutex<Registry>,
    settings: OnceLock<Settings>,
    failure: Mutex<Option<ScriptError>>,
}

impl Run {
    pub(crate) fn new(script: PathBuf, environment: BTreeMap<String, String>, log: Log) -> Self {
        Self {
            script,
            sources: Sources::default(),
            environment,
            log,
            abort: Arc::default(),
            live: Live::default(),
            shared: SharedArrays::default(),
            files: Files::default(),
            registry: Mutex::new(Registry::new()),
            settings: OnceLock::new(),
            failure: Mutex::default(),
        }
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        // A registry is consistent between any two operations, also after a panic.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings; all off until the options are known.
    pub(crate) fn settings(&self) -> &Settings {
        static UNKNOWN: OnceLock<Settings> = OnceLock::new();
        self.settings.get().unwrap_or_else(|| UNKNOWN.get_or_init(Settings::default))
    }

    /// Fixes the settings. Later calls change nothing.
    pub(crate) fn settle(&self, settings: Settings) {
        let _ = self.settings.set(settings);
    }

    /// Ends the run because of `error`; the first one is kept.
    pub(crate) fn fail(&self, error: ScriptError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.abort.store(true, Ordering::Relaxed);
    }

    /// Why the run was ended, if it was.
    pub(crate) fn failure(&self) -> Option<ScriptError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
