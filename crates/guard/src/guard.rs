//! The interface of a log-in handler.

use std::net::IpAddr;
use std::sync::Arc;

use crate::attempt::{Attempt, Reason, Refused};
use crate::attempt_limiter::AttemptLimiter;
use crate::clock::{Clock, SystemClock};
use crate::config::{ConfigError, GuardConfig, Mode};
use crate::limit::{AttemptStore, IpLimiter, ProofStore};
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::net::{Cidr, counted};
use crate::reservation::{Reservation, SignUp};
use crate::suspicion::{DeviceToken, Owner};

/// Decides which attempts may proceed to the password hash. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Guard {
    limiter: Limiter,
    exempt: Arc<[Cidr]>,
    metrics: Arc<Metrics>,
}

/// State that several processes share; by default none.
#[derive(Clone, Default)]
pub struct Stores {
    /// Counters of attempts.
    pub attempts: Option<Arc<dyn AttemptStore>>,
    /// Used proofs of work.
    pub proofs: Option<Arc<dyn ProofStore>>,
}

/// The limiter of each [`Mode`].
#[derive(Clone)]
enum Limiter {
    Off,
    Ip(Arc<IpLimiter>),
    On(Arc<AttemptLimiter>),
}

impl Guard {
    /// A guard with the memory and the clock of this process.
    ///
    /// # Errors
    /// A setting is out of range, or the operating system gives no random bytes.
    pub fn new(config: GuardConfig) -> Result<Self, BuildError> {
        Self::with_stores(config, Stores::default(), Arc::new(SystemClock::default()))
    }

    /// A guard with this clock that shares these stores with other processes. While a store fails, the memory of this
    /// process replaces it. Modes `off` and `ip` ignore stores.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_stores(
        config: GuardConfig,
        stores: Stores,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        config.validate()?;
        let metrics = Arc::new(Metrics::default());
        let limiter = match config.mode {
            Mode::Off => Limiter::Off,
            Mode::Ip(limit) => Limiter::Ip(Arc::new(IpLimiter::new(limit, clock)?)),
            Mode::On => {
                let counted = Arc::clone(&metrics);
                Limiter::On(Arc::new(AttemptLimiter::new(&config, stores, clock, counted)?))
            }
        };
        Ok(Self { limiter, exempt: config.exempt.into(), metrics })
    }

    /// Reserves a place for the attempt in every allowance that it counts against, waiting for attempts in flight
    /// where that may help. Dropping the future gives everything back.
    ///
    /// Waiting needs the timer of a tokio runtime.
    ///
    /// # Errors
    /// The attempt is refused; nothing was counted for it.
    pub async fn admit(&self, attempt: &Attempt<'_>) -> Result<Reservation, Refused> {
        let admitted = match &self.limiter {
            Limiter::Off => Ok(Reservation::free()),
            _ if self.is_exempt(attempt.address) => Ok(Reservation::free()),
            Limiter::Ip(limiter) => match limiter.count(counted(attempt.address)) {
                None => Ok(Reservation::free()),
                Some(wait) => Err(self.metrics.refused(Reason::Blocked, wait)),
            },
            Limiter::On(limiter) => limiter.admit(attempt, counted(attempt.address)).await,
        };
        if admitted.is_ok() {
            self.metrics.count(|m| m.allowed += 1);
        }
        admitted
    }

    /// Counts a sign-up from the address. Modes `off` and `ip` admit all of them, as the reproduced system did.
    ///
    /// # Errors
    /// Too many sign-ups from the address; nothing was counted.
    pub async fn admit_sign_up(&self, address: IpAddr) -> Result<SignUp, Refused> {
        match &self.limiter {
            Limiter::On(limiter) if !self.is_exempt(address) => {
                limiter.admit_sign_up(counted(address)).await
            }
            _ => {
                self.metrics.count(|m| m.sign_ups_allowed += 1);
                Ok(SignUp { held: None })
            }
        }
    }

    /// A device token for the device at this address that has just logged in to the account, whose password is stored
    /// as `credential`. `None` if device tokens are off, the address is exempt, or the operating system gives no
    /// random bytes.
    pub fn device_token(
        &self,
        address: IpAddr,
        account: &[u8],
        credential: &[u8],
    ) -> Option<DeviceToken> {
        match &self.limiter {
            Limiter::On(limiter) if !self.is_exempt(address) => {
                limiter.device_token(Owner { account, credential })
            }
            _ => None,
        }
    }

    /// Current metrics.
    pub fn metrics(&self) -> MetricsSnapshot {
        let counted = self.metrics.snapshot();
        let Limiter::On(limiter) = &self.limiter else {
            return counted;
        };
        let store = limiter.store_metrics();
        MetricsSnapshot {
            waiters: limiter.room.waiters() as u64,
            entries: store.entries,
            evictions: store.evictions,
            bytes: store.bytes,
            store_is_away: store.is_away,
            ..counted
        }
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        self.exempt.iter().any(|range| range.contains(address))
    }
}

/// Error of building a guard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No random bytes for the keys that hash names, addresses and passwords.
    #[error("cannot get random bytes from the operating system")]
    Random(#[from] getrandom::Error),
}
