//! The seam at which counters can be shared between nodes.

use std::error::Error;
use std::time::Duration;

use super::{Answer, Id};
use crate::Suspect;

/// One kind of counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// An account and an address.
    Pair,
    /// An account and a device token.
    DeviceToken,
    /// An account with whatever device tokens.
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
    /// In the order of their declaration.
    pub(crate) const ALL: [Self; 7] = [
        Self::Pair,
        Self::DeviceToken,
        Self::DeviceTokens,
        Self::Account,
        Self::Address,
        Self::Password,
        Self::SignUp,
    ];

    /// What is suspicious when it is over its limit, so that a proof of work lifts that.
    pub(crate) fn suspect(self) -> Option<Suspect> {
        match self {
            Self::Address => Some(Suspect::Address),
            Self::Account => Some(Suspect::Account),
            Self::Password => Some(Suspect::Password),
            _ => None,
        }
    }
}

/// What an attempt counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A log-in without a device token: all of these together, or none.
    LogIn {
        /// Of account and address.
        pair: Id,
        /// Of the name given.
        account: Id,
        /// Of the address as counted.
        address: Id,
        /// Of the password, if passwords are watched.
        password: Option<Id>,
    },
    /// A log-in with a device token: nothing but the device token's own counter and the one that all device tokens of
    /// the account share.
    KnownDevice {
        /// Of account and device token.
        token: Id,
        /// Of the name given.
        account: Id,
    },
    /// A sign-up from an address.
    SignUp(Id),
}

impl Subject {
    /// The counters that somebody may wait for, in the order in which they are locked.
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

/// Asks for a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the attempt counts against.
    pub subject: Subject,
    /// Tells this attempt from all others, in whatever process; random.
    pub ticket: u64,
    /// A proof of work was shown: suspicion and the limits of account (down to the pace that
    /// proofs buy), address and password do not stand in the way. They are counted all the same.
    pub proven: bool,
    /// False: only say what the decision would be. A newcomer asks so while others wait before it.
    pub take: bool,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Reserved, or with [`Request::take`] unset: there is room.
    Room,
    /// Nothing is reserved: attempts in flight hold what is left of this allowance.
    Held(Axis, Id),
    /// Nothing is reserved: over this limit, for so long.
    Over(Axis, Duration),
    /// Nothing is reserved: a proof or a device token must be shown.
    Suspicious {
        /// What is suspicious; if several are, the first of address, account, password.
        suspect: Suspect,
        /// How long it stays so if nothing more happens.
        remaining: Duration,
        /// How often the work of a proof should double.
        severity: u32,
    },
    /// Nothing is reserved: no place to count in can be freed, because all that come into
    /// question have attempts in flight.
    NoPlace,
}

/// How an admitted attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The password was right: places are given back, the failures of pair or device token forgotten (those
    /// of all device tokens together are not).
    Success,
    /// It was wrong: the place becomes a failure on every axis.
    Failure,
    /// Nothing was compared: places are given back.
    Cancelled,
}

/// The store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("the attempt store does not answer")]
pub struct StoreError(#[source] pub Box<dyn Error + Send + Sync>);

/// Metrics of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMetrics {
    /// Entries held.
    pub entries: u64,
    /// Entries forgotten before their time to make room.
    pub evictions: u64,
    /// Memory taken for entries, in bytes.
    pub bytes: u64,
    /// The store is known not to answer.
    pub is_away: bool,
}

/// Counts attempts.
///
/// The guard waits, issues challenges and hashes names on its side of this seam; the store only
/// counts. A request and its answer are one step: what is looked at and what is changed must not
/// be interleaved with another request. A store behind a network does a request in one round trip.
pub trait AttemptStore: Send + Sync + 'static {
    /// Decides, and reserves if there is room.
    ///
    /// The caller may drop an answer that comes later. A reservation made for it all the same must
    /// end by itself, for instance by a lease.
    fn reserve(&self, request: &Request) -> Answer<'_, Result<Decision, StoreError>>;

    /// Ends the reservation that was made with this ticket. Runs in whatever thread ends it; an answer that comes later is
    /// driven by a task of its own, and if it fails, the place stays taken until its lease ends.
    fn settle(
        &self,
        subject: &Subject,
        ticket: u64,
        outcome: AttemptOutcome,
    ) -> Answer<'static, Result<(), StoreError>>;

    /// Figures for the operator.
    fn metrics(&self) -> StoreMetrics;
}

/// Knows which proofs of work were used, for several processes that accept each other's.
///
/// Each process also knows its own; where the store does not answer, that has to do.
pub trait ProofStore: Send + Sync + 'static {
    /// Notes that the proof is used; false if it was before. It can be shown until `expires`; both times in Unix
    /// seconds.
    fn use_up(&self, proof: u64, expires: u64, now: u64) -> Answer<'_, Result<bool, StoreError>>;

    /// The proof was not used after all.
    fn give_back(&self, proof: u64) -> Answer<'static, Result<(), StoreError>>;
}
