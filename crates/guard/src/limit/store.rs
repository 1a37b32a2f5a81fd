//! The traits through which nodes share counters.

use std::error::Error;
use std::pin::Pin;
use std::time::Duration;

use super::Id;
use crate::Suspect;

/// One kind of counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// An account and an address.
    Pair,
    /// An account and a device token.
    DeviceToken,
    /// All device tokens of an account.
    DeviceTokens,
    /// An account.
    Account,
    /// An address.
    Address,
    /// A password.
    Password,
    /// The sign-ups of an address.
    SignUp,
}

impl Axis {
    /// In the order of declaration.
    pub(crate) const ALL: [Self; 7] = [
        Self::Pair,
        Self::DeviceToken,
        Self::DeviceTokens,
        Self::Account,
        Self::Address,
        Self::Password,
        Self::SignUp,
    ];

    /// The suspect when this axis is over its limit; `None` if no proof of work lifts that.
    pub(crate) fn suspect(self) -> Option<Suspect> {
        match self {
            Self::Address => Some(Suspect::Address),
            Self::Account => Some(Suspect::Account),
            Self::Password => Some(Suspect::Password),
            _ => None,
        }
    }
}

/// The counters of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A log-in without a device token: all of these together, or none.
    LogIn {
        /// Account and address.
        pair: Id,
        /// The name given.
        account: Id,
        /// The address as counted.
        address: Id,
        /// The password; `None` if passwords are not watched.
        password: Option<Id>,
    },
    /// A log-in with a device token: the counter of the device token and that of all device tokens of the account.
    KnownDevice {
        /// Account and device token.
        token: Id,
        /// The name given.
        account: Id,
    },
    /// A sign-up from an address.
    SignUp(Id),
}

impl Subject {
    /// The counters that attempts may wait for, in lock order.
    pub(crate) fn allowances(&self) -> impl Iterator<Item = (Axis, Id)> + use<> {
        let none = (Axis::SignUp, None);
        let all = match *self {
            Self::LogIn { pair, account, address, password } => [
                (Axis::Pair, Some(pair)),
                (Axis::Account, Some(account)),
                (Axis::Address, Some(address)),
                (Axis::Password, password),
            ],
            Self::KnownDevice { token, account } => {
                [(Axis::DeviceToken, Some(token)), (Axis::DeviceTokens, Some(account)), none, none]
            }
            Self::SignUp(_) => [none; 4],
        };
        all.into_iter().filter_map(|(axis, id)| Some((axis, id?)))
    }
}

/// Request for a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The counters of the attempt.
    pub subject: Subject,
    /// Random identifier of the attempt, unique over all processes.
    pub ticket: u64,
    /// A proof of work was shown: suspicion and the limits of account (down to the pace that proofs buy), address and
    /// password do not refuse the attempt. They still count it.
    pub proven: bool,
    /// False: only return the decision. Used while other attempts wait for the same allowance.
    pub take: bool,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Reserved, or with [`Request::take`] unset: there is room.
    Room,
    /// Nothing is reserved: attempts in flight hold the rest of this allowance.
    Held(Axis, Id),
    /// Nothing is reserved: over this limit, for so long.
    Over(Axis, Duration),
    /// Nothing is reserved: a proof or a device token must be shown.
    Suspicious {
        /// The first suspect in the order address, account, password.
        suspect: Suspect,
        /// Time until suspicion ends if nothing more happens.
        remaining: Duration,
        /// Doublings of the work of a proof.
        severity: u32,
    },
    /// Nothing is reserved: every entry that could be evicted for the attempt has attempts in flight.
    NoPlace,
}

/// Outcome of an admitted attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The password was right: places are given back, the failures of pair or device token cleared (those
    /// of all device tokens together are not).
    Success,
    /// The password was wrong: the place becomes a failure on every axis.
    Failure,
    /// Nothing was compared: places are given back.
    Cancelled,
}

/// A store did not answer, or not as expected.
#[derive(Debug, thiserror::Error)]
#[error("the attempt store does not answer")]
pub struct StoreError(#[source] pub Box<dyn Error + Send + Sync>);

impl From<madang_valkey::Error> for StoreError {
    fn from(error: madang_valkey::Error) -> Self {
        Self(error.into())
    }
}

/// Answer of a store: at once without an allocation, or after a round trip.
pub enum Answer<'a, T> {
    /// An answer at once.
    Ready(T),
    /// An answer to be awaited.
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<T> Answer<'_, T> {
    /// Awaits the answer if need be.
    pub async fn get(self) -> T {
        match self {
            Self::Ready(answer) => answer,
            Self::Later(answer) => answer.await,
        }
    }
}

/// Metrics of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMetrics {
    /// Entries held.
    pub entries: u64,
    /// Entries evicted before they expired.
    pub evictions: u64,
    /// Memory of entries in bytes.
    pub bytes: u64,
    /// The store is unavailable.
    pub is_away: bool,
}

/// Counts attempts.
///
/// The guard waits, issues challenges and hashes names; the store only counts. A request is atomic: no other request
/// is interleaved with its reads and changes. A store behind a network handles a request in one round trip.
pub trait AttemptStore: Send + Sync + 'static {
    /// Decides, and reserves if there is room.
    ///
    /// The caller may drop a later answer. A reservation made for it must then end by itself, for instance by a lease.
    fn reserve(&self, request: &Request) -> Answer<'_, Result<Decision, StoreError>>;

    /// Ends the reservation of this ticket, from any thread. A later answer is awaited by a task of its own; if it
    /// fails, the place stays taken until its lease ends.
    fn settle(
        &self,
        subject: &Subject,
        ticket: u64,
        outcome: AttemptOutcome,
    ) -> Answer<'static, Result<(), StoreError>>;

    /// Current metrics.
    fn metrics(&self) -> StoreMetrics;
}

/// Used proofs of work of several processes that accept each other's.
///
/// Each process also remembers its own, which has to suffice while the store does not answer.
pub trait ProofStore: Send + Sync + 'static {
    /// Marks the proof as used; returns false if it was before. It can be shown until `expires`; both times in Unix
    /// seconds.
    fn use_up(&self, proof: u64, expires: u64, now: u64) -> Answer<'_, Result<bool, StoreError>>;

    /// Marks the proof as unused again.
    fn give_back(&self, proof: u64) -> Answer<'static, Result<(), StoreError>>;
}
