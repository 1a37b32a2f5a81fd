//! The one thing that a log-in handler calls.

use std::net::IpAddr;
use std::sync::Arc;

use crate::attempt::{Attempt, Reason, Refused};
use crate::attempt_limiter::AttemptLimiter;
use crate::clock::{Clock, SystemClock};
use crate::config::{ADDRESSES, ConfigError, GuardConfig, Mode};
use crate::limit::{AttemptStore, Hashing, IpBlock, ProofStore};
use crate::metrics::{Metrics, MetricsSnapshot};
use crate::net::{Cidr, counted};
use crate::reservation::{Reservation, SignUp};
use crate::suspicion::{DeviceToken, Owner};

/// Decides which attempts may go on to the password hash. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Guard {
    way: Way,
    exempt: Arc<[Cidr]>,
    metrics: Arc<Metrics>,
}

/// What several processes share; by default nothing.
#[derive(Clone, Default)]
pub struct Stores {
    /// Counters of attempts.
    pub attempts: Option<Arc<dyn AttemptStore>>,
    /// Proofs of work that were used.
    pub proofs: Option<Arc<dyn ProofStore>>,
}

/// One way of limiting.
#[derive(Clone)]
enum Way {
    Off,
    Ip(Arc<Ip>),
    On(Arc<AttemptLimiter>),
}

struct Ip {
    block: IpBlock,
    ids: Hashing,
    clock: Arc<dyn Clock>,
}

impl Guard {
    /// A guard that remembers in this process, by the time of this process.
    ///
    /// # Errors
    /// A setting is out of range, or cannot get random bytes from the operating system.
    pub fn new(config: GuardConfig) -> Result<Self, BuildError> {
        Self::with_stores(config, Stores::default(), Arc::new(SystemClock::default()))
    }

    /// A guard that goes by this clock, and shares with other processes what these stores keep. While a store fails, the
    /// memory of this process does. Modes `off` and `ip` have no use for stores.
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
        let way = match config.mode {
            Mode::Off => Way::Off,
            Mode::Ip(limit) => {
                let block = IpBlock::new(limit, ADDRESSES);
                Way::Ip(Arc::new(Ip { block, ids: Hashing::random()?, clock }))
            }
            Mode::On => {
                let counted = Arc::clone(&metrics);
                Way::On(Arc::new(AttemptLimiter::new(&config, stores, clock, counted)?))
            }
        };
        Ok(Self { way, exempt: config.exempt.into(), metrics })
    }

    /// Reserves a place for the attempt in every allowance that it counts against, waiting for
    /// attempts in flight where that may help. Dropping the future gives everything back.
    ///
    /// Waiting needs the timer of a tokio runtime.
    ///
    /// # Errors
    /// The attempt may not go on; nothing was counted for it.
    pub async fn admit(&self, attempt: &Attempt<'_>) -> Result<Reservation, Refused> {
        let admitted = match &self.way {
            Way::Off => Ok(Reservation::free()),
            _ if self.is_exempt(attempt.address) => Ok(Reservation::free()),
            Way::Ip(ip) => self.admit_by_ip(ip, attempt.address),
            Way::On(limiter) => limiter.admit(attempt, counted(attempt.address)).await,
        };
        if admitted.is_ok() {
            self.metrics.count(|m| m.allowed += 1);
        }
        admitted
    }

    /// Counts a sign-up from the address. Modes `off` and `ip` let all of them pass, as the
    /// reproduced system did.
    ///
    /// # Errors
    /// The address made too many accounts; nothing was counted.
    pub async fn admit_sign_up(&self, address: IpAddr) -> Result<SignUp, Refused> {
        match &self.way {
            Way::On(limiter) if !self.is_exempt(address) => {
                limiter.admit_sign_up(counted(address)).await
            }
            _ => {
                self.metrics.count(|m| m.sign_ups_allowed += 1);
                Ok(SignUp::free())
            }
        }
    }

    /// A device token for the device at this address that has just logged in to the account, whose password is stored as
    /// `credential`; `None` if device tokens are off, the address is exempt, or the system has no randomness to give.
    pub fn device_token(
        &self,
        address: IpAddr,
        account: &[u8],
        credential: &[u8],
    ) -> Option<DeviceToken> {
        match &self.way {
            Way::On(limiter) if !self.is_exempt(address) => {
                limiter.device_token(Owner { account, credential })
            }
            _ => None,
        }
    }

    /// What has happened so far.
    pub fn metrics(&self) -> MetricsSnapshot {
        let counted = self.metrics.snapshot();
        let Way::On(limiter) = &self.way else {
            return counted;
        };
        let store = limiter.store_metrics();
        MetricsSnapshot {
            waiters: limiter.room().waiters() as u64,
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

    fn admit_by_ip(&self, ip: &Ip, address: IpAddr) -> Result<Reservation, Refused> {
        match ip.block.count(ip.ids.address(counted(address)), ip.clock.now()) {
            None => Ok(Reservation::free()),
            Some(wait) => {
                self.metrics.refused(Reason::Blocked);
                Err(Refused::new(Reason::Blocked, wait))
            }
        }
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
    #[error("cannot get random bytes from the operating system")]
    Random(#[from] getrandom::Error),
}
